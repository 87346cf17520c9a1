"""What a terminal sends: keys in all their spellings are keys, and reports about the terminal are dropped."""

from __future__ import annotations

import pytest
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.keys import Keys
from tests.cli.conversations import idle, leave, said
from tests.cli.screens import ENTER
from tests.cli.terminal import Terminal

from pure_agent_loop.cli.chat.keyboard import Keyboard
from pure_agent_loop.support.control import without_reports
from pure_agent_loop.testing import ScriptedServer, answer, call

FOCUS, COLOUR, NAME = "\x1b[I", "\x1b]11;rgb:1e1e/1e1e/2e2e\x07", "\x1bP>|XTerm(370)\x1b\\"
REPORTS = [
    *(FOCUS, "\x1b[O", COLOUR, "\x1b]10;rgb:d0d0/d0d0/d0d0\x1b\\", "\x1b]4;1;rgb:00/00/00\x9c", NAME),
    *("\x1b[?62;22c", "\x1b[>0;276;0c", "\x1b[?2026;2$y", "\x1b[?1u", "\x1b[8;24;80t", "\x1b[24;80R"),
    *("\x1b[<35;10;10M", "\x1b[M #!", "\x1b_Gi=31;OK\x1b\\", "\x1b^note\x1b\\", "\x1bXtext\x1b\\", "\x1bOw"),
    *("\x9bI", "\x9d11;rgb:0/0/0\x9c", "\x1b[?997;1n", "\x1b[13;2:3u", "\x1b[57441;2u", "\x1b[13;9u"),
    *("\x1b]52;c;" + "A" * 5_000 + "\x07",),
]
KEYS = {
    "\x1b[27;2;13~": ["c-j"],
    "\x1b[13;2u": ["c-j"],
    "\x1b[13;2:1u": ["c-j"],
    "\x1b[13;66u": ["c-j"],
    "\x1b[13;5u": ["c-j"],
    "\x1b[13;3u": ["escape", "c-m"],
    "\x1b\r": ["escape", "c-m"],
    "\x1b[13u": ["c-m"],
    "\x1b[27u": ["escape"],
    "\x1b[9;2u": ["s-tab"],
    "\x1b[99;5u": ["c-c"],
    "\x1b[27;5;99~": ["c-c"],
    "\x1b[98;3u": ["escape", "b"],
    "\x1b[97;2u": ["A"],
    "\x1b[233u": ["é"],
    "\x1b[A": ["up"],
    "\x9bA": ["up"],
    "\x1bOA": ["up"],
    "\x1b[[A": ["f1"],
    "\x1b[1;5C": ["c-right"],
    "\x1b\x1b[A": ["escape", "up"],
    "\x1b[200~a\x1b[Ib\x1b[201~": ["<bracketed-paste>"],
}


def pressed(*pieces, flush=True):
    found = []
    parser = Vt100Parser(found.append)
    keyboard = Keyboard(parser)
    for piece in pieces:
        keyboard.feed(piece)
    if flush:
        keyboard.flush()
    return found


def names(*pieces):
    return [key.key.value if isinstance(key.key, Keys) else key.key for key in pressed(*pieces)]


@pytest.mark.parametrize("report", REPORTS, ids=ascii)
def test_report_is_dropped_whole_and_in_pieces(report):
    assert names(f"a{report}b") == ["a", "b"]
    assert names("a", *report, "b") == ["a", "b"]
    assert without_reports(f"a{report}b") == "ab"


@pytest.mark.parametrize("sequence", KEYS, ids=ascii)
def test_key_is_read_whole_and_in_pieces(sequence):
    assert names(f"a{sequence}b") == ["a", *KEYS[sequence], "b"]
    assert names("a", *sequence, "b") == ["a", *KEYS[sequence], "b"]


@pytest.mark.parametrize(
    ("sequence", "keys"),
    [
        ("\x1b", ["escape"]),
        ("\x1b\x1b", ["escape", "escape"]),
        ("\x1bO", ["escape", "O"]),
        ("\x1b[", ["escape", "["]),
        ("\x1bb", ["escape", "b"]),
        ("\x1b[1;", []),
        ("\x1b]11;rgb", []),
    ],
)
def test_flush_takes_escape_for_a_key_and_an_unfinished_report_for_none(sequence, keys):
    assert names(sequence) == keys


def test_report_without_an_end_swallows_no_key():
    assert names("\x1b]11;rgb\x03a") == ["c-c", "a"]
    assert names("\x1b[1\ra") == ["c-m", "a"]
    assert names("\x1bP1$r\x1b[Aa") == ["up", "a"]


def test_paste_is_kept_as_it_is_also_where_it_arrives_in_pieces():
    paste = "one\x1b[Itwo\x1b]0;x\x07"
    (key,) = pressed(*f"\x1b[200~{paste}\x1b[201~{FOCUS}")
    assert key.data == paste


def test_report_in_a_chat_and_its_question_is_neither_typed_nor_a_key(chat, pal):
    asked = answer("", call("write_file", path="made.txt", content="x"))
    screen = chat([asked, "Done."])
    screen.type(f"first{FOCUS}{NAME}\x1b[13;2usec{COLOUR}ond")
    screen.until("> first\n *second")
    screen.type(ENTER)
    screen.until("1. ")
    screen.type(f"{FOCUS}\x1b[?1u{COLOUR}\x1b[O2{ENTER}")
    screen.until("Done.")
    idle(screen)
    assert said(screen.server.requests[0]) == "first\nsecond"
    leave(screen)


def test_report_in_a_line_of_an_answer_is_dropped(pal):
    with ScriptedServer([answer("", call("write_file", path="made.txt", content="x")), "Done."]) as server:
        pal.use(server)
        terminal = Terminal(pal, "run", "go")
        terminal.until("Allow?")
        terminal.type(f"{FOCUS}y{COLOUR}\n")
        terminal.until("Done.")
        terminal.end()
        terminal.close()
    assert (pal.workspace / "made.txt").read_text() == "x"
