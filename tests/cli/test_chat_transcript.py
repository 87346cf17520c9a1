"""What a run looks like: calls, diffs, tasks, reasoning, errors, the status line, and all of it unfolded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pure_agent_loop import Agent, ConfigError, Event, LLMError, PermissionRules
from pure_agent_loop.cli.chat.diffs import reverse
from pure_agent_loop.cli.chat.transcript import TranscriptView
from pure_agent_loop.support.explained import explain
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.terminal import width_of
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
        "✓ Read a.txt  2 lines\n"
        "⊘ Run rm -rf /  not allowed: The rule 'shell' forbids it.\n"
        "✓ Updated plan  1/2\n  ☑ look\n  ▸ mend\n\n"
        "It is done.\n"
    )
    assert screen.live() == []
    assert screen.status("vendor/a-model", "ask", cost=0.5, seconds=65.0).startswith("ask ⇧⇥ · a-model · ")


def test_a_call_is_one_line_and_unfolds():
    screen = screen_of()
    assert observed(screen, "a\nb\nc", command="ls", cwd="/tmp") == "✓ Ran ls  3.2 s · 3 lines\n"
    assert screen.unfold() == (
        "\n✓ Ran ls  3.2 s · 3 lines\ncommand:\n  ls\ncwd:\n  /tmp\nresult:\n  a\n  b\n  c\n"
    )
    failed = "Tool 'shell' failed.\nError type: X\nError: no such file\nTry again."
    assert "✗ Ran ls  3.2 s · no such file\n" in observed(screen, failed, is_error=True, command="ls")
    assert "3.2 s · no output" in observed(screen, "", command="true")
    assert "3.2 s · 42" in observed(screen, "42\n", command="true")
    long = observed(screen, "x\n" * 5, command="cat " + "name " * 50)
    assert len(long) == 61
    assert long.endswith("…  3.2 s · 5 lines\n")
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
    assert screen.live(101.0)[0][1:] == " Run sleep 9  1.0 s"
    screen.feed(at(Event.action(1, "shell", {"command": "sleep 9"}, "1"), 103.0))
    screen.feed(at(Event.permission(1, "write_file", {"path": "a"}, "ask", "", "2"), 100.0))
    task = {"id": "explore-1", "state": "running", "started": 100.0, "calls": 2, "last_tool": "grep"}
    assert screen.feed(Event.task(1, task)) == ""
    first, second = screen.live(104.5)  # a call that waits is shown by its question
    assert first[1:] == " Run sleep 9  4.5 s"
    assert second[1:] == " explore-1  grep, 2 calls, 4.5 s"
    assert screen.live(104.75)[0][0] != first[0]
    screen.feed(Event.progress(1, "shell", "half\ndone", "1"))
    screen.feed(Event.progress(1, "shell", " now", "1"))
    assert screen.live(104.5)[1:3] == ["  half", "  done now"]
    screen.live_lines = 2
    assert screen.live(104.5)[1:] == ["and 2 more"]
    done = {**task, "state": "completed", "ended": 110.0, "prompt": "look", "result": "found"}
    assert screen.feed(Event.task(1, done)) == "✓ explore-1 look  completed, 2 calls, 10 s\n"
    assert screen.feed(Event.task(1, done)) == ""
    assert "task:\n  look\nresult:\n  found\n" in screen.unfold()
    stopped = screen.feed(Event.loop_end(1, "cancelled"))
    assert "■ Run sleep 9  stopped\n" in stopped
    assert "Stopped." not in stopped  # the line of the call tells it
    assert screen.live() == []


def test_a_call_behind_a_question_counts_no_seconds():
    screen = screen_of(animation=True)
    for call_id in ("1", "2"):
        about = {"type": "tool", "state": "pending", "tool": "shell", "call_id": call_id, "input": {}}
        screen.feed(at(Event.part(1, about), 100.0))
    screen.feed(at(Event.permission(1, "shell", {}, "ask", "", "1"), 101.0))
    assert screen.live(130.0) == []
    screen.feed(at(Event.permission(1, "shell", {}, "allow", "", "1"), 130.0))
    assert [line[1:] for line in screen.live(132.0)] == [" Run  2.0 s"] * 2


def test_command_of_a_person_ends_with_its_output():
    screen = screen_of()
    assert screen.command_end({"exit_code": 0, "seconds": 2.0}, "one\ntwo\n") == "one\ntwo\n"
    assert screen.command_end({"exit_code": 3, "seconds": 2.0}, "no\n") == "no\n✗ exit code 3, 2.0 s\n"
    assert screen.command_end({"exit_code": 0, "seconds": 0.1}, "") == "· no output\n"


def test_something_lives_until_the_model_writes():
    screen = screen_of(animation=True)
    screen.feed(at(Event.loop_start("do it"), 100.0))
    assert screen.live(103.2)[0][1:] == " Thinking… 3 s · Esc to stop"
    screen.feed(at(Event.text_delta(1, "So"), 104.0))
    assert screen.live(105.0) == ["So"]
    screen.feed(at(Event.step_end(1), 106.0))
    assert screen.live(106.0)[-1][1:] == " Thinking… · Esc to stop"
    screen.feed(at(Event.loop_end(1, "completed"), 107.0))
    assert screen.live(108.0) == []


def test_reasoning_is_a_line_that_unfolds():
    screen = screen_of(language="en")
    screen.feed(at(Event.reasoning_delta(1, "I should look "), 10.0))
    screen.feed(at(Event.reasoning_delta(1, "先看看"), 12.0))
    assert screen.live(12.0) == ["• Thinking… · Esc to stop"]
    assert screen.feed(at(Event.text_delta(1, "So\n\n"), 13.0)) == "▸ Thought for 3 s, 6 words\n"
    assert screen.unfold().endswith("reasoning:\n  I should look 先看看\n")
    screen.feed(Event.reasoning(1, "I should look 先看看"))  # it came in pieces
    assert "Thought" not in screen.close()


def test_changed_words_of_a_line_are_marked():
    old, new = "    return total - total * percent", "    return total - total * percent / 100"
    lines = [" def f():", f"-{old}", f"+{new}", "-one", "+two", "-a", "-b", "+c"]
    shown = screen_of(80, color=True).diff("", "@@ -1 +1 @@\n" + "\n".join(lines))
    assert shown.count("\x1b[7;") == 1  # nothing of the other lines is left, or they have no counterpart
    assert "percent\x1b[0m\x1b[7;32m / 100\x1b[0m" in shown
    plain = screen_of(80).diff("", "@@ -1 +1 @@\n" + "\n".join(lines))
    assert plain == re.sub("\x1b\\[[0-9;]*m", "", shown)
    assert screen_of(80, color=True).diff("", "-x = 1\n+x = 2").count("\x1b[7;") == 2


def test_a_diff_is_reversed_for_undo():
    diff = "--- a\n+++ b\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2b\n three\n@@ -9 +10,0 @@\n-end"
    undone = "@@ -1,4 +1,3 @@\n one\n-2\n-2b\n+two\n three\n@@ -10,0 +9 @@\n+end"
    assert reverse(diff) == undone
    assert reverse(reverse(diff)) == "\n".join(diff.splitlines()[2:])


def test_a_diff_is_shown_once_with_its_counts_and_cut():
    lines = "".join(f"+line {number}\n" for number in range(60))
    change = {"path": "a.py", "kind": "modified", "added": 60, "removed": 1}
    change["diff"] = f"--- a/a.py\n+++ b/a.py\n@@ -1 +1,60 @@\n-old\n{lines}"
    screen = screen_of()
    shown = screen.feed(Event.file_change(1, change)).split("\n")
    assert shown[:3] == ["~ a.py +60 -1", "@@ -1 +1,60 @@", "-old"]
    assert shown[-2] == "… 22 more lines (Ctrl-O)"
    assert "+line 59\n" in screen.unfold()
    assert "\x1b[32m+line 1\x1b[0m\n" in TranscriptView(60).feed(Event.file_change(1, change))
    spoken = screen_of(screen_reader=True).feed(Event.file_change(1, change))
    assert spoken.startswith(
        "modified: a.py, added 60, removed 1\n@@ -1 +1,60 @@\nremoved: old\nadded: line 0\n"
    )


def test_retry_discards_unprinted_text():
    screen = screen_of()
    screen.feed(Event.text_delta(1, "half an ans"))
    shown = screen.feed(Event.retry(1, 1, 2.0, "The line broke", discard=True, attempts=4))
    assert shown == "· the answer starts again\n· The line broke. Trying again in 2 s (2 of 4).\n"
    assert screen.live() == ["• Trying again… · Esc to stop"]
    assert (
        screen.feed(Event.text_delta(1, "whole\n")) + screen.feed(Event.thought(1, "whole\n")) == "\nwhole\n"
    )


def test_an_answer_that_did_not_stream_is_shown():
    assert screen_of().feed(Event.thought(1, "- one\n- two")) == "• one\n• two\n"


def test_a_long_paste_and_a_long_error_are_folded():
    screen = screen_of()
    shown = screen.user_input("line\n" * 5_000)
    assert shown.endswith("> line\n… 4988 more lines (Ctrl-O)\n")
    assert screen.unfold().count("line\n") > 4_990
    assert "more lines" in screen.feed(Event.error(1, "<html>\n" * 400))


def test_a_screen_reader_gets_words_and_no_text_that_moves():
    screen = screen_of(screen_reader=True, animation=True)
    screen.feed(Event.text_delta(1, "half"))
    assert screen.live() == []
    shown = screen.user_input("hello") + observed(screen, "fine", command="ls")
    assert shown == "half\n\nyou: hello\n\ndone: Ran ls  3.2 s, fine\n"
    assert screen.status("m", "ask", seconds=5.0) == "mode ask, model m, 5 s"


def test_chinese_words():
    screen = screen_of(80, language="zh")
    assert observed(screen, "a\nb", command="ls") == "✓ 已运行 ls  3.2 s · 2 行\n"
    screen.feed(at(Event.reasoning_delta(1, "想"), 10.0))
    assert screen.feed(at(Event.text_delta(1, "好"), 12.0)) == "▸ 思考了 2 s，1 字\n"
    retry = Event.retry(1, 1, 2.0, "x", discard=False, attempts=4, status=503, said="overloaded")
    assert screen.feed(retry).endswith("服务器返回 503（overloaded）。2 s 后重试（第 2 次，共 4 次）。\n")
    assert screen.feed(Event.error(1, "x")).startswith("错误: 尝试 2 次后放弃。服务器返回 503")
    assert screen.feed(Event.loop_end(1, "cancelled")) == "· 已停止。\n"


@pytest.mark.parametrize("width", [10, 24, 40, 60, 80, 200])
@pytest.mark.parametrize("reader", [False, True])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_status_line_fits_and_keeps_the_important_parts(width, reader, language):
    screen = screen_of(width, screen_reader=reader, language=language)
    usage, context = {"total_tokens": 41_234}, {"tokens": 27_000, "window": 32_000}
    screen.feed(Event.step_end(12, usage, context))
    name = "qwen/qwen3-coder-480b-a35b-instruct"
    line = screen.status(name, "ask", cost=1.2, seconds=3_700.0)
    assert width_of(line) <= width
    if width >= 40 and not reader:
        assert line.startswith("ask ")
        assert "qwen3-c" in line
        assert "84%" in line
    note = screen.status(name, "ask", cost=1.2, seconds=3_700.0, note="Stopping… Ctrl-C again to quit.")
    assert width_of(note) <= width
    assert width < 40 or reader or "again to quit." in note


def test_the_status_tells_mode_model_context_and_money():
    screen = screen_of()
    screen.feed(Event.step_end(12, {"total_tokens": 41_234}, {"tokens": 4_000}))
    assert screen.status("m", "ask", cost=0.034) == "ask ⇧⇥ · m · 4.0k context · $0.03"
    assert screen.status("m", "ask", window=32_000) == "ask ⇧⇥ · m · 12% context"
    assert screen.status("m", "ask", cost=0.0004) == "ask ⇧⇥ · m · 4.0k context · $0.0004"
    colours = {mode: TranscriptView(60).status("m", mode) for mode in ("plan", "auto", "bypass")}
    assert [line.partition("m")[0] for line in colours.values()] == ["\x1b[34", "\x1b[32", "\x1b[7;31"]


def test_repeated_failure_is_reported_once():
    screen = screen_of(80)
    failed = {"discard": False, "attempts": 4, "status": 503, "said": "overloaded"}
    error = "http://x/v1 refused the request with status 503: overloaded"
    shown = "".join(
        screen.feed(Event.retry(1, n, delay, error, **failed)) for n, delay in ((1, 2.1), (2, 3.0))
    )
    assert shown == (
        "· The server answered 503 (overloaded). Trying again in 2 s (2 of 4).\n· Again in 3 s (3 of 4).\n"
    )
    other = {**failed, "status": 500, "said": "boom"}
    assert "The server answered 500 (boom). Trying again" in screen.feed(
        Event.retry(1, 3, 4.0, "no", **other)
    )
    gave_up = screen.feed(Event.error(1, "no", fatal=True)).replace("\n", " ")
    assert gave_up == (
        "error: Gave up after 4 tries. The server answered 500 (boom). "
        "  Your task is kept: press Up and Enter, or /model NAME. "
    )
    assert error in screen.unfold(3)
    screen.feed(Event.retry(1, 1, 2.0, error, **failed))
    assert "with status 401" in screen.feed(Event.error(1, "refused with status 401"))
    screen.feed(Event.retry(1, 1, 2.0, error, **failed))
    screen.feed(Event.text_delta(1, "So"))  # it worked at last, so a later failure is another one
    assert screen.feed(Event.error(1, "no")) == "\nSo\n\nerror: no\n"


def test_successive_reads_are_one_line_and_an_edit_has_its_counts():
    screen = screen_of()
    shown = ""
    for name in ("a.py", "b.py", "b.py"):
        shown += screen.feed(Event.action(1, "read_file", {"path": name}, name))
        shown += screen.feed(Event.observation(1, "read_file", f"text of {name}", 0.1, name))
    assert shown == ""
    assert screen.live() == ["✓ Read 2 files"]
    screen.feed(Event.action(2, "edit_file", {"path": "a.py"}, "4"))
    shown = screen.feed(Event.observation(2, "edit_file", "Edited.", 0.1, "4"))
    change = {"path": "a.py", "kind": "modified", "added": 3, "removed": 1, "diff": "@@\n+x"}
    shown += screen.changed(Event.file_change(2, change), has_diff=False)
    assert shown == "✓ Read 2 files\n✓ Edited a.py +3 -1\n"
    assert "a.py:\n  text of a.py\nb.py:\n  text of b.py" in screen.unfold()
    screen.feed(Event.action(2, "edit_file", {"path": "c.py"}, "5"))
    screen.feed(Event.observation(2, "edit_file", "Edited.", 0.1, "5"))
    assert screen.feed(Event.step_end(2)) == "\n✓ Edited c.py\n"  # nothing told what it changed


def test_plan_is_printed_once_then_its_changes():
    screen, shown = screen_of(), ""
    for number, states in enumerate((("in_progress", "pending"), ("done", "in_progress"), ("done", "done"))):
        items = [{"task": task, "status": state} for task, state in zip("ab", states, strict=True)]
        screen.feed(Event.action(1, "todo_write", {"items": items}, str(number)))
        shown += screen.feed(Event.observation(1, "todo_write", "", 0.1, str(number)))
    assert shown == (
        "✓ Updated plan  0/2\n  ▸ a\n  ☐ b\n✓ Updated plan  1/2\n  ☑ a\n  ▸ b\n✓ Updated plan  2/2\n  ☑ b\n"
    )


@pytest.mark.parametrize(
    ("reason", "english", "chinese"),
    [
        ("cancelled", "Stopped.", "已停止。"),
        ("max_steps", "The step limit is reached.", "已达到步数上限。"),
        ("doom_loop", "The model kept repeating the same calls.", "模型在原地打转。"),
    ],
)
def test_end_is_printed_in_words(reason, english, chinese):
    for language, words in (("en", english), ("zh", chinese)):
        assert screen_of(language=language).feed(Event.loop_end(1, reason)) == f"· {words}\n"


def test_one_is_not_many():
    screen = screen_of()
    assert "3.2 s · 1 line\n" in observed(screen, "x" * 60, command="ls")
    task = {"id": "a", "state": "completed", "ended": 2.0, "calls": 1, "tokens": 1}
    assert "completed, 1 call, 1 token" in screen.feed(Event.task(1, task))


def test_thinking_that_came_at_once_took_as_long_as_was_waited():
    screen = screen_of()
    screen.feed(at(Event.loop_start("go"), 10.0))
    assert screen.feed(at(Event.reasoning(1, "I think so."), 13.0)) == "▸ Thought for 3 s, 3 words\n"
    screen.feed(at(Event.step_end(1), 20.0))
    assert screen.feed(at(Event.reasoning(2, "Yes."), 20.5)) == "▸ Thought, 1 word\n"


def test_thinking_takes_from_the_request_to_the_first_word_of_the_answer():
    screen = screen_of(animation=True)
    screen.feed(at(Event.loop_start("go"), 10.0))
    screen.feed(at(Event.reasoning_delta(1, "I think "), 14.0))
    screen.feed(at(Event.reasoning_delta(1, "so."), 15.0))
    assert screen.live(15.5)[0][1:] == " Thinking… 5 s · 3 words · Esc to stop"
    assert screen.feed(at(Event.text_delta(1, "Yes"), 16.4)) == "▸ Thought for 6 s, 3 words\n"
    screen.feed(at(Event.thought(1, "Yes"), 30.0))
    screen.feed(at(Event.step_end(1), 30.0))
    screen.feed(at(Event.reasoning_delta(2, "Hm."), 40.0))
    told = screen.feed(at(Event.tool_call_delta(2, 0, "shell", ""), 43.0))
    assert told == "\n▸ Thought for 13 s, 1 word\n"


def test_failed_attempt_does_not_count_as_thinking_time():
    screen = screen_of(animation=True)
    screen.feed(at(Event.loop_start("go"), 10.0))
    screen.feed(at(Event.retry(1, 1, 20.0, "busy", discard=False, attempts=4), 12.0))
    assert screen.live(13.5)[0][1:] == " Trying again… 19 s · Esc to stop"
    assert screen.live(36.0)[0][1:] == " Thinking… 4 s · Esc to stop"
    screen.feed(at(Event.reasoning_delta(1, "I think so."), 38.0))
    assert screen.feed(at(Event.text_delta(1, "Yes"), 40.0)) == "▸ Thought for 8 s, 3 words\n"


def test_unfolded_thinking_and_errors_are_broken_between_words():
    prose = "sixteen letters " * 12
    screen = screen_of(40)
    screen.feed(Event.reasoning(1, prose))
    failed = f"Tool 'fetch' failed.\nError: {prose}"
    screen.feed(Event.error(1, f"{prose}\n" * 20))
    for unfolded in (screen.unfold(1), screen.unfold(2)):
        assert unfolded.split().count("sixteen") >= 12
        assert all(width_of(line) <= 40 for line in unfolded.split("\n"))
        assert unfolded.split().count("letters") == unfolded.split().count("sixteen")
    screen.feed(Event.observation(1, "fetch", failed, 1.0, "1", True))
    shown = screen.unfold()
    assert "error:\n  Tool 'fetch' failed.\n" in shown
    assert all(width_of(line) <= 40 for line in shown.split("\n"))
    code = f"  {'x = 1; ' * 12}y".strip()
    screen.feed(Event.observation(1, "shell", code, 1.0, "1"))
    assert f"result:\n  {code}\n" in screen.unfold()  # is copied as it is


def test_the_title_of_a_question_has_its_colour_in_a_small_window():
    title, line = screen_of(40, color=True).question("Edit src/a.py?", ["+two"])
    assert title == "\x1b[33mEdit src/a.py?\x1b[0m"
    assert line == "\x1b[32m+two\x1b[0m"


def test_answers_and_hints_of_a_question_break_between_words_and_keep_their_numbers():
    answers = ["❯ y  Yes", "  s  Yes, and edits in src/pricing/ this session", "  n  No"]
    shown = screen_of(40).choices([*answers, "n WHY · e edit · d all · or type something else"], 3)
    assert shown == [
        "❯ y  Yes  1",
        "  s  Yes, and edits in src/pricing/",
        "this session  2",
        "  n  No  3",
        "n WHY · e edit · d all · or type",
        "something else",
    ]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_screen_without_motion_says_once_that_the_model_is_working(language):
    words = {
        "en": "· The model is still working. Ctrl-C stops it.\n",
        "zh": "· 模型仍在工作。按 Ctrl-C 停止。\n",
    }
    screen = screen_of(language=language)
    screen.feed(at(Event.loop_start("go"), 10.0))
    assert "0 s" not in screen.live(12.0)[0]
    assert screen.still_working(14.9) == ""
    assert screen.still_working(15.1) == words[language]
    assert screen.still_working(30.0) == ""
    moving = screen_of(animation=True)
    moving.feed(at(Event.loop_start("go"), 10.0))
    assert moving.still_working(30.0) == ""


def test_queued_messages_are_shown_above_the_input():
    screen = screen_of(30, live_lines=4, animation=True)
    screen.feed(at(Event.loop_start("go"), 10.0))
    assert screen.live(11.0, ["mind\nthe gap " + "x" * 40])[1:] == ["queued: mind the gap xxxxxxxx…"]
    assert screen.live(11.0, ["a", "b", "c", "d"])[1:] == ["queued: a", "queued: b", "and 2 more"]
    read = screen.feed(Event.notice(1, "mind the gap", synthetic=False))
    assert read == "> mind the gap\n"


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


def test_failure_is_what_happened_what_to_do_and_the_words_of_the_server():
    refused = LLMError("http://x/v1 rejected it: Bad key", kind="auth", status=401, said="Bad key")
    refused.about = {
        "url": "http://x/v1",
        "model": "m",
        "key": notice("failures.key_variable", name="MY_KEY"),
    }
    event = Event.error(1, str(refused), fatal=True, kind="auth", **explain(refused)._asdict())
    screen = screen_of(200)
    assert screen.feed(event) == (
        "error: The key was refused (401).\n"
        "  Replace it where it is set. Key: variable MY_KEY. Server: http://x/v1. /key enters another one.\n"
        "  Bad key\n"
    )
    assert "http://x/v1 rejected it" in screen.unfold()
    chinese = TranscriptView(200, color=False, language="zh").feed(event)
    assert "密钥被拒绝 (401)。" in chinese
    assert "密钥：变量 MY_KEY。" in chinese


def test_history_overflow_shows_both_token_counts_and_one_compaction():
    said = "This model's maximum context length is 8192 tokens. However, you requested 9120 tokens."
    error = LLMError(f"http://x/v1: {said}", kind="context_overflow", status=400, said=said)
    screen, shortened = screen_of(200), Event.compaction(1, "trim", (2_000, 1_900), (9, 8), (96, 14))
    assert "compacted" in screen.feed(shortened)
    assert screen.feed(shortened) == ""
    assert screen.feed(Event.retry(1, 1, 0.0, str(error), discard=False, title=explain(error).title)) == (
        "· The conversation no longer fits (9,120 of 8,192 tokens). Trying again.\n"
    )
    shown = screen.feed(Event.error(1, str(error), fatal=True, kind=error.kind, **explain(error)._asdict()))
    assert "no longer fits (9,120 of 8,192 tokens)." in shown
    assert "/compact or /new." in shown
    screen.feed(Event.loop_start(0, "again"))
    assert "compacted" in screen.feed(shortened)
