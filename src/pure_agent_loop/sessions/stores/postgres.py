"""Sessions in PostgreSQL, for fleets: many machines, one writer per session.

The rows hold the same lines as the files of `JsonlStore`. Each opening increments a number in the session's
row (the fence), and an append writes only if the fence is still the writer's number. Therefore a writer that
was frozen, and considered dead meanwhile, can no longer write when it resumes.
"""

from __future__ import annotations

import os
import secrets
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import SessionLockedError, SessionWriteError
from pure_agent_loop.sessions.store import (
    BaseLog,
    Loaded,
    SessionInfo,
    check_session_name,
    list_entry,
    newest_first,
    not_found,
)
from pure_agent_loop.sessions.stores.postgres_pool import ConnectionPool, Holder, StoreOwner
from pure_agent_loop.sessions.stores.records import BASE_HEAD, HEAD_CHARS, Record, Transcript, parse
from pure_agent_loop.support.abilities import checked_function
from pure_agent_loop.support.checks import require_value

if TYPE_CHECKING:
    from typing_extensions import Self

    from pure_agent_loop.sessions.stores.postgres_pool import Execute

# The session's row is locked briefly, so that a takeover waits for this append before it reads. The previous
# record must exist: a database crash may have lost records that were not durable.
_APPEND = """
WITH mode AS MATERIALIZED (SELECT set_config('synchronous_commit', %(mode)s, true) AS set),
mine AS MATERIALIZED (
    SELECT id FROM @sessions WHERE id = %(id)s AND fence = %(fence)s AND token = %(token)s FOR SHARE
)
INSERT INTO @records (session, number, time, line)
SELECT mine.id, %(before)s + added.place, added.time, added.line FROM mine, mode,
unnest(%(times)s::float8[], %(lines)s::text[]) WITH ORDINALITY AS added (time, line, place)
WHERE mode.set IS NOT NULL AND (%(before)s = 0
    OR EXISTS (SELECT FROM @records WHERE session = %(id)s AND number = %(before)s))
ON CONFLICT DO NOTHING
"""
_LINE = "SELECT line FROM @records WHERE session = %s AND number = %s"
_LINES = "SELECT number, line FROM @records WHERE session = %s AND number >= %s ORDER BY number"
_BASE = f"""
SELECT number FROM @records WHERE session = %s AND strpos(left(line, {HEAD_CHARS}), %s) > 0
ORDER BY number DESC LIMIT 1
"""  # noqa: S608 - constants
_INSERT_SESSION = "INSERT INTO @sessions (id, made, fence) VALUES (%s, %s, 0) ON CONFLICT DO NOTHING"
_TAKE_SESSION = """
UPDATE @sessions SET fence = fence + 1, owner = %s, token = %s, since = clock_timestamp()
WHERE id = %s AND fence = %s AND token IS NOT DISTINCT FROM %s
"""
_RAISE_FENCE = "UPDATE @sessions SET fence = fence + 1 WHERE id = %s AND token = %s RETURNING fence"
_UNDO = """
DELETE FROM @records WHERE session = %(id)s AND number >= %(number)s
AND EXISTS (SELECT FROM @sessions WHERE id = %(id)s AND fence = %(fence)s AND token = %(token)s)
"""
_DELETE = """
WITH gone AS (DELETE FROM @sessions WHERE id = %s AND token = %s RETURNING id)
DELETE FROM @records WHERE session IN (SELECT id FROM gone)
"""
_LIST = """
SELECT id, made, (SELECT time FROM @records WHERE session = id ORDER BY number LIMIT 1),
    (SELECT time FROM @records WHERE session = id ORDER BY number DESC LIMIT 1),
    (SELECT coalesce(sum(octet_length(line)), 0) FROM @records WHERE session = id)
FROM @sessions
"""
_STORES: weakref.WeakSet[PostgresStore] = weakref.WeakSet()


class _Claim:
    """Ownership of a session, in place of the lock that other stores use.

    Args:
        store: Store of the session; this reference keeps the store alive as long as its logs.
    """

    def __init__(self, store: PostgresStore, session_id: str, token: str) -> None:
        self.store, self.token, self._id = store, token, session_id

    def release(self) -> None:
        self.store._owner.release(self._id, self.token)


class PostgresLog(BaseLog):
    """Session in PostgreSQL open for writing, as returned by `PostgresStore.open`."""

    is_remote = has_tail = True

    def __init__(
        self,
        session_id: str,
        transcript: Transcript,
        claim: _Claim,
        now: Callable[[], float],
        fence: int,
        last: int,
    ) -> None:
        super().__init__(session_id, transcript, claim, now)
        self._claim, self._pool = claim, claim.store._pool
        self._fence, self._last = fence, last
        self._not_durable: list[dict[str, Any]] = []  # rows written since the last durable write
        self._is_uncertain = False

    def write(self, records: Sequence[Record], lines: Sequence[bytes], *, durable: bool) -> None:
        """Insert the lines in one transaction; see `BaseLog.write`."""
        if self._is_uncertain:
            self._pool.run(self._undo_uncertain)
        self._is_uncertain = True  # stays True until the write is known to have succeeded
        rows: dict[str, Any] = {
            "id": self.session_id,
            "token": self._claim.token,
            "before": self._last,
            "times": [float(record.time) for record in records],
            "lines": [line.decode("ascii").rstrip("\n") for line in lines],
            "mode": "on" if durable else "off",
        }
        self._pool.run(lambda execute: self._insert_or_verify(execute, rows))
        self._is_uncertain = False
        self._last += len(records)
        self._not_durable = [] if durable else [*self._not_durable, rows]

    def _insert_or_verify(self, execute: Execute, rows: dict[str, Any]) -> None:
        """Insert rows unless the first one is there already; restore rows that a crash has lost."""
        if self._insert(execute, rows):
            return
        existing = execute(_LINE, (self.session_id, rows["before"] + 1)).fetchone()
        if existing is not None and existing[0] == rows["lines"][0]:
            return
        holder = self._pool.find_holder(execute, self.session_id)
        if holder is None or (holder.token, holder.fence) != (self._claim.token, self._fence):
            raise _lost_error(self.session_id, holder)
        for earlier in self._not_durable:  # the database crashed before these rows reached its disk
            self._insert(execute, {**earlier, "mode": "on"})
        if not self._insert(execute, rows):
            raise SessionWriteError(self._pool.name, "another program changed records of this session")

    def _insert(self, execute: Execute, rows: dict[str, Any]) -> bool:
        return execute(_APPEND, {**rows, "fence": self._fence}).rowcount == len(rows["lines"])

    def _undo_uncertain(self, execute: Execute) -> None:
        """Raise the fence and delete a record whose append failed but may still have been written."""
        row = execute(_RAISE_FENCE, (self.session_id, self._claim.token)).fetchone()
        if row is None:
            raise _lost_error(self.session_id, self._pool.find_holder(execute, self.session_id))
        self._fence = int(row[0])
        values = {"id": self.session_id, "number": self._last + 1}
        execute(_UNDO, {**values, "fence": self._fence, "token": self._claim.token})

    def release(self) -> None:
        """Do nothing: the store closes the connections."""


class PostgresStore:
    """Store that keeps sessions in a PostgreSQL database. Needs the extra ``[durable]``.

    An open session is locked by its process. The lock is released when the session is closed, when the
    process ends, or when the process has shown no activity for `lease` seconds. The store connects at first
    use, and creates missing tables. Do not connect through a pooler that gives each transaction a different
    connection.

    Args:
        url: URL of the database, such as ``postgresql://user:password@host:5432/database``.
        owner: Name of this process in other processes' messages; None for machine and process id.
        schema: Schema that holds the tables.
        lease: Seconds without activity after which a process loses its sessions.
        patience: Seconds to retry while the database is unavailable, before a `SessionWriteError`.
        connections: Maximum number of connections, not counting the one for the heartbeat.
        now: Function that returns the time of records, in seconds since the epoch.

    Raises:
        ConfigError: A value is invalid.
        MissingExtraError: The extra is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        owner: str | None = None,
        schema: str = "pure_agent_loop",
        lease: float = 10.0,
        patience: float = 30.0,
        connections: int = 4,
        now: Callable[[], float] = time.time,
    ) -> None:
        require_value(lease > 0, "lease", lease, "greater than 0 seconds")
        require_value(patience >= 0, "patience", patience, "at least 0 seconds")
        self._pool = self._new_pool(url, schema, patience, connections)
        self._owner = self._new_owner(owner, lease)
        self._now = checked_function("now", now)
        _STORES.add(self)
        self._close_all = weakref.finalize(self, _close_all, self._pool, self._owner)

    def open(
        self, session_id: str, *, create: bool = True, takeover: bool = False, tail: bool = False
    ) -> PostgresLog:
        """Open a session for writing; see `SessionStore.open`.

        Args:
            session_id: Id of the session.
            create: Create the session if missing.
            takeover: Take the session even from a live process, whose next append then fails.
            tail: Read only the newest ``base`` record and those after it.
        """
        check_session_name(session_id)
        owner, token = self._owner.number(), secrets.token_hex(8)
        if create:
            session_row = (session_id, round(self._now(), 6))
            self._pool.run(lambda execute: execute(_INSERT_SESSION, session_row))
        claim = _Claim(self, session_id, token)
        try:
            fence = self._pool.run(
                lambda execute: self._take(execute, session_id, owner, token, force=takeover)
            )
            transcript, last = self._pool.run(
                lambda execute: self._read_transcript(execute, session_id, tail=tail)
            )
        except SessionWriteError:
            claim.release()  # the session may have been taken before the error
            raise
        return PostgresLog(session_id, transcript, claim, self._now, fence, last)

    def read(self, session_id: str, *, tail: bool = False) -> Loaded:
        """Read a session, even while another process writes it; see `SessionStore.read` and `open`."""
        if not self.exists(session_id):
            raise not_found(session_id, self._pool.name)
        transcript, _ = self._pool.run(
            lambda execute: self._read_transcript(execute, session_id, tail=tail), writing=False
        )
        return Loaded(transcript.records, transcript.problems)

    def list(self) -> Sequence[SessionInfo]:
        """Return all sessions, most recently used first.

        Raises:
            SessionReadError: The database cannot be read.
        """
        rows = self._pool.run(lambda execute: execute(_LIST).fetchall(), writing=False)
        return newest_first(list_entry(*row) for row in rows)

    def exists(self, session_id: str) -> bool:
        """Return True if the session exists.

        Raises:
            SessionReadError: The database cannot be read.
        """
        return self.holder(session_id) is not None

    def holder(self, session_id: str) -> Holder | None:
        """Return a session's owner, and whether the owner is alive; None if the session does not exist.

        Raises:
            SessionReadError: The database cannot be read.
        """
        check_session_name(session_id)
        return self._pool.run(lambda execute: self._pool.find_holder(execute, session_id), writing=False)

    def delete(self, session_id: str) -> None:
        """Delete a session; see `SessionStore.delete`."""
        if not self.exists(session_id):
            raise not_found(session_id, self._pool.name)
        owner, token = self._owner.number(), secrets.token_hex(8)
        # The session is taken over first, so that a writer wrongly considered dead cannot add a row
        # afterwards.
        self._pool.run(lambda execute: self._take(execute, session_id, owner, token, force=False))
        self._pool.run(lambda execute: execute(_DELETE, (session_id, token)))

    def close(self) -> None:
        """Close the connections. Other processes may then take the sessions that are open here."""
        self._close_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _new_pool(self, url: str, schema: str, patience: float, connections: int) -> ConnectionPool:
        return ConnectionPool(url, schema, patience, connections)

    def _new_owner(self, name: str | None, lease: float) -> StoreOwner:
        return StoreOwner(self._pool, name, lease)

    def _take(self, execute: Execute, session_id: str, owner: int, token: str, *, force: bool) -> int:
        """Take a session unless a live process owns it. Return the fence."""
        while True:
            holder = self._pool.find_holder(execute, session_id)
            if holder is None:
                raise not_found(session_id, self._pool.name)
            if holder.token == token:
                return holder.fence
            if holder.is_alive and not force:
                raise holder.locked_error(session_id)
            # If another process was faster, the fence has changed and this statement does nothing.
            parameters = (owner, token, session_id, holder.fence, holder.token)
            execute(_TAKE_SESSION, parameters)

    def _read_transcript(self, execute: Execute, session_id: str, *, tail: bool) -> tuple[Transcript, int]:
        first = execute(_BASE, (session_id, BASE_HEAD)).fetchone() if tail else None
        rows = execute(_LINES, (session_id, first[0] if first else 0)).fetchall()
        lines = (f"{line}\n".encode("utf-8", "replace") for _, line in rows)
        return parse(lines, is_tail=tail), int(rows[-1][0]) if rows else 0


def _lost_error(session_id: str, holder: Holder | None) -> Exception:
    if holder is None:
        return SessionLockedError(session_id, "another, unidentified process")
    return holder.locked_error(session_id)


def _close_all(pool: ConnectionPool, owner: StoreOwner) -> None:
    owner.stop()
    pool.close()


def _forget_all() -> None:
    for store in list(_STORES):
        store._pool.forget()
        store._owner.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
