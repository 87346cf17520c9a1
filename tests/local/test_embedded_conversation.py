"""A conversation with the default model itself, in a real tmux."""

from __future__ import annotations

import re

import pytest
from tests.cli.conftest import Pal
from tests.cli.conversations import idle, leave
from tests.cli.tmux import TmuxScreen

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.local_model


def test_two_questions_and_their_answers(model_file, tmp_path):
    pal = Pal(tmp_path)
    with TmuxScreen(pal, "chat", "-m", str(model_file), "--no-tools") as screen:
        screen.until("/ commands")
        for number, task in enumerate(("Count to five.", "And to three?"), 1):
            screen.type(f"{task}\r")
            screen.until(re.escape(f"> {task}") + r"\n\n\S")
            idle(screen)
            screen.type("/cost\r")
            screen.until(lambda screen, tables=number: screen.all.count("Received ") == tables)
        assert "error" not in screen.all
        leave(screen)
