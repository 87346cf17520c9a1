"""The person is called back: by the title, a bell and a notification, once, and only while they are away."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
from functools import partial

import pytest
from tests.cli.conversations import Held, idle, leave
from tests.cli.screens import ENTER
from tests.cli.terminal import PATIENCE
from tests.cli.tmux import TmuxScreen

from pure_agent_loop.cli.chat.attention import AWAY_SECONDS, Attention
from pure_agent_loop.testing import answer, call

FOCUS_IN, FOCUS_OUT = "\x1b[I", "\x1b[O"
EDIT = answer("", call("edit_file", path="src/a.py", old_text="one\n", new_text="two\n"))
STRINGS = re.compile("\x1b\\][^\a]*\a")  # a title, a notification, a copied text


def rings(written: str) -> int:
    return STRINGS.sub("", written).count("\a")


def notifications(written: str) -> list[str]:
    return re.findall("\x1b\\]9;([^\a]*)\a", written)


def titles(written: str) -> list[str]:
    return re.findall("\x1b\\]0;([^\a]*)\a", written)


def test_question_calls_a_person_who_is_away_and_the_title_is_restored(chat, source):
    screen = chat([EDIT, "Done."])
    screen.type(FOCUS_OUT + "go" + ENTER)
    screen.until(lambda screen: rings(screen.coloured))
    assert notifications(screen.coloured) == ["pal · work: Edit src/a.py?"]
    assert titles(screen.coloured)[-1] == "● pal: Edit src/a.py?"
    screen.until("❯ y")
    screen.type("y" + ENTER)
    screen.until("Done.")
    idle(screen)
    screen.until(lambda screen: titles(screen.coloured)[-1] == "pal · work")
    leave(screen)
    assert rings(screen.coloured) == 1
    assert screen.coloured.index("\x1b[22;0t") < screen.coloured.index("\x1b]0;")
    assert "\x1b[?1004l\x1b]0;\a\x1b[23;0t" in screen.coloured


def test_question_about_a_command_names_it(chat):
    screen = chat([answer("", call("shell", command="touch made", changes=True)), "Done."])
    screen.type(FOCUS_OUT + "go" + ENTER)
    screen.until(lambda screen: rings(screen.coloured))
    assert notifications(screen.coloured) == ["pal · work: Run touch made?"]
    assert titles(screen.coloured)[-1] == "● pal: Run touch made?"
    screen.until("❯ y")
    assert screen.text.count("touch made?") == 1
    assert "command:" not in screen.text
    screen.type("n" + ENTER)
    screen.until("Done.")
    leave(screen)


def test_person_who_is_there_only_gets_the_title(chat, source):
    screen = chat([EDIT, "Done."])
    screen.type(FOCUS_OUT + FOCUS_IN + "go" + ENTER)
    screen.until("❯ y")
    screen.type("y" + ENTER)
    screen.until("Done.")
    leave(screen)
    assert "● pal: Edit src/a.py?" in titles(screen.coloured)
    assert rings(screen.coloured) == 0
    assert not notifications(screen.coloured)


@pytest.mark.parametrize("words", [["--no-bell"], []], ids=["option", "setting"])
def test_it_is_switched_off(chat, pal, source, words):
    if not words:
        home = pal.workspace.parent / "home"
        home.mkdir(exist_ok=True)
        (home / "pal.toml").write_text("bell = false\n")
    screen = chat([EDIT, "Done."], "chat", *words)
    screen.until("/ commands")
    screen.type(FOCUS_OUT + "go" + ENTER)
    screen.until("❯ y")
    screen.type("y" + ENTER)
    screen.until("Done.")
    leave(screen)
    for sequence in ("\a", "\x1b]", "\x1b[?1004", "\x1b[22;0t"):
        assert sequence not in screen.coloured


def test_screen_reader_hears_the_bell_alone(chat, source):
    screen = chat([EDIT, "Done."], "chat", "--screen-reader")
    screen.until("/ commands")
    screen.type(FOCUS_OUT + "go" + ENTER)
    screen.until(lambda screen: rings(screen.coloured))
    screen.until("y  Yes")
    screen.type("y" + ENTER)
    screen.until("Done.")
    leave(screen)
    assert "\x1b]" not in screen.coloured
    assert "\x1b[22;0t" not in screen.coloured


def test_editor_gets_no_reports_about_the_focus(chat, pal):
    pal.env["EDITOR"] = "true"
    screen = chat([])
    screen.type("/editor" + ENTER)
    screen.until(lambda screen: screen.coloured.count("\x1b[?1004h") == 2)
    assert screen.coloured.index("\x1b[?1004l") < screen.coloured.rindex("\x1b[?1004h")
    leave(screen)


def test_long_run_calls_at_its_end(chat):
    held = Held("Done.")
    screen = chat({"handler": held})
    screen.type(FOCUS_OUT + "go" + ENTER)
    screen.until(rf"ask.* {AWAY_SECONDS:.0f} s")
    held.go.set()
    screen.until(lambda screen: rings(screen.coloured))
    (told,) = notifications(screen.coloured)
    assert re.fullmatch(r"pal · work: ended after \d+ s", told)
    screen.type(FOCUS_IN)
    screen.until(lambda screen: titles(screen.coloured)[-1] == "pal · work")
    leave(screen)


@pytest.mark.parametrize("screen_class", [TmuxScreen])
def test_title_and_notification_in_tmux(chat, source):
    screen = chat([EDIT, "Done."])
    before = screen.tmux("display-message", "-p", "#{pane_title}")
    assert before == "pal · work\n"
    screen.tmux("set", "-g", "allow-passthrough", "on")
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm"}
    command = ["tmux", "-u", *screen._socket, "attach"]
    client = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
    written = b""
    try:
        while b"/ commands" not in written:
            written += os.read(ours, 65536)
        screen.type("go" + ENTER)  # this tmux reports no focus, so the person is away after some seconds
        screen.until(lambda screen: "●" in screen.tmux("display-message", "-p", "#{pane_title}"))
        assert screen.tmux("display-message", "-p", "#{pane_title}") == "● pal: Edit src/a.py?\n"
        while b"\x1b]9;" not in written:
            written += os.read(ours, 65536)
        written = written[written.index(b"\x1b]9;") :]
        while b"?\a" not in written:
            written += os.read(ours, 65536)
    finally:
        client.kill()
        client.wait(PATIENCE)
        os.close(ours)
        os.close(theirs)
    assert written.decode().startswith("\x1b]9;pal · work: Edit src/a.py?\a")
    screen.type("y" + ENTER)
    screen.until("Done.")
    leave(screen)
    assert screen.tmux("display-message", "-p", "#{pane_title}") != before


def attention(environ=None):
    written = []
    return Attention(written.append, "shop; x", environ or {}, is_on=True, only_rings=False), written


def run(*steps):
    """Do steps, each followed by a turn of the loop; functions that need a running loop."""

    async def go():
        for step in steps:
            step()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    asyncio.run(go())


def test_two_messages_to_an_absent_person_are_one_bell():
    made, written = attention()
    run(*(partial(made.call, text) for text in ("first?", "", "second?")))
    assert rings("".join(written)) == 1
    run(lambda: made.focus(True), lambda: made.focus(False), lambda: made.call("third?"))
    assert rings("".join(written)) == 2


def test_a_key_tells_that_somebody_is_there():
    made, written = attention()
    run(made.key, lambda: made.call("first?"), made.close)
    assert rings("".join(written)) == 0  # for `AWAY_SECONDS`, as this terminal reports no focus


@pytest.mark.parametrize(
    ("environ", "sequence"),
    [
        ({}, "\x1b]9;pal · shop, x: a?\a"),
        ({"VTE_VERSION": "7600"}, "\x1b]777;notify;pal · shop, x;a?\a"),
        ({"TERM": "foot"}, "\x1b]777;notify;pal · shop, x;a?\a"),
        ({"TMUX": "x"}, "\x1bPtmux;\x1b\x1b]9;pal · shop, x: a?\a\x1b\\"),
        ({"STY": "x"}, ""),
        ({"TERM": "linux"}, ""),
    ],
)
def test_notification_is_one_that_the_terminal_knows(environ, sequence):
    made, written = attention(environ)
    run(lambda: made.call("a?"))
    assert written[-1] == f"\a{sequence}"


def test_text_of_a_question_cannot_end_the_sequence():
    made, written = attention()
    run(lambda: made.call("a\a\x1b]52;c;QQ==\x07\x1b\\\x9c\n" + "x" * 500))
    assert notifications(written[-1])[0].startswith("pal · shop, x: a\\x07\\x1b]52;c;QQ==")
    assert len(written[-1]) < 150
