"""Detection of dead workers on PostgreSQL: by locks and heartbeats, unless this worker is late itself."""

from __future__ import annotations

from contextlib import ExitStack, closing

import pytest

from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.liveness import _ALIVE, _SIGHTINGS, PostgresLiveness, _key

LEASE = 1000.0


@pytest.fixture
def opened(postgres):
    """A database, and a function that starts the signals of a worker."""
    with ExitStack() as stack:
        database = stack.enter_context(closing(Database(postgres.new_database())))
        database.prepare()
        yield database, lambda name: stack.enter_context(closing(PostgresLiveness(database, name, LEASE)))


def end(database, worker, name):
    """End the connection of a worker as the end of its process does; return when the server has noticed."""
    worker._connection.close()
    with closing(database.connect()) as waiting:
        waiting.execute("SELECT pg_advisory_xact_lock(%s, %s)", (_ALIVE, _key(name)))


def test_suspects_are_those_without_a_lock_or_a_heartbeat(opened):
    database, start = opened
    me, other, gone = (start(name) for name in ("me", "other", "gone"))
    assert me.suspects() == []
    end(database, gone, "gone")
    database.change("UPDATE @workers SET seen = seen - 2000 WHERE executor = ?", "other")
    assert me.suspects() == ["other"]  # "gone" may be connecting again
    assert [me.suspects() for _ in range(_SIGHTINGS - 1)][-1] == ["gone", "other"]
    for executor, is_dead in (("gone", True), ("other", True), ("me", False)):
        with start("third").claim(executor) as found:
            assert found is is_dead
    assert me.suspects() == []
    assert other.suspects() == []  # it is late itself


def test_reconnected_worker_is_not_suspected(opened):
    database, start = opened
    me, other = start("me"), start("other")
    end(database, other, "other")
    assert me.suspects() == me.suspects() == []
    other.beat()
    assert [me.suspects() for _ in range(_SIGHTINGS)] == [[]] * _SIGHTINGS
    assert other.suspects() == []
    with me.claim("other") as is_dead:
        assert not is_dead


def test_worker_takes_the_lock_that_another_one_was_testing(opened):
    database, start = opened
    with closing(database.connect()) as testing:
        testing.execute("SELECT pg_advisory_lock(%s, %s)", (_ALIVE, _key("late")))
        late = start("late")
    me = start("me")
    late.beat()
    assert [me.suspects() for _ in range(_SIGHTINGS)][-1] == []


@pytest.mark.parametrize("beats", [False, True])
def test_late_worker_suspects_no_other_worker(opened, beats):
    """It was frozen, the database was slow, or the clock of the database has jumped."""
    database, start = opened
    me, other = start("me"), start("other")
    database.change("UPDATE @workers SET seen = seen - 2000")
    if beats:
        me._last_beat -= LEASE
        me.beat()
    assert me.suspects() == []
    other._last_beat -= LEASE
    other.beat()
    assert me.suspects() == other.suspects() == []
