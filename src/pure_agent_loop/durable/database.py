"""Database for durable runs: URL, connection, this package's tables, and the events of runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
import re
import sqlite3
import threading
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pure_agent_loop.durable.values import DurableError
from pure_agent_loop.errors import ConfigError, SessionWriteError
from pure_agent_loop.events import AnyEvent, Event, EventType
from pure_agent_loop.sessions import SessionStore, SqliteStore
from pure_agent_loop.sessions.stores.postgres import PostgresStore
from pure_agent_loop.sessions.stores.postgres_pool import connect, import_psycopg
from pure_agent_loop.sessions.stores.sqlite import OpenFiles
from pure_agent_loop.support.folders import data_folder, expanded
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import clean_text, safe_str
from pure_agent_loop.support.variables import DATABASE_VARIABLE

LOG = logging.getLogger("pure_agent_loop")
PATIENCE = 30.0  # seconds to retry while a database is unavailable
_PAUSE = 0.1
_SETTLED_SECONDS = 5.0  # seconds after an outage during which other connections may still be broken
_T = TypeVar("_T")
Change = Callable[..., Any]  # takes a statement and its values
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
    "CREATE TABLE IF NOT EXISTS @deleted (run TEXT PRIMARY KEY)",  # kept until the id is submitted again
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
_SELECT_LEDGER = "SELECT ledger FROM @limits WHERE name = ?"
_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"
FLUSH_SECONDS = 0.05
_DELTAS = (EventType.TEXT_DELTA, EventType.REASONING_DELTA)
_PARTIAL = EventType.PARTIAL_OUTPUT
CHANGE = "change"  # in place of `output`: lengths of the same start and end, and the new text between
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
_FORGET = "DELETE FROM @events WHERE run = ? AND attempt = ? AND step = ? AND type = ?"


def default_database() -> str:
    """Return ``PAL_DATABASE`` if set, or else the URL of an SQLite file in the data folder."""
    named = os.environ.get(DATABASE_VARIABLE)
    return named or f"sqlite:///{data_folder() / 'durable.sqlite'}"


def reason_of(error: BaseException) -> str:
    """Return why a database refused a statement; if permissions are missing, also which ones are needed."""
    cause = getattr(error, "orig", None) or error  # SQLAlchemy adds lines about the statement
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
        self._connection: Any = None
        self._files: OpenFiles | None = None  # files that existed when the database was first opened
        # If a server never answered, the URL is probably wrong.
        self._was_reachable = self.is_sqlite
        self._back_at = -math.inf  # monotonic time at which the last outage ended
        self.lost_since: float | None = None  # monotonic time of the outage's start; None if there is none

    @property
    def runs_table(self) -> str:
        """DBOS table of the runs."""
        return "workflow_status" if self.is_sqlite else "dbos.workflow_status"

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

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query; write ``@`` before each table and ``?`` for each value."""
        return list(self._run(lambda connection: self._execute(connection, statement, values).fetchall()))

    def ask(self, *statements: str) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each query, on a new connection, without waiting for an unavailable database.

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
        """Execute a statement for several rows in one transaction."""
        parameters = [_storable(row) for row in rows]

        def write(connection: Any) -> None:
            with self._transaction(connection):
                connection.cursor().executemany(self.sql(statement), parameters)

        self._run(write)

    def transaction(self, work: Callable[[Change], _T]) -> _T:
        """Execute several statements in one transaction. The statement may run twice if a connection breaks.

        Args:
            work: Function to call with a function that executes one statement and returns the cursor.
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
                    result = work(self._connection)
                except self.errors() as error:
                    self._note_loss(error)
                    with contextlib.suppress(Exception):
                        self.close()
                    self._connection = None
                    is_transient = self._was_reachable and self._is_transient(error)
                    if not is_transient or time.monotonic() >= deadline:
                        raise self.unavailable(reason_of(error)) from error
                else:
                    self._note_return()
                    return result
                time.sleep(_PAUSE)

    def is_loss(self, error: BaseException) -> bool:
        """Return True if an error on another connection means that the database is or was unavailable."""
        is_known = self.lost_since is not None or time.monotonic() - self._back_at < _SETTLED_SECONDS
        return is_known if isinstance(error, DurableError) else is_known or self._note_loss(error)

    def means_loss(self, error: BaseException | None) -> bool:
        """Return True if a driver error means that a database that worked before has become unavailable."""
        return isinstance(error, self.errors()) and self._was_reachable and self._is_transient(error)

    def _note_loss(self, error: BaseException) -> bool:
        """Log once that the database is unavailable; return False if the error has another cause."""
        if not self.means_loss(error):
            return False
        if self.lost_since is None:
            self.lost_since = time.monotonic()
            reason = _without_password(safe_str(error))
            LOG.error(notice("library.database_lost", database=self.display_url, reason=reason))
        return True

    def _note_return(self) -> None:
        since, self.lost_since = self.lost_since, None
        if since is not None:
            self._back_at = time.monotonic()
            seconds = self._back_at - since
            LOG.warning(notice("library.database_back", database=self.display_url, seconds=seconds))

    def check_file(self) -> None:
        """Fail if the database file was removed: a new file would start the runs again.

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
        elif self.is_sqlite:
            SqliteStore(self.path).prepare()
        connection = self.connect()
        try:
            self._make_tables(connection)
        except BaseException:
            connection.close()  # releases the lock on the tables
            raise
        return connection

    def _make_tables(self, connection: Any) -> None:
        counter = "INTEGER PRIMARY KEY AUTOINCREMENT" if self.is_sqlite else "BIGSERIAL PRIMARY KEY"
        statements = _TABLES if self.is_sqlite else (f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}", *_TABLES)
        if not self.is_sqlite:  # creating the same table concurrently would fail
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
        )  # SQLite is locked as a whole

        def change(execute: Change) -> _T:
            execute("INSERT INTO @limits VALUES (?, '{}') ON CONFLICT (name) DO NOTHING", key)
            ledger = json.loads(execute(select, key).fetchone()[0])
            now = time.time() if is_sqlite else execute(_CLOCK).fetchone()[0]  # read after locking
            result = work(ledger, now)
            execute("UPDATE @limits SET ledger = ? WHERE name = ?", json.dumps(ledger), key)
            return result

        return self._database.transaction(change)

    def close(self) -> None:
        """Close the connection."""
        self._database.close()


# -- events of durable runs for readers in other processes, as rows in the database ----------------------
# Complete events are kept. Deltas of an answer are joined, and deleted when the whole answer is stored. For a
# partial output, only the difference from the previous one in the same step is stored.
# Events are for display: the session is authoritative, so a run does not fail if an event cannot be
# written.


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
        self._partial = 0, ""  # step and JSON of the newest stored partial output
        self._task: asyncio.Task[None] | None = None

    def add(self, event: AnyEvent) -> None:
        """Buffer an event; it is written soon."""
        if event.type is EventType.TOOL_CALL_DELTA or (
            event.type is EventType.PART and not _announces(event)
        ):
            return
        if not self._join(event):
            self._buffer.append(event)
        if self._task is None:
            self._task = asyncio.create_task(self._flush_soon())

    def _join(self, event: AnyEvent) -> bool:
        """Join an event to a buffered event of the same kind; return False if there is none."""
        for number in range(len(self._buffer) - 1, -1, -1):
            last = self._buffer[number]
            if last.step != event.step or event.type not in (*_DELTAS, _PARTIAL):
                return False
            if last.type is event.type:
                whole = event.data if last.type is _PARTIAL else {"content": f"{last.content}{event.content}"}
                self._buffer[number] = replace(event, data=whole)
                return True
            if _PARTIAL not in (last.type, event.type):  # text deltas and partial outputs alternate
                return False
        return False

    async def close(self) -> None:
        """Write the buffered events."""
        if self._task is not None:
            await asyncio.wait({self._task})
        await self._flush()

    async def _flush_soon(self) -> None:
        try:
            while self._buffer:  # more events may have been added during the write
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
            self._partial = 0, ""  # the next partial output is stored whole
            LOG.warning("%d events of run %s were not written: %s", len(batch), self._run, error)

    def _write(self, batch: list[AnyEvent], first: int) -> None:
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
        self._database.change_many(_INSERT, rows)
        for event in batch:
            if event.type in (EventType.THOUGHT, EventType.REASONING):
                delta = _DELTAS[event.type is EventType.REASONING]
                self._database.change(_FORGET, self._run, self._attempt, event.step, delta.value)

    def _plain(self, event: AnyEvent) -> dict[str, Any]:
        plain = event.to_dict()
        if event.type is EventType.LOOP_END:
            plain["data"]["messages"] = []  # the session holds the whole history
        elif event.type is _PARTIAL:
            (step, old), new = self._partial, json.dumps(plain["data"]["output"])
            self._partial = event.step, new
            if step == event.step:
                plain["data"] = {CHANGE: _difference(old, new)}
        return plain


def _difference(old: str, new: str) -> tuple[int, int, str]:
    """Return the lengths of the common start and end of two texts, and the rest of the new one."""
    most = min(len(old), len(new))
    start = _longest(most, lambda low, high: old[low:high] == new[low:high])
    end = _longest(
        most - start,
        lambda low, high: old[len(old) - high : len(old) - low] == new[len(new) - high : len(new) - low],
    )
    return start, end, new[start : len(new) - end]


def _longest(most: int, are_equal: Callable[[int, int], bool]) -> int:
    """Return the greatest length up to which two texts are equal, by halving."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if are_equal(low, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _announces(event: AnyEvent) -> bool:
    """Return True for an event about a new call: viewers show a call before it is allowed or denied."""
    part: dict[str, Any] = event.data["part"]
    return bool(part.get("type") == "tool" and part.get("state") == "pending")


def read_events(database: Database, run_id: str, after: int) -> list[AnyEvent]:
    """Return the next events of a run. The event numbers increase, with gaps.

    Args:
        after: Number of the last known event; 0 for none.
    """
    rows = database.rows(
        "SELECT number, line, attempt FROM @events WHERE run = ? AND number > ? ORDER BY number LIMIT 500",
        run_id,
        after,
    )
    outputs: dict[tuple[str, int], str] = {}  # JSON of the newest partial outputs, by attempt and step
    events = []
    for number, line, attempt in rows:
        plain = json.loads(line)
        if plain["type"] == _PARTIAL.value:
            known = attempt, plain["step"]
            if CHANGE in plain["data"] and known not in outputs:
                outputs[known] = _output_before(database, run_id, attempt, plain["step"], number)
            outputs[known] = _changed(outputs.get(known, ""), plain["data"])
            plain["data"] = {"output": json.loads(outputs[known])}
        events.append(Event.from_dict(plain, int(number)))
    return events


def _output_before(database: Database, run_id: str, attempt: str, step: int, number: int) -> str:
    """Return the JSON of the partial output before an event."""
    text = ""
    for (line,) in database.rows(_PARTIALS, run_id, attempt, step, _PARTIAL.value, number):
        text = _changed(text, json.loads(line)["data"])
    return text


def _changed(old: str, data: Mapping[str, Any]) -> str:
    if CHANGE not in data:  # the first one in a step; older versions stored all of them whole
        return json.dumps(data["output"])
    start, end, text = data[CHANGE]
    return f"{old[:start]}{text}{old[len(old) - end :]}"


def handovers(database: Database, run_ids: Sequence[str]) -> dict[str, int]:
    """Return how often each run was left unfinished by one attempt and continued by another one.

    The process was killed, handed the run back, or lost the run to another process.

    Args:
        run_ids: Ids of the runs; runs that were never left unfinished are not in the result.
    """
    if not run_ids:
        return {}
    rows = database.rows(
        _ATTEMPTS.format(runs=", ".join("?" * len(run_ids))), EventType.LOOP_END.value, *run_ids
    )
    left_early: dict[str, list[bool]] = {}
    for run, ends, _ in rows:
        left_early.setdefault(str(run), []).append(not ends)
    # The newest attempt may still be running.
    return {run: count for run, attempts in left_early.items() if (count := sum(attempts[:-1]))}
