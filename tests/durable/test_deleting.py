"""Runs that are deleted: nothing that was said in them is left in any table or file."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

import pytest
from tests.durable.fleet import PATIENCE, Fleet, older

from pure_agent_loop import Agent, ConfigError, Tool
from pure_agent_loop.durable import DurableError, Engine
from pure_agent_loop.sessions.stores.postgres_pool import import_psycopg
from pure_agent_loop.testing import ScriptedLLM, call

MARK = "730045112"  # in the task, the arguments, the results, the events
SECRET = "whisper-9f1c"  # in what came with the task, and with an answer


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request, tmp_path):
    url = request.getfixturevalue("postgres").new_database() if request.param == "postgres" else ""
    with Fleet(tmp_path, url) as fleet:
        yield fleet


def left_in(fleet, *marks):
    """The tables and files that still have one of these texts."""
    found = []
    if fleet.database.startswith("postgresql"):
        with closing(import_psycopg().connect(fleet.database, autocommit=True)) as connection:
            tables = connection.execute(
                "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
                "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
            ).fetchall()
            for (table,) in tables:
                rows = connection.execute(f"SELECT t::text FROM {table} t").fetchall()
                found += [table for (row,) in rows if any(mark in row for mark in marks)]
    for path in fleet.folder.rglob("*"):
        if path.is_file() and path != fleet.marks_path:
            data = path.read_bytes()
            found += [str(path) for mark in marks if mark.encode() in data]
    return sorted(set(found))


def test_a_deleted_run_leaves_nothing(shared):
    shared.start()
    handle = shared.engine.submit("worker", f"put {MARK}", system_prompt=SECRET, metadata={"about": SECRET})
    assert handle.result(PATIENCE).content == "Did 1."
    asks = shared.engine.submit("careful", f"put {MARK}")
    (question,) = asks.result(PATIENCE).questions
    asks.answer(question.call_id, "deny", by=SECRET)
    kept = shared.engine.submit("worker", "put 5")
    assert {each.result(PATIENCE).status for each in (asks, kept)} <= {"completed", "failed"}
    while not asks.info().has_ended:
        asks.result(PATIENCE)
    assert left_in(shared, MARK)
    assert left_in(shared, SECRET)
    done = shared.pal("tasks", "delete", handle.run_id, asks.run_id, "--yes")
    assert done.returncode == 0, done.stderr
    assert left_in(shared, MARK, SECRET) == []
    with pytest.raises(DurableError, match="does not exist"):
        handle.info()
    assert [info.run_id for info in shared.engine.tasks()] == [kept.run_id]
    assert shared.engine.sessions.exists(kept.run_id)
    again = shared.engine.submit("worker", "put 6", run_id=handle.run_id)  # the id is free
    assert again.result(PATIENCE).content == "Did 1."
    assert [event.type.value for event in _events(again)][-1] == "loop_end"


def _events(handle):
    import asyncio

    async def all_of():
        return [event async for event in handle.events()]

    return asyncio.run(all_of())


def test_a_run_at_work_is_deleted_only_if_it_may_be_stopped(shared, until):
    shared.start()
    handle = shared.engine.submit("worker", f"wait {MARK}, put 2")
    until(lambda: shared.marks() == [f"start {MARK}"])
    refused = shared.pal("tasks", "delete", handle.run_id, "--yes")
    assert refused.returncode == 2
    assert f"These runs have not ended: {handle.run_id}. Nothing was deleted." in refused.stderr
    assert handle.status() == "running"
    unasked = shared.pal("tasks", "delete", handle.run_id, "--stop")
    assert (unasked.returncode, "--yes is needed" in unasked.stderr) == (2, True)
    done = shared.pal("tasks", "delete", handle.run_id, "--stop", "--yes")
    assert done.returncode == 0, done.stderr
    after = shared.engine.submit("worker", "put 3")  # what was at work has ended before
    assert after.result(PATIENCE).content == "Did 1."
    shared.gate.touch()
    assert left_in(shared, MARK) == []
    assert shared.engine.tasks()[0].run_id == after.run_id


def test_a_session_of_several_runs_goes_as_a_whole(shared):
    shared.start()
    runs = [shared.engine.submit("worker", f"put {MARK}", session_id="chat") for _ in range(2)]
    assert {run.result(PATIENCE).status for run in runs} == {"completed"}
    with pytest.raises(ConfigError, match=f"others: {runs[1].run_id}"):
        shared.engine.delete(runs[0].run_id)
    assert shared.pal("sessions", "delete", "chat", "--yes").returncode == 0
    assert left_in(shared, MARK) == []
    assert shared.engine.tasks() == []


def test_old_sessions_are_pruned_with_their_runs(shared):
    shared.start()
    old, new = (shared.engine.submit("worker", f"put {number}") for number in (MARK, "4"))
    waits = shared.engine.submit("careful", "put 8")
    assert [run.result(PATIENCE).status for run in (old, new)] == ["completed"] * 2
    assert waits.result(PATIENCE).status == "waiting_permission"
    stray = shared.engine.submit("worker", "wait 9", run_id="stray", session_id=waits.run_id)
    stray.cancel()
    _make_old(shared, old.run_id)
    trial = shared.pal("sessions", "prune", "--days", "30", "--dry-run")
    assert (trial.returncode, trial.stdout) == (0, f"{old.run_id}\n"), trial.stderr
    assert shared.engine.sessions.exists(old.run_id)
    done = shared.pal("sessions", "prune", "--days", "30")
    assert done.stderr.endswith(f"deleted {old.run_id}\n")
    assert left_in(shared, MARK) == []
    assert {run.run_id for run in shared.engine.tasks()} == {new.run_id, waits.run_id, "stray"}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_ended_runs_without_a_session_are_deleted(kind, request, tmp_path):
    url = request.getfixturevalue("postgres").new_database() if kind == "postgres" else ""
    model = ScriptedLLM(lambda messages, *_: call("pay") if messages[-1]["content"] == "Pay." else "Done.")
    agents = {
        "plain": Agent(llm=model),
        "asks": Agent(
            llm=model, tools=[Tool(None, name="pay", description="Pay.", parameters={}, external=True)]
        ),
    }
    with Engine(url or f"sqlite:///{tmp_path / 'd.sqlite'}", agents=agents) as engine:
        done, kept = (engine.submit("plain", "Go.") for _ in range(2))
        waits = engine.submit("asks", "Pay.")
        assert [run.result(PATIENCE).status for run in (done, kept, waits)] == [
            *["completed"] * 2,
            "waiting_tool",
        ]
        cancelled = engine.submit("asks", "Pay.", session_id=waits.run_id)
        cancelled.cancel()
        for run in (done, waits):
            engine.sessions.delete(run.run_id)
        with engine.deletion() as deletion:
            assert deletion.delete_stray(time.time() - 3600) == []
            assert set(deletion.delete_stray(time.time() + 60)) == {done.run_id, cancelled.run_id}
        assert {run.run_id for run in engine.tasks()} == {kept.run_id, waits.run_id}


def _make_old(fleet, session_id):
    age = 100 * 86_400
    if fleet.database.startswith("postgresql"):
        with closing(import_psycopg().connect(fleet.database, autocommit=True)) as connection:
            table = "pure_agent_loop.records"
            found = f"SELECT number, line FROM {table} WHERE session = %s"
            for number, line in connection.execute(found, (session_id,)).fetchall():
                change = f"UPDATE {table} SET time = time - %s, line = %s WHERE session = %s AND number = %s"
                old = older(line.encode(), age).decode()
                connection.execute(change, (age, old, session_id, number))
        return
    with closing(sqlite3.connect(fleet.folder / "d.sqlite")) as connection, connection:
        connection.create_function("older", 2, older)
        change = "UPDATE records SET time = time - ?, line = older(line, ?) WHERE session = ?"
        connection.execute(change, (age, age, session_id))


def test_a_client_that_does_not_work_may_delete(tmp_path):
    with Fleet(tmp_path) as fleet:
        fleet.start()
        run = fleet.engine.submit("worker", "put 1")
        run.result(PATIENCE)
        with closing(Engine(fleet.database)) as other:
            other.delete(run.run_id)
        assert fleet.engine.tasks() == []
