"""The agent of a worker that names none follows ``pal.toml``."""

from __future__ import annotations

import signal

import pytest


def test_the_model_of_the_settings_is_used(pal):
    home = pal.workspace.parent / "home"
    home.mkdir()
    (home / "pal.toml").write_text('model = "of-the-file"\nbase_url = "http://127.0.0.1:9/v1"\n')
    worker = pal.start("worker", "--database", f"sqlite:///{home}/runs.db")
    shown = b""
    while b"SIGTERM" not in shown:
        line = worker.stderr.readline()
        assert line, shown
        shown += line
    worker.send_signal(signal.SIGTERM)
    _, rest = worker.communicate(timeout=60)
    assert b"agents default (of-the-file)" in shown, shown + rest


@pytest.mark.parametrize("words", [["serve", "--port", "0"], ["worker"], ["run", "--tools", "read", "hi"]])
def test_a_folder_that_holds_keys_is_not_read(pal, words):
    (pal.workspace / ".ssh").mkdir()
    pal.env |= {"PAL_BASE_URL": "http://127.0.0.1:9/v1", "PAL_MODEL": "m"}
    done = pal(*words)
    assert done.returncode == 2
    assert "a folder with keys in it (.ssh)" in done.stderr
