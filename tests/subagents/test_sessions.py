"""Tasks of a session: their own transcripts, and what the agent is told after its program has ended."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.helpers import check_result, tool_texts
from tests.processes import running
from tests.subagents.family import HELPER, family, notices, parent

from pure_agent_loop import Agent, SessionManager, tool
from pure_agent_loop.durable import Engine
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.subagents import TaskStore
from pure_agent_loop.testing import Gate, ScriptedLLM, assert_replays, call, check_history, deltas

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def give(**more):
    return call("task", agent="helper", prompt="do it", **more)


def only_task():
    (record,) = TaskStore().list()
    return record


def test_task_has_its_own_session_and_record(home):
    llm = family(parent=[give(), "done"], helper=["the answer"])
    check_result(parent(llm).run("go", session_id="trip"))
    record = only_task()
    assert (record.parent, record.state, record.result) == ("trip", "completed", "the answer")
    assert record.session_id == f"trip.{record.id}"
    assert Path(record.output).read_text() == "the answer"
    assert record.delivered
    store = JsonlStore(home / "sessions")
    assert {info.id for info in store.list()} == {"trip", record.session_id}
    assert not list((home / "sessions" / "agents").glob("*.lock"))
    for path in (home / "sessions").glob("*.jsonl"):
        assert_replays(path)


def test_the_longest_name_of_a_session_has_room():
    name = "s" * 64
    llm = family(parent=[give(), "done"], helper=["the answer"])
    check_result(parent(llm).run("go", session_id=name))
    assert len(only_task().session_id) == 64


def test_background_task_is_reported_once(home):
    llm = family(parent=[give(background=True), "hm", "all", "again"], helper=["the answer"])
    agent = parent(llm)
    first = check_result(agent.run("go", session_id="trip"))
    assert len(notices(first.messages)) == 1
    assert_replays(home / "sessions" / "trip.jsonl")
    second = check_result(agent.run("more", session_id="trip"))
    assert notices(second.messages) == notices(first.messages)


def test_task_continues_in_a_later_run_of_the_session():
    def again(messages, tools, options):
        return call("task", agent="helper", prompt="and now?", resume=tool_texts(messages)[0].split()[1])

    llm = family(parent=[give(), "done", again, "end"], helper=["first", "second"])
    parent(llm).run("go", session_id="trip")
    result = check_result(parent(llm).run("more", session_id="trip"))
    assert "second" in tool_texts(result.messages)[1]
    asked = llm.requests[-2].messages
    assert [each["content"] for each in asked[1:]] == ["do it", "first", "and now?"]


def test_no_other_session_reaches_a_task():
    llm = family(parent=[give(), "done"], helper=["first"])
    parent(llm).run("go", session_id="trip")
    other = family(parent=[call("task_output", task_id=only_task().id), "ok"])
    result = parent(other).run("go", session_id="foreign")
    assert "No task " in tool_texts(result.messages)[0]


def test_task_ended_after_the_run_is_reported_in_the_next():
    async def main():
        gate = Gate()
        script = [give(background=True), "bye", "I know"]
        agent = parent(family(parent=script, helper=[deltas("the ", gate, "answer")]), _wait=False)
        first = check_result(await agent.arun("go", session_id="trip"))
        await gate.reached.wait_async()
        gate.open()
        await asyncio.wait([task for task in asyncio.all_tasks() if task is not asyncio.current_task()])
        return first, check_result(await agent.arun("more", session_id="trip"))

    first, second = asyncio.run(main())
    assert notices(first.messages) == []
    assert "the answer" in notices(second.messages)[0]
    assert only_task().delivered


def test_cancelled_run_is_reported_in_the_next():
    async def main():
        gate = Gate()
        script = [give(background=True), "hm", "I know"]
        agent = parent(family(parent=script, helper=[deltas("the ", gate, "answer")]))
        run = asyncio.create_task(agent.arun("go", session_id="trip"))
        await gate.reached.wait_async()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert only_task().state == "cancelled"
        return check_result(await agent.arun("more", session_id="trip"))

    assert "cancelled]" in notices(asyncio.run(main()).messages)[0]


CRASH = """
import sys
from pure_agent_loop.testing import call, deltas, Gate
from tests.subagents.family import family, parent
class Loud(Gate):
    async def pass_through(self):
        print("at work", flush=True)
        await super().pass_through()
script = [call("task", agent="helper", prompt="do it", background=True), "hm"]
parent(family(parent=script, helper=[deltas("the ", Loud(), "answer")])).run("go", session_id="trip")
"""


@pytest.fixture
def crashed():
    """A program that was at work in the background, and is still alive; killed at the end."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    env = {**os.environ, "PYTHONPATH": path}
    with running([sys.executable, "-c", CRASH], env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        yield process


def test_crash_is_reported_to_the_agent_which_can_resume(crashed):
    assert only_task().state == "backgrounded"
    crashed.send_signal(signal.SIGKILL)
    crashed.wait()
    lost = only_task()
    assert (lost.state, lost.error) == ("killed", "its process ended")

    def again(messages, tools, options):
        return call("task", agent="helper", prompt="go on", resume=lost.id)

    llm = family(parent=[again, "done", "later"], helper=["finished"])
    result = check_result(parent(llm).run("what became of it?", session_id="trip"))
    told = notices(result.messages)
    assert len(told) == 1
    assert f"resume='{lost.id}'" in told[0]
    assert "finished" in tool_texts(result.messages)[-1]
    assert check_history(result.messages) == []
    later = check_result(parent(llm).run("more", session_id="trip"))
    assert notices(later.messages) == told


def test_task_of_another_machine_has_an_unknown_outcome(crashed, home, monkeypatch):
    begun, give_up = only_task().id, time.monotonic() + 60
    while f"[task {begun} backgrounded]" not in (home / "sessions" / "trip.jsonl").read_text():
        assert time.monotonic() < give_up, "the task was not said to be begun"
        time.sleep(0.01)
    crashed.send_signal(signal.SIGKILL)
    crashed.wait()
    elsewhere = home.with_name("elsewhere")
    (elsewhere / "sessions").mkdir(parents=True)
    shutil.copy(home / "sessions" / "trip.jsonl", elsewhere / "sessions")
    monkeypatch.setenv("PAL_HOME", str(elsewhere))
    llm = family(parent=["I see.", "later"])
    result = check_result(parent(llm).run("what became of it?", session_id="trip"))
    (told,) = notices(result.messages)
    assert told.startswith(f"[task {begun} killed]")
    assert "There is no record of it here" in told
    later = check_result(parent(llm).run("more", session_id="trip"))
    assert notices(later.messages) == [told]


def test_task_in_another_process_is_killed_and_reported(crashed):
    record = TaskStore().kill(only_task().id, patience=30)
    assert record.state == "killed"


def test_a_record_that_cannot_be_written_is_said(home):
    folder = home / "sessions"
    folder.mkdir(parents=True)
    (folder / "agents").write_text("in the way")
    llm = family(parent=[give(), "done"], helper=[])
    result = check_result(parent(llm, HELPER).run("go", session_id="trip"))
    assert result.stop_reason == "completed"
    assert "Cannot write" in tool_texts(result.messages)[0]


def test_reported_task_is_not_reported_again():
    """The program ended between the notice and the mark that it was given."""
    llm = family(parent=[give(background=True), "hm", "all", "again"], helper=["the answer"])
    agent = parent(llm)
    first = check_result(agent.run("go", session_id="trip"))
    record = only_task()
    record.delivered = False
    TaskStore().save(record)
    second = check_result(agent.run("more", session_id="trip"))
    assert notices(second.messages) == notices(first.messages)
    assert only_task().delivered


@pytest.mark.parametrize("place", ["files", "database"])
def test_a_deleted_session_takes_its_tasks_and_long_results_with_it(home, tmp_path, place):
    @tool
    def shout() -> str:
        """Say much."""
        return "whisper " * 40_000

    llm = family(parent=[call("shout"), give(), "whisper"], helper=["whisper"])
    engine = Engine(f"sqlite:///{tmp_path}/d.sqlite")
    store = JsonlStore(home / "sessions") if place == "files" else engine.sessions
    check_result(parent(llm, tools=[shout]).run("whisper", session_id="trip", sessions=store))
    assert len({*store.list(), *JsonlStore(home / "sessions").list()}) == 2
    assert list((home / "results").iterdir())
    if place == "files":
        SessionManager(store).delete("trip")
    else:
        with engine.deletion() as deletion:
            deletion.delete("trip")
    assert store.list() == []
    engine.close()
    found = [path for path in tmp_path.rglob("*") if path.is_file() and b"whisper" in path.read_bytes()]
    assert found == []


def test_sessions_of_subagents_on_other_machines_are_deleted_too(home, tmp_path):
    poet = Agent(llm=ScriptedLLM(["whisper"])).as_tool("poet", "Rhymes.")
    agent = Agent(llm=ScriptedLLM([call("poet", input="whisper"), "done"]), tools=[poet])
    with closing(Engine(f"sqlite:///{tmp_path}/d.sqlite")) as engine:
        assert agent.prepare("go", session_id="trip", sessions=engine.sessions).wait_sync().content == "done"
        assert len(engine.sessions.list()) == 2
        shutil.rmtree(home)  # the records of tasks are on the machine of the worker
        with engine.deletion() as deletion:
            deletion.delete("trip")
        assert engine.sessions.list() == []
