"""A resumed session in a terminal shows its last turn as it was: no older answer under a newer task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conversations import idle, leave
from tests.cli.screens import ENTER, ESC

from pure_agent_loop.cli.chat.transcript import TranscriptView
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.sessions.story import read_story
from pure_agent_loop.testing import answer, call, status

SLEEP = answer("", call("shell", command="sleep 600"))
MAKE = answer("", call("shell", command="touch made", changes=True))
LOOK = answer("I look.", call("shell", command="echo out; exit 3"))


def ask_twice(screen, shown):
    """Ask two questions, of which the first is answered, and wait for what the second shows."""
    screen.type("first question" + ENTER)
    screen.until("The older answer")
    idle(screen)
    screen.type("newest task" + ENTER)
    screen.until(shown)


def under_newest(screen):
    """Return what stands under the newest task, without the lines of the input."""
    lines = [line.strip() for line in screen.all.splitlines()]
    start = max(number for number, line in enumerate(lines) if line == "> newest task")
    end = next(number for number in range(start, len(lines)) if lines[number].startswith("──"))
    return [line for line in lines[start + 1 : end] if line]


ENDS = {
    "answered": (["Its own answer."], "Its own answer", "", ["Its own answer."]),
    "stopped": ([SLEEP], "sleep 600", ESC, ["■ Run sleep 600  stopped"]),
    "stopped_at_a_question": ([MAKE], "❯ y", ESC, ["■ Run touch made  stopped"]),
    "denied": (
        [MAKE, "Then not."],
        "❯ y",
        "n not here" + ENTER,
        ["⊘ Run touch made  not allowed: not here", "Then not."],
    ),
    "failed_command": (
        [LOOK, "It fails."],
        "It fails",
        "",
        ["I look.", "✗ Ran echo out; exit 3  exit code 3, read-only", "out", "It fails."],
    ),
}


@pytest.mark.parametrize(("script", "shown", "keys", "kept"), ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("size", [{}, {"rows": 20, "columns": 60}], ids=["large", "small"])
def test_last_turn_is_shown_as_it_was(chat, script, shown, keys, kept, size):
    screen = chat(["The older answer.", *script], **size)
    ask_twice(screen, shown)
    screen.type(keys)
    screen.until(kept[-1])
    idle(screen)
    leave(screen)
    screen = chat([], "-c", **size)
    screen.until(kept[-1])
    assert under_newest(screen) == kept
    leave(screen)


def test_refused_request_is_shown_with_its_reason(chat):
    screen = chat(["The older answer.", status(401, "no such key")])
    ask_twice(screen, "no such key")
    idle(screen)
    leave(screen)
    screen = chat([], "-c")
    screen.until("no such key")
    first, *others = under_newest(screen)
    assert first == "error: The key was refused (401)."
    assert " ".join(others).startswith(f"Replace it where it is set. Server: {screen.server.base_url[:17]}")
    assert others[-1] == "no such key"
    leave(screen)


def test_thinking_keeps_its_seconds(chat, pal):
    screen = chat([answer("The older answer.", reasoning="Hm, so."), "Its own answer."])
    ask_twice(screen, "Its own answer")
    idle(screen)
    leave(screen)
    (path,) = Path(pal.env["PAL_HOME"]).rglob("sessions/*.jsonl")
    store = JsonlStore(path.parent)
    (info,) = store.list()
    records = [earlier(record, 75.0) for record in store.read(info.id).records]
    thinking = next(entry for entry in read_story(records).entries if entry.kind == "thinking")
    screen = TranscriptView(80, color=False, language="en")
    assert screen.recorded(thinking) == "▸ Thought for 1:15, 2 words\n"


def earlier(record, seconds):
    """Return a record of what is before the first answer as if it were so much older."""
    is_before = record.id < "00000006"
    return replace(record, time=record.time - seconds) if is_before else record


def test_run_without_an_answer_is_shown_with_its_reason(chat):
    screen = chat(["The older answer.", "", ""])
    ask_twice(screen, "incomplete or empty")
    idle(screen)
    leave(screen)
    screen = chat([], "-c")
    screen.until("newest task")
    idle(screen)
    assert under_newest(screen) == ["error: The model returned an empty answer twice."]
    leave(screen)


def test_killed_run_is_resumed_under_its_own_task(chat):
    screen = chat(["The older answer.", LOOK, SLEEP])
    ask_twice(screen, "sleep 600")
    screen.kill()
    screen = chat([], "-c")
    screen.until("Resuming the interrupted run")
    screen.until("sleep 600")
    shown = under_newest(screen)
    assert shown[:3] == ["I look.", "✗ Ran echo out; exit 3  exit code 3, read-only", "out"]
    assert sum("sleep 600" in line for line in shown) == 1
    screen.type(ESC)
    screen.until("■ Run sleep 600  stopped")
    leave(screen)


def test_shortened_history_repeats_no_older_answer_or_result(chat, pal):
    script = [answer("", call("read_file", path="long.txt")), "The older answer.", SLEEP]
    (pal.workspace / "long.txt").write_text("a line of text\n" * 2_000)
    screen = chat(script)
    ask_twice(screen, "sleep 600")
    screen.type(ESC)
    screen.until("■ Run sleep 600  stopped")
    leave(screen)
    store = JsonlStore(f"{pal.env['PAL_HOME']}/sessions")
    (info,) = store.list()
    records = store.read(info.id).records
    messages = [each for record in records for each in record.data.get("messages", ())]
    assert any(each["role"] == "tool" for each in messages)
    shorter = [{**each, "content": "[cut]"} if each["role"] == "tool" else each for each in messages]

    boundary = replace(records[-1], type="boundary", data={"messages": shorter})
    before, after = read_story(records).entries, read_story([*records, boundary]).entries
    assert [entry.kind for entry in after[len(before) :]] == ["shortened"]
