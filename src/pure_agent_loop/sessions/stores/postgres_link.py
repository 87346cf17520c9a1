"""The connections to PostgreSQL: a few for all sessions of a store, made anew when the database comes back.

Work that is handed in may be done twice: when a connection breaks, nobody knows whether the database did what
it was asked. So each piece of work must come to the same, done once or twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import random
import re
import time
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pure_agent_loop.errors import (
    ConfigError,
    MissingExtraError,
    SessionError,
    SessionReadError,
    SessionWriteError,
)

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")
VERSION = 1
LOOP_PATIENCE = 2.0
_FAREWELL = 1.0
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,50}")
_LEAST_PAUSE, _MOST_PAUSE = 0.05, 1.0
# A connection whose other end is gone without a word is given up after about this many seconds.
_SILENCE = 10
_OPTIONS: dict[str, Any] = {
    "connect_timeout": _SILENCE,
    "keepalives": 1,
    "keepalives_idle": _SILENCE // 2,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": _SILENCE * 1000,
    "application_name": "pure-agent-loop",
}
# Connection errors, conflicts, a server that starts or stops, has no place left for a connection, or only
# reads because another has its part: it may be otherwise in a moment.
_PASSING = re.compile(r"08...|40001|40P01|57P0.|53300|25006")
# Not `to_regclass`: that may look into a cache from before another process made them.
_IS_THERE = b"""
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


def import_psycopg() -> Any:
    """The driver.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import psycopg
    except ImportError as error:
        raise MissingExtraError("PostgresStore", "durable") from error
    return psycopg


class Link:
    """Connections to one database.

    Args:
        url: The database.
        schema: Where the tables stand.
        patience: Seconds to go on trying while the database is away.
        connections: How many are used at once, at most; at least two.

    Raises:
        ConfigError: A value cannot be right.
        MissingExtraError: The driver is not installed.
    """

    def __init__(self, url: str, schema: str, patience: float, connections: int) -> None:
        self._psycopg = import_psycopg()
        if not _SCHEMA_NAME.fullmatch(schema):
            raise ConfigError(
                f"schema={schema!r:.100} cannot name a schema. Use at most 51 lower-case letters, digits "
                "and '_', with no digit first."
            )
        if connections < 2:
            raise ConfigError(f"connections={connections!r} is too few. Use 2 or more.")
        self.url, self.patience = url, patience
        self.space = zlib.crc32(schema.encode()) & 0x7FFFFFFF
        self._schema, self._connections = schema, connections
        self.name = self._name()
        self._pid = os.getpid()
        self._slots = self._new_slots()
        self._is_prepared = self._is_closed = False

    def sql(self, text: str) -> bytes:
        """A statement, with the schema in the place of each ``@``."""
        return text.replace("@", f"{self._schema}.").replace("{schema}", self._schema).encode()

    def connect(self) -> Connection:
        """A new connection, in which each statement is a transaction."""
        made: Connection = self._psycopg.connect(self.url, autocommit=True, **_OPTIONS)
        try:
            # A record that counts as safe is safe, whatever the server's own setting is. A process that is
            # frozen between two statements must not keep others waiting.
            made.execute("SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '10s'")
        except BaseException:
            made.close()
            raise
        return made

    def run(
        self, work: Callable[[Connection], T], *, writing: bool = True, patience: float | None = None
    ) -> T:
        """Do something with a connection, again if the database goes away meanwhile.

        Args:
            work: Gets the connection; may be called several times.
            patience: Seconds; None for as many as the store has. In a thread with a running event loop it is
                two at most, as others wait there.

        Raises:
            SessionWriteError: It could not be done, or nobody knows whether it was.
            SessionReadError: The same, where nothing was to be written.
        """
        seconds = self.patience if patience is None else patience
        give_up = time.monotonic() + (min(seconds, LOOP_PATIENCE) if _in_event_loop() else seconds)
        pause = _LEAST_PAUSE
        while True:
            try:
                return self._once(work)
            except (self._psycopg.Error, OSError) as error:
                rest = give_up - time.monotonic()
                # One that never answered is more likely named wrongly than away.
                if rest <= 0 or not self._is_prepared or not self._is_passing(error):
                    raise self._translated(error, writing=writing) from error
            time.sleep(min(rest, pause * random.uniform(0.5, 1.0)))  # noqa: S311 - not a secret
            pause = min(_MOST_PAUSE, pause * 2)

    def close(self) -> None:
        """Close the connections. Work that is going on ends first; none can begin."""
        if self._is_closed or os.getpid() != self._pid:
            return
        self._is_closed = True
        for _ in range(self._connections):
            with contextlib.suppress(queue.Empty):
                connection = self._slots.get(timeout=_FAREWELL)
                if connection is not None:
                    connection.close()
        for _ in range(self._connections):  # who waits for one shall hear that there is none any more
            self._slots.put(None)

    def forget(self) -> None:
        """In a forked child: the connections are its parent's."""
        old, self._slots = self._slots, self._new_slots()
        self._pid = os.getpid()
        with contextlib.suppress(queue.Empty):
            while True:
                abandon(old.get_nowait())

    def _once(self, work: Callable[[Connection], T]) -> T:
        connection = self._slots.get()
        try:
            if self._is_closed:
                raise ConfigError("This PostgresStore was closed; make a new one.")  # noqa: TRY301 - the slot
            if connection is None or connection.closed:
                connection = self.connect()
            if not self._is_prepared:
                self._prepare(connection)
                self._is_prepared = True
            return work(connection)
        except BaseException:
            # Whatever was going on in it: nobody else shall find that.
            if connection is not None:
                connection.close()
            connection = None
            raise
        finally:
            self._slots.put(connection)

    def _prepare(self, connection: Connection) -> None:
        """Make the tables, once, however many processes are about to."""
        known = self._version(connection)
        if known is None:
            with connection.transaction():
                connection.execute(b"SELECT pg_advisory_xact_lock(%s)", (self.space,))
                if self._version(connection) is None:
                    connection.execute(self.sql(_TABLES % VERSION))
            known = self._version(connection)
        if known != VERSION:
            raise SessionReadError(
                f"The tables in {self.name} have version {known}, and this package knows {VERSION}. Update "
                "the package, or name another schema."
            )

    def _version(self, connection: Connection) -> int | None:
        if connection.execute(_IS_THERE, (self._schema,)).fetchone() is None:
            return None
        found = connection.execute(self.sql("SELECT max(number) FROM @version")).fetchone()
        return None if found is None else found[0]

    def _is_passing(self, error: Exception) -> bool:
        if isinstance(error, self._psycopg.InterfaceError | OSError):
            return True
        state = getattr(error, "sqlstate", None)
        if state is None:
            return isinstance(error, self._psycopg.OperationalError)
        return _PASSING.fullmatch(state) is not None

    def _translated(self, error: Exception, *, writing: bool) -> SessionError:
        said = " ".join(str(error).split())
        if writing:
            return SessionWriteError(self.name, said)
        return SessionReadError(f"Cannot read {self.name}: {said}")

    def _name(self) -> str:
        """The database for people, without a password."""
        try:
            parts = self._psycopg.conninfo.conninfo_to_dict(self.url)
        except self._psycopg.Error as error:
            raise ConfigError(
                "url cannot be the address of a PostgreSQL database. Write it like "
                "postgresql://user:password@host:5432/database"
            ) from error
        place = parts.get("host") or "localhost"
        return f"postgresql://{place}/{parts.get('dbname') or ''} (schema {self._schema})"

    def _new_slots(self) -> queue.SimpleQueue[Connection | None]:
        # A simple queue may be used again while it is used, as when a log is collected as garbage meanwhile.
        slots: queue.SimpleQueue[Connection | None] = queue.SimpleQueue()
        for _ in range(self._connections):
            slots.put(None)
        return slots


_ABANDONED: list[Any] = []


def abandon(connection: Connection | None) -> None:
    """In a forked child: let go of a connection of its parent, without a word to the server."""
    if connection is None or connection.closed:
        return
    _ABANDONED.append(connection)  # never collected, as that would close it politely
    with contextlib.suppress(Exception):
        os.close(connection.fileno())


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
