"""The embedded model, through the command line: it lists, reads and edits a file; the edit is undone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.local_model


def test_it_lists_reads_and_edits_and_the_edit_is_undone(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    notes = work / "notes.txt"
    notes.write_text("The sky is blue.\nThe sea is blue.\n")

    def pal(*words):
        done = subprocess.run(
            [sys.executable, "-m", "pure_agent_loop", *words],
            cwd=work,
            env={**os.environ, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    def ask(question, *words):
        return pal("run", "--model", "local", "--temperature", "0", "--no-audit", *words, question)

    assert "notes.txt" in ask("Which files are here?").stdout
    assert "The sea is blue." in ask("Read notes.txt").stdout
    order = 'In notes.txt replace "sky is blue" with "sky is grey"'
    edited = ask(order, "--permission-mode", "auto")
    assert notes.read_text() == "The sky is grey.\nThe sea is blue.\n"
    assert "~ notes.txt +1 -1" in edited.stderr
    assert "+The sky is grey." in edited.stderr
    assert "notes.txt" in pal("undo").stdout
    assert notes.read_text() == "The sky is blue.\nThe sea is blue.\n"
