"""Database of durable runs: its URL, its connection, the tables of this package, and the events of runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import sqlite3
import threading
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pure_agent_loop.durable.values import DurableError
from pure_agent_loop.errors import ConfigError, SessionWriteError
from pure_agent_loop.events import AnyEvent, Event, EventType
from pure_agent_loop.sessions import SessionStore, SqliteStore
from pure_agent_loop.sessions.stores.postgres import PostgresStore
from pure_agent_loop.sessions.stores.postgres_pool import connect, import_psycopg
from pure_agent_loop.sessions.stores.sqlite import OpenFiles
from pure_agent_loop.support.disk import data_folder, expanded
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import clean_text, safe_str

VARIABLE = "PAL_DATABASE"
PATIENCE = 30.0  # seconds to retry while a database is unavailable
_PAUSE = 0.1
_T = TypeVar("_T")
Change = Callable[..., Any]  # function of a statement and its values
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
    """CREATE TABLE IF NOT EXISTS @turns (
        run TEXT PRIMARY KEY, session TEXT NOT NULL, place INTEGER NOT NULL, UNIQUE (session, place)
    )""",
    "CREATE TABLE IF NOT EXISTS @cancelled (run TEXT PRIMARY KEY)",
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
)
_PASSWORD = re.compile(r"(?i)(password=)[^&\s]+")


def default_database() -> str:
    """Return ``PAL_DATABASE`` if set, or else the URL of an SQLite file in the data folder."""
    named = os.environ.get(VARIABLE)
    return named or f"sqlite:///{data_folder() / 'durable.sqlite'}"


class Database:
    """Database of durable runs. May be used from several threads.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql://USER:PASSWORD@HOST/NAME``.

    Raises:
        ConfigError: The URL is neither.
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
        self._connection: Any = None
        self._files: OpenFiles | None = None  # the files when the database was first opened
        # A server that never answered is more likely a wrong URL than an outage.
        self._was_reachable = self.is_sqlite

    @property
    def display_url(self) -> str:
        """URL without its password."""
        return hide_password(self.url)

    @property
    def engine_url(self) -> str:
        """URL for DBOS: since SQLAlchemy 2.1, ``%20`` in a path is decoded to a space."""
        if not self.is_sqlite:
            return self.url
        from sqlalchemy.engine import URL

        return URL.create("sqlite", database=str(self.path)).render_as_string()

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query; write ``@`` before each table and ``?`` for each value."""
        return list(self._run(lambda connection: self._execute(connection, statement, values).fetchall()))

    def change(self, statement: str, *values: Any) -> int:
        """Change rows and return their number. May run twice if a connection breaks."""
        return int(self._run(lambda connection: self._execute(connection, statement, values).rowcount))

    def change_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Execute a statement for several rows in one transaction."""
        parameters = [_storable(row) for row in rows]

        def write(connection: Any) -> None:
            with self._transaction(connection):
                connection.cursor().executemany(self.sql(statement), parameters)

        self._run(write)

    def transaction(self, work: Callable[[Change], _T]) -> _T:
        """Execute several statements in one transaction. May run twice if a connection breaks.

        Args:
            work: Function that gets a function to execute one statement and return its cursor.
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
        """Return the session store of the runs.

        Args:
            owner: Name of the writer on PostgreSQL; None for a generated name.
            lease: Seconds without a heartbeat after which a writer on PostgreSQL may be replaced.
        """
        if self.is_sqlite:
            return SqliteStore(self.path)
        return PostgresStore(self.url, owner=owner, lease=lease)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _execute(self, connection: Any, statement: str, values: Sequence[Any]) -> Any:
        return connection.execute(self.sql(statement), _storable(values))

    def _run(self, work: Callable[[Any], _T], patience: float = PATIENCE) -> _T:
        deadline = time.monotonic() + patience
        with self._lock:
            while True:
                try:
                    if self._connection is None:
                        self._connection = self._open()
                        self._was_reachable = True
                    self.check_file()
                    return work(self._connection)
                except self.errors() as error:
                    with contextlib.suppress(Exception):
                        self.close()
                    self._connection = None
                    is_transient = self._was_reachable and self._is_transient(error)
                    if not is_transient or time.monotonic() >= deadline:
                        raise self.unavailable(safe_str(error)) from error
                time.sleep(_PAUSE)

    def check_file(self) -> None:
        """Fail if the database file was removed: in a new file its runs would start again.

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
        """Return the error for a database that cannot be used now."""
        reason = _PASSWORD.sub(r"\1***", " ".join(reason.split()))
        return DurableError(notice("library.database_unavailable", place=self.display_url, reason=reason))

    def _open(self) -> Any:
        if self._files is not None:
            self.check_file()
        elif self.is_sqlite:
            SqliteStore(self.path).prepare()
        connection = self.connect()
        try:
            self._make_tables(connection)
        except BaseException:
            connection.close()  # releases its lock for others
            raise
        return connection

    def _make_tables(self, connection: Any) -> None:
        counter = "INTEGER PRIMARY KEY AUTOINCREMENT" if self.is_sqlite else "BIGSERIAL PRIMARY KEY"
        statements = _TABLES if self.is_sqlite else (f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}", *_TABLES)
        if not self.is_sqlite:  # concurrent creation of the same table would fail
            connection.execute("SELECT pg_advisory_lock(7036874)")
        for statement in statements:
            connection.execute(self.sql(statement.replace("{counter}", counter)))
        if not self.is_sqlite:
            connection.execute("SELECT pg_advisory_unlock(7036874)")

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


def storable(text: str) -> str:
    """Return a text that every database accepts: without NUL and unpaired surrogates."""
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


def _is_path(rest: str) -> bool:
    """Return True if SQLite and DBOS can open the path after ``sqlite://``."""
    return rest.startswith("/") and len(rest) > 1 and "?" not in rest and storable(rest) == rest


def _names_database(url: str) -> bool:
    try:
        return bool(urllib.parse.urlsplit(url).path.strip("/"))
    except ValueError:
        return False


# -- events of durable runs for readers in other processes, as rows in the database ----------------------
# Complete events are kept. Deltas of an answer are joined, and deleted when the whole answer is stored.
# Events are for display: the session is authoritative, so a run does not fail if an event cannot be
# written.

LOG = logging.getLogger("pure_agent_loop")
FLUSH_SECONDS = 0.05
_DELTAS = (EventType.TEXT_DELTA, EventType.REASONING_DELTA)
_NOT_STORED = (EventType.PART, EventType.TOOL_CALL_DELTA)
_INSERT = """
INSERT INTO @events (run, attempt, place, step, type, line) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (run, attempt, place) DO NOTHING
"""
_ATTEMPTS = """
SELECT run, SUM(CASE WHEN type = ? THEN 1 ELSE 0 END), MAX(number) FROM @events
WHERE run IN ({runs}) GROUP BY run, attempt ORDER BY 3
"""
_FORGET = "DELETE FROM @events WHERE run = ? AND attempt = ? AND step = ? AND type = ?"


class EventWriter:
    """Writes the events of one attempt in batches.

    Args:
        in_thread: Function that runs a function in a thread and returns an awaitable.
    """

    def __init__(
        self, database: Database, run_id: str, attempt: str, in_thread: Callable[..., Awaitable[Any]]
    ) -> None:
        self._database, self._run, self._attempt = database, run_id, attempt
        self._in_thread = in_thread
        self._buffer: list[AnyEvent] = []
        self._place = 0
        self._task: asyncio.Task[None] | None = None

    def add(self, event: AnyEvent) -> None:
        """Buffer an event; it is written soon."""
        if event.type in _NOT_STORED:
            return
        last = self._buffer[-1] if self._buffer else None
        if last is not None and event.type in _DELTAS and (last.type, last.step) == (event.type, event.step):
            whole = {"content": f"{last.content}{event.content}"}
            self._buffer[-1] = replace(event, data=whole)
        else:
            self._buffer.append(event)
        if self._task is None:
            self._task = asyncio.create_task(self._flush_soon())

    async def close(self) -> None:
        """Write the buffered events."""
        if self._task is not None:
            await asyncio.wait({self._task})
        await self._flush()

    async def _flush_soon(self) -> None:
        try:
            while self._buffer:  # more may have been added during the write
                await asyncio.sleep(FLUSH_SECONDS)
                await self._flush()
        finally:
            self._task = None

    async def _flush(self) -> None:
        batch, self._buffer = self._buffer, []
        if not batch:
            return
        first, self._place = self._place, self._place + len(batch)
        try:
            await self._in_thread(self._write, batch, first)
        except DurableError as error:
            LOG.warning("%d events of run %s were not written: %s", len(batch), self._run, error)

    def _write(self, batch: list[AnyEvent], first: int) -> None:
        rows = [
            (self._run, self._attempt, first + number, event.step, event.type.value, _line(event))
            for number, event in enumerate(batch)
        ]
        self._database.change_many(_INSERT, rows)
        for event in batch:
            if event.type in (EventType.THOUGHT, EventType.REASONING):
                delta = _DELTAS[event.type is EventType.REASONING]
                self._database.change(_FORGET, self._run, self._attempt, event.step, delta.value)


def read_events(database: Database, run_id: str, after: int) -> list[AnyEvent]:
    """Return the next events of a run. Their numbers increase, with gaps.

    Args:
        after: Number of the last known event; 0 for none.
    """
    rows = database.rows(
        "SELECT number, line FROM @events WHERE run = ? AND number > ? ORDER BY number LIMIT 500",
        run_id,
        after,
    )
    return [Event.from_dict(json.loads(line), int(number)) for number, line in rows]


def handovers(database: Database, run_ids: Sequence[str]) -> dict[str, int]:
    """Return how often each run was left unfinished by an attempt and continued by another one.

    The process was killed, or stopped and handed the run back, or lost it to another process.

    Args:
        run_ids: Ids of the runs; a run that was never left is not in the result.
    """
    if not run_ids:
        return {}
    rows = database.rows(
        _ATTEMPTS.format(runs=", ".join("?" * len(run_ids))), EventType.LOOP_END.value, *run_ids
    )
    left_early: dict[str, list[bool]] = {}
    for run, ends, _ in rows:
        left_early.setdefault(str(run), []).append(not ends)
    # The newest attempt may be running.
    return {run: count for run, attempts in left_early.items() if (count := sum(attempts[:-1]))}


def _line(event: Event) -> str:
    plain = event.to_dict()
    if event.type is EventType.LOOP_END:
        plain["data"]["messages"] = []  # the session holds the whole history
    return json.dumps(plain)
