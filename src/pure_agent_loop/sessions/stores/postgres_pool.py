"""PostgreSQL connections: a small pool for all sessions of a store, reconnected after an outage.

Work may run twice: when a connection breaks, it is unknown whether the database executed the statement.
    Therefore each piece of work must be idempotent.

``psycopg_pool`` (3.3) was tried and is not used. That pool reports a wrong address or password only as a
timeout, without the reason; this pool fails at once with the server's own message. After a restart of the
server each pooled connection fails once, so `run` would still have to retry. A forked child inherits the
parent's connections but not the threads that open new ones, so `forget` would still be needed. Only the queue
of slots (about 20 lines) could be removed, at the cost of four more threads in each process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import random
import re
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pure_agent_loop.errors import (
    ConfigError,
    SessionError,
    SessionLockedError,
    SessionReadError,
    SessionWriteError,
)
from pure_agent_loop.support.checks import require_value
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.lazy import module_of_extra

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]
    Execute = Callable[..., psycopg.Cursor[tuple[Any, ...]]]  # function that executes a statement with values

T = TypeVar("T")
VERSION = 1
LOOP_PATIENCE = 2.0
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,50}")
_MIN_PAUSE, _MAX_PAUSE = 0.05, 1.0
# Seconds after which an unresponsive connection is given up.
_TIMEOUT = 10
_OPTIONS: dict[str, Any] = {
    "connect_timeout": _TIMEOUT,
    "keepalives": 1,
    "keepalives_idle": _TIMEOUT // 2,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": _TIMEOUT * 1000,
    "application_name": "pure-agent-loop",
}
# Connection errors, conflicts, starting and stopping servers, servers without free connections, and read-only
# servers during a failover: these errors are temporary.
_TRANSIENT = re.compile(r"08...|40001|40P01|57P0.|53300|25006")
# Not `to_regclass`, because its cache may lack tables that another process has just created.
_VERSION_TABLE = b"""
SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = 'version'
"""
_TABLES = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE @version (number integer NOT NULL);
CREATE TABLE @owners (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, host text NOT NULL,
    pid integer NOT NULL, beat timestamptz NOT NULL, lease double precision NOT NULL
);
CREATE TABLE @sessions (
    id text COLLATE "C" PRIMARY KEY, made double precision NOT NULL, fence bigint NOT NULL,
    owner integer, token text, since timestamptz
) WITH (fillfactor = 70);
CREATE TABLE @records (
    session text COLLATE "C" NOT NULL, number bigint NOT NULL, time double precision NOT NULL,
    line text NOT NULL, PRIMARY KEY (session, number)
);
INSERT INTO @version VALUES (%d);
"""
_ABANDONED: list[Any] = []
_BEATS_PER_LEASE = 5
_RETRY_SECONDS = 0.25
_INSERT_OWNER = """
INSERT INTO @owners (name, host, pid, beat, lease) VALUES (%s, %s, %s, clock_timestamp(), %s) RETURNING number
"""
_TAKE_LOCK = """
SELECT pg_try_advisory_lock(%s, %s) WHERE NOT EXISTS (
    SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND objid = %s::oid
)
"""
# The row may be missing: other processes delete the row of an owner that has been silent for a day.
_BEAT = """
INSERT INTO @owners (number, name, host, pid, beat, lease) OVERRIDING SYSTEM VALUE
VALUES (%s, %s, %s, %s, clock_timestamp(), %s) ON CONFLICT (number) DO UPDATE SET beat = clock_timestamp()
"""
_DELETE_OLD_OWNERS = """
DELETE FROM @owners o WHERE beat < now() - greatest(interval '1 day', lease * interval '2 seconds')
AND NOT EXISTS (SELECT FROM @sessions s WHERE s.owner = o.number)
"""
_RELEASE = "UPDATE @sessions SET owner = NULL, token = NULL, since = NULL WHERE id = %s AND token = %s"
# A database restart releases all locks, even those of live owners, who then have one lease to take them
# again.
_SELECT_HOLDER = """
SELECT s.fence, s.owner, s.token, o.name, o.host, o.pid, extract(epoch FROM s.since)::float8,
    o.number IS NOT NULL
    AND extract(epoch FROM clock_timestamp() - greatest(o.beat, pg_postmaster_start_time())) <= o.lease
    AND (o.beat < pg_postmaster_start_time() OR EXISTS (
        SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.classid = %s::oid AND l.objid = o.number::oid))
FROM @sessions s LEFT JOIN @owners o ON o.number = s.owner WHERE s.id = %s
"""


def import_psycopg() -> Any:
    """Import the driver.

    Raises:
        MissingExtraError: The driver is not installed.
    """
    return module_of_extra("psycopg", "PostgreSQL", "durable")


def connect(url: str, **more: str) -> Connection:
    """Open a connection in autocommit mode. An option in the URL overrides this package's default."""
    psycopg = import_psycopg()
    options = psycopg.conninfo.conninfo_to_dict(url)
    defaults = {name: value for name, value in {**_OPTIONS, **more}.items() if name not in options}
    connection: Connection = psycopg.connect(url, autocommit=True, **defaults)
    try:
        # Records must be durable regardless of the server's setting. A process that is frozen in a
        # transaction must not block others.
        connection.execute("SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '10s'")
    except BaseException:
        connection.close()
        raise
    return connection


class ConnectionPool:
    """Connection pool of one database.

    Args:
        connections: Maximum number of connections; at least two.

    Raises:
        ConfigError: A value is invalid.
        MissingExtraError: The driver is not installed.
    """

    def __init__(self, url: str, schema: str, patience: float, connections: int) -> None:
        self._psycopg = import_psycopg()
        if not _SCHEMA_NAME.fullmatch(schema):
            raise ConfigError(
                f"schema={schema!r:.100} is not a valid schema name. Use at most 51 lower-case letters, "
                "digits and '_', not starting with a digit."
            )
        require_value(connections >= 2, "connections", connections, "2 or more")
        self.url, self.patience = url, patience
        self.lock_space = zlib.crc32(schema.encode()) & 0x7FFFFFFF
        self._schema, self._connections = schema, connections
        self.name = self._display_name()
        self._pid = os.getpid()
        self._slots = self._new_slots()
        self._is_prepared = self._is_closed = False

    def sql(self, text: str) -> bytes:
        """Return a statement with the schema in place of each ``@``."""
        return text.replace("@", f"{self._schema}.").replace("{schema}", self._schema).encode()

    def run(self, work: Callable[[Execute], T], *, writing: bool = True, patience: float | None = None) -> T:
        """Run work with a connection, and retry while the database is unavailable.

        Args:
            work: Function to call with a function that executes one statement and returns its cursor; `work`
                may be called several times.
            patience: Seconds to retry; None for the store's value. In a thread with a running event loop, two
                seconds at most, because retries block the loop.

        Raises:
            SessionWriteError: The work failed, or its result is unknown.
            SessionReadError: The work failed and `writing` is False.
        """
        seconds = self.patience if patience is None else patience
        deadline = time.monotonic() + (min(seconds, LOOP_PATIENCE) if _in_event_loop() else seconds)
        pause = _MIN_PAUSE
        while True:
            try:
                return self._run_once(work)
            except (self._psycopg.Error, OSError) as error:
                remaining = deadline - time.monotonic()
                # No retry if the server has never answered: a wrong URL is more likely than an outage.
                if remaining <= 0 or not self._is_prepared or not self._is_transient(error):
                    raise self._as_session_error(error, writing=writing) from error
            time.sleep(min(remaining, pause * random.uniform(0.5, 1.0)))  # noqa: S311 - not a secret
            pause = min(_MAX_PAUSE, pause * 2)

    def close(self) -> None:
        """Close the connections after their current work; reject further work."""
        if self._is_closed or os.getpid() != self._pid:
            return
        self._is_closed = True
        for _ in range(self._connections):
            with contextlib.suppress(queue.Empty):
                connection = self._slots.get(timeout=1.0)
                if connection is not None:
                    connection.close()
        for _ in range(self._connections):  # wake waiting threads, so that they notice that it is closed
            self._slots.put(None)

    def forget(self) -> None:
        """Start with new connections in a forked child: the old ones belong to its parent."""
        old, self._slots = self._slots, self._new_slots()
        self._pid = os.getpid()
        with contextlib.suppress(queue.Empty):
            while True:
                abandon(old.get_nowait())

    def execute_on(self, connection: Connection) -> Execute:
        """Return a function that executes a statement of this store on a connection."""
        return lambda statement, values=(): connection.execute(self.sql(statement), values)

    def find_holder(self, execute: Execute, session_id: str) -> Holder | None:
        """Return the owner of a session; None if the session does not exist."""
        row = execute(_SELECT_HOLDER, (self.lock_space, session_id)).fetchone()
        return None if row is None else Holder(*row)

    def _run_once(self, work: Callable[[Execute], T]) -> T:
        with self._borrowed() as connection:
            if not self._is_prepared:
                self._prepare(connection)
                self._is_prepared = True
            return work(self.execute_on(connection))

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[Connection]:
        connection = self._slots.get()
        try:
            if self._is_closed:
                raise ConfigError("This PostgresStore is closed; create a new one.")  # noqa: TRY301 - the slot
            if connection is None or connection.closed:
                connection = connect(self.url)
            yield connection
        except BaseException:
            # The connection may be inside a transaction: do not reuse it.
            if connection is not None:
                connection.close()
            connection = None
            raise
        finally:
            self._slots.put(connection)

    def _prepare(self, connection: Connection) -> None:
        """Create the tables once, even if several processes start at the same time."""
        version = self._version(connection)
        if version is None:
            with connection.transaction():
                connection.execute(b"SELECT pg_advisory_xact_lock(%s)", (self.lock_space,))
                if self._version(connection) is None:
                    connection.execute(self.sql(_TABLES % VERSION))
            version = self._version(connection)
        if version != VERSION:
            raise SessionReadError(
                notice("library.tables_version", name=self.name, version=version, version2=VERSION)
            )

    def _version(self, connection: Connection) -> int | None:
        if connection.execute(_VERSION_TABLE, (self._schema,)).fetchone() is None:
            return None
        row = connection.execute(self.sql("SELECT max(number) FROM @version")).fetchone()
        return None if row is None else row[0]

    def _is_transient(self, error: Exception) -> bool:
        if isinstance(error, self._psycopg.InterfaceError | OSError):
            return True
        state = getattr(error, "sqlstate", None)
        if state is None:
            return isinstance(error, self._psycopg.OperationalError)
        return _TRANSIENT.fullmatch(state) is not None

    def _as_session_error(self, error: Exception, *, writing: bool) -> SessionError:
        reason = " ".join(str(error).split())
        if writing:
            return SessionWriteError(self.name, reason)
        return SessionReadError(notice("library.cannot_read", path=self.name, error=reason))

    def _display_name(self) -> str:
        """Return the name of the database for messages, without a password."""
        try:
            parts = self._psycopg.conninfo.conninfo_to_dict(self.url)
        except self._psycopg.Error as error:
            raise ConfigError(notice("library.postgres_url")) from error
        host = parts.get("host") or "localhost"
        return f"postgresql://{host}/{parts.get('dbname') or ''} (schema {self._schema})"

    def _new_slots(self) -> queue.SimpleQueue[Connection | None]:
        # A SimpleQueue is reentrant: a log may be garbage-collected while its thread is using the queue.
        slots: queue.SimpleQueue[Connection | None] = queue.SimpleQueue()
        for _ in range(self._connections):
            slots.put(None)
        return slots


def abandon(connection: Connection | None) -> None:
    """Drop a connection of the parent in a forked child, without a message to the server."""
    if connection is None or connection.closed:
        return
    # Kept forever, because garbage collection would send a message to the server.
    _ABANDONED.append(connection)
    with contextlib.suppress(Exception):
        os.close(connection.fileno())


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# -- liveness of writers -----------------------------------------------------------------------------
# A writer shows in two ways that it is alive: a PostgreSQL lock that ends with its connection, and a time in
# its row (the beat) that it renews. A killed process loses the lock at once; the heartbeat of a frozen
# process or a lost machine expires. All times come from the database's clock.


@dataclass(frozen=True, slots=True)
class Holder:
    """Owner of a session.

    Args:
        owner: Number of the owner; None if the session is free.
        pid: Process id of the owner.
        since: Time when the session was opened, in seconds since the epoch.
        is_alive: True if the owner's lock is held and its heartbeat is recent.
    """

    fence: int
    owner: int | None
    token: str | None
    name: str | None
    host: str | None
    pid: int | None
    since: float | None
    is_alive: bool

    def locked_error(self, session_id: str) -> SessionLockedError:
        """Return the error that names this owner."""
        if self.pid is None or self.since is None:
            return SessionLockedError(session_id, notice("library.unidentified_process"))
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since))
        holder = f"process {self.pid} on {self.host} since {when} (owner {self.name})"
        return SessionLockedError(session_id, holder, pid=self.pid, host=self.host, since=self.since)


class StoreOwner:
    """Heartbeat of one store: a separate connection, and a thread that renews the heartbeat.

    Args:
        lease: Seconds without a heartbeat after which the owner counts as dead.
    """

    def __init__(self, pool: ConnectionPool, name: str | None, lease: float) -> None:
        self._pool, self._lease = pool, lease
        self._configured_name = name
        self.forget()

    def forget(self) -> None:
        """Start without a heartbeat in a forked child: the existing one belongs to the parent."""
        abandon(getattr(self, "_connection", None))
        self.name = self._configured_name or f"{socket.gethostname()}-{os.getpid()}"
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._stopped = threading.Event()
        self._connection: Connection | None = None
        self._number: int | None = None
        self._thread: threading.Thread | None = None
        self._unreleased: list[tuple[str, str]] = []

    def number(self) -> int:
        """Return the number of the owner; the first call starts its heartbeat.

        Raises:
            SessionWriteError: The database is unavailable.
        """
        with self._mutex:
            if self._number is None:
                self._number = self._pool.run(self._register)
                self._start()
            return self._number

    def _start(self) -> None:
        """Write the first heartbeat, and renew it in a thread."""
        with contextlib.suppress(import_psycopg().Error, OSError):  # if this fails, the thread will try again
            self._beat()
        self._thread = threading.Thread(target=self._renew_beats, name="pal-owner", daemon=True)
        self._thread.start()

    def release(self, session_id: str, token: str) -> None:
        """Release a session for other writers; if the database is unavailable, release it later."""
        try:
            self._pool.run(lambda execute: execute(_RELEASE, (session_id, token)), patience=0)
        except Exception:  # noqa: BLE001 - a failed release must not fail the finished work
            self._unreleased.append((session_id, token))

    def stop(self) -> None:
        """Stop the heartbeat: other processes may take sessions that are still open."""
        if os.getpid() != self._pid or self._stopped.is_set():
            return
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=1.0)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _register(self, execute: Execute) -> int:
        execute(_DELETE_OLD_OWNERS)
        row = execute(_INSERT_OWNER, self._identity()).fetchone()
        assert row is not None
        return int(row[0])

    def _identity(self) -> tuple[str, str, int, float]:
        return self.name, socket.gethostname(), self._pid, self._lease

    def _renew_beats(self) -> None:
        pause = 0.0  # the first renewal is immediate, in case the first heartbeat failed
        while not self._stopped.wait(pause):
            try:
                self._beat()
                pause = self._lease / _BEATS_PER_LEASE
            except Exception:  # noqa: BLE001, PERF203 - database unavailable: writers report it
                pause = min(_RETRY_SECONDS, self._lease / _BEATS_PER_LEASE)

    def _beat(self) -> None:
        connection = self._connection
        if connection is None or connection.closed:
            connection = self._connection = connect(self._pool.url)
        try:
            self._renew(self._pool.execute_on(connection))
        except BaseException:
            connection.close()
            raise

    def _renew(self, execute: Execute) -> None:
        """Take the lock, unless this connection already holds it, and write a heartbeat."""
        # Tried at each heartbeat: the server may release the lock of a previous connection only after a
        # while.
        execute(_TAKE_LOCK, (self._pool.lock_space, self._number, self._number))
        execute(_BEAT, (self._number, *self._identity()))
        while self._unreleased:
            execute(_RELEASE, self._unreleased[0])
            self._unreleased.pop(0)
