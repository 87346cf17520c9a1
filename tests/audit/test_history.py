"""Asking an audit log what was called, and what an agent puts into it."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timezone

import pytest
from logs import call, files, lines, make_log

from pure_agent_loop import Agent, ConfigError, PermissionRules, tool
from pure_agent_loop.audit import AuditError, find_call, history, verify
from pure_agent_loop.kernel.observers import CallRecord
from pure_agent_loop.testing import ScriptedLLM
from pure_agent_loop.testing import call as tool_call


@pytest.fixture
def log(tmp_path):
    times = iter(range(1_000, 2_000))
    log = make_log(tmp_path / "log", now=lambda: next(times), file_bytes=1_500)
    call(log, "read", "the text", session_id="a", args={"path": "x.txt"}, task="Read X")
    call(log, "write", "no room", "error", session_id="a")
    call(log, "read", "gone", "stopped", session_id="b", reason="Because")
    call(log, "read", "not allowed", "denied", session_id="b")
    log.begin(CallRecord("write", {}, "allow", session_id="c"))
    assert len(files(log)) > 1
    return log


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ({}, [1, 3, 5, 7, 9]),
        ({"session": "a"}, [1, 3]),
        ({"tool": "read"}, [1, 5, 7]),
        ({"session": "b", "tool": "read"}, [5, 7]),
        ({"session": ""}, []),
        ({"status": "error"}, [3]),
        ({"status": "unfinished"}, [9]),
        ({"since": 1_002}, [3, 5, 7, 9]),
        ({"until": 1_002}, [1]),
        ({"since": datetime.fromtimestamp(1_004, timezone.utc)}, [5, 7, 9]),
        ({"text": "X.TXT"}, [1]),
        ({"text": "read x"}, [1]),
        ({"text": "because"}, [5]),
        ({"text": "GONE"}, [5]),
        ({"limit": 2}, [7, 9]),
        ({"limit": 1, "tool": "write", "session": "a"}, [3]),
    ],
)
def test_queries_return_matching_entries(log, asked, numbers):
    assert [entry.number for entry in history(log, **asked)] == numbers
    assert [entry.number for entry in history(log.path, **asked)] == numbers


def test_an_entry_has_the_call_and_its_result(log):
    first = history(log)[0]
    assert (first.tool, first.args, first.session, first.user_message) == (
        "read",
        {"path": "x.txt"},
        "a",
        "Read X",
    )
    assert (first.status, first.result, first.seconds, first.time) == ("ok", "the text", 0.25, 1_000)
    assert first.to_dict()["result_length"] == 8
    assert find_call(log, 1) == find_call(log, 2) == first
    assert find_call(log, 99) is None


def test_calls_at_the_same_time_are_told_apart(tmp_path):
    log = make_log(tmp_path)
    one, other = CallRecord("act", {}, "allow", call_id="c"), CallRecord("act", {}, "allow", call_id="c")
    log.begin(one)
    log.begin(other)
    log.end(one, "of one", "ok", 0.0)
    log.end(other, "of other", "ok", 0.0)
    assert [entry.result for entry in history(log)] == ["of one", "of other"]


def test_damaged_entries_are_skipped(log):
    path = files(log)[0]
    path.write_bytes(
        b'\xff\n{"n":1}\n[1]\n{"n":1,"time":1,"kind":"call","tool":1,"session":""}\n' + path.read_bytes()
    )
    assert len(history(log)) == 5
    assert not verify(log).ok


def test_wrong_questions_and_no_log(tmp_path):
    assert history(tmp_path / "nothing") == []
    for wrong in ({"status": "bad"}, {"limit": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            history(tmp_path, **wrong)
    (tmp_path / "audit-000001.jsonl").mkdir()
    with pytest.raises(AuditError, match="audit-000001"):
        history(tmp_path)


# -- an agent --------------------------------------------------------------------------------------------


@tool
def act(x: int) -> str:
    """Act."""
    if x < 0:
        raise ValueError("negative")
    return f"did {x}"


def test_each_call_of_a_run_is_there_once_with_its_status(tmp_path):
    forever = asyncio.Event

    @tool(timeout=0.05)
    async def hang() -> str:
        """Hang."""
        await forever().wait()
        return "never"

    log = make_log(tmp_path)
    calls = [tool_call("act", x=1), tool_call("act", x=-1), tool_call("act", x=3), tool_call("hang")]
    script = [[*calls, tool_call("nothing_like_it")], "done"]
    agent = Agent(
        llm=ScriptedLLM(script),
        tools=[act, hang],
        audit=log,
        name="worker",
        permission_rules=PermissionRules(deny=["act(x=3)"]),
    )
    assert agent.run("do it").content == "done"
    found = {(entry.tool, str(entry.args)): entry for entry in history(log)}
    assert len(lines(log)) == 2 * len(found) == 10
    assert {key: entry.status for key, entry in found.items()} == {
        ("act", "{'x': 1}"): "ok",
        ("act", "{'x': -1}"): "error",
        ("act", "{'x': 3}"): "denied",
        ("hang", "{}"): "stopped",
        ("nothing_like_it", "{}"): "error",
    }
    assert found["act", "{'x': 3}"].verdict == "deny"
    assert {entry.user_message for entry in found.values()} == {"do it"}
    assert {entry.agent for entry in found.values()} == {"worker"}
    assert verify(log).ok


def test_a_cancelled_call_is_stopped(tmp_path):
    started = threading.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    log = make_log(tmp_path)
    agent = Agent(llm=ScriptedLLM([tool_call("hang"), "end"]), tools=[hang], audit=log)

    async def main() -> None:
        run = asyncio.create_task(agent.arun("go"))
        await asyncio.to_thread(started.wait, 30)
        run.cancel()
        await asyncio.wait({run})

    asyncio.run(main())
    assert [(entry.tool, entry.status) for entry in history(log)] == [("hang", "stopped")]


def test_a_call_that_cannot_be_written_down_is_not_made(tmp_path):
    done = []

    @tool
    def write() -> str:
        """Write."""
        done.append(1)
        return "ok"

    (tmp_path / "file").write_text("in the way")
    log = make_log(tmp_path / "file" / "log")
    result = Agent(llm=ScriptedLLM([tool_call("write"), "end"]), tools=[write], audit=log).run("go")
    assert (done, result.stop_reason) == ([], "error")
