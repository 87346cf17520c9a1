"""Whole conversations at a terminal: a real process, a real server, and what a person then sees."""

from __future__ import annotations

import pytest
from tests.cli.screens import CTRL_D, ENTER, Screen

from pure_agent_loop.testing import ScriptedServer


@pytest.fixture
def chat(pal):
    """Opens a conversation on a script."""
    opened = []

    def open_chat(script, *words, **size):
        server = ScriptedServer(script)
        server.__enter__()
        opened.append(server)
        pal.use(server)
        screen = Screen(pal, *words, **size)
        opened.append(screen)
        screen.server = server
        return screen

    yield open_chat
    for each in reversed(opened):
        each.__exit__(None, None, None)


def test_a_question_and_its_answer(chat):
    screen = chat(["The **sea** is blue."])
    screen.until("Type a task")
    screen.type("What colour is the sea?" + ENTER)
    screen.until("The sea is blue.")
    screen.type(CTRL_D)
    assert screen.end() == 0
    assert "to go on: pal -c" in screen.all
