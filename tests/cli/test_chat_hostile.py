"""Nothing that came from elsewhere reaches the terminal as anything but text."""

from __future__ import annotations

import re
import unicodedata

import pytest

from pure_agent_loop import Event
from pure_agent_loop.cli.chat.styling import Cleaner, clean, one_line
from pure_agent_loop.cli.chat.transcript import TranscriptView

SEQUENCES = [
    "\x1b]52;c;cm0gLXJmIC8=\x07",  # the clipboard
    "\x1b]52;p;cm0gLXJmIC8=\x1b\\",
    "\x1b]52;c;?\x07",
    "\x9d52;c;cm0gLXJmIC8=\x9c",
    "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",  # links
    "\x1b]8;;file:///etc/passwd\x07name\x1b]8;;\x07",
    "\x1b]8;id=1;javascript:alert(1)\x07x\x1b]8;;\x07",
    "\x1b]8;;ssh://-oProxyCommand=x\x1b\\x",
    "\x1b]0;title\x07",  # titles
    "\x1b]2;title\x1b\\",
    "\x1b]1;icon\x07",
    "\x1b[21t",
    "\x1b[22;0t\x1b[23;0t",
    "\x1bktitle\x1b\\",
    "\x1b]4;1;rgb:00/00/00\x07",  # colours, the working directory, files, notices, commands of some terminals
    "\x1b]10;?\x07\x1b]11;?\x07",
    "\x1b]7;file://host/tmp\x07",
    "\x1b]9;notice\x07",
    "\x1b]777;notify;a;b\x07",
    "\x1b]133;A\x07\x1b]133;C\x07",
    "\x1b]1337;File=inline=1:AAAA\x07",
    "\x1b]1337;RequestAttention=1\x07",
    "\x1b]50;font\x07",
    "\x1b]5113;ac=recv\x1b\\",
    '\x1bP$q"p\x1b\\',  # device control
    "\x1bP+q544e\x1b\\",
    "\x1bP0;1|17/ab\x1b\\",
    "\x90q#0;2;0;0;0#0~~\x9c",
    "\x1b_Gf=24,s=1,v=1;AAAA\x1b\\",
    "\x1b^private\x1b\\",
    "\x1bXstring\x1b\\",
    "\x1b[?1049h",  # private modes
    "\x1b[?1000h\x1b[?1006h",
    "\x1b[?2004l",
    "\x1b[?25l",
    "\x1b[?2026h",
    "\x1b[?7l",
    "\x1b[>4;2m",
    "\x1b[>1u\x1b[=1u",
    "\x1b[2J\x1b[H",  # the cursor and the screen
    "\x1b[3J",
    "\x1b[1A\x1b[2K",
    "\x1b[5;5Hpainted",
    "\x1b[1;5r",
    "\x1b[10S\x1b[10T",
    "\x1b[2@\x1b[3P\x1b[4L\x1b[5M",
    "\x1b[100b",
    "\x1b7\x1b8\x1b[s\x1b[u",
    "\x1bc",
    "\x1b#8",
    "\x1b(0lqqk\x1b(B",
    "\x0e\x0f",
    "\x1b[6n\x1b[c\x1b[>c\x1b[0x",  # what makes the terminal type
    "\x05",
    "\x1b[5i\x1b[4i",
    "\x9b2J\x9b31m",  # C1 in one byte
    "\x84\x85\x88\x8d\x8e\x8f",
    "safe --flag\rrm -rf /   ",  # a line written over
    "rm -rf /\x08\x08\x08\x08\x08\x08\x08\x08ls -la  ",
    "\x0b\x0c\x7f\x00\x07",
    "\u2028hidden\u2029",
    "\u202egpj.exe\u202c",  # order of reading
    "\u2067\u2066rm\u2069 -rf\u2069",
    "\u200frm\u200e \u061c-rf",
    "rm\u200b -r\u2060f \ufeff/\U000e0041",
    "\x1b[38;2;1;2;3;4;5;6;7;8;9" + ";0" * 3_000 + "m",
    "\x1b[" + "9" * 5_000 + "A",
    "\x1b]" + "x" * 5_000,
    "\x1b[31mred\x1b[8mhidden\x1b[0m",
    "a" + "\u0301" * 500,
    "\ud800\udc00\ud83d",
    "\x1b\x1b\x1b[2J",
    "\x1b[\x1b[2JA",
    "&#27;[2J&#x9b;2J&#13;x&#8238;y&#x200f;",
    "<\x1b[2J> [a](<\x1b]0;t\x07>) ![\x1b[2J](\x1b[2J) `\x1b[2J`",
    "\x1b]8;;https://good.example\x1b\\\x1b]8;;https://evil.example\x1b\\good.example",
    "[https://good.example](https://evil.example/\x1b]8;;x\x07)",
    "\x1b]52;;\x07\x1b]52;c0;!\x07",  # the clipboard emptied, and a cut buffer
    "\x1b]52;c;" + "QUFB" * 2_000,  # it never ends
    "\x1b]99;i=1:d=0;notice\x1b\\",  # notices, progress bars, prompts of other terminals
    "\x1b]9;4;1;50\x07",
    "\x1b]633;E;rm -rf /\x07",
    "\x1b]1337;SetUserVar=a=QQ==\x07\x1b]1337;Copy=:QUFB\x07",
    "\x1b]22;pointer\x07\x1b]104\x07\x1b]110\x07",
    "\x1bPtmux;\x1b\x1b]52;c;QUFB\x07\x1b\\",  # through tmux and screen
    "\x1bP\x1b]0;t\x07\x1b\\",
    "\x90tmux;\x1b\x1b[2J\x9c",
    "\x1b_G" + "a=T,f=100,t=f;L2V0Yy9wYXNzd2Q=" + "\x1b\\",  # an image out of a file
    "\x9fapplication\x9c\x9eprivate\x9c\x98string\x9c",
    "\u061c\u2066abc\u2069\u2068def\u2069\u202a\u202b\u202c",  # order of reading
    "user\u2066\u2069\u202e // admin\u202c",
    "\x1b[?1004h\x1b[?9001h\x1b[?2031h\x1b[?996n",  # modes that make it type
    "\x1b[>q\x1b[?u\x1b[14t\x1b[18t\x1bZ",
    "\x1b%G\x1b%@\x1b=\x1b>\x1b[!p",  # character sets, keypads, a soft reset
    "\x1b[3;1;5;6$x\x1b[1;1;9;9$z\x1b[65;1;1;5;5;1;1;1$v",  # rectangles
    "\x1b[0 q\x1b[1$}\x1b[2$~\x1b[1 @",
    "ab\x1b[D\x1b[Dcd\x1bM\x1bD\x1bE",
    "\U000e0020\U000e0072\U000e006d\ufff9x\ufffay\ufffb",  # tags and notes that nobody sees
]
COLOUR = re.compile("\x1b\\[[0-9;]{1,12}m")
ORDER = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
UNSEEN = set("\u200b\u200c\u200d\u200e\u200f\u2060\u061c\ufeff\U000e0041")


def faults(shown: str, color: bool = True) -> set[str]:
    """The characters that a terminal must not get."""
    rest = COLOUR.sub("", shown) if color else shown
    return {
        each
        for each in rest
        if (unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") and each != "\n")
        or unicodedata.bidirectional(each) in ORDER
        or each in UNSEEN
    }


def events(text: str) -> list[Event]:
    """A foreign text in every place that an event has for one."""
    code = f"```{text}\n{text}\n```\n\n- {text}\n\n| {text} | b |\n|---|---|\n| {text} | c |\n\n> {text}\n"
    change = {"path": text, "kind": text, "diff": f"--- {text}\n+++ {text}\n@@ {text}\n-{text}\n+{text}"}
    task = {"id": text, "state": text, "last_tool": text, "prompt": text, "result": text, "error": text}
    return [
        Event.loop_start(text),
        Event.reasoning_delta(1, text),
        Event.text_delta(1, text),
        Event.text_delta(1, f"\n\n{code}\n\n{text} " * 3),
        Event.thought(1, text),
        Event.tool_call_delta(1, 0, text, text),
        Event.permission(1, text, {text: text}, "ask", text, "1"),
        Event.permission(1, "tool", {"command": text}, "deny", text, "2"),
        Event.action(1, text, {text: text, "command": text}, "1"),
        Event.action(1, "todo_write", {"items": [{"task": text, "status": text}]}, "3"),
        Event.progress(1, text, text, "1"),
        Event.observation(1, text, text, 1.0, "1", True),
        Event.observation(1, "tool", text, 0.0, "2", True),
        Event.observation(1, "todo_write", text, 0.0, "3"),
        Event.file_change(1, change),
        Event.task(1, task),
        Event.task(1, {**task, "ended": 2.0}),
        Event.notice(1, text),
        Event.error(1, f"server: {text}\n" * 20),
        Event.retry(1, 1, 1.0, text, discard=True),
        Event.soft_limit(1, text, text),
        Event.compaction(1, text, (1, 2), (3, 4)),
        Event.loop_end(1, text, text),
    ]


def everything(screen: TranscriptView, text: str) -> str:
    """All that is shown, printed or live, when a foreign text comes from everywhere."""
    shown = [
        screen.user_input(text),
        screen.user_input(f"{text}\n" * 30),
        screen.notice(text, "error"),
        screen.markdown(text),
    ]
    for event in events(text):
        shown += [screen.feed(event), *screen.live(), screen.status(text, text, note=text)]
    for piece in text[:200]:
        shown += [screen.feed(Event.text_delta(2, piece)), *screen.live()]
    shown += [screen.diff(text, text), *(screen.unfold(last) for last in range(1, 30))]
    return "\n".join(shown)


def test_there_are_eighty_and_more():
    assert len(set(SEQUENCES)) >= 80


@pytest.mark.parametrize("number", range(len(SEQUENCES)))
def test_no_sequence_reaches_the_terminal(number):
    text = SEQUENCES[number]
    shown = everything(TranscriptView(60), text)
    assert faults(shown) == set()
    assert max(len(each) for each in re.findall("[\u0300-\u036f]*", shown)) <= 3
    plain = everything(TranscriptView(40, color=False, screen_reader=True, language="zh"), text)
    assert faults(plain, color=False) == set()


@pytest.mark.parametrize("number", range(len(SEQUENCES)))
def test_a_sequence_in_pieces_is_cleaned_too(number):
    cleaner = Cleaner()
    shown = "".join([*(cleaner.feed(each) for each in SEQUENCES[number]), cleaner.close()])
    assert faults(shown) == set()


def test_colours_and_line_ends_of_tools_leave_no_trace_even_in_pieces():
    cleaner = Cleaner()
    shown = [cleaner.feed(each) for each in ("a\r", "\n\x1b[3", "1mred\x1b", "[0m \ud83d", "\ude00!")]
    assert "".join(shown) + cleaner.close() == "a\nred \U0001f600!"


def test_a_shown_command_says_when_a_terminal_may_turn_its_order():
    screen = TranscriptView(80, color=False)
    screen.feed(Event.action(1, "shell", {"command": "rm \u05d0\u05d1 /"}, "1"))
    assert "has right-to-left text" in screen.live()[0]


def test_a_message_is_cleaned_for_one_line():
    assert one_line("a\r\nb\x1b]0;t\x07" + "x" * 400, 40).startswith("a b\\x1b]0;t\\x07x")
    assert len(one_line("x" * 400, 40)) == 40
    assert clean("❤️") == "❤"
