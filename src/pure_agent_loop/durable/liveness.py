"""Which workers are alive: the engine never takes over the runs of a dead one by itself.

On one machine each worker locks a file, and the system ends the lock with the process. On PostgreSQL it holds
an advisory lock on a connection of its own, and writes a heartbeat: for a machine that vanished, or a process
that was frozen, with its connection open.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from pure_agent_loop.durable.database import Database
from pure_agent_loop.errors import SessionLockedError
from pure_agent_loop.support.writer_lock import SessionLock, take_lock

_ALIVE, _TAKEOVER = zlib.crc32(b"pal worker") >> 1, zlib.crc32(b"pal takeover") >> 1
_SETTLE_SECONDS = 3.0  # after the database was away, others need a moment to show that they live
_BEAT = """
INSERT INTO @workers (executor, host, pid, seen) VALUES (?, ?, ?, ?)
ON CONFLICT (executor) DO UPDATE SET seen = excluded.seen
"""
_PG_BEAT = _BEAT.replace("VALUES (?, ?, ?, ?)", "VALUES (?, ?, ?, extract(epoch FROM clock_timestamp()))")
_PG_SILENT = """
SELECT coalesce((SELECT extract(epoch FROM clock_timestamp()) - seen FROM @workers WHERE executor = ?), ?)
"""
# One question about all, so that what a fleet asks does not grow with the square of its workers.
_PG_SUSPECTS = """
SELECT asked.executor FROM unnest(?::text[], ?::bigint[]) AS asked (executor, key)
LEFT JOIN @workers w ON w.executor = asked.executor
WHERE w.seen IS NULL OR extract(epoch FROM clock_timestamp()) - w.seen > ? OR NOT EXISTS (
    SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.classid::bigint = ? AND l.objid::bigint = asked.key)
"""


class Liveness(Protocol):
    """Says that this worker lives, and whether another one does."""

    def beat(self) -> bool:
        """Say that this worker lives; False if nothing can be said about others just now."""
        ...

    def suspects(self, executors: Sequence[str]) -> Sequence[str]:
        """Those of them that may be dead; `claim` says whether one is."""
        ...

    def claim(self, executor: str) -> contextlib.AbstractContextManager[bool]:
        """True inside if that one is dead, and nobody else takes its runs over at the same time."""
        ...

    def close(self) -> None:
        """This worker is gone."""
        ...


class FileLiveness:
    """Locks of files, for workers of one machine.

    Args:
        database: The SQLite database they share.
        executor: This worker.
    """

    def __init__(self, database: Database, executor: str) -> None:
        self._database, self._executor = database, executor
        self._folder = database.path.with_name(database.path.name + ".workers")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock: SessionLock | None = take_lock(self._folder / executor, executor)
        database.change(_BEAT, executor, socket.gethostname(), os.getpid(), time.time())

    def beat(self) -> bool:
        """The lock says it all the time."""
        return True

    def suspects(self, executors: Sequence[str]) -> Sequence[str]:
        """All: to look at a lock is to try it."""
        return executors

    @contextlib.contextmanager
    def claim(self, executor: str) -> Iterator[bool]:
        """True inside if nobody holds the lock of that one; it is held meanwhile."""
        try:
            lock = take_lock(self._folder / executor, executor)
        except SessionLockedError:
            yield False
            return
        try:
            yield True
            self._database.change("DELETE FROM @workers WHERE executor = ?", executor)
        finally:
            lock.release()

    def close(self) -> None:
        """Let go of the lock."""
        if self._lock is not None:
            self._database.change("DELETE FROM @workers WHERE executor = ?", self._executor)
            self._lock.release()
        self._lock = None


class PostgresLiveness:
    """Advisory locks and heartbeats, for workers of many machines. Used from one thread at a time.

    Args:
        database: The PostgreSQL database they share.
        executor: This worker.
        lease: Seconds without a heartbeat after which one is taken for dead.
    """

    def __init__(self, database: Database, executor: str, lease: float) -> None:
        self._database, self._executor, self._lease = database, executor, lease
        self._connection: Any = None
        self._quiet_until = 0.0
        self._beaten = 0.0
        self._hold()

    def beat(self) -> bool:
        """Write a heartbeat; hold the lock again if the connection was lost."""
        if self._connection is None or self._connection.closed:
            with contextlib.suppress(Exception):
                self._hold()
                self._quiet_until = time.monotonic() + _SETTLE_SECONDS
            return False
        now = time.monotonic()
        if now - self._beaten > self._lease / 5:
            self._ask(_PG_BEAT, self._executor, socket.gethostname(), os.getpid())
            self._beaten = now
        return now >= self._quiet_until

    def suspects(self, executors: Sequence[str]) -> Sequence[str]:
        """Those who hold no lock, or have been silent for too long."""
        if not executors:
            return []
        keys = [_key(each) for each in executors]
        found = self._ask(_PG_SUSPECTS, list(executors), keys, self._lease, _ALIVE).fetchall()
        return [str(name) for (name,) in found]

    @contextlib.contextmanager
    def claim(self, executor: str) -> Iterator[bool]:
        """True inside if nobody holds the lock of that one, or it has been silent for too long."""
        key = _key(executor)
        if not self._is_true("SELECT pg_try_advisory_lock(?, ?)", _TAKEOVER, key):
            yield False
            return
        try:
            is_dead = self._is_dead(executor, key)
            yield is_dead
            if is_dead:
                self._ask("DELETE FROM @workers WHERE executor = ?", executor)
        finally:
            with contextlib.suppress(Exception):
                self._ask("SELECT pg_advisory_unlock(?, ?)", _TAKEOVER, key)

    def close(self) -> None:
        """Let go of the lock."""
        with contextlib.suppress(Exception):
            self._ask("DELETE FROM @workers WHERE executor = ?", self._executor)
            self._connection.close()

    def _hold(self) -> None:
        self._connection = self._database.connect()
        self._is_true("SELECT pg_try_advisory_lock(?, ?)", _ALIVE, _key(self._executor))
        self._ask(_PG_BEAT, self._executor, socket.gethostname(), os.getpid())
        self._beaten = time.monotonic()

    def _is_dead(self, executor: str, key: int) -> bool:
        if self._is_true("SELECT pg_try_advisory_lock(?, ?)", _ALIVE, key):
            self._ask("SELECT pg_advisory_unlock(?, ?)", _ALIVE, key)
            return True
        silent = self._ask(_PG_SILENT, executor, self._lease * 2).fetchone()[0]
        return float(silent) > self._lease

    def _is_true(self, statement: str, *values: Any) -> bool:
        return bool(self._ask(statement, *values).fetchone()[0])

    def _ask(self, statement: str, *values: Any) -> Any:
        return self._connection.execute(self._database.sql(statement), values)


def _key(executor: str) -> int:
    return zlib.crc32(executor.encode()) >> 1
