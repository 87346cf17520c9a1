"""Detection of dead workers: DBOS does not take over a dead worker's runs by itself.

On one machine each worker locks a file, and the system releases the lock when the process ends. On PostgreSQL
a worker holds an advisory lock on its listener's connection, and writes heartbeats. If the heartbeats stop,
the machine has disappeared, or the process is frozen with the connection open.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from pure_agent_loop.durable.database import Database
from pure_agent_loop.errors import SessionLockedError
from pure_agent_loop.support.locking import SessionLock, is_locked, take_lock

_ALIVE, _TAKEOVER = zlib.crc32(b"pal worker") >> 1, zlib.crc32(b"pal takeover") >> 1
_RECONNECT_SECONDS = 3.0  # after a database outage, other workers need time to reconnect
# A worker is suspected after this many checks in a row without its lock; a live one soon retakes the lock.
_SIGHTINGS = 3
_BEATS_PER_LEASE = 3
_FILE_BEAT_SECONDS = 10.0
_RECENT_SECONDS = 30.0  # maximum heartbeat age at which a worker is shown as alive
_PG_RECENT = "SELECT executor FROM @workers WHERE extract(epoch FROM clock_timestamp()) - seen < ?"
_RETRY_SECONDS = 0.25
_BEAT = """
INSERT INTO @workers (executor, host, pid, seen) VALUES (?, ?, ?, ?)
ON CONFLICT (executor) DO UPDATE SET seen = excluded.seen
"""
_PG_TAKE = "SELECT pg_try_advisory_lock(?, ?)"
_PG_BEAT = """
INSERT INTO @workers (executor, host, pid, seen) VALUES (?, ?, ?, extract(epoch FROM clock_timestamp()))
ON CONFLICT (executor) DO UPDATE SET seen = excluded.seen
RETURNING seen - (SELECT earlier.seen FROM @workers AS earlier WHERE earlier.executor = ?)
"""  # the subquery reads the row as it was before this statement
_PG_SILENT = """
SELECT coalesce((SELECT extract(epoch FROM clock_timestamp()) - seen FROM @workers WHERE executor = ?), ?)
"""
# One query for all workers, so that the load of a fleet does not grow quadratically.
_PG_LOOK = """
SELECT (SELECT json_object_agg(executor, extract(epoch FROM clock_timestamp()) - seen) FROM @workers),
ARRAY(
    SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid::bigint = ?
),
EXISTS (SELECT FROM {workflows} WHERE status = 'PENDING' AND executor_id <> ?)
OR EXISTS (SELECT FROM @firings WHERE state = 'delivering' AND owner <> ?),
EXISTS (SELECT FROM @answered WHERE taken = 0)
"""


class Liveness(Protocol):
    """Signals that this worker is alive, and detects dead workers."""

    # both updated by each call of `suspects`
    has_work: bool  # True if other workers may have runs or deliveries
    has_answers: bool  # True if there may be an answer whose run was not requeued

    def suspects(self) -> Sequence[str]:
        """Return the other workers that may be dead; `claim` checks whether one is.

        If this worker's own heartbeat is late, return none, because the others may be late for the same
        reason.
        """

    def claim(self, executor: str) -> contextlib.AbstractContextManager[bool]:
        """Yield True if the worker is dead; within the block, no other process takes over its runs."""

    def close(self, *, has_runs: bool = False) -> None:
        """Release the lock.

        Args:
            has_runs: True to keep this worker's entry, so that another worker takes over its runs.
        """


class FileLiveness:
    """File locks, for workers on one machine."""

    has_work = has_answers = True

    def __init__(self, database: Database, executor: str) -> None:
        self._database, self._executor = database, executor
        self._folder = database.path.with_name(database.path.name + ".workers")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock: SessionLock | None = take_lock(self._folder / executor, executor)
        database.change(_BEAT, executor, socket.gethostname(), os.getpid(), time.time())
        self._next_beat = time.monotonic() + _FILE_BEAT_SECONDS

    def suspects(self) -> Sequence[str]:
        """Return all other workers, because only `claim` can test a lock: by taking it."""
        if time.monotonic() >= self._next_beat:  # for display only: the lock shows who is alive
            self._next_beat = time.monotonic() + _FILE_BEAT_SECONDS
            self._database.change(
                "UPDATE @workers SET seen = ? WHERE executor = ?", time.time(), self._executor
            )
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
        on_takeover: Function to call in the listener's thread if another worker took over from this one.
    """

    def __init__(
        self, database: Database, executor: str, lease: float, on_takeover: Callable[[], None]
    ) -> None:
        self._database, self._executor, self._lease = database, executor, lease
        self._on_takeover = on_takeover
        self._connection = 0  # number of the listener's connection that holds the lock
        self._quiet_until = 0.0
        self._unlocked: dict[str, int] = {}  # number of consecutive sightings without a lock, by worker
        self.has_work = self.has_answers = True
        try:
            database.listener.keep(self._beat)
        except BaseException:
            database.listener.end(self._beat)  # a worker that fails to start must not seem alive
            raise

    def suspects(self) -> Sequence[str]:
        """Return the other workers without a recent heartbeat, or seen several times without a lock."""
        me, look = self._executor, _PG_LOOK.format(workflows=self._database.runs_table)
        found = self._database.rows(look, _ALIVE, me, me)[0]
        ages, locked, self.has_work, self.has_answers = found
        if time.monotonic() < self._quiet_until:
            return []
        ages = dict(ages or {})
        if ages.pop(me, math.inf) > self._lease / 2:  # the heartbeat of this worker itself is late
            self._be_quiet(self._lease / 2)
            return []
        self._unlocked = {name: self._unlocked.get(name, 0) + 1 for name in ages if _key(name) not in locked}
        late = {name for name, age in ages.items() if age > self._lease}
        return sorted(late | {name for name, count in self._unlocked.items() if count >= _SIGHTINGS})

    @contextlib.contextmanager
    def claim(self, executor: str) -> Iterator[bool]:
        """Yield True if the worker has no lock, or no recent heartbeat."""
        key = _key(executor)
        if not self._is_true(_PG_TAKE, _TAKEOVER, key):
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
        self._database.listener.end(self._beat)
        with contextlib.suppress(Exception):
            if not has_runs:
                self._execute("DELETE FROM @workers WHERE executor = ?", self._executor)
            self._execute("SELECT pg_advisory_unlock(?, ?)", _ALIVE, _key(self._executor))

    def _beat(self, execute: Callable[..., Any]) -> float:
        """Write a heartbeat; if the connection is new, take the lock. Return the seconds to the next call."""
        connection, is_first = self._database.listener.connections, not self._connection
        if connection != self._connection:
            if self._connection:
                self._be_quiet(_RECONNECT_SECONDS)
            take = execute(self._database.sql(_PG_TAKE), (_ALIVE, _key(self._executor)))
            self._connection = connection if take.fetchone()[0] else -1
        about = (self._executor, socket.gethostname(), os.getpid(), self._executor)
        (seconds,) = execute(self._database.sql(_PG_BEAT), about).fetchone()
        if seconds is None and not is_first:  # another worker's `claim` has deleted the row
            self._on_takeover()
        # The process was frozen, or the database is slow.
        if seconds is not None and seconds > self._lease / 2:
            self._be_quiet(self._lease / 2)
        # Another worker may have been testing the lock: try again before it is seen unlocked several times.
        return self._lease / _BEATS_PER_LEASE if self._connection > 0 else _RETRY_SECONDS

    def _be_quiet(self, seconds: float) -> None:
        """Suspect no worker for some time, because the others may be late for the same reason as this one."""
        self._unlocked = {}
        self._quiet_until = max(self._quiet_until, time.monotonic() + seconds)

    def _is_dead(self, executor: str, key: int) -> bool:
        if self._is_true(_PG_TAKE, _ALIVE, key):
            self._execute("SELECT pg_advisory_unlock(?, ?)", _ALIVE, key)
            return True
        silence = self._execute(_PG_SILENT, executor, self._lease * 2).fetchone()[0]
        return float(silence) > self._lease

    def _is_true(self, statement: str, *values: Any) -> bool:
        return bool(self._execute(statement, *values).fetchone()[0])

    def _execute(self, statement: str, *values: Any) -> Any:
        return self._database.listener.execute(self._database.sql(statement), values)


class KnownWorker(NamedTuple):
    """A worker with an entry in the database.

    Args:
        seen: Time of the worker's last heartbeat, in seconds since the epoch.
        is_alive: True if the worker holds its file lock, or has a recent heartbeat.
    """

    name: str
    host: str
    seen: float
    is_alive: bool


def known_workers(database: Database) -> list[KnownWorker]:
    """Return all workers with an entry; a dead one keeps its entry until another worker takes over."""
    rows = database.rows("SELECT executor, host, seen FROM @workers ORDER BY executor")
    if not database.is_sqlite:
        alive = {name for (name,) in database.rows(_PG_RECENT, _RECENT_SECONDS)}
    else:
        folder = database.path.with_name(database.path.name + ".workers")
        alive = {name for name, _, _ in rows if is_locked(folder / str(name))}
    return [KnownWorker(str(name), str(host), float(seen), name in alive) for name, host, seen in rows]


def _key(executor: str) -> int:
    return zlib.crc32(executor.encode()) >> 1
