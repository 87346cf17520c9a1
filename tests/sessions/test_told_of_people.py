"""What a session's history tells of the people in it, and of times."""

from __future__ import annotations

import pytest

from pure_agent_loop.sessions.export import to_html
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.sessions.story import read_story, without_files

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}}
PAPER = {"type": "file", "file": {"filename": "a<b.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}}
TASK = "What is this?\n\ndata.csv:\n\n```\nname\n<lamp>\n```"
CALL = {"id": "c", "type": "function", "function": {"name": "refund", "arguments": "{}"}}
DENIED = "Tool 'refund' failed.\nError type: PermissionDenied\nError: this call was not allowed. Wait."


def records(*items):
    return [
        Record(f"{number:08}", f"{number - 1:08}" if number else None, float(time), kind, data)
        for number, (time, kind, data) in enumerate(items)
    ]


def part(state, time):
    return {"id": "p", "type": "reasoning", "state": state, "time": time}


def told(answer=None):
    sent = {"role": "user", "content": [{"type": "text", "text": TASK}, PICTURE, PAPER]}
    asked = {"role": "assistant", "content": "", "tool_calls": [CALL], "meta": {"reasoning": "Hm."}}
    denied = {"role": "tool", "tool_call_id": "c", "content": DENIED, "meta": {"failed": True}}
    ledger = {"steps": 2, "tokens": 30, "cost": 0.5, "seconds": 4.0}
    return records(
        (0, "run", {"task": TASK, "model": "m"}),
        (1, "messages", {"messages": [sent]}),
        (1, "state", {"answers": 1, "stop_reason": None}),
        (3, "parts", {"parts": [part("pending", 1.0), part("running", 1.0), part("completed", 3.5)]}),
        (3, "messages", {"messages": [asked]}),
        (4, "state", {"answers": 1, "stop_reason": "waiting_permission"}),
        *([answer] if answer else []),
        (24, "run", {"task": None, "model": "m"}),
        (25, "messages", {"messages": [denied]}),
        (26, "state", {"answers": 2, "stop_reason": "completed", "ledger": ledger}),
    )


def test_times_costs_and_what_was_sent():
    story = read_story(told())
    task, thinking, _, result, end = story.entries
    assert list(task.media) == [PICTURE, PAPER]
    assert story.title == "What is this?"
    assert thinking.seconds == 2.5
    assert (result.verdict, result.by, result.said) == ("deny", "", "")  # a rule denied it
    assert end.seconds == 4.0
    assert end.used == {"steps": 2, "tokens": 30, "cost": 0.5, "waited": 20.0}


def test_the_words_of_a_denial():
    value = {"Permission": {"behavior": "deny", "message": "Wait."}}
    answer = (20, "value", {"key": "1:ask:c", "value": value, "by": "ada"})
    result = next(entry for entry in read_story(told(answer)).entries if entry.kind == "result")
    assert (result.verdict, result.by, result.said) == ("deny", "ada", "Wait.")
    document = to_html(told(answer))
    assert "refund (denied)" in document
    assert "failed)" not in document
    assert '<section class="user"><h2>User</h2>\n<pre>Wait.</pre></section>' in document


def test_a_document_shows_pictures_and_folds_files():
    document = to_html(told())
    assert '<img src="data:image/png;base64,iVBORw0=" alt="picture">' in document
    assert "<summary>data.csv (2 lines)</summary><pre>name\n&lt;lamp&gt;</pre>" in document
    assert "<p>a&lt;b.pdf</p>" in document
    assert "<pre>What is this?</pre>" in document


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (TASK, ("What is this?", [("data.csv", "name\n<lamp>")])),
        ("a\n\nx:\n\n````\n```\ny\n```\n````", ("a", [("x", "```\ny\n```")])),
        ("a\n\nx:\n\n```\n1\n```\n\ny:\n\n```\n2\n```", ("a", [("x", "1"), ("y", "2")])),
        ("```\ncode\n```", ("```\ncode\n```", [])),
        ("one line\nx:\n\n```\n1\n```", ("one line\nx:\n\n```\n1\n```", [])),
    ],
)
def test_files_at_the_end_of_a_message(text, found):
    assert without_files(text) == found
