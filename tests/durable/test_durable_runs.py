"""Durable runs as a client in another process sees them, with one worker."""

from __future__ import annotations

import asyncio
import json

import pytest

from pure_agent_loop import Agent, ConfigError, Permission, SessionManager
from pure_agent_loop.durable import DurableError, Engine, RunExistsError
from pure_agent_loop.events import EventType
from pure_agent_loop.testing import ScriptedLLM


def test_worker_first_prints_its_identity(working):
    said = "".join(working.first_lines)
    assert f"database {working.database}" in said
    assert "agents worker (scripted), other (another), limited (scripted), careful (scripted)" in said
    assert "queues model another, model scripted" in said
    assert "worker " in working.first_lines[0]


def test_submitted_run_is_done_by_a_worker(working):
    handle = working.engine.submit("worker", "put 1, put 2")
    info = handle.result(60)
    assert (info.status, info.content, info.agent) == ("completed", "Did 2.", "worker")
    assert info.details["steps"] == 3
    assert info.worker in working.first_lines[0]
    assert [each for each in working.marks() if each.endswith((" 1", " 2"))] == [
        "start 1",
        "end 1",
        "start 2",
        "end 2",
    ]


def test_the_same_id_is_done_once(working):
    first = working.engine.submit("worker", "put 3", run_id="only-once")
    again = working.engine.submit("worker", "put 3", run_id="only-once")
    assert first.result(60).content == again.result(60).content == "Did 1."
    assert working.marks().count("start 3") == 1


def test_an_id_that_is_used_is_refused_for_anything_else(working):
    engine = working.engine
    engine.submit("worker", "put 4", run_id="used").result(60)
    for agent, task, session in [
        ("worker", "put 40", None),
        ("other", "put 4", None),
        ("worker", "put 4", "elsewhere"),
    ]:
        with pytest.raises(RunExistsError, match="'used' already exists"):
            engine.submit(agent, task, run_id="used", session_id=session)
    assert engine.submit("worker", "put 4", run_id="used").result(60).content == "Did 1."


def test_events_reach_a_reader_in_another_process(working):
    async def read(handle):
        return [event async for event in handle.events()]

    events = asyncio.run(read(working.engine.submit("worker", "put 5")))
    whole = [event for event in events if event.type is not EventType.TEXT_DELTA]
    words = "loop_start part action observation step_end thought step_end loop_end"
    assert " ".join(event.type.value for event in whole) == words
    assert whole[1].data["part"]["tool"] == whole[2].tool  # a viewer knows the call before it runs
    assert whole[3].content == "5 is put"
    assert whole[-1].data["stop_reason"] == "completed"
    numbers = [event.timestamp for event in whole]
    assert numbers == sorted(numbers)


def test_a_session_can_be_gone_on_with(working):
    first = working.engine.submit("worker", "put 6").result(60)
    second = working.engine.submit("worker", "and now?", session_id=first.session_id).result(60)
    assert second.content == "Did 1."  # the model sees the first task, and that it is done
    assert second.session_id == first.run_id


def test_result_without_a_json_form_is_not_an_error(working):
    info = working.engine.submit("worker", "odd 0, odd 1").result(60)
    assert (info.status, info.content) == ("completed", "Did 2.")


def test_a_question_is_answered_from_another_process(working, until):
    handle = working.engine.submit("careful", "put 7, put 8")
    info = handle.result(60)
    assert (info.status, info.content) == ("waiting_permission", "")
    (question,) = info.questions
    assert (question.tool, question.args) == ("put", {"n": 7})
    assert "start 7" not in working.marks()
    with pytest.raises(ConfigError, match="Pending: call"):
        handle.answer("nothing", "allow")
    with pytest.raises(ConfigError, match="'allow' or 'deny'"):
        handle.answer(question.call_id, "perhaps")
    done = working.pal("answer", handle.run_id, question.call_id, "allow")
    assert done.returncode == 0, done.stderr

    def second():
        found = handle.info()
        return found if found.questions and found.questions[0].args == {"n": 8} else None

    info = until(second)
    assert working.marks().count("end 7") == 1
    handle.answer(info.questions[0].call_id, Permission("deny", "Not this one."))
    info = until(lambda: (found := handle.info()).has_ended and found)
    assert (info.status, info.content) == ("completed", "Did 2.")
    assert "start 8" not in working.marks()


def test_a_result_made_elsewhere_is_brought_by_another_process(working, until):
    handle = working.engine.submit("worker", "far 9")
    info = handle.result(60)
    assert (info.status, info.stop_reason, info.content) == ("waiting_tool", "waiting_tool", "")
    (waiting,) = handle.open_calls
    assert (waiting.name, waiting.arguments) == ("far", {"n": 9})
    with pytest.raises(ConfigError, match=f"Call 'nothing' has no pending result. Pending: {waiting.id}"):
        handle.give_result("nothing", "x")
    handle.give_result(waiting.id, {"brought": 9})
    info = until(lambda: (found := handle.info()).has_ended and found)
    assert (info.status, info.content, info.open_calls) == ("completed", "Did 1.", [])
    messages = SessionManager(working.engine.sessions).load(handle.run_id).messages
    assert [each["content"] for each in messages if each["role"] == "tool"] == ['{"brought": 9}']


def _seen(handle):
    async def read():
        return [event async for event in handle.events(follow=False)]

    return asyncio.run(read())


def test_a_run_is_cancelled_whatever_it_does(working, until):
    waiting = working.engine.submit("careful", "put 9")
    waiting.result(60)
    assert waiting.cancel().status == "cancelled"
    running = working.engine.submit("other", "wait 10, put 11")
    until(lambda: "start 10" in working.marks())
    assert running.status() == "running"
    assert running.cancel().status == "cancelled"
    ends = until(lambda: [each for each in _seen(running) if each.type is EventType.LOOP_END])
    assert ends[0].data["stop_reason"] == "cancelled"  # the worker has noticed it
    working.gate.touch()
    after = working.engine.submit("other", "put 12").result(60)
    assert after.status == "completed"
    assert "start 11" not in working.marks()
    assert running.status() == "cancelled"
    assert waiting.cancel().status == "cancelled"


def test_a_run_that_fails_says_why(working):
    info = working.engine.submit("worker", "what?").result(60)
    assert info.status == "failed"
    assert info.stop_reason == "error"
    assert info.error


def test_unknown_agent_is_rejected_with_the_known_names(working):
    with pytest.raises(ConfigError, match="Known agents: careful, limited, other, worker"):
        working.engine.submit("nobody", "put 1")
    with pytest.raises(ConfigError, match="task must be a non-blank string"):
        working.engine.submit("worker", " ")
    with pytest.raises(ConfigError, match="task must be a non-blank string"):
        working.engine.submit("worker", None)
    with pytest.raises(ConfigError, match="priority=0"):
        working.engine.submit("worker", "put 1", priority=0)
    with pytest.raises(DurableError, match="Run 'unknown' does not exist"):
        working.engine.handle("unknown")
    with pytest.raises(ConfigError, match="pending, running, waiting_permission"):
        working.engine.tasks("done")


def test_the_command_line_does_it_all(working):
    done = working.pal("submit", "--agent", "worker", "--wait", "--id", "typed", "put", "20")
    assert (done.returncode, done.stdout) == (0, "Did 1.\n"), done.stderr
    (found,) = [each for each in working.pal_json("tasks")["tasks"] if each["run_id"] == "typed"]
    assert (found["status"], found["agent"], found["content"]) == ("completed", "worker", "Did 1.")
    assert "typed" in working.pal("tasks", "--status", "completed", "-n", "100").stdout
    assert working.pal_json("tasks", "--agent", "nobody")["tasks"] == []
    logs = working.pal("logs", "-f", "typed")
    assert '-> put {"n": 20}' in logs.stdout
    assert "<- put 20 is put" in logs.stdout
    lines = working.pal("logs", "typed", "--json").stdout.splitlines()
    assert json.loads(lines[0])["type"] == "loop_start"
    late = working.pal("cancel", "typed")
    assert (late.returncode, "completed" in late.stderr) == (1, True)


def test_sessions_of_an_agent_are_refused_with_the_fix(tmp_path):
    agent = Agent(llm=ScriptedLLM([]), sessions=tmp_path)
    with pytest.raises(ConfigError, match=r"agents\['a'\] has sessions=.*agent\.clone\(sessions=None\)"):
        Engine(f"sqlite:///{tmp_path}/d.sqlite", agents={"a": agent})


def test_an_engine_without_agents_does_not_work(working):
    with pytest.raises(ConfigError, match="Engine has no agents"):
        Engine(working.database).run_worker()
