"""What stands on the screen can be copied: tabs, last blanks and lines of code are as they were written."""

from __future__ import annotations

import re

import pytest

from pure_agent_loop.cli.chat.transcript import TranscriptView
from pure_agent_loop.events import Event

CODE = "all:\n\tcc -o a a.c \t\n\n  two  \n\t\tdeep" + " -D" * 60
PLAIN = re.compile("\x1b\\[[0-9;]*m")


def lines_of(text):
    return PLAIN.sub("", text).split("\n")


@pytest.mark.parametrize("color", [True, False])
@pytest.mark.parametrize("language", ["make", "python", "", "nonsense"])
@pytest.mark.parametrize("before", ["", "- item\n\n  "])
def test_code_is_printed_as_it_was_written(color, language, before):
    indent = " " * (2 if before else 0)
    fenced = "\n".join([f"```{language}", *CODE.split("\n"), "```"])
    screen = TranscriptView(40, color=color, animation=False)
    shown = lines_of(screen.markdown(before + fenced.replace("\n", f"\n{indent}")))
    for line in CODE.split("\n"):
        assert f"{indent}{line}" in shown


def test_code_that_is_written_in_pieces_too():
    screen = TranscriptView(40, color=True, animation=False)
    shown = ""
    for sign in f"```make\n{CODE}\n```\n":
        shown += screen.feed(Event.text_delta(1, sign))
        assert not any("\t" in line for line in screen.live())
    shown += screen.close()
    assert set(CODE.split("\n")) <= set(lines_of(shown))


def test_a_diff_is_printed_as_it_is():
    diff = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n all:\n-\told  \n+\tnew\t \n"
    shown = lines_of(TranscriptView(40, color=True, animation=False).diff("Makefile", diff))
    assert {"-\told  ", "+\tnew\t "} <= set(shown)
