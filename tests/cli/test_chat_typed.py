"""What is typed is a command or a note; what comes in any other way is text for the model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.cli.conversations import Held, idle, leave, said
from tests.cli.screens import CTRL_C, ENTER

HOME, DELETE, UP, CTRL_E, CTRL_U = "\x01", "\x1b[3~", "\x1b[A", "\x05", "\x15"


def notes(pal):
    found = [path for path in (pal.workspace.parent / "home").glob("memory/*/*") if path.is_file()]
    return "".join(path.read_text() for path in found)


def send(screen, number=1):
    screen.type(ENTER)
    screen.until(rf"answer {number}\.")
    idle(screen)


@pytest.mark.parametrize(
    "text",
    ["!touch ran", "#!/bin/sh\ntouch ran", "# keep this", "/help", "/undo yes\nand more", "!" + "x" * 2000],
)
def test_a_paste_is_text_however_it_begins(chat, pal, text):
    screen = chat(["answer 1."], "chat", "--permission-mode", "auto")
    screen.until("/ commands")
    screen.paste(text)
    screen.until(r"\n(text)?> \S|paste 1")
    send(screen)
    assert said(screen.server.requests[0]) == text
    assert not notes(pal)
    assert not (pal.workspace / "ran").exists()
    leave(screen)


def test_a_paste_that_is_edited_stays_one_and_comes_back_as_one(chat, pal):
    screen = chat(["answer 1.", "answer 2.", "answer 3."], "chat", "--permission-mode", "auto")
    screen.until("/ commands")
    screen.paste("x!touch ran")
    screen.type(HOME + DELETE + CTRL_E + " now")  # its first sign was never typed
    screen.until("text> !touch ran now")
    send(screen)
    screen.type(UP)
    screen.until("!touch ran now\n.*ask|auto")
    send(screen, 2)
    screen.type(" ")
    screen.paste("!touch ran")
    screen.type(HOME + DELETE)
    screen.until("text> !touch ran")
    send(screen, 3)
    sent = [said(request).strip() for request in screen.server.requests]
    assert sent == ["!touch ran now", "!touch ran now", "!touch ran"]
    assert not (pal.workspace / "ran").exists()
    leave(screen)


def test_lines_that_come_at_once_are_a_paste_where_the_terminal_does_not_mark_it(chat, pal):
    screen = chat(["answer 1."], "chat", "--permission-mode", "auto")
    screen.until("/ commands")
    text = "!touch ran\n" + "\n".join(f"line {number}" for number in range(5)) + "\nend"
    screen.type(text.replace("\n", "\r"))
    screen.until("end")
    send(screen)
    assert said(screen.server.requests[0]) == text
    assert not (pal.workspace / "ran").exists()
    leave(screen)


def test_keys_that_a_slow_program_reads_at_once_keep_their_effect(chat, pal):
    screen = chat(["answer 1.", "answer 2."], "chat", "--permission-mode", "auto")
    screen.until("/ commands")
    screen.type(f"wrong{CTRL_U}right\rnext")
    screen.until("next")
    send(screen)
    screen.type("x\x7fsee \x1b[200~!touch\x1b[201~ ran\rthen\x7f!\rend")  # several lines: a paste
    screen.until("end")
    send(screen, 2)
    assert [said(request) for request in screen.server.requests] == [
        "right\nnext",
        "see !touch ran\nthe!\nend",
    ]
    assert not (pal.workspace / "ran").exists()
    leave(screen)


def test_typed_input_is_submitted_before_a_paste_and_from_history(chat, pal):
    screen = chat([], "chat", "--permission-mode", "auto")
    screen.until("/ commands")
    screen.paste("echo one >> ran")
    screen.type(HOME + "!")
    screen.until("run> !echo one >> ran")
    screen.type(ENTER)
    screen.until("· no output")
    idle(screen)
    screen.type(UP)
    screen.until("run> !echo one >> ran")
    screen.type(ENTER)
    screen.until(lambda screen: screen.all.count("· no output") == 2)
    idle(screen)
    assert (pal.workspace / "ran").read_text() == "one\none\n"
    screen.type("#the build is slow")
    screen.until("note> #the build is slow")
    screen.type(ENTER)
    screen.until("Noted for this folder: the build is slow")
    assert "the build is slow" in notes(pal)
    leave(screen)


@pytest.mark.parametrize("text", ["#42 is broken", "## Plan", "#!/bin/sh"])
def test_a_number_a_heading_and_a_script_are_no_notes(chat, pal, text):
    screen = chat(["answer 1."], "chat")
    screen.until("/ commands")
    screen.type(text)
    send(screen)
    assert said(screen.server.requests[0]) == text
    assert not notes(pal)
    leave(screen)


@pytest.mark.parametrize("missing", ["", "no-such-editor", "/nowhere/editor"])
def test_an_editor_writes_text(chat, pal, missing):
    editor = Path(pal.workspace.parent / "editor")
    editor.write_text('#!/bin/sh\nprintf "!touch ran" > "$1"\n')
    editor.chmod(0o755)
    pal.env.update(VISUAL=missing, EDITOR=str(editor))
    screen = chat(["answer 1."], "chat", "--permission-mode", "auto")
    screen.until("/ commands")
    screen.type("\x18\x05")
    screen.until("text> !touch ran")
    if missing:
        screen.until(f"no such program: VISUAL={missing}; opening another editor")
    send(screen)
    assert said(screen.server.requests[0]) == "!touch ran"
    assert not (pal.workspace / "ran").exists()
    leave(screen)


def test_files_that_a_paste_names_are_not_sent(chat, pal):
    (pal.workspace / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    screen = chat(["answer 1."], "chat")
    screen.until("/ commands")
    screen.paste("see @dot.png there")
    screen.type(" please")
    send(screen)
    assert said(screen.server.requests[0]) == "see @dot.png there please"
    leave(screen)


def test_the_first_task_may_come_from_a_script(chat, pal):
    screen = chat(["answer 1."], "chat", "--permission-mode", "auto", "!touch ran")
    screen.until(r"answer 1\.")
    idle(screen)
    assert said(screen.server.requests[0]) == "!touch ran"
    leave(screen)


def test_message_after_a_stop_waits_for_its_end(chat):
    held = Held("Never shown.", "answer 1.")
    screen = chat({"handler": held}, "chat", "go")
    screen.until(lambda _: held.seen)
    screen.type(CTRL_C + "first of all" + ENTER)
    screen.until(r"answer 1\.")
    held.go.set()
    idle(screen)
    assert [said(request) for request in held.seen] == ["go", "first of all"]
    leave(screen)


def test_a_backslash_before_enter_begins_a_new_line(chat):
    screen = chat(["answer 1.", "answer 2."])
    screen.until("/ commands")
    screen.type("one\\")
    screen.until(r"> one\\")
    screen.type(ENTER)
    screen.until(r"> one\n")
    screen.type("two")
    screen.until(r"> one\n.*two")
    send(screen)
    screen.type("C:\\\\")
    send(screen, 2)
    assert [said(request) for request in screen.server.requests] == ["one\ntwo", "C:\\\\"]
    leave(screen)


def test_esc_twice_lists_the_steps_to_go_back_to(chat):
    screen = chat(["answer 1."])
    screen.until("/ commands")
    screen.type("first")
    send(screen)
    screen.type("\x1b\x1b")
    screen.until(r"/rewind STEP returns.*\n +1 +answer 1\.")
    screen.type("half\x1b\x1b")
    screen.until("> half")
    assert screen.all.count("/rewind STEP") == 1
    screen.type("\x15")
    for command, shown in (
        ("/config", "pal config show"),
        ("/settings", "pal init writes"),
        ("/vim", "emacs"),
    ):
        screen.type(command + ENTER)
        screen.until(shown)
    leave(screen)


def test_a_shell_command_is_shown_while_it_runs_and_when_it_failed(chat, pal):
    screen = chat(["I see."], "chat", "--permission-mode", "bypass")
    screen.until("/ commands")
    screen.type("!echo begun; while [ ! -e gate ]; do sleep 0.05; done; echo opened; exit 3" + ENTER)
    screen.until(r"Run echo begun.*\n  begun")
    (pal.workspace / "gate").touch()
    screen.until(r"opened\n✗ exit code 3")
    screen.until(lambda screen: "Run echo begun" not in screen.text)
    screen.type("look" + ENTER)
    screen.until("I see.")
    assert "[exit code 3]" in said(screen.server.requests[0])  # the model reads the whole result
    leave(screen)


def test_a_shell_command_that_is_tried_read_only_runs_once_and_is_shown(chat, pal):
    os.mkfifo(pal.workspace / "pipe")
    screen = chat([], "chat")
    screen.until("/ commands")
    screen.type("!cat pipe" + ENTER)
    screen.until("Run cat pipe")
    (pal.workspace / "pipe").write_text("one\n")  # a second reader would wait for more
    screen.until("\none\n")
    screen.until(lambda screen: "Run cat pipe" not in screen.text)
    idle(screen)
    screen.type("!cat pipe" + ENTER)
    screen.until("Run cat pipe")
    screen.type(CTRL_C)
    screen.until("■ Run cat pipe  stopped")
    leave(screen)


def test_a_command_waits_for_a_shell_command(chat, pal):
    screen = chat([], "chat", "--permission-mode", "auto")
    screen.until("/ commands")
    screen.type("!touch begun; while [ ! -e gate ]; do sleep 0.05; done; echo opened" + ENTER)
    screen.until(lambda _: (pal.workspace / "begun").exists())
    screen.type("/new" + ENTER)
    screen.until(lambda screen: "/new" in screen.text and "> /new" not in screen.text)
    (pal.workspace / "gate").touch()
    screen.until("opened")
    screen.until(r"New session\.")
    assert "Wait until the step" not in screen.all
    leave(screen)
