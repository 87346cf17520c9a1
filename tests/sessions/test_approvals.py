"""Approved calls, cut off anywhere and looked at by whoever: nothing happens twice, nobody is asked twice."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from tests.sessions.approvals import ROUNDS, WAYS, Desk, Recorded, check_approved

import pure_agent_loop
from pure_agent_loop import ConfigError
from pure_agent_loop.errors import SessionLockedError, SessionNotFoundError
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions import JsonlStore, PostgresStore

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("shape", ROUNDS)
@pytest.mark.parametrize("way", WAYS)
def test_an_approved_call_happens_once_whoever_looks(new_store, way, shape):
    full = Recorded(way, shape, new_store())
    for count in range(1, len(full.records) + 1):
        for looks in (0, 1, 2):
            check_approved(full, count, looks, new_store())


@pytest.mark.parametrize("way", WAYS)
def test_it_does_so_in_a_database_of_others(postgres, way):
    url, made = postgres.new_database(), iter(range(100))

    def new_store():
        return PostgresStore(url, schema=f"s{next(made)}", connections=2)

    full = Recorded(way, "three calls", new_store())
    every = 1 if os.environ.get("PAL_POSTGRES") else 2
    for count in range(4, len(full.records) + 1, every):
        store = new_store()
        check_approved(full, count, 1 + count % 2, store)
        store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forked, to be killed by the hundred")
def test_an_approved_call_that_is_killed_at_work_is_not_repeated(tmp_path):
    source = str(Path(pure_agent_loop.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "tests.sessions.approvals_killed", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["kills"] == 120  # at each of 10 marks, 4 ways, 3 kinds of looking


@pytest.fixture
def waiting(new_store):
    store, desk = new_store(), Desk("answer", "three calls")
    desk.agent(store).run("Task: go on.", session_id="s")
    return store, desk


def test_questions_are_answered_from_anywhere(waiting):
    store, desk = waiting
    sessions = SessionManager(store)
    assert [each.id for each in sessions.waiting()] == ["s"]
    first, *others = sessions.questions("s")
    assert (first.tool, first.args) == ("put", {"n": 1})
    sessions.answer("s", first.call_id, "deny", "Too early.")
    assert sessions.questions("s") == others
    desk.look(store)
    assert sessions.questions("s") == others
    assert not desk.started
    for each in others:
        sessions.answer("s", each.call_id, "allow")
    assert sessions.waiting() == []
    result = desk.look(store)
    assert set(desk.started) == {("again", 2), ("put", 3)}
    assert "Too early." in str(result.messages)


def test_a_session_can_be_resumed_when_it_was_cut_off_or_needs_no_answer(new_store):
    full = Recorded("answer", "three calls", new_store())
    for count in range(len(full.records) + 1):
        store = new_store()
        with store.open("s") as log:
            log.adopt(full.records[:count])
        sessions = SessionManager(store)
        can_resume = "s" in [info.id for info in sessions.resumable()]
        if not any(record.type == "run" for record in full.records[:count]):
            assert not can_resume  # nothing has begun
        else:
            is_over = sessions.load("s").stop_reason == "completed"
            assert can_resume == (not sessions.waiting() and not is_over)
    assert count > 10
    with store.open("s") as log:
        log.append("state", {"stop_reason": None})
        assert [info.id for info in sessions.resumable()] == ["s"]
        log.append("outcome", {"key": "1:tool:a", "value": 5})
    assert sessions.resumable() == []  # it cannot be read, so a run would raise


def test_whoever_resumes_waits_for_the_session_and_has_the_result(waiting):
    store, desk = waiting
    del desk.rounds[1:]
    sessions = SessionManager(store)
    for question in sessions.questions("s"):
        sessions.answer("s", question.call_id, "allow")
    agent = desk.agent(store, alone=True)
    with store.open("s"), pytest.raises(SessionLockedError):
        sessions.resume(agent, "s", timeout=0.1)
    barrier = Barrier(4)

    def resume(_):
        barrier.wait(60)
        return sessions.resume(agent, "s")

    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(resume, range(4)))
    assert [result.content for result in results] == ["Done."] * 4
    assert set(desk.started.values()) == {1}
    assert len(desk.started) == 3
    with pytest.raises(ConfigError, match="nothing to resume"):
        sessions.resume(agent, "other")


@pytest.mark.anyio
async def test_async_code_resumes_while_the_event_loop_is_free(waiting):
    store, desk = waiting
    del desk.rounds[1:]
    sessions = SessionManager(store)
    for question in sessions.questions("s"):
        sessions.answer("s", question.call_id, "allow")
    agent = desk.agent(store, alone=True)
    with store.open("s"):
        with pytest.raises(SessionLockedError):
            await sessions.aresume(agent, "s", timeout=0.1)
        resuming = asyncio.ensure_future(sessions.aresume(agent, "s"))
        await asyncio.sleep(0)  # it waits now, and this task runs
        assert not resuming.done()
    assert (await resuming).content == "Done."
    assert set(desk.started.values()) == {1}
    with pytest.raises(ConfigError, match="nothing to resume"):
        await sessions.aresume(agent, "other")


def test_only_an_open_question_is_answered(waiting):
    store, _ = waiting
    sessions = SessionManager(store)
    call_id = sessions.questions("s")[0].call_id
    with pytest.raises(ConfigError, match="Call 'other' has no pending question"):
        sessions.answer("s", "other", "allow")
    with pytest.raises(
        ConfigError, match="The answer to a question must be 'allow' or 'deny'; it is 'perhaps'"
    ):
        sessions.answer("s", call_id, "perhaps")
    with pytest.raises(ConfigError, match="message must be text"):
        sessions.answer("s", call_id, "deny", 5)
    with pytest.raises(SessionNotFoundError):
        sessions.answer("t", call_id, "allow")
    with store.open("s"), pytest.raises(SessionLockedError):
        sessions.answer("s", call_id, "allow")
    sessions.answer("s", call_id, "allow")
    with pytest.raises(ConfigError, match="has no pending question"):
        sessions.answer("s", call_id, "deny")


def test_looking_changes_no_byte(tmp_path):
    store, desk = JsonlStore(tmp_path), Desk("answer", "three calls")
    desk.agent(store).run("Task: go on.", session_id="s")
    sessions = SessionManager(store)

    def found():
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    before = found()
    assert sessions.waiting()
    assert sessions.questions("s")
    assert sessions.list()
    assert sessions.load("s").stop_reason == "waiting_permission"
    assert sessions.export("s")
    assert found() == before
