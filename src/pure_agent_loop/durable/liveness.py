"""Detection of dead workers: DBOS does not take over a dead worker's runs by itself.

On one machine each worker locks a file, and the system releases the lock with the process. On PostgreSQL a
worker holds an advisory lock on a separate connection. It also writes a heartbeat, which detects a machine
that has disappeared, or a process that is frozen with its connection open.
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
from pure_agent_loop.support.locking import SessionLock, take_lock

_ALIVE, _TAKEOVER = zlib.crc32(b"pal worker") >> 1, zlib.crc32(b"pal takeover") >> 1
_RECONNECT_SECONDS = 3.0  # after a database outage, other workers need time to reconnect
_BEAT = """
INSERT INTO @workers (executor, host, pid, seen) VALUES (?, ?, ?, ?)
ON CONFLICT (executor) DO UPDATE SET seen = excluded.seen
"""
_PG_BEAT = _BEAT.replace("VALUES (?, ?, ?, ?)", "VALUES (?, ?, ?, extract(epoch FROM clock_timestamp()))")
_PG_SILENT = """
SELECT coalesce((SELECT extract(epoch FROM clock_timestamp()) - seen FROM @workers WHERE executor = ?), ?)
"""
# One query for all workers, so that the load does not grow quadratically with the fleet.
_PG_SUSPECTS = """
SELECT asked.executor FROM unnest(?::text[], ?::bigint[]) AS asked (executor, key)
LEFT JOIN @workers w ON w.executor = asked.executor
WHERE w.seen IS NULL OR extract(epoch FROM clock_timestamp()) - w.seen > ? OR NOT EXISTS (
    SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.classid::bigint = ? AND l.objid::bigint = asked.key)
"""


class Liveness(Protocol):
    """Signals that this worker is alive, and detects dead workers."""

    def beat(self) -> bool:
        """Signal that this worker is alive; return False if other workers cannot be checked now."""
        ...

    def suspects(self, executors: Sequence[str]) -> Sequence[str]:
        """Return the workers that may be dead; `claim` verifies it."""
        ...

    def claim(self, executor: str) -> contextlib.AbstractContextManager[bool]:
        """Yield True if the worker is dead; within the block, no other process takes over its runs."""
        ...

    def close(self) -> None:
        """Deregister this worker."""
        ...


class FileLiveness:
    """File locks, for workers of one machine."""

    def __init__(self, database: Database, executor: str) -> None:
        self._database, self._executor = database, executor
        self._folder = database.path.with_name(database.path.name + ".workers")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock: SessionLock | None = take_lock(self._folder / executor, executor)
        database.change(_BEAT, executor, socket.gethostname(), os.getpid(), time.time())

    def beat(self) -> bool:
        """Do nothing, because the lock is always held."""
        return True

    def suspects(self, executors: Sequence[str]) -> Sequence[str]:
        """Return all workers: a lock can only be tested by taking it."""
        return executors

    @contextlib.contextmanager
    def claim(self, executor: str) -> Iterator[bool]:
        """Yield True if the lock of the worker is free; hold the lock within the block."""
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
        """Release the lock."""
        if self._lock is not None:
            self._database.change("DELETE FROM @workers WHERE executor = ?", self._executor)
            self._lock.release()
        self._lock = None


class PostgresLiveness:
    """Advisory locks and heartbeats, for workers on several machines. Used from one thread at a time.

    Args:
        lease: Seconds without a heartbeat after which a worker counts as dead.
    """

    def __init__(self, database: Database, executor: str, lease: float) -> None:
        self._database, self._executor, self._lease = database, executor, lease
        self._connection: Any = None
        self._quiet_until = 0.0
        self._last_beat = 0.0
        self._acquire()

    def beat(self) -> bool:
        """Write a heartbeat; take the lock again if the connection was lost."""
        if self._connection is None or self._connection.closed:
            with contextlib.suppress(Exception):
                self._acquire()
                self._quiet_until = time.monotonic() + _RECONNECT_SECONDS
            return False
        now = time.monotonic()
        if now - self._last_beat > self._lease / 5:
            self._execute(_PG_BEAT, self._executor, socket.gethostname(), os.getpid())
            self._last_beat = now
        return now >= self._quiet_until

    def suspects(self, executors: Sequence[str]) -> Sequence[str]:
        """Return the workers without a lock or a recent heartbeat."""
        if not executors:
            return []
        keys = [_key(other) for other in executors]
        rows = self._execute(_PG_SUSPECTS, list(executors), keys, self._lease, _ALIVE).fetchall()
        return [str(name) for (name,) in rows]

    @contextlib.contextmanager
    def claim(self, executor: str) -> Iterator[bool]:
        """Yield True if the worker has no lock, or no recent heartbeat."""
        key = _key(executor)
        if not self._is_true("SELECT pg_try_advisory_lock(?, ?)", _TAKEOVER, key):
            yield False
            return
        try:
            is_dead = self._is_dead(executor, key)
            yield is_dead
            if is_dead:
                self._execute("DELETE FROM @workers WHERE executor = ?", executor)
        finally:
            with contextlib.suppress(Exception):
                self._execute("SELECT pg_advisory_unlock(?, ?)", _TAKEOVER, key)

    def close(self) -> None:
        """Release the lock."""
        with contextlib.suppress(Exception):
            self._execute("DELETE FROM @workers WHERE executor = ?", self._executor)
            self._connection.close()

    def _acquire(self) -> None:
        self._connection = self._database.connect()
        self._is_true("SELECT pg_try_advisory_lock(?, ?)", _ALIVE, _key(self._executor))
        self._execute(_PG_BEAT, self._executor, socket.gethostname(), os.getpid())
        self._last_beat = time.monotonic()

    def _is_dead(self, executor: str, key: int) -> bool:
        if self._is_true("SELECT pg_try_advisory_lock(?, ?)", _ALIVE, key):
            self._execute("SELECT pg_advisory_unlock(?, ?)", _ALIVE, key)
            return True
        silence = self._execute(_PG_SILENT, executor, self._lease * 2).fetchone()[0]
        return float(silence) > self._lease

    def _is_true(self, statement: str, *values: Any) -> bool:
        return bool(self._execute(statement, *values).fetchone()[0])

    def _execute(self, statement: str, *values: Any) -> Any:
        return self._connection.execute(self._database.sql(statement), values)


def _key(executor: str) -> int:
    return zlib.crc32(executor.encode()) >> 1
