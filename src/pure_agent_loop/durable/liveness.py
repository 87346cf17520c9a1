"""Detection of dead workers: DBOS does not take over a dead worker's runs by itself.

On one machine each worker locks a file, and the system releases the lock with the process. On PostgreSQL a
worker holds an advisory lock on a separate connection. It also writes a heartbeat, which detects a machine
that has disappeared, or a process that is frozen with its connection open.
"""

from __future__ import annotations

import contextlib
import math
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
_SIGHTINGS = 3  # calls of `suspects` in which a worker has no lock; a live one takes it again in between
_BEAT = """
INSERT INTO @workers (executor, host, pid, seen) VALUES (?, ?, ?, ?)
ON CONFLICT (executor) DO UPDATE SET seen = excluded.seen
"""
_PG_BEAT = """
INSERT INTO @workers (executor, host, pid, seen) VALUES (?, ?, ?, extract(epoch FROM clock_timestamp()))
ON CONFLICT (executor) DO UPDATE SET seen = excluded.seen
RETURNING seen - (SELECT earlier.seen FROM @workers AS earlier WHERE earlier.executor = ?)
"""  # the subquery reads the row as it was before
_PG_SILENT = """
SELECT coalesce((SELECT extract(epoch FROM clock_timestamp()) - seen FROM @workers WHERE executor = ?), ?)
"""
# One query for all workers, so that the load of a fleet does not grow quadratically.
_PG_WORKERS = """
SELECT executor, extract(epoch FROM clock_timestamp()) - seen FROM @workers
"""
_PG_LOCKED = """
SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid::bigint = ?
"""


class Liveness(Protocol):
    """Signals that this worker is alive, and detects dead workers."""

    def beat(self) -> None:
        """Signal that this worker is alive."""
        ...

    def suspects(self) -> Sequence[str]:
        """Return the other workers that may be dead; `claim` verifies it.

        A worker whose own heartbeat is late returns none, because others may be late for the same reason.
        """
        ...

    def claim(self, executor: str) -> contextlib.AbstractContextManager[bool]:
        """Yield True if the worker is dead; within the block, no other process takes over its runs."""
        ...

    def close(self, *, has_runs: bool = False) -> None:
        """Release the lock.

        Args:
            has_runs: True to leave the entry of this worker, so that another one takes over its runs.
        """
        ...


class FileLiveness:
    """File locks, for workers of one machine."""

    def __init__(self, database: Database, executor: str) -> None:
        self._database, self._executor = database, executor
        self._folder = database.path.with_name(database.path.name + ".workers")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock: SessionLock | None = take_lock(self._folder / executor, executor)
        database.change(_BEAT, executor, socket.gethostname(), os.getpid(), time.time())

    def beat(self) -> None:
        """Do nothing, because the lock is always held."""

    def suspects(self) -> Sequence[str]:
        """Return all other workers: a lock can only be tested by taking it."""
        rows = self._database.rows("SELECT executor FROM @workers WHERE executor <> ?", self._executor)
        return [str(name) for (name,) in rows]

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

    def close(self, *, has_runs: bool = False) -> None:
        """Release the lock."""
        if self._lock is not None:
            if not has_runs:
                self._database.change("DELETE FROM @workers WHERE executor = ?", self._executor)
            self._lock.release()
        self._lock = None


class PostgresLiveness:
    """Advisory locks and heartbeats, for workers on several machines. May be used from several threads.

    Args:
        lease: Seconds without a heartbeat after which a worker counts as dead.
    """

    def __init__(self, database: Database, executor: str, lease: float) -> None:
        self._database, self._executor, self._lease = database, executor, lease
        self._connection: Any = None
        self._has_lock = False
        self._quiet_until = self._last_beat = 0.0
        self._unlocked: dict[str, int] = {}  # number of consecutive sightings without a lock, by worker
        self._connect()

    def beat(self) -> None:
        """Write a heartbeat; take the lock again if the connection was lost."""
        if self._connection.closed:
            self._connect()
            self._be_quiet(_RECONNECT_SECONDS)
        if not self._has_lock:  # another worker was testing it
            self._take_lock()
        if time.monotonic() - self._last_beat > self._lease / 5:
            self._write_beat()

    def suspects(self) -> Sequence[str]:
        """Return the other workers without a recent heartbeat, or seen several times without a lock."""
        if time.monotonic() < self._quiet_until:
            return []
        ages = {str(name): float(age) for name, age in self._execute(_PG_WORKERS).fetchall()}
        if ages.pop(self._executor, math.inf) > self._lease / 2:  # this worker is the late one
            self._be_quiet(self._lease / 2)
            return []
        locked = {int(key) for (key,) in self._execute(_PG_LOCKED, _ALIVE).fetchall()} if ages else set()
        self._unlocked = {name: self._unlocked.get(name, 0) + 1 for name in ages if _key(name) not in locked}
        late = {name for name, age in ages.items() if age > self._lease}
        return sorted(late | {name for name, count in self._unlocked.items() if count >= _SIGHTINGS})

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

    def close(self, *, has_runs: bool = False) -> None:
        """Release the lock."""
        with contextlib.suppress(Exception):
            if not has_runs:
                self._execute("DELETE FROM @workers WHERE executor = ?", self._executor)
            self._connection.close()

    def _connect(self) -> None:
        self._connection = self._database.connect()
        self._take_lock()
        self._write_beat()

    def _take_lock(self) -> None:
        self._has_lock = self._is_true("SELECT pg_try_advisory_lock(?, ?)", _ALIVE, _key(self._executor))

    def _write_beat(self) -> None:
        about = (self._executor, socket.gethostname(), os.getpid(), self._executor)
        (seconds,) = self._execute(_PG_BEAT, *about).fetchone()
        if seconds is not None and seconds > self._lease / 2:  # frozen, or the database is slow
            self._be_quiet(self._lease / 2)
        self._last_beat = time.monotonic()

    def _be_quiet(self, seconds: float) -> None:
        """Suspect nobody for some time: others may be late for the same reason."""
        self._unlocked = {}
        self._quiet_until = max(self._quiet_until, time.monotonic() + seconds)

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
