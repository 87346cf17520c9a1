"""The one database of durable runs: what its address says, and the few tables beside those of the engine."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from pure_agent_loop.durable.values import DurableError
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.sessions import SessionStore, SqliteStore
from pure_agent_loop.support.paths import data_folder, expanded
from pure_agent_loop.support.text import clean_text, safe_str

VARIABLE = "PAL_DATABASE"
PATIENCE = 30.0  # seconds that a database may be away
_PAUSE = 0.1
_T = TypeVar("_T")
Change = Callable[..., Any]  # a statement and its values
_SCHEMA = "pal_durable"
# A connection whose other end is gone without a word must be noticed.
_OPTIONS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_TABLES = (
    "CREATE TABLE IF NOT EXISTS @agents (name TEXT PRIMARY KEY, queue TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS @workers (
        executor TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, seen DOUBLE PRECISION NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS @answers (
        run TEXT NOT NULL, step INTEGER NOT NULL, call TEXT NOT NULL, verdict TEXT NOT NULL,
        PRIMARY KEY (run, step, call)
    )""",
    """CREATE TABLE IF NOT EXISTS @events (
        number {counter}, run TEXT NOT NULL, attempt TEXT NOT NULL, place INTEGER NOT NULL,
        step INTEGER NOT NULL, type TEXT NOT NULL, line TEXT NOT NULL, UNIQUE (run, attempt, place)
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
    """``PAL_DATABASE`` if it is set, else an SQLite file in the data folder."""
    named = os.environ.get(VARIABLE)
    return named or f"sqlite:///{data_folder() / 'durable.sqlite'}"


class Database:
    """Where durable runs are kept. May be used from several threads.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql://USER:PASSWORD@HOST/NAME``.

    Raises:
        ConfigError: It is neither.
    """

    def __init__(self, url: str) -> None:
        scheme, _, rest = str(url).partition("://")
        self.is_sqlite = scheme == "sqlite"
        if self.is_sqlite and _is_path(rest):
            self.path = expanded(rest[1:]).absolute()
            self.url = f"sqlite:///{self.path}"
        elif scheme in ("postgresql", "postgres") and _names_database(url):
            self.url = f"postgresql://{rest}"
        else:
            raise ConfigError(
                f"database={hidden(url)!r:.200} is no address. Use sqlite:///PATH for one machine, or "
                "postgresql://USER:PASSWORD@HOST/NAME for several."
            )
        self._lock = threading.RLock()
        self._connection: Any = None
        # A server that has never answered is more likely named wrongly than away.
        self._was_there = self.is_sqlite

    @property
    def shown(self) -> str:
        """The address without its password."""
        return hidden(self.url)

    @property
    def engine_url(self) -> str:
        """The address as the engine reads it: from SQLAlchemy 2.1 on, ``%20`` in a path is a blank."""
        if not self.is_sqlite:
            return self.url
        from sqlalchemy.engine import URL

        return URL.create("sqlite", database=str(self.path)).render_as_string()

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a query finds; ``@`` stands before each table, ``?`` for each value."""
        fit = _storable(values)
        found = self._run(lambda connection: connection.execute(self.sql(statement), fit).fetchall())
        return list(found)

    def change(self, statement: str, *values: Any) -> int:
        """Change rows and say how many. It may be done twice if a connection breaks."""
        fit = _storable(values)
        return int(self._run(lambda connection: connection.execute(self.sql(statement), fit).rowcount))

    def change_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """The same statement for several rows, in one transaction."""

        fit = [_storable(row) for row in rows]

        def write(connection: Any) -> None:
            with self._transaction(connection):
                connection.cursor().executemany(self.sql(statement), fit)

        self._run(write)

    def together(self, work: Callable[[Change], _T]) -> _T:
        """Several statements in one transaction. It may be done twice if a connection breaks.

        Args:
            work: Given a function that runs one statement and gives its cursor.
        """

        def write(connection: Any) -> _T:
            with self._transaction(connection):
                return work(
                    lambda statement, *values: connection.execute(self.sql(statement), _storable(values))
                )

        found: _T = self._run(write)
        return found

    def prepare(self) -> None:
        """Make what is missing.

        Raises:
            DurableError: It cannot be reached, or nothing can be made there.
            MissingExtraError: The driver for PostgreSQL is not installed.
            SessionError: The file is no database of ours.
        """
        self._run(lambda _: None, patience=0.0)

    def connect(self) -> Any:
        """A new connection, in which each statement is a transaction."""
        if self.is_sqlite:
            connection = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA synchronous = NORMAL")
            return connection
        return _psycopg().connect(self.url, autocommit=True, **_options(self.url))

    def sessions(self, *, owner: str | None = None, lease: float = 10.0) -> SessionStore:
        """The sessions of the runs in it.

        Args:
            owner: Names the writer on PostgreSQL; None for a name of its own.
            lease: Seconds of silence after which a writer on PostgreSQL may be replaced.
        """
        if self.is_sqlite:
            return SqliteStore(self.path)
        from pure_agent_loop.sessions.stores.postgres import PostgresStore

        return PostgresStore(self.url, owner=owner, lease=lease)

    def close(self) -> None:
        """Give the connection back."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _run(self, work: Callable[[Any], Any], patience: float = PATIENCE) -> Any:
        give_up = time.monotonic() + patience
        with self._lock:
            while True:
                try:
                    if self._connection is None:
                        self._connection = self._open()
                        self._was_there = True
                    return work(self._connection)
                except self.errors() as error:
                    with contextlib.suppress(Exception):
                        self.close()
                    self._connection = None
                    may_pass = self._was_there and self._is_passing(error)
                    if not may_pass or time.monotonic() >= give_up:
                        raise DurableError(
                            f"The database {self.shown} cannot be used: {self._words(error)}"
                        ) from error
                time.sleep(_PAUSE)

    def _open(self) -> Any:
        if self.is_sqlite:
            SqliteStore(self.path).prepare()
        connection = self.connect()
        try:
            self._make_tables(connection)
        except BaseException:
            connection.close()  # or others wait for its lock
            raise
        return connection

    def _make_tables(self, connection: Any) -> None:
        counter = "INTEGER PRIMARY KEY AUTOINCREMENT" if self.is_sqlite else "BIGSERIAL PRIMARY KEY"
        statements = _TABLES if self.is_sqlite else (f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}", *_TABLES)
        if not self.is_sqlite:  # two that make the same thing at once would disturb each other
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
        """A statement in the words of this database."""
        if self.is_sqlite:
            return statement.replace("@", "pal_")
        return statement.replace("@", f"{_SCHEMA}.").replace("?", "%s")

    def errors(self) -> tuple[type[BaseException], ...]:
        """What the driver raises."""
        return (sqlite3.Error,) if self.is_sqlite else (_psycopg().Error,)

    def _is_passing(self, error: BaseException) -> bool:
        if self.is_sqlite:
            return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
        return isinstance(error, (_psycopg().OperationalError, _psycopg().InterfaceError))

    def _words(self, error: BaseException) -> str:
        return _PASSWORD.sub(r"\1***", " ".join(safe_str(error).split()))


def storable(text: str) -> str:
    """A text as every database takes it: PostgreSQL keeps no NUL, and none keeps half a character."""
    return clean_text(text).replace("\0", "\ufffd")


def _storable(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(storable(each) if isinstance(each, str) else each for each in values)


def hidden(url: str) -> str:
    """An address without the password in it."""
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
    """True for what stands behind ``sqlite://`` if SQLite and the engine underneath can open it."""
    return rest.startswith("/") and len(rest) > 1 and "?" not in rest and storable(rest) == rest


def _names_database(url: str) -> bool:
    try:
        return bool(urllib.parse.urlsplit(url).path.strip("/"))
    except ValueError:
        return False


def _options(url: str) -> dict[str, Any]:
    """What the address itself does not say."""
    said = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
    return {name: value for name, value in _OPTIONS.items() if name not in said}


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise MissingExtraError("PostgreSQL", "durable") from error
    return psycopg
