"""A terminal that knows no escape sequences: a line at a time, and not one is sent."""

from __future__ import annotations

import pytest
from tests.cli.conversations import Held, said
from tests.cli.screens import CTRL_C, CTRL_D, ENTER

from pure_agent_loop.testing import answer, call


def leave(screen):
    screen.type(CTRL_D)
    assert screen.end() == 0
    assert b"\x1b" not in screen.written


@pytest.mark.parametrize("term", ["dumb", None, "unknown"])
def test_a_conversation_with_a_question(chat, pal, term):
    pal.env["TERM"] = term
    if term is None:
        del pal.env["TERM"]
    edit = answer("I write.", call("write_file", path="a.txt", content="new\n"))
    screen = chat(["# Head\n\n**bold** `code`", edit, "Written."], "chat", rows=60)
    screen.until("/ commands")
    screen.type("hello" + ENTER)
    screen.until("code")
    screen.type("write it" + ENTER)
    screen.until("❯ y")
    screen.type("y" + ENTER)
    screen.until(r"Written\.")
    assert (pal.workspace / "a.txt").read_text() == "new\n"
    screen.type("/cost" + ENTER)
    screen.until("Received")
    leave(screen)


def test_lines_at_once_are_a_paste_and_one_line_is_typed(chat, pal):
    pal.env["TERM"] = "dumb"
    screen = chat(["answer 1."], "chat", "--permission-mode", "auto")
    screen.until("/ commands")
    screen.type("!touch ran\rline two\r")
    screen.until(r"answer 1\.")
    assert said(screen.server.requests[0]) == "!touch ran\nline two"
    assert not (pal.workspace / "ran").exists()
    screen.type("!echo sum=$((6 * 7))" + ENTER)
    screen.until("sum=42")
    leave(screen)


def test_ctrl_d_right_behind_a_line_leaves(chat, pal):
    pal.env["TERM"] = "dumb"
    screen = chat([], "chat")
    screen.until("/ commands")
    screen.type("/help" + ENTER + CTRL_D)
    assert screen.end() == 0


def test_a_stop(chat, pal):
    pal.env["TERM"] = "dumb"
    held = Held("Never shown.", "Second.")
    screen = chat({"handler": held}, "chat")
    screen.until("/ commands")
    screen.type("go" + ENTER)
    screen.until(lambda _: held.seen)
    screen.type(CTRL_C)
    screen.until("Stopping|Stopped")
    held.go.set()
    screen.type("again" + ENTER)
    screen.until(r"Second\.")
    leave(screen)
