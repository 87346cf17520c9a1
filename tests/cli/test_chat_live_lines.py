"""The lines of what is running: as wide as the window allows, commands first, and whole."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conversations import Held, idle, leave
from tests.cli.screens import ENTER, ESC
from tests.cli.tmux import TmuxScreen

from pure_agent_loop import Event
from pure_agent_loop.cli.chat.output import MIN_COLUMNS
from pure_agent_loop.cli.chat.transcript import TranscriptView
from pure_agent_loop.support.terminal import width_of
from pure_agent_loop.testing import answer, call

LONG = "for i in 1 2 3 4 5 6 7 8; do echo step $i of the build; sleep 1; done"


def at(event, second):
    return Event(event.type, event.step, event.data, second)


def running(command, output, width, room=None):
    screen = TranscriptView(width, color=False, animation=True)
    screen.room = room
    screen.feed(at(Event.action(1, "shell", {"command": command}, "1"), 100.0))
    screen.feed(Event.progress(1, "shell", output, "1"))
    return screen.live(104.0)


@pytest.mark.parametrize("room", [None, (10, 40)])
def test_command_and_its_newest_line_are_whole(room):
    head, *tail = running(LONG, "step 1\nstep 2\nstep 3 " + "x" * 50 + "\n", 120, room)
    assert head[1:] == f" Run {LONG}  4.0 s"
    assert tail == ["  step 1", "  step 2", "  step 3 " + "x" * 50]


def test_output_gets_the_width_that_the_command_leaves_from_its_newest_line():
    lines = [letter * 100 for letter in "abcd"]
    shown = running("make " + "x" * 100, "\n".join(lines), 120, (10, 40))
    assert [width_of(line) for line in shown] == [118, 30, 30, 30, 90]
    assert shown[0].endswith("  4.0 s")
    assert [width_of(line) for line in running("make", "\n".join(lines), 120, (10, 2))] == [
        17,
        30,
        30,
        30,
        90,
    ]


@given(
    st.lists(st.integers(1, 150), max_size=8),
    st.integers(1, 200),
    st.integers(10, 160),
    st.tuples(st.integers(1, 10), st.integers(-1, 12)),
)
def test_a_window_of_the_least_width_holds_all_rows(lengths, command, width, room):
    lines = running("x" * command, "\n".join("y" * length for length in lengths), width, room)
    rows = [-(-width_of(line) // MIN_COLUMNS) for line in lines]
    assert all(width_of(line) <= width for line in lines)
    assert sum(rows) <= max(room[0], len(lines))
    assert sum(rows) - len(lines) <= max(room[1], 0)


@pytest.mark.parametrize("columns", [80, 120])
def test_the_subject_of_a_failed_call_gets_its_room_before_the_reason(columns):
    screen, path = TranscriptView(columns, color=False), "src/pricing/seasonal.py"
    reason = "old_text is not in the file. " * 9
    screen.feed(Event.action(1, "edit_file", {"path": path}, "1"))
    line = screen.feed(Event.observation(1, "edit_file", f"Error: {reason}", 3.2, "1", is_error=True))
    assert line.startswith(f"✗ Edited {path}  3.2 s · old_text is not in")
    assert columns - 2 < width_of(line.rstrip("\n")) <= columns
    assert reason.strip() in " ".join(screen.unfold().split())
    screen.feed(Event.action(1, "shell", {"command": "make " * 40}, "2"))
    long = screen.feed(Event.observation(1, "shell", f"Error: {reason}", 3.2, "2", is_error=True))
    assert long.index("…  3.2 s · old_text") > columns // 2


def test_a_screen_reader_gets_long_paths_whole():
    screen = TranscriptView(40, color=False, language="en", screen_reader=True)
    path = "/".join(["src", *(f"folder{number}" for number in range(40)), "end.py"])
    screen.feed(Event.action(1, "write_file", {"path": path}, "1"))
    assert screen.live() == [f"running: Write {path}"]
    shown = screen.feed(Event.observation(1, "write_file", "Error: no room on the disk", 0.1, "1", True))
    assert f"Wrote{path}noroomonthedisk" in "".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 40
    assert screen.question(f"Write {path}?", []) == [f"Write {path}?"]
    assert "a-long-name-of-a-model" in screen.status(model="a-long-name-of-a-model", mode="ask")


def test_thinking_takes_from_the_request_to_the_answer(chat):
    held = Held(answer("It is 42.", reasoning="Hm, so."))
    screen = chat({"handler": held})
    screen.type("go" + ENTER)
    screen.until(r"Thinking… [2-9] s · Esc")
    held.go.set()
    screen.until("It is 42")
    assert re.search(r"▸ Thought for [2-9]\d? s, 2 words", screen.all)
    leave(screen)


def test_a_subagent_shows_name_task_last_call_and_seconds():
    screen = TranscriptView(80, color=False, animation=True)
    screen.feed(at(Event.action(1, "task", {"prompt": "find discount"}, "1"), 100.0))
    task = {"id": "explore-cbcfb1", "agent": "explore", "prompt": "find discount", "call_id": "1"}
    task |= {"state": "running", "started": 100.0, "calls": 2, "tokens": 900, "last_tool": "grep"}
    part = {
        "type": "tool",
        "tool": "grep",
        "input": {"pattern": "discount"},
        "call_id": "x",
        "state": "running",
    }
    screen.feed(Event.task(1, task, part))
    screen.feed(Event.task(1, task))  # the end of a step names no call
    (line,) = screen.live(103.0)
    assert line[1:] == " explore find discount  Search discount, 2 calls, 3.0 s"
    screen.feed(Event.task(1, {**task, "last_tool": "read_file"}))
    assert "read_file, 2 calls" in screen.live(103.0)[0]
    ended = screen.feed(Event.task(1, {**task, "state": "completed", "ended": 104.0}))
    assert ended == "✓ explore find discount  completed, 2 calls, 900 tokens, 4.0 s\n"
    # The call that started it has no second line, but another call with the same id has one.
    assert screen.feed(Event.observation(1, "task", "found\nit", 4.0, "1")) == ""
    screen.feed(Event.action(2, "shell", {"command": "ls"}, "1"))
    assert screen.feed(Event.observation(2, "shell", "a", 0.1, "1")) == "✓ Ran ls  a\n"


def test_the_empty_line_before_work_stands_there_from_the_beginning():
    screen = TranscriptView(80, color=False, animation=True)
    printed = screen.user_input("go")
    screen.feed(at(Event.action(1, "shell", {"command": "make"}, "1"), 100.0))
    assert screen.live(104.0)[0] == ""
    printed += screen.feed(Event.observation(1, "shell", "ok", 4.0, "1"))
    assert printed == "> go\n\n✓ Ran make  4.0 s · ok\n"
    screen.feed(at(Event.action(1, "shell", {"command": "make"}, "2"), 100.0))
    assert screen.live(104.0)[0] != ""  # calls stand together


@pytest.mark.parametrize("screen_class", [TmuxScreen])
@pytest.mark.parametrize("columns", [80, 120])
def test_running_command_in_tmux_is_whole_and_stands_once_in_any_window(chat, columns):
    script = "for i in 1 2 3 4; do echo step $i of the build; done; sleep 600"
    screen = chat([answer("", call("shell", command=script))], columns=columns)
    screen.type("go" + ENTER)
    screen.until("step 4 of the build\n")
    assert "  step 3 of the build\n" in screen.text
    (head,) = [line for line in screen.lines if " Run for" in line]
    assert "echo step $i of the build" in head
    for size in [(60, 24), (38, 24), (100, 24), (31, 20), (90, 40)]:
        screen.resize(*size)
        screen.until(lambda screen: "".join(screen.joined.split()).count("Runforiin") == 1)
        screen.until(lambda screen: "".join(screen.joined.split()).count("step4ofthebuild") == 1)
    screen.type(ESC)
    screen.until("■ Run for")
    idle(screen)
    assert "".join(screen.joined.split()).count("Runforiin") == 1
    leave(screen)
