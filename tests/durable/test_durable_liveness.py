"""Detection of dead workers on PostgreSQL: by locks and heartbeats, unless this worker is late itself."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing

import psycopg
import pytest

from pure_agent_loop import Agent, tool
from pure_agent_loop.durable import Engine
from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.liveness import _ALIVE, _SIGHTINGS, PostgresLiveness, _key
from pure_agent_loop.durable.run_queue import RunQueue
from pure_agent_loop.testing import ScriptedLLM, call

LEASE = 1000.0
BACKENDS = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid::bigint = ?"


@pytest.fixture
def opened(postgres):
    """A database, and a function that starts the signals of a worker, each as if in a process of its own."""
    with ExitStack() as stack:

        def connect():
            return stack.enter_context(closing(Database(url)))

        def start(name):
            return stack.enter_context(
                closing(PostgresLiveness(connect(), name, LEASE, lambda: taken.append(name)))
            )

        url, taken = postgres.new_database(), []
        database = connect()
        with closing(RunQueue(database)) as queue:
            assert queue.carrier
        start.taken = taken
        yield database, start


def end(database, worker, name):
    """End the connection of a worker as the end of its process does; return when the server has noticed."""
    worker._database.listener.close()
    with closing(database.connect()) as waiting:
        waiting.execute("SELECT pg_advisory_xact_lock(%s, %s)", (_ALIVE, _key(name)))


def beat(worker):
    worker._beat(worker._database.listener.execute)


def test_suspects_are_those_without_a_lock_or_a_heartbeat(opened):
    database, start = opened
    me, other, gone = (start(name) for name in ("me", "other", "gone"))
    assert me.suspects() == []
    end(database, gone, "gone")
    database.change("UPDATE @workers SET seen = seen - 2000 WHERE executor = ?", "other")
    assert me.suspects() == ["other"]  # "gone" may be connecting again
    assert [me.suspects() for _ in range(_SIGHTINGS - 1)][-1] == ["gone", "other"]
    for number, (executor, is_dead) in enumerate((("gone", True), ("other", True), ("me", False))):
        with start(f"third{number}").claim(executor) as found:
            assert found is is_dead
    assert me.suspects() == []
    assert other.suspects() == []  # it is late itself


def test_worker_whose_connection_is_cut_takes_its_lock_again_and_is_not_suspected(opened, until):
    database, start = opened
    me, other = start("me"), start("other")
    assert database.rows(BACKENDS, _key("other")) == [(True,)]
    until(lambda: other._connection == 2)
    assert [me.suspects() for _ in range(_SIGHTINGS)] == [[]] * _SIGHTINGS
    assert other.suspects() == []
    with me.claim("other") as is_dead:
        assert not is_dead


def test_worker_takes_the_lock_that_another_one_was_testing(opened, until):
    database, start = opened
    with closing(database.connect()) as testing:
        testing.execute("SELECT pg_advisory_lock(%s, %s)", (_ALIVE, _key("late")))
        late = start("late")
        assert late._connection == -1
    me = start("me")
    until(lambda: late._connection > 0)
    assert [me.suspects() for _ in range(_SIGHTINGS)][-1] == []


def test_worker_whose_first_heartbeat_fails_does_not_become_alive_later(opened, until):
    database, _ = opened
    database.change("ALTER TABLE @workers RENAME TO hidden")
    with pytest.raises(psycopg.errors.UndefinedTable):
        PostgresLiveness(database, "me", LEASE, lambda: None)
    database.change("ALTER TABLE pal_durable.hidden RENAME TO workers")
    beats = []
    database.listener.keep(lambda execute: beats.append(execute) or 0.0)
    until(lambda: len(beats) > 2)  # all functions are called together
    assert database.rows("SELECT executor FROM @workers") == []


@pytest.mark.parametrize("beats", [False, True])
def test_late_worker_suspects_no_other_worker(opened, beats):
    """It was frozen, the database was slow, or the clock of the database has jumped."""
    database, start = opened
    me, other = start("me"), start("other")
    database.change("UPDATE @workers SET seen = seen - 2000")
    if beats:
        beat(me)
    assert me.suspects() == []
    beat(other)
    assert me.suspects() == other.suspects() == []


def test_worker_that_was_taken_over_is_informed_once(opened):
    database, start = opened
    me, frozen = start("me"), start("frozen")
    beat(frozen)
    database.change("UPDATE @workers SET seen = seen - 2000 WHERE executor = 'frozen'")
    beat(frozen)  # late, and still in time
    database.change("UPDATE @workers SET seen = seen - 2000 WHERE executor = 'frozen'")
    with me.claim("frozen") as is_dead:
        assert is_dead
    assert start.taken == []
    beat(frozen)
    beat(frozen)
    beat(me)
    assert start.taken == ["frozen"]


def test_worker_that_was_taken_over_makes_no_further_step(postgres, until, caplog):
    begun, gate = threading.Event(), threading.Event()

    @tool
    def work() -> str:
        """Work."""
        begun.set()
        assert gate.wait(60)
        return "worked"

    llm = ScriptedLLM([call("work"), "Too late."])
    with Engine(postgres.new_database(), agents={"a": Agent(llm=llm, tools=[work])}, lease=0.5) as engine:
        run = engine.submit("a", "go")
        assert begun.wait(60)
        name, database = run.info().worker, engine.database
        engine.queue.hand_over(name, run.run_id, "elsewhere")
        database.change("DELETE FROM @workers WHERE executor = ?", name)
        until(lambda: f"this worker, {name}" in caplog.text)
        gate.set()
        until(lambda: "was taken over by another worker" in caplog.text)
        records = engine.sessions.read(run.run_id).records
        info = run.info()
    assert len(llm.requests) == 1
    assert ["worked" in str(each.data) for each in records if each.type == "outcome"] == [True]
    assert info.status == "pending"


def test_look_reports_runs_and_answers_of_other_workers(opened):
    database, start = opened
    me = start("me")
    assert me.suspects() == []
    assert (me.has_work, me.has_answers) == (False, False)
    database.change("INSERT INTO @answered VALUES ('r', 1, 'c', 'p', 0, 0)")
    run = f"INSERT INTO {database.runs_table} (workflow_uuid, status, executor_id) VALUES ('r', 'PENDING', ?)"
    database.change(run, "me")
    assert me.suspects() == []
    assert (me.has_work, me.has_answers) == (False, True)
    database.change(f"UPDATE {database.runs_table} SET executor_id = ?", "other")
    assert me.suspects() == []
    assert me.has_work
