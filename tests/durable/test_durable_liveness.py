"""Who lives, as one question to PostgreSQL tells it."""

from __future__ import annotations

from contextlib import ExitStack, closing

from tests.postgres_server import PostgresServer

from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.liveness import _ALIVE, PostgresLiveness, _key


def test_suspects_are_those_without_a_lock_or_a_heartbeat():
    with PostgresServer() as server, ExitStack() as open_until_the_end:
        database = open_until_the_end.enter_context(closing(Database(server.url)))
        database.prepare()
        me, other, gone = (
            open_until_the_end.enter_context(closing(PostgresLiveness(database, name, 1000.0)))
            for name in ("me", "other", "gone")
        )
        names = ["other", "gone", "unknown"]
        assert list(me.suspects(names)) == ["unknown"]
        gone._connection.close()  # as the end of its process does
        with closing(database.connect()) as waiting:  # until the server has seen that, too
            waiting.execute("SELECT pg_advisory_xact_lock(%s, %s)", (_ALIVE, _key("gone")))
        database.change("UPDATE @workers SET seen = seen - 2000 WHERE executor = ?", "other")
        assert sorted(me.suspects(names)) == ["gone", "other", "unknown"]
        assert other.beat()
        assert me.suspects([]) == []
        for executor, is_dead in (("gone", True), ("me", False)):
            with other.claim(executor) as found:
                assert found is is_dead
