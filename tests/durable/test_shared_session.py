"""Two runs in one session: each ends with its own answer."""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from pure_agent_loop import Agent, tool
from pure_agent_loop.durable import Engine, Schedule
from pure_agent_loop.durable.attempt import Attempt
from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.run_queue import RunQueue
from pure_agent_loop.sessions import SqliteStore
from pure_agent_loop.testing import ScriptedLLM, call

PATIENCE = 60.0


def by_task(messages, tools, options):
    """Do what was asked last, and say what that was."""
    task = [each["content"] for each in messages if each["role"] == "user"][-1]
    wants = task.startswith("do") and messages[-1]["role"] == "user"
    return call("do", what=task) if wants else f"This was: {task}"


@pytest.fixture
def done():
    """What was done, in order."""
    return []


@pytest.fixture
def engine(url, done, name):
    @tool
    def do(what: str) -> str:
        """Do something."""
        done.append(what)
        return "done"

    agent = Agent(llm=ScriptedLLM(by_task), tools=[do], permission_mode="ask")
    with Engine(url, agents={name: agent}, concurrency=2) as engine:
        yield engine


def test_a_run_that_waits_does_not_take_the_answer_of_the_one_that_went_on(engine, done, name):
    first = engine.submit(name, "do one thing", session_id=name)
    (question,) = first.result(PATIENCE).questions
    other = Agent(llm=ScriptedLLM(by_task)).run("another question", session_id=name, sessions=engine.sessions)
    assert other.content == "This was: another question"

    first.answer(question.call_id, "allow")  # what was asked about is no longer to be done
    (again,) = first.result(PATIENCE).questions
    assert done == []
    first.answer(again.call_id, "allow")
    info = first.result(PATIENCE)
    assert (info.status, info.content, done) == ("completed", "This was: do one thing", ["do one thing"])


def test_run_submitted_to_a_pending_session_runs_after_it(engine, done, name, until):
    first = engine.submit(name, "do one thing", session_id=name)
    (question,) = first.result(PATIENCE).questions
    others = [engine.submit(name, f"question {n}", session_id=name) for n in range(3)]
    elsewhere = engine.submit(name, "question elsewhere", session_id=f"{name}-b")
    assert elsewhere.result(PATIENCE).content == "This was: question elsewhere"  # they take nobody's place
    until(lambda: all(handle.info().details.get("run_ahead") for handle in others))
    assert [handle.status() for handle in others] == ["pending"] * 3
    with pytest.raises(TimeoutError, match=f"{first.run_id}' uses its session"):
        others[0].result(0)

    assert [asked.call_id for asked in first.questions] == [question.call_id]
    first.answer(question.call_id, "allow")
    info = first.result(PATIENCE)
    assert (info.status, info.content, done) == ("completed", "This was: do one thing", ["do one thing"])
    assert [handle.result(PATIENCE).content for handle in others] == [
        f"This was: question {n}" for n in range(3)
    ]


def test_runs_submitted_at_the_same_moment_are_each_asked_about_once(engine, done, name):
    with ThreadPoolExecutor(6) as threads:
        handles = list(
            threads.map(lambda n: engine.submit(name, f"do {n}", session_id=name), range(6), timeout=PATIENCE)
        )
    asked = []
    waiting = list(handles)
    while waiting:
        info = next(info for handle in itertools.cycle(waiting) if (info := handle.info()).questions)
        (question,) = info.questions
        asked.append((info.run_id, question.args["what"]))
        engine.handle(info.run_id).answer(question.call_id, "allow")
        assert engine.handle(info.run_id).result(PATIENCE).status == "completed"
        waiting = [handle for handle in waiting if handle.run_id != info.run_id]
    assert sorted(asked) == sorted((handle.run_id, f"do {n}") for n, handle in enumerate(handles))
    assert sorted(done) == [f"do {n}" for n in range(6)]


@pytest.mark.parametrize("ending", ["deny", "cancel"])
def test_next_run_starts_however_the_first_ends(engine, done, name, ending):
    first = engine.submit(name, "do one thing", session_id=name)
    (question,) = first.result(PATIENCE).questions
    second, third = (engine.submit(name, f"question {n}", session_id=name) for n in (2, 3))
    assert second.cancel().status == "cancelled"  # while it waits for its turn
    if ending == "deny":
        first.answer(question.call_id, "deny")
    else:
        assert first.cancel().status == "cancelled"
    assert third.result(PATIENCE).content == "This was: question 3"
    assert (second.status(), done) == ("cancelled", [])


def test_a_run_that_was_cancelled_is_not_brought_back(engine, done, name):
    first = engine.submit(name, "do one thing", session_id=name)
    waiting = first.result(PATIENCE)
    first.cancel()
    # As whoever answered at the same moment does, a little later.
    engine.queue._resume(waiting)
    engine.submit(name, "question", session_id=name).result(PATIENCE)
    assert (first.result(PATIENCE).status, done) == ("cancelled", [])


def test_a_schedule_fires_into_a_session_that_waits(engine, done, name, until):
    first = engine.submit(name, "do one thing", session_id=name)
    (question,) = first.result(PATIENCE).questions
    engine.schedules.add(Schedule(name[-30:], name, "question of a schedule", every=86_400, session=name))
    run_id = engine.schedules.run_now(name[-30:])
    until(lambda: [info for info in engine.tasks("pending") if info.run_id == run_id])
    fired = engine.handle(run_id)
    until(lambda: fired.info().details.get("run_ahead") == first.run_id)
    first.answer(question.call_id, "allow")
    assert (first.result(PATIENCE).status, done) == ("completed", ["do one thing"])
    assert fired.result(PATIENCE).content == "This was: question of a schedule"


class Frozen(SqliteStore):
    """Seen by a worker that is frozen between looking at a session and opening it."""

    meanwhile = None

    def exists(self, session_id):
        found, meanwhile = super().exists(session_id), self.meanwhile
        if meanwhile is not None:
            self.meanwhile = None
            meanwhile()
        return found


@pytest.mark.parametrize("ends", [True, False])
def test_a_worker_that_was_frozen_before_it_opened_the_session_does_not_begin_again(ends, tmp_path):
    done = []

    @tool
    def do(what: str) -> str:
        """Do something."""
        done.append(what)
        if not ends and len(done) == 1:
            raise KeyboardInterrupt  # as if that process had ended there
        return "done"

    database = Database(f"sqlite:///{tmp_path / 'd.sqlite'}")
    queue = RunQueue(database)
    assert queue.carrier
    database.transaction(lambda change: queue.runs.add(change, "r", "a", "s", 0.0))
    store, agent = Frozen(database.path), Agent(llm=ScriptedLLM(by_task), tools=[do])

    async def in_thread(work, *values):
        return await asyncio.to_thread(work, *values)

    def attempt(store):
        return Attempt(queue, store, agent, "r", "do it", "s", in_thread).work()

    def elsewhere():
        try:
            asyncio.run(attempt(SqliteStore(database.path)))
        except KeyboardInterrupt:
            assert not ends

    store.meanwhile = elsewhere
    found = asyncio.run(attempt(store))
    queue.close()
    assert (found["content"], found["stop_reason"]) == ("This was: do it", "completed")
    assert done == ["do it"]  # where nobody knows whether it was done, the model is told
    runs = [each for each in store.read("s").records if each.type == "run"]
    assert [isinstance(each.data.get("task"), str) for each in runs] == [True, *([] if ends else [False])]
