"""What a run looks like: calls, diffs, tasks, reasoning, errors, the status line, and all of it unfolded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pure_agent_loop import Agent, ConfigError, Event, PermissionRules
from pure_agent_loop.cli.chat.transcript import TranscriptView
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.toolbox import TodoList, workspace_tools

TODO = [{"task": "look", "status": "done"}, {"task": "mend", "status": "in_progress"}]


def screen_of(width: int = 60, **options: Any) -> TranscriptView:
    return TranscriptView(width, **{"color": False, "animation": False, **options})


def at(event: Event, second: float) -> Event:
    return Event(event.type, event.step, event.data, second)


def observed(screen: TranscriptView, result: str, *, is_error: bool = False, **args: Any) -> str:
    screen.feed(Event.action(1, "shell", args, "1"))
    return screen.feed(Event.observation(1, "shell", result, 3.21, "1", is_error))


def test_a_run_reads_from_top_to_bottom(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    script = [
        call("read_file", path="a.txt"),
        call("shell", command="rm -rf /"),
        call("todo_write", items=TODO),
        "It **is** done.",
    ]
    tools = [*workspace_tools(tmp_path), *TodoList().tools()]
    rules = PermissionRules(deny=["shell"])
    agent = Agent(llm=ScriptedLLM(script), tools=tools, permission_rules=rules)
    screen = screen_of()
    shown = screen.user_input("do it") + "".join(screen.feed(event) for event in agent.run_stream("do it"))
    assert shown == (
        "> do it\n\n"
        "✓ read_file a.txt  2 lines\n"
        "✗ shell rm -rf /  not allowed: The rule 'shell' forbids it.\n"
        "✓ todo_write\n  [x] look\n  [>] mend\n\n"
        "It is done.\n"
    )
    assert screen.live() == []
    assert screen.status("vendor/a-model", "ask", cost=0.5, seconds=65.0).startswith(
        "a-model · ask · step 4 · context "
    )


def test_a_call_is_one_line_and_unfolds():
    screen = screen_of()
    assert observed(screen, "a\nb\nc", command="ls", cwd="/tmp") == "✓ shell ls  3.2 s, 3 lines\n"
    assert screen.unfold() == (
        "\n✓ shell ls  3.2 s, 3 lines\ncommand:\n  ls\ncwd:\n  /tmp\nresult:\n  a\n  b\n  c\n"
    )
    failed = "Tool 'shell' failed.\nError type: X\nError: no such file\nTry again."
    assert "✗ shell ls  3.2 s, no such file\n" in observed(screen, failed, is_error=True, command="ls")
    assert "3.2 s, no output" in observed(screen, "", command="true")
    assert "3.2 s, 42" in observed(screen, "42\n", command="true")
    long = observed(screen, "x\n" * 5, command="cat " + "name " * 50)
    assert len(long) == 61
    assert long.endswith("…  3.2 s, 5 lines\n")
    assert screen.unfold(99) == "nothing is folded\n"


def test_running_work_is_shown_with_its_state_and_time():
    screen = screen_of(animation=True)
    screen.feed(Event.tool_call_delta(1, 0, "shell", ""))
    assert screen.live(100.0)[0][1:] == " writing a call: shell"
    about = {
        "type": "tool",
        "state": "pending",
        "tool": "shell",
        "call_id": "1",
        "input": {"command": "sleep 9"},
    }
    screen.feed(at(Event.part(1, about), 100.0))  # from here on it is decided about, and may be tried
    assert screen.live(101.0)[0][1:] == " shell sleep 9  1.0 s"
    screen.feed(at(Event.action(1, "shell", {"command": "sleep 9"}, "1"), 103.0))
    screen.feed(at(Event.permission(1, "write_file", {"path": "a"}, "ask", "", "2"), 100.0))
    task = {"id": "explore-1", "state": "running", "started": 100.0, "calls": 2, "last_tool": "grep"}
    assert screen.feed(Event.task(1, task)) == ""
    first, second, third = screen.live(104.5)
    assert first[1:] == " shell sleep 9  4.5 s"
    assert second == "? write_file a  waiting for your answer"
    assert third[1:] == " explore-1 grep, 2 calls, 4.5 s"
    assert screen.live(104.75)[0][0] != first[0]
    screen.feed(Event.progress(1, "shell", "half\ndone", "1"))
    assert screen.live(104.5)[0][1:] == " shell sleep 9  4.5 s, half done"
    screen.live_lines = 2
    assert screen.live(104.5)[1:] == ["and 2 more"]
    done = {**task, "state": "completed", "ended": 110.0, "prompt": "look", "result": "found"}
    assert screen.feed(Event.task(1, done)) == "✓ explore-1 completed, 2 calls, 10 s\n"
    assert screen.feed(Event.task(1, done)) == ""
    assert "task:\n  look\nresult:\n  found\n" in screen.unfold()
    stopped = screen.feed(Event.loop_end(1, "cancelled"))
    assert "■ shell sleep 9  stopped\n" in stopped
    assert stopped.endswith("· ended: cancelled\n")
    assert screen.live() == []


def test_reasoning_is_a_line_that_unfolds():
    screen = screen_of(language="en")
    screen.feed(at(Event.reasoning_delta(1, "I should look "), 10.0))
    screen.feed(at(Event.reasoning_delta(1, "先看看"), 12.0))
    assert screen.live() == ["• thinking, 6 words"]
    assert screen.feed(at(Event.text_delta(1, "So\n\n"), 13.0)) == "· thought for 3.0 s, 6 words\n"
    assert screen.unfold().endswith("reasoning:\n  I should look 先看看\n")
    screen.feed(Event.reasoning(1, "I should look 先看看"))  # it came in pieces
    assert "thought" not in screen.close()


def test_a_diff_is_shown_once_with_its_counts_and_cut():
    lines = "".join(f"+line {number}\n" for number in range(60))
    change = {"path": "a.py", "kind": "modified", "added": 60, "removed": 1}
    change["diff"] = f"--- a/a.py\n+++ b/a.py\n@@ -1 +1,60 @@\n-old\n{lines}"
    screen = screen_of()
    shown = screen.feed(Event.file_change(1, change)).split("\n")
    assert shown[:3] == ["~ a.py +60 -1", "@@ -1 +1,60 @@", "-old"]
    assert shown[-2] == "22 more lines; unfold shows them"
    assert "+line 59\n" in screen.unfold()
    assert "\x1b[32m+line 1\x1b[0m\n" in TranscriptView(60).feed(Event.file_change(1, change))
    spoken = screen_of(screen_reader=True).feed(Event.file_change(1, change))
    assert spoken.startswith(
        "modified: a.py, added 60, removed 1\n@@ -1 +1,60 @@\nremoved: old\nadded: line 0\n"
    )


def test_a_retry_takes_back_what_was_not_printed():
    screen = screen_of()
    screen.feed(Event.text_delta(1, "half an ans"))
    shown = screen.feed(Event.retry(1, 1, 2.0, "the line broke", discard=True))
    assert shown == "· the answer starts again\n· try 2 in 2.0 s: the line broke\n"
    assert screen.live() == []
    assert (
        screen.feed(Event.text_delta(1, "whole\n")) + screen.feed(Event.thought(1, "whole\n")) == "\nwhole\n"
    )


def test_an_answer_that_did_not_stream_is_shown():
    assert screen_of().feed(Event.thought(1, "- one\n- two")) == "• one\n• two\n"


def test_a_long_paste_and_a_long_error_are_folded():
    screen = screen_of()
    shown = screen.user_input("line\n" * 5_000)
    assert shown.endswith("> line\n4,988 more lines; unfold shows them\n") or "4988 more lines" in shown
    assert screen.unfold().count("line\n") > 4_990
    assert "more lines" in screen.feed(Event.error(1, "<html>\n" * 400))


def test_a_screen_reader_gets_words_and_no_text_that_moves():
    screen = screen_of(screen_reader=True, animation=True)
    screen.feed(Event.text_delta(1, "half"))
    assert screen.live() == []
    shown = screen.user_input("hello") + observed(screen, "fine", command="ls")
    assert shown == "half\n\nyou: hello\n\ndone: shell ls  3.2 s, fine\n"
    assert screen.status("m", "ask", seconds=5.0) == "model m, mode ask, 5 s"


def test_chinese_words():
    screen = screen_of(language="zh")
    assert observed(screen, "a\nb", command="ls") == "✓ shell ls  3.2 s, 2 行\n"
    screen.feed(Event.reasoning_delta(1, "想"))
    assert "思考了" in screen.feed(Event.text_delta(1, "好"))


@pytest.mark.parametrize("width", [10, 24, 40, 60, 80, 200])
@pytest.mark.parametrize("reader", [False, True])
def test_the_status_fits_and_keeps_what_matters(width, reader):
    screen = screen_of(width, screen_reader=reader)
    usage, context = {"total_tokens": 41_234}, {"tokens": 27_000, "window": 32_000}
    screen.feed(Event.step_end(12, usage, context))
    line = screen.status(
        "qwen/qwen3-coder-480b-a35b-instruct", "ask", cost=1.2, seconds=3_700.0, note="2 queued"
    )
    assert len(line) <= width
    if width >= 40 and not reader:
        assert "qwen3-c" in line
        assert "ask" in line
        assert "84%" in line


def test_drawing_is_due_when_there_is_enough_to_draw():
    screen = screen_of()
    assert screen.is_due(1.0)
    assert not screen.is_due(1.1)
    screen.feed(Event.text_delta(1, "a"))  # the first piece at once
    assert screen.is_due(1.2)
    screen.feed(Event.text_delta(1, "b"))
    assert not screen.is_due(1.3)
    assert screen.is_due(2.0)
    screen.feed(Event.text_delta(1, "c" * 80))
    assert screen.is_due(2.1)
    assert not screen.is_due(9.0)
    moving = screen_of(animation=True)
    moving.is_due(1.0)
    assert moving.is_due(2.1)


@pytest.mark.parametrize("wrong", [{"width": 0}, {"live_lines": 0}, {"theme": "pink"}, {"language": "xx"}])
def test_wrong_values_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        TranscriptView(**{"width": 80, **wrong})


def test_the_screen_in_the_documentation():
    screen = screen_of(80)
    diff = "--- a\n+++ b\n@@ -3,1 +3,1 @@\n-assert add(1, 1) == 3\n+assert add(1, 1) == 2"
    change = {"path": "tests/test_sum.py", "kind": "modified", "added": 1, "removed": 1, "diff": diff}
    shown = screen.user_input("mend the test")
    screen.feed(at(Event.reasoning_delta(1, "word " * 412), 100.0))
    for event in (
        at(Event.reasoning(1, ""), 103.0),
        Event.action(1, "read_file", {"path": "tests/test_sum.py"}, "1"),
        Event.observation(1, "read_file", "\n".join("a" * 18), 0.01, "1"),
        Event.action(2, "shell", {"command": "npm test"}, "2"),
        Event.observation(2, "shell", "Error: command not found", 3.2, "2", True),
        Event.file_change(2, change),
        Event.text_delta(3, "The test expected a **wrong sum**."),
        Event.thought(3, "The test expected a **wrong sum**."),
    ):
        shown += screen.feed(event)
    page = Path(__file__).parents[2] / "docs" / "screen.md"
    assert f"```text\n{shown}```" in page.read_text(encoding="utf-8")
