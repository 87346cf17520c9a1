"""Database for durable runs: URL, connection, this package's tables, and run events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import re
import sqlite3
import threading
import time
import urllib.parse
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

from pure_agent_loop.durable.connections import SharedConnections, SharedStore
from pure_agent_loop.durable.listener import EVENTS, RUNS, WakeupListener
from pure_agent_loop.durable.values import DurableError
from pure_agent_loop.errors import ConfigError, SessionWriteError
from pure_agent_loop.events import AnyEvent, Event, EventType
from pure_agent_loop.sessions import SessionStore, SqliteStore
from pure_agent_loop.sessions.stores.postgres_pool import connect, import_psycopg
from pure_agent_loop.sessions.stores.sqlite import OpenFiles
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.folders import data_folder, expanded
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import clean_text, safe_str
from pure_agent_loop.support.variables import DATABASE_VARIABLE

PATIENCE = 30.0  # seconds to retry while a database is unavailable
PAGE = 500  # maximum events per query
_SETTLED_SECONDS = 5.0  # seconds after an outage during which other connections may still be broken
_T = TypeVar("_T")
Change = Callable[..., Any]  # function that executes a statement with values
_SCHEMA = "pal_durable"
_TABLES = (
    "CREATE TABLE IF NOT EXISTS @agents (name TEXT PRIMARY KEY, queue TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS @workers (
        executor TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, seen DOUBLE PRECISION NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS @answers (
        run TEXT NOT NULL, step INTEGER NOT NULL, call TEXT NOT NULL, verdict TEXT NOT NULL,
        PRIMARY KEY (run, step, call)
    )""",
    """CREATE TABLE IF NOT EXISTS @answered (
        run TEXT NOT NULL, step INTEGER NOT NULL, call TEXT NOT NULL, person TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL, taken INTEGER NOT NULL, PRIMARY KEY (run, step, call)
    )""",
    "CREATE INDEX IF NOT EXISTS pal_answered_taken ON @answered (taken)",
    """CREATE TABLE IF NOT EXISTS @events (
        number {counter}, run TEXT NOT NULL, attempt TEXT NOT NULL, place INTEGER NOT NULL,
        step INTEGER NOT NULL, type TEXT NOT NULL, line TEXT NOT NULL, UNIQUE (run, attempt, place)
    )""",
    """CREATE TABLE IF NOT EXISTS @runs (
        run TEXT PRIMARY KEY, agent TEXT NOT NULL, session TEXT NOT NULL, place BIGINT NOT NULL,
        status TEXT NOT NULL, created DOUBLE PRECISION NOT NULL, attempts INTEGER NOT NULL,
        progress INTEGER NOT NULL, max_attempts INTEGER NOT NULL, UNIQUE (session, place)
    )""",
    "CREATE INDEX IF NOT EXISTS pal_runs_of_status ON @runs (status, created)",
    "CREATE INDEX IF NOT EXISTS pal_runs_of_agent ON @runs (agent, created)",
    "CREATE INDEX IF NOT EXISTS pal_runs_created ON @runs (created)",
    "CREATE INDEX IF NOT EXISTS pal_runs_repeated ON @runs (agent) WHERE attempts > 1 AND status = ''",
    """CREATE INDEX IF NOT EXISTS pal_runs_open ON @runs (session, place)
    WHERE status IN ('', 'waiting_permission', 'waiting_tool')""",
    "CREATE TABLE IF NOT EXISTS @migrations (name TEXT PRIMARY KEY)",  # completed ones
    "CREATE TABLE IF NOT EXISTS @cancelled (run TEXT PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS @exits (run TEXT PRIMARY KEY, code INTEGER NOT NULL)",  # see `WorkerProcess`
    # A row is kept until a run with its id is submitted again.
    "CREATE TABLE IF NOT EXISTS @deleted (run TEXT PRIMARY KEY)",
    """CREATE TABLE IF NOT EXISTS @inputs (
        run TEXT NOT NULL, digest TEXT NOT NULL, options TEXT NOT NULL, PRIMARY KEY (run, digest)
    )""",
    "CREATE INDEX IF NOT EXISTS pal_events_of_run ON @events (run, number)",
    """CREATE TABLE IF NOT EXISTS @schedules (
        name TEXT PRIMARY KEY, spec TEXT NOT NULL, enabled INTEGER NOT NULL, anchor DOUBLE PRECISION NOT NULL,
        next_at DOUBLE PRECISION NOT NULL, revision INTEGER NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS pal_schedules_due ON @schedules (enabled, next_at)",
    """CREATE TABLE IF NOT EXISTS @firings (
        number {counter}, run TEXT NOT NULL UNIQUE, schedule TEXT NOT NULL, due DOUBLE PRECISION NOT NULL,
        spec TEXT NOT NULL, state TEXT NOT NULL, answer TEXT NOT NULL, detail TEXT NOT NULL,
        tries INTEGER NOT NULL, not_before DOUBLE PRECISION NOT NULL, owner TEXT NOT NULL,
        changed DOUBLE PRECISION NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS pal_firings_state ON @firings (state, number)",
    "CREATE INDEX IF NOT EXISTS pal_firings_of_schedule ON @firings (schedule, number)",
    """CREATE TABLE IF NOT EXISTS @notices (
        number {counter}, run TEXT NOT NULL UNIQUE, session TEXT NOT NULL, schedule TEXT NOT NULL,
        due TEXT NOT NULL, answer TEXT NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS pal_notices_of_session ON @notices (session, number)",
    "CREATE TABLE IF NOT EXISTS @limits (name TEXT PRIMARY KEY, ledger TEXT NOT NULL)",
)
_PASSWORD = re.compile(r"(?i)(password=)[^&\s]+")
# Commit without waiting for the disk: a commit with notifications holds up all other such commits.
_NOTIFY = """
WITH mode AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set)
SELECT pg_notify(change.channel, change.topic)
FROM mode, unnest(?::text[], ?::text[]) AS change (channel, topic)
WHERE mode.set IS NOT NULL
"""
_SELECT_LEDGER = "SELECT ledger FROM @limits WHERE name = ?"
_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"
FLUSH_SECONDS = 0.05
_DELTAS = (EventType.TEXT_DELTA, EventType.REASONING_DELTA)
_PARTIAL = EventType.PARTIAL_OUTPUT
# Key in place of `output`: lengths of the unchanged start and end, and the new text between them.
CHANGE = "change"
_INSERT = """
INSERT INTO @events (run, attempt, place, step, type, line)
SELECT ?, ?, ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM @deleted WHERE run = ?)
ON CONFLICT (run, attempt, place) DO NOTHING
"""
_PARTIALS = """
SELECT line FROM @events WHERE run = ? AND attempt = ? AND step = ? AND type = ? AND number < ?
ORDER BY number
"""
_ATTEMPTS = """
SELECT run, SUM(CASE WHEN type = ? THEN 1 ELSE 0 END), MAX(number) FROM @events
WHERE run IN ({runs}) GROUP BY run, attempt ORDER BY 3
"""
_DATABASES: WeakSet[Database] = WeakSet()
_FORGET = "DELETE FROM @events WHERE run = ? AND attempt = ? AND step = ? AND type = ?"


def default_database() -> str:
    """Return ``PAL_DATABASE`` if set, or else the URL of an SQLite file in the data folder."""
    named = os.environ.get(DATABASE_VARIABLE)
    return named or f"sqlite:///{data_folder() / 'durable.sqlite'}"


def reason_of(error: BaseException) -> str:
    """Return why a database rejected a statement; if permissions are missing, name those that are needed."""
    # Use the driver's error, because SQLAlchemy adds lines about the statement.
    cause = getattr(error, "orig", None) or error
    reason = safe_str(cause).splitlines()[0] if cause is not error else safe_str(error)
    return reason + (notice("library.database_rights") if getattr(cause, "sqlstate", None) == "42501" else "")


class Database:
    """Database of durable runs. May be used from several threads.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql://USER:PASSWORD@HOST/NAME``.

    Raises:
        ConfigError: The URL has neither form.
    """

    def __init__(self, url: str) -> None:
        scheme, _, address = str(url).partition("://")
        self.is_sqlite = scheme == "sqlite"
        if self.is_sqlite and _is_path(address):
            self.path = expanded(address[1:]).absolute()
            self.url = f"sqlite:///{self.path}"
        elif scheme in ("postgresql", "postgres") and _names_database(url):
            self.url = f"postgresql://{address}"
        else:
            raise ConfigError(notice("library.database_url", url=hide_password(url)))
        self._lock = threading.RLock()
        self._connection: Any = None  # to SQLite
        self._connections = None if self.is_sqlite else SharedConnections(self.url)
        self._is_prepared = False
        new_listener = partial(connect, self.url, application_name="pure-agent-loop listener")
        self.listener = WakeupListener(None if self.is_sqlite else new_listener, self._notify)
        self._files: OpenFiles | None = None  # files that existed when the database was first opened
        # If a server has never answered, its URL is probably wrong, so do not wait for it.
        self._was_reachable = self.is_sqlite
        self._back_at = -math.inf  # monotonic time at which the last outage ended
        self.lost_since: float | None = None  # monotonic time of the outage's start; None if there is none
        _DATABASES.add(self)

    @property
    def runs_table(self) -> str:
        """Name of DBOS's run table."""
        return "workflow_status" if self.is_sqlite else "dbos.workflow_status"

    @property
    def engine(self) -> Any:
        """SQLAlchemy engine that uses this process's connections; None on SQLite.

        Raises:
            MissingExtraError: The extra is not installed.
        """
        return None if self._connections is None else self._connections.engine

    @property
    def display_url(self) -> str:
        """URL without its password."""
        return hide_password(self.url)

    @property
    def engine_url(self) -> str:
        """URL for DBOS, encoded for SQLAlchemy 2.1 or later, which decodes ``%20`` in a path to a space."""
        if not self.is_sqlite:
            return self.url
        from sqlalchemy.engine import URL

        return URL.create("sqlite", database=str(self.path)).render_as_string()

    def has_table(self, on_sqlite: str, on_postgres: str) -> bool:
        """Return True if a table exists; its name depends on the kind of database."""
        if self.is_sqlite:
            return bool(self.rows("SELECT 1 FROM sqlite_master WHERE name = ?", on_sqlite))
        return bool(self.rows("SELECT 1 WHERE to_regclass(?) IS NOT NULL", on_postgres))

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query; write ``@`` before each table and ``?`` for each value."""
        return list(self._run(lambda connection: self._execute(connection, statement, values).fetchall()))

    def ask(self, *statements: str) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each query, without waiting for the pool or for an unavailable database.

        Raises:
            DurableError: The database is unavailable, or lacks a table.
        """
        try:
            self.check_file()
            with contextlib.closing(self.connect()) as connection:
                return [list(self._execute(connection, each, ()).fetchall()) for each in statements]
        except self.errors() as error:
            raise self.unavailable(reason_of(error)) from error

    def change(self, statement: str, *values: Any) -> int:
        """Change rows and return their number. The statement may run twice if a connection breaks."""
        return int(self._run(lambda connection: self._execute(connection, statement, values).rowcount))

    def change_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Execute a statement once per row of values, in one transaction."""
        parameters = [_storable(row) for row in rows]

        def write(connection: Any) -> None:
            with self._transaction(connection):
                connection.cursor().executemany(self.sql(statement), parameters)

        self._run(write)

    def transaction(self, work: Callable[[Change], _T]) -> _T:
        """Execute several statements in one transaction. If a connection breaks, `work` may be called twice.

        Args:
            work: Function to call; its argument is a function that executes one statement and returns the
                cursor.
        """

        def write(connection: Any) -> _T:
            with self._transaction(connection):
                return work(lambda statement, *values: self._execute(connection, statement, values))

        return self._run(write)

    def prepare(self) -> None:
        """Create missing tables.

        Raises:
            DurableError: The database is unavailable, or the tables cannot be created.
            MissingExtraError: The driver for PostgreSQL is not installed.
            SessionError: The file belongs to another program.
        """
        self._run(lambda _: None, patience=0.0)

    def connect(self) -> Any:
        """Open a connection in autocommit mode."""
        if self.is_sqlite:
            connection = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA synchronous = NORMAL")
            return connection
        return connect(self.url)

    def sessions(self, *, owner: str | None = None, lease: float = 10.0) -> SessionStore:
        """Return the session store for the runs.

        Args:
            owner: Name of the writer on PostgreSQL; None for a generated name.
            lease: Seconds without a heartbeat after which a writer on PostgreSQL may be replaced.
        """
        if self._connections is None:
            return SqliteStore(self.path)
        return SharedStore(self.url, self._connections, self.listener, owner=owner, lease=lease)

    def close(self) -> None:
        """Close the connections."""
        self.listener.close()
        if self._connections is not None:
            self._connections.close()
        with self._lock:
            self._close_file()

    def forget(self) -> None:
        """Use new connections to PostgreSQL in a forked child: the old ones belong to its parent."""
        self._lock = threading.RLock()  # a new lock, because a thread of the parent may have held the old one
        if self._connections is not None:
            self._connections.forget()
        self.listener.forget()

    def _close_file(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _notify(self, batch: Sequence[tuple[str, str]]) -> None:
        self._run(
            lambda connection: self._execute(
                connection, _NOTIFY, [list(each) for each in zip(*batch, strict=True)]
            ),
            0.0,
        )

    def _execute(self, connection: Any, statement: str, values: Sequence[Any]) -> Any:
        return connection.execute(self.sql(statement), _storable(values))

    def _run(self, work: Callable[[Any], _T], patience: float = PATIENCE) -> _T:
        deadline = time.monotonic() + patience
        while True:
            try:
                with self._connected() as connection:
                    result = work(connection)
            except self.errors() as error:
                self._note_loss(error)
                self._is_prepared = False
                if self._connections is not None and not self._was_reachable:
                    self._connections.close()
                is_transient = self._was_reachable and self._is_transient(error)
                if not is_transient or time.monotonic() >= deadline:
                    raise self.unavailable(reason_of(error)) from error
            else:
                self._note_return()
                return result
            time.sleep(0.1)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        if self._connections is not None:
            with self._connections.lend() as connection:
                if not self._is_prepared:
                    self._make_tables(connection)
                    self._is_prepared = self._was_reachable = True
                yield connection
            return
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._open()
                self.check_file()
                yield self._connection
            except self.errors():
                with contextlib.suppress(Exception):
                    self._close_file()
                raise

    def is_loss(self, error: BaseException) -> bool:
        """Return True if an error on another connection means that the database is or recently was away."""
        is_known = self.lost_since is not None or time.monotonic() - self._back_at < _SETTLED_SECONDS
        return is_known if isinstance(error, DurableError) else is_known or self._note_loss(error)

    def means_loss(self, error: BaseException | None) -> bool:
        """Return True if a driver error means that a database that worked before has become unavailable."""
        return isinstance(error, self.errors()) and self._was_reachable and self._is_transient(error)

    def _note_loss(self, error: BaseException) -> bool:
        """Log once that the database is unavailable; return False if the error has another cause."""
        if not self.means_loss(error):
            return False
        with self._lock:
            is_new, self.lost_since = self.lost_since is None, self.lost_since or time.monotonic()
        if is_new:
            reason = _without_password(safe_str(error))
            LOG.error(notice("library.database_lost", database=self.display_url, reason=reason))
        return True

    def _note_return(self) -> None:
        with self._lock:
            since, self.lost_since = self.lost_since, None
        if since is not None:
            self._back_at = time.monotonic()
            seconds = self._back_at - since
            LOG.warning(notice("library.database_back", database=self.display_url, seconds=seconds))

    def check_file(self) -> None:
        """Fail if the database file was removed, because with a new file all runs would start over.

        Raises:
            DurableError: The file was removed or replaced.
        """
        if self._files is None and self.is_sqlite:
            self._files = OpenFiles(self.path)
        elif self._files is not None:
            try:
                self._files.check()
            except SessionWriteError as error:
                raise self.unavailable(f"{error.reason}.") from error

    def unavailable(self, reason: str) -> DurableError:
        """Return the error for a database that cannot be used at the moment."""
        reason = _without_password(reason)
        return DurableError(notice("library.database_unavailable", place=self.display_url, reason=reason))

    def _open(self) -> Any:
        if self._files is not None:
            self.check_file()
        else:
            SqliteStore(self.path).prepare()
        connection = self.connect()
        try:
            self._make_tables(connection)
        except BaseException:
            connection.close()  # closing also releases the lock on the tables
            raise
        return connection

    def _make_tables(self, connection: Any) -> None:
        counter = "INTEGER PRIMARY KEY AUTOINCREMENT" if self.is_sqlite else "BIGSERIAL PRIMARY KEY"
        statements = [statement.replace("{counter}", counter) for statement in _TABLES]
        if self.is_sqlite:
            for statement in statements:
                connection.execute(self.sql(statement))
            return
        # One process at a time, because creating the same table concurrently fails.
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(7036874)")
            for statement in (f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}", *statements):
                connection.execute(self.sql(statement))

    @contextlib.contextmanager
    def _transaction(self, connection: Any) -> Iterator[None]:
        if not self.is_sqlite:
            with connection.transaction():
                yield
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def sql(self, statement: str) -> str:
        """Return a statement in the dialect of this database."""
        if self.is_sqlite:
            return statement.replace("@", "pal_")
        return statement.replace("@", f"{_SCHEMA}.").replace("?", "%s")

    def errors(self) -> tuple[type[BaseException], ...]:
        """Return the exception types of the driver."""
        return (sqlite3.Error,) if self.is_sqlite else (import_psycopg().Error,)

    def _is_transient(self, error: BaseException) -> bool:
        if self.is_sqlite:
            return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
        return isinstance(error, (import_psycopg().OperationalError, import_psycopg().InterfaceError))


def _forget_all() -> None:
    for database in list(_DATABASES):
        database.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def storable(text: str) -> str:
    """Replace NUL and unpaired surrogates in a string, because some databases reject them."""
    return clean_text(text).replace("\0", "\ufffd")


def _storable(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(storable(value) if isinstance(value, str) else value for value in values)


def hide_password(url: str) -> str:
    """Return a URL without its password."""
    try:
        parts = urllib.parse.urlsplit(url)
        if parts.password:
            user = parts.netloc.rpartition("@")[0].partition(":")[0]
            host = parts.netloc.rpartition("@")[2]
            url = urllib.parse.urlunsplit(parts._replace(netloc=f"{user}:***@{host}"))
    except ValueError:
        return "(unreadable)"
    return _PASSWORD.sub(r"\1***", url)


def _without_password(reason: str) -> str:
    return _PASSWORD.sub(r"\1***", " ".join(reason.split()))


def _is_path(rest: str) -> bool:
    """Return True if SQLite and DBOS can open the path after ``sqlite://``."""
    return rest.startswith("/") and len(rest) > 1 and "?" not in rest and storable(rest) == rest


def _names_database(url: str) -> bool:
    try:
        return bool(urllib.parse.urlsplit(url).path.strip("/"))
    except ValueError:
        return False


class SharedLimits:
    """Limits per minute, shared by all processes that use a database; the `store` of a `Limiter`.

    Args:
        url: Database URL, as for `Engine`; None for the default URL.

    Raises:
        ConfigError: The URL is invalid.
    """

    def __init__(self, url: str | None = None) -> None:
        self._database = Database(url or default_database())

    def change(self, key: str, work: Callable[[dict[str, Any], float], _T]) -> _T:
        """Change a ledger under a lock, using the database's clock. See `LimitStore.change`.

        Raises:
            DurableError: The database is unavailable.
        """
        is_sqlite = self._database.is_sqlite
        select = (
            _SELECT_LEDGER if is_sqlite else f"{_SELECT_LEDGER} FOR UPDATE"
        )  # on SQLite, the transaction locks the whole database

        def change(execute: Change) -> _T:
            execute("INSERT INTO @limits VALUES (?, '{}') ON CONFLICT (name) DO NOTHING", key)
            ledger = read_json(execute(select, key).fetchone()[0])
            # Read the time after locking the row.
            result = work(ledger, time.time() if is_sqlite else execute(_CLOCK).fetchone()[0])
            execute("UPDATE @limits SET ledger = ? WHERE name = ?", json.dumps(ledger), key)
            return result

        return self._database.transaction(change)

    def close(self) -> None:
        """Close the connection."""
        self._database.close()


# -- events of durable runs for readers in other processes, as rows in the database ----------------------
# Complete events are kept. Deltas of an answer are joined, and deleted when the complete answer is stored.
# For a partial output, only the difference from the previous one in the same step is stored. Events are for
# display: the session is authoritative, so a run does not fail if an event cannot be written.


class EventClock:
    """Writes the events of all of a worker's runs together, in one transaction per `FLUSH_SECONDS`.

    Args:
        in_thread: Function that runs a function in a thread and returns an awaitable.
    """

    def __init__(self, database: Database, in_thread: Callable[..., Awaitable[Any]]) -> None:
        self._database, self._in_thread = database, in_thread
        self._writers: list[EventWriter] = []
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()  # one write at a time keeps the order of the events

    def note(self, writer: EventWriter) -> None:
        """Write a run's buffered events soon."""
        if writer not in self._writers:
            self._writers.append(writer)
        if self._task is None:
            self._task = asyncio.create_task(self._write_soon())

    async def _write_soon(self) -> None:
        try:
            while self._writers:  # repeat for events added during the write
                await asyncio.sleep(FLUSH_SECONDS)
                writers, self._writers = self._writers, []
                await self.write(writers)
        finally:
            self._task = None

    async def write(self, writers: Sequence[EventWriter]) -> None:
        """Write the given runs' buffered events now."""
        async with self._turn:
            batches = [(writer, *writer.take()) for writer in writers]
            rows = [row for _, rows, _ in batches for row in rows]
            if not rows:
                return
            try:
                await self._in_thread(self._write, rows, [each for _, _, whole in batches for each in whole])
            except DurableError as error:
                for writer, lost, _ in batches:
                    writer.note_loss(len(lost), error)

    def _write(self, rows: Sequence[tuple[Any, ...]], whole: Sequence[tuple[Any, ...]]) -> None:
        self._database.change_many(_INSERT, rows)
        if whole:
            self._database.change_many(_FORGET, whole)
        for run_id in dict.fromkeys(row[0] for row in rows):
            self._database.listener.send(RUNS, f"{run_id}{EVENTS}")


class EventWriter:
    """Buffers one attempt's events, which the clock writes in batches."""

    def __init__(self, clock: EventClock, run_id: str, attempt: str) -> None:
        self._clock, self._run, self._attempt = clock, run_id, attempt
        self._buffer: list[AnyEvent] = []
        self._place = 0
        self._partial = 0, ""  # step and JSON of the newest stored partial output
        self._deltas: set[tuple[int, str]] = set()  # steps and types of stored deltas

    def add(self, event: AnyEvent) -> None:
        """Buffer an event; it is written soon."""
        if event.type is EventType.TOOL_CALL_DELTA or (
            event.type is EventType.PART and not _is_needed(event)
        ):
            return
        if not self._join(event):
            self._buffer.append(event)
        self._clock.note(self)

    def _join(self, event: AnyEvent) -> bool:
        """Merge an event into a buffered event of the same kind; return False if there is none."""
        for number in range(len(self._buffer) - 1, -1, -1):
            last = self._buffer[number]
            if last.step != event.step or event.type not in (*_DELTAS, _PARTIAL):
                return False
            if last.type is event.type:
                whole = event.data if last.type is _PARTIAL else {"content": f"{last.content}{event.content}"}
                self._buffer[number] = replace(event, data=whole)
                return True
            # Deltas and partial outputs alternate, so look past one kind for the other, but past nothing
            # else.
            if _PARTIAL not in (last.type, event.type):
                return False
        return False

    async def close(self) -> None:
        """Write the buffered events."""
        await self._clock.write([self])

    def note_loss(self, number: int, error: DurableError) -> None:
        """Log that events were not written."""
        self._partial = 0, ""  # store the next partial output whole
        LOG.warning("%d events of run %s were not written: %s", number, self._run, error)

    def take(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Return the buffered events as rows, and the keys of deltas whose answer is now complete."""
        batch, self._buffer = self._buffer, []
        first, self._place = self._place, self._place + len(batch)
        rows = [
            (
                self._run,
                self._attempt,
                first + number,
                event.step,
                event.type.value,
                json.dumps(self._plain(event)),
                self._run,
            )
            for number, event in enumerate(batch)
        ]
        self._deltas |= {(event.step, event.type.value) for event in batch if event.type in _DELTAS}
        whole = {
            (event.step, _DELTAS[event.type is EventType.REASONING].value)
            for event in batch
            if event.type in (EventType.THOUGHT, EventType.REASONING)
        }
        return rows, [(self._run, self._attempt, *each) for each in whole & self._deltas]

    def _plain(self, event: AnyEvent) -> dict[str, Any]:
        plain = event.to_dict()
        if event.type is EventType.LOOP_END:
            plain["data"]["messages"] = []  # omitted, because the session holds the whole history
        elif event.type is _PARTIAL:
            (step, old), new = self._partial, json.dumps(plain["data"]["output"])
            self._partial = event.step, new
            if step == event.step:
                plain["data"] = {CHANGE: _difference(old, new)}
        return plain


def _difference(old: str, new: str) -> tuple[int, int, str]:
    """Return the lengths of two strings' common start and end, and the rest of the new one."""
    most = min(len(old), len(new))
    # The strings may be long, so find the first difference by bisection.
    start = bisect_left(range(1, most + 1), True, key=lambda length: old[:length] != new[:length])
    rest = range(1, most - start + 1)
    end = bisect_left(rest, True, key=lambda length: old[-length:] != new[-length:])
    return start, end, new[start : len(new) - end]


def _is_needed(event: AnyEvent) -> bool:
    """Return True for a part that viewers need: a pending call, or finished thinking with its times."""
    part: dict[str, Any] = event.data["part"]
    return bool(
        part.get("ended")
        if part.get("type") == "reasoning"
        else (part.get("type"), part.get("state")) == ("tool", "pending")
    )


def read_events(database: Database, run_id: str, after: int) -> list[AnyEvent]:
    """Return a run's next events. The event numbers increase, with gaps.

    Args:
        after: Number of the last known event; 0 to begin at the first.
    """
    rows = database.rows(
        "SELECT number, line, attempt FROM @events WHERE run = ? AND number > ? ORDER BY number LIMIT ?",
        run_id,
        after,
        PAGE,
    )
    outputs: dict[tuple[str, int], str] = {}  # JSON of the newest partial outputs, by attempt and step
    events = []
    for number, line, attempt in rows:
        plain = read_json(line)
        if plain["type"] == _PARTIAL.value:
            known = attempt, plain["step"]
            if CHANGE in plain["data"] and known not in outputs:
                outputs[known] = _output_before(database, run_id, attempt, plain["step"], number)
            outputs[known] = _changed(outputs.get(known, ""), plain["data"])
            plain["data"] = {"output": read_json(outputs[known])}
        events.append(Event.from_dict(plain, int(number)))
    return events


def _output_before(database: Database, run_id: str, attempt: str, step: int, number: int) -> str:
    """Return the JSON of the partial output before an event."""
    text = ""
    for (line,) in database.rows(_PARTIALS, run_id, attempt, step, _PARTIAL.value, number):
        text = _changed(text, read_json(line)["data"])
    return text


def _changed(old: str, data: Mapping[str, Any]) -> str:
    # The first partial output of a step, and any from an older version, is stored whole.
    if CHANGE not in data:
        return json.dumps(data["output"])
    start, end, text = data[CHANGE]
    return f"{old[:start]}{text}{old[len(old) - end :]}"


def handovers(database: Database, run_ids: Sequence[str]) -> dict[str, int]:
    """Count, for each run, the attempts that did not finish it and were followed by another attempt.

    The process of such an attempt was killed, handed the run back, or lost the run to another process.

    Args:
        run_ids: Ids of the runs; a run without such attempts is not in the result.
    """
    if not run_ids:
        return {}
    rows = database.rows(
        _ATTEMPTS.format(runs=", ".join("?" * len(run_ids))), EventType.LOOP_END.value, *run_ids
    )
    left_early: dict[str, list[bool]] = {}
    for run, ends, _ in rows:
        left_early.setdefault(str(run), []).append(not ends)
    # The newest attempt is not counted, because it may still be running.
    return {run: count for run, attempts in left_early.items() if (count := sum(attempts[:-1]))}
