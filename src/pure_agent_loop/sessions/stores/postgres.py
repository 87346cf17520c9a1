"""Sessions in PostgreSQL, for fleets: many machines, and one writer for each session.

The rows hold the same lines as the files of `JsonlStore`. Each opening raises a number in the session's row
(the fence), and each append is one statement that writes only while that number is the writer's. So one that
was frozen, taken for dead and woken later can write nothing any more.
"""

from __future__ import annotations

import os
import secrets
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError, SessionNotFoundError, SessionWriteError
from pure_agent_loop.sessions.store import Loaded, SessionInfo, check_session_id
from pure_agent_loop.sessions.stores.log import BaseLog
from pure_agent_loop.sessions.stores.parse import Transcript, parse
from pure_agent_loop.sessions.stores.postgres_link import Link
from pure_agent_loop.sessions.stores.postgres_owner import Holder, Owner, look
from pure_agent_loop.sessions.stores.records import Record

if TYPE_CHECKING:
    from typing_extensions import Self

    from pure_agent_loop.sessions.stores.postgres_link import Connection

# The row of the session is locked for a moment, so that who takes the session over waits for this and then
# reads it. The row before must be there: a crash of the database may have lost records that were not durable.
_APPEND = """
WITH mode AS MATERIALIZED (SELECT set_config('synchronous_commit', %(mode)s, true) AS set),
mine AS MATERIALIZED (
    SELECT id FROM @sessions WHERE id = %(id)s AND fence = %(fence)s AND token = %(token)s FOR SHARE
)
INSERT INTO @records (session, number, time, line)
SELECT mine.id, %(number)s, %(time)s, %(line)s FROM mine, mode WHERE mode.set IS NOT NULL
AND (%(before)s = 0 OR EXISTS (SELECT FROM @records WHERE session = %(id)s AND number = %(before)s))
ON CONFLICT DO NOTHING
"""
_LINE = "SELECT line FROM @records WHERE session = %s AND number = %s"
_LINES = "SELECT line FROM @records WHERE session = %s ORDER BY number"
_LAST = "SELECT coalesce(max(number), 0) FROM @records WHERE session = %s"
_MAKE = "INSERT INTO @sessions (id, made, fence) VALUES (%s, %s, 0) ON CONFLICT DO NOTHING"
_TAKE = """
UPDATE @sessions SET fence = fence + 1, owner = %s, token = %s, since = clock_timestamp()
WHERE id = %s AND fence = %s AND token IS NOT DISTINCT FROM %s
"""
_AGAIN = "UPDATE @sessions SET fence = fence + 1 WHERE id = %s AND token = %s RETURNING fence"
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


class _Claim:
    """That a session is ours. Stands where other stores have a lock.

    Args:
        store: The store, which lives as long as a log of it.
        token: Names this opening.
    """

    def __init__(self, store: PostgresStore, session_id: str, token: str) -> None:
        self.store, self.token, self._id = store, token, session_id

    def release(self) -> None:
        self.store._owner.release(self._id, self.token)

    def forget(self) -> None:
        """In a forked child there is nothing to let go of."""


class PostgresLog(BaseLog):
    """A session in PostgreSQL that is open for writing. `PostgresStore.open` makes it."""

    is_remote = True

    def __init__(
        self,
        session_id: str,
        found: Transcript,
        claim: _Claim,
        now: Callable[[], float],
        fence: int,
        last: int,
    ) -> None:
        super().__init__(session_id, found, claim, now)
        self._claim, self._link = claim, claim.store._link
        self._fence, self._last = fence, last
        self._loose: list[dict[str, Any]] = []  # written since the last durable one
        self._is_unclear = False

    def _write(self, line: bytes, record: Record, *, durable: bool) -> None:
        if self._is_unclear:
            self._link.run(self._settle)
        self._is_unclear = True  # whatever interrupts us
        row = self._row(line, record, durable=durable)
        self._link.run(lambda connection: self._put(connection, row))
        self._is_unclear = False
        self._last = row["number"]
        self._loose = [] if durable else [*self._loose, row]

    def _row(self, line: bytes, record: Record, *, durable: bool) -> dict[str, Any]:
        return {
            "id": self.session_id,
            "token": self._claim.token,
            "number": self._last + 1,
            "before": self._last,
            "time": record.time,
            "line": line.decode("ascii").rstrip("\n"),
            "mode": "on" if durable else "off",
        }

    def _put(self, connection: Connection, row: dict[str, Any]) -> None:
        """Write a row; also if it was written before and nobody heard of it."""
        if self._insert(connection, row):
            return
        found = connection.execute(self._link.sql(_LINE), (self.session_id, row["number"])).fetchone()
        if found is not None and found[0] == row["line"]:
            return
        holder = look(connection, self._link, self.session_id)
        if holder is None or (holder.token, holder.fence) != (self._claim.token, self._fence):
            raise _taken(self.session_id, holder)
        for lost in self._loose:  # the database crashed, and these had not reached its disk
            self._insert(connection, {**lost, "mode": "on"})
        if not self._insert(connection, row):
            raise SessionWriteError(self._link.name, "records of this session were changed by somebody else")

    def _insert(self, connection: Connection, row: dict[str, Any]) -> bool:
        return connection.execute(self._link.sql(_APPEND), {**row, "fence": self._fence}).rowcount == 1

    def _settle(self, connection: Connection) -> None:
        """A record was refused, but may have been written, or may still be: now it never will be."""
        row = connection.execute(self._link.sql(_AGAIN), (self.session_id, self._claim.token)).fetchone()
        if row is None:
            raise _taken(self.session_id, look(connection, self._link, self.session_id))
        self._fence = int(row[0])
        about = {"id": self.session_id, "number": self._last + 1}
        connection.execute(self._link.sql(_UNDO), {**about, "fence": self._fence, "token": self._claim.token})

    def _release(self) -> None:
        """The connections are the store's."""


class PostgresStore:
    """Sessions in a PostgreSQL database. Needs the extra ``[durable]``.

    A session belongs to a process while it is open there. It is free again when it is closed, when that
    process ends, or when it has not been heard of for `lease` seconds. The store connects when it is first
    used, and makes its tables if they are missing. The address must not lead through a pooler that gives each
    transaction another connection.

    Args:
        url: The database, such as ``postgresql://user:password@host:5432/database``.
        owner: What this process is called where others see it; None for machine and process.
        schema: Where the tables stand.
        lease: Seconds after which a process that does not answer any more has lost its sessions.
        patience: Seconds to go on trying while the database is away, before a `SessionWriteError`.
        connections: How many are used at once, at most, besides the one that shows that the process lives.
        now: Gives the time of records, in seconds since the epoch.

    Raises:
        ConfigError: A value cannot be right.
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
        if not lease > 0:
            raise ConfigError(f"lease={lease!r} must be more than 0 seconds.")
        if not patience >= 0:
            raise ConfigError(f"patience={patience!r} must be 0 seconds or more.")
        self._link = Link(url, schema, patience, connections)
        self._owner = Owner(self._link, owner, lease)
        self._now = now
        _STORES.add(self)
        self._end = weakref.finalize(self, _end, self._link, self._owner)

    def open(self, session_id: str, *, create: bool = True, takeover: bool = False) -> PostgresLog:
        """Open a session for writing; `SessionStore.open` says more.

        Args:
            session_id: The session.
            create: Make it if there is none.
            takeover: Take it also from one who lives: its next append is refused.
        """
        check_session_id(session_id)
        owner, token = self._owner.number(), secrets.token_hex(8)
        if create:
            made = (session_id, round(self._now(), 6))
            self._link.run(lambda connection: connection.execute(self._link.sql(_MAKE), made))
        claim = _Claim(self, session_id, token)
        try:
            fence = self._link.run(
                lambda connection: self._take(connection, session_id, owner, token, force=takeover)
            )
            found, last = self._link.run(lambda connection: self._found(connection, session_id))
        except SessionWriteError:
            claim.release()  # it may be ours without our knowing
            raise
        return PostgresLog(session_id, found, claim, self._now, fence, last)

    def read(self, session_id: str) -> Loaded:
        """Read a session, also while another process writes it; `SessionStore.read` says more."""
        if not self.exists(session_id):
            raise self._not_found(session_id)
        found, _ = self._link.run(lambda connection: self._found(connection, session_id), writing=False)
        return Loaded(found.records, found.problems)

    def list(self) -> Sequence[SessionInfo]:
        """Every session, the one used last first.

        Raises:
            SessionReadError: The database cannot be read.
        """
        rows = self._link.run(
            lambda connection: connection.execute(self._link.sql(_LIST)).fetchall(), writing=False
        )
        infos = []
        for session_id, made, first, last, size in rows:
            created = made if first is None else first
            infos.append(SessionInfo(session_id, created, created if last is None else last, int(size)))
        return sorted(infos, key=lambda info: (-info.updated, info.id))

    def exists(self, session_id: str) -> bool:
        """True if there is such a session.

        Raises:
            SessionReadError: The database cannot be read.
        """
        return self.holder(session_id) is not None

    def holder(self, session_id: str) -> Holder | None:
        """Who has a session, and whether that process lives; None if there is no such session.

        Raises:
            SessionReadError: The database cannot be read.
        """
        check_session_id(session_id)
        return self._link.run(lambda connection: look(connection, self._link, session_id), writing=False)

    def delete(self, session_id: str) -> None:
        """Take a session away; `SessionStore.delete` says more."""
        if not self.exists(session_id):
            raise self._not_found(session_id)
        owner, token = self._owner.number(), secrets.token_hex(8)
        # Taken first, so that a writer taken for dead cannot leave a row behind.
        self._link.run(lambda connection: self._take(connection, session_id, owner, token, force=False))
        self._link.run(lambda connection: connection.execute(self._link.sql(_DELETE), (session_id, token)))

    def close(self) -> None:
        """Close the connections. Sessions that are open here may then be taken by others."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, connection: Connection, session_id: str, owner: int, token: str, *, force: bool) -> int:
        """Make a session ours, if nobody who lives has it. Returns the fence."""
        while True:
            holder = look(connection, self._link, session_id)
            if holder is None:
                raise self._not_found(session_id)
            if holder.token == token:
                return holder.fence
            if holder.is_alive and not force:
                raise holder.refusal(session_id)
            # Whoever was faster has raised the fence, and then this does nothing.
            wanted = (owner, token, session_id, holder.fence, holder.token)
            connection.execute(self._link.sql(_TAKE), wanted)

    def _found(self, connection: Connection, session_id: str) -> tuple[Transcript, int]:
        rows = connection.execute(self._link.sql(_LINES), (session_id,))
        found = parse(_lines(rows))
        last = connection.execute(self._link.sql(_LAST), (session_id,)).fetchone()
        return found, int(last[0]) if last else 0

    def _not_found(self, session_id: str) -> SessionNotFoundError:
        return SessionNotFoundError(f"There is no session {session_id!r} in {self._link.name}.")


def _lines(rows: Iterator[tuple[Any, ...]] | Any) -> Iterator[bytes]:
    return (f"{line}\n".encode("utf-8", "replace") for (line,) in rows)


def _taken(session_id: str, holder: Holder | None) -> Exception:
    if holder is None or holder.pid is None:
        return Holder(0, None, None, None, None, None, None, is_alive=False).refusal(session_id)
    return holder.refusal(session_id)


def _end(link: Link, owner: Owner) -> None:
    owner.stop()
    link.close()


_STORES: weakref.WeakSet[PostgresStore] = weakref.WeakSet()


def _forget_all() -> None:
    for store in list(_STORES):
        store._link.forget()
        store._owner.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
