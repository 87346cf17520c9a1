"""Who writes: a process that holds sessions shows that it lives, and others can tell when it does not.

Two signs of life: a lock of PostgreSQL that ends with the owner's connection, and a time in its row (the
beat) that it renews. A killed process loses the first at once; one that is frozen, or whose machine is gone,
lets the second grow old. All times are the database's.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pure_agent_loop.errors import SessionLockedError
from pure_agent_loop.sessions.stores.postgres_link import Link, abandon, import_psycopg

if TYPE_CHECKING:
    from pure_agent_loop.sessions.stores.postgres_link import Connection

_BEATS_A_LEASE = 5
_RETRY_SECONDS = 0.25
_FAREWELL = 1.0
_ENTER = """
INSERT INTO @owners (name, host, pid, beat, lease) VALUES (%s, %s, %s, clock_timestamp(), %s) RETURNING number
"""
# The row may be gone: others tidy up behind one who has not been heard of for a day.
_BEAT = """
INSERT INTO @owners (number, name, host, pid, beat, lease) OVERRIDING SYSTEM VALUE
VALUES (%s, %s, %s, %s, clock_timestamp(), %s) ON CONFLICT (number) DO UPDATE SET beat = clock_timestamp()
"""
_TIDY = """
DELETE FROM @owners o WHERE beat < now() - greatest(interval '1 day', lease * interval '2 seconds')
AND NOT EXISTS (SELECT FROM @sessions s WHERE s.owner = o.number)
"""
_RELEASE = "UPDATE @sessions SET owner = NULL, token = NULL, since = NULL WHERE id = %s AND token = %s"
# After a restart of the database every lock is gone, also of those who live: they get a lease to come back.
_LOOK = """
SELECT s.fence, s.owner, s.token, o.name, o.host, o.pid, extract(epoch FROM s.since)::float8,
    o.number IS NOT NULL
    AND extract(epoch FROM clock_timestamp() - greatest(o.beat, pg_postmaster_start_time())) <= o.lease
    AND (o.beat < pg_postmaster_start_time() OR EXISTS (
        SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.classid = %s::oid AND l.objid = o.number::oid))
FROM @sessions s LEFT JOIN @owners o ON o.number = s.owner WHERE s.id = %s
"""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a session.

    Args:
        fence: How often it was taken.
        owner: The number of the owner; None if nobody has it.
        token: Names the opening.
        name: What the owner calls itself.
        host: Its machine.
        pid: Its process.
        since: Since when, in seconds since the epoch.
        is_alive: Its lock is held and its beat is young.
    """

    fence: int
    owner: int | None
    token: str | None
    name: str | None
    host: str | None
    pid: int | None
    since: float | None
    is_alive: bool

    def refusal(self, session_id: str) -> SessionLockedError:
        """The error that says who it is."""
        if self.pid is None or self.since is None:
            return SessionLockedError(session_id, "another process, which has not said which")
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since))
        words = f"process {self.pid} on {self.host} since {when} (owner {self.name})"
        return SessionLockedError(session_id, words, pid=self.pid, host=self.host, since=self.since)


def look(connection: Connection, link: Link, session_id: str) -> Holder | None:
    """Who has a session; None if there is no such session."""
    row = connection.execute(link.sql(_LOOK), (link.space, session_id)).fetchone()
    return None if row is None else Holder(*row)


class Owner:
    """The signs of life of one store: a connection of its own, and a thread that renews the beat.

    Args:
        link: The database.
        name: What the owner calls itself.
        lease: Seconds after which one that does not beat is dead.
    """

    def __init__(self, link: Link, name: str | None, lease: float) -> None:
        self._link, self._lease = link, lease
        self._given = name
        self.forget()

    def forget(self) -> None:
        """Begin anew; in a forked child the signs of life are its parent's."""
        abandon(getattr(self, "_connection", None))
        self.name = self._given or f"{socket.gethostname()}-{os.getpid()}"
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._ended = threading.Event()
        self._connection: Connection | None = None
        self._number: int | None = None
        self._thread: threading.Thread | None = None
        self._left: list[tuple[str, str]] = []

    def number(self) -> int:
        """The number of the owner, who lives from the first call on.

        Raises:
            SessionWriteError: The database does not answer.
        """
        with self._mutex:
            if self._number is None or self._thread is None:
                self._number = self._link.run(self._enter)
                with contextlib.suppress(import_psycopg().Error, OSError):  # the thread will try again
                    self._beat()
                self._thread = threading.Thread(target=self._live, name="pal-owner", daemon=True)
                self._thread.start()
            return self._number

    def release(self, session_id: str, token: str) -> None:
        """Let others write. If the database is away, it is told when it is back."""
        try:
            self._link.run(
                lambda connection: connection.execute(self._link.sql(_RELEASE), (session_id, token)),
                patience=0,
            )
        except Exception:  # noqa: BLE001 - to let go is no reason to fail: the work is done
            self._left.append((session_id, token))

    def stop(self) -> None:
        """Be dead: what is still open may be taken by others."""
        if os.getpid() != self._pid or self._ended.is_set():
            return
        self._ended.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=_FAREWELL)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _enter(self, connection: Connection) -> int:
        connection.execute(self._link.sql(_TIDY))
        row = connection.execute(self._link.sql(_ENTER), self._about()).fetchone()
        assert row is not None
        return int(row[0])

    def _about(self) -> tuple[str, str, int, float]:
        return self.name, socket.gethostname(), self._pid, self._lease

    def _live(self) -> None:
        pause = 0.0  # the first beat may not have come through
        while not self._ended.wait(pause):
            try:
                self._beat()
                pause = self._lease / _BEATS_A_LEASE
            except Exception:  # noqa: BLE001, PERF203 - the database is away; those who write say so
                pause = min(_RETRY_SECONDS, self._lease / _BEATS_A_LEASE)

    def _beat(self) -> None:
        connection = self._connection
        if connection is None or connection.closed:
            connection = self._connection = self._link.connect()
        try:
            # Also while it is held: a lock that an old connection still has is free a little later.
            connection.execute(
                b"SELECT pg_try_advisory_lock(%s, %s) WHERE NOT EXISTS (SELECT FROM pg_locks WHERE pid = "
                b"pg_backend_pid() AND locktype = 'advisory' AND objid = %s::oid)",
                (self._link.space, self._number, self._number),
            )
            connection.execute(self._link.sql(_BEAT), (self._number, *self._about()))
            while self._left:
                connection.execute(self._link.sql(_RELEASE), self._left[0])
                self._left.pop(0)
        except BaseException:
            connection.close()
            raise
