"""All sessions in one SQLite file. The rows hold the same lines as the files of `JsonlStore`.

Two things keep a second writer away: a lock of the system beside the file, which ends with its process, and
a number in the session's row (the fence) that each opening raises, for systems whose locks cannot be trusted.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pure_agent_loop.errors import (
    ConfigError,
    SessionLockedError,
    SessionNotFoundError,
    SessionReadError,
    SessionWriteError,
)
from pure_agent_loop.sessions.store import Loaded, SessionInfo, check_session_id
from pure_agent_loop.sessions.stores.log import BaseLog
from pure_agent_loop.sessions.stores.parse import Transcript, parse
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.support.disk import sync_folder
from pure_agent_loop.support.locking import OPEN_FLAGS
from pure_agent_loop.support.paths import expanded
from pure_agent_loop.support.writer_lock import SessionLock, take_lock

_APPLICATION = 0x50414C53
_VERSION = 1
_WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.01
_SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, made REAL NOT NULL, fence INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS records (
    number INTEGER PRIMARY KEY, session TEXT NOT NULL, time REAL NOT NULL, line BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS records_of_session ON records (session);
"""
_APPEND = """
INSERT INTO records (session, time, line)
SELECT id, ?, ? FROM sessions WHERE id = ? AND fence = ?
"""
_LIST = """
SELECT id, made,
    (SELECT time FROM records WHERE session = id ORDER BY number LIMIT 1),
    (SELECT time FROM records WHERE session = id ORDER BY number DESC LIMIT 1),
    (SELECT total(length(line)) FROM records WHERE session = id)
FROM sessions
"""
_ADVICE = (
    "The file is damaged. Move it away and start anew, or save what is readable with: "
    "sqlite3 {path} .recover | sqlite3 new.sqlite"
)


class SqliteLog(BaseLog):
    """A session in an SQLite file that is open for writing. `SqliteStore.open` makes it."""

    def __init__(
        self,
        session_id: str,
        found: Transcript,
        lock: SessionLock,
        now: Callable[[], float],
        path: Path,
        connection: sqlite3.Connection,
        fence: int,
    ) -> None:
        super().__init__(session_id, found, lock, now)
        self._path = path
        self._connection = connection
        self._fence = fence
        self._is_full = False

    def _write(self, line: bytes, record: Record, *, durable: bool) -> None:
        row = (record.time, line, self.session_id, self._fence)
        with _translated(self._path, writing=True):
            if durable is not self._is_full:
                self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._is_full = durable
            done = self._connection.execute(_APPEND, row).rowcount
        if done != 1:
            raise SessionLockedError(
                self.session_id, "another process, which has taken it over from this one"
            )

    def _release(self) -> None:
        self._connection.close()


class SqliteStore:
    """Sessions in one SQLite file, in WAL mode.

    Args:
        path: The file. It is made when the first session is, for this user only; locks stand in a folder
            beside it.
        now: Gives the time of records, in seconds since the epoch.
    """

    def __init__(self, path: str | os.PathLike[str], *, now: Callable[[], float] = time.time) -> None:
        self.path = expanded(path).absolute()
        self._locks = self.path.with_name(self.path.name + ".locks")
        self._now = now

    def prepare(self) -> None:
        """Make the file and its tables now, so that tables of others can stand beside them.

        Raises:
            SessionReadError: It is a file of another program, or damaged.
            SessionWriteError: It cannot be made.
        """
        with _translated(self.path, writing=True):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._connected():
                pass

    def open(self, session_id: str, *, create: bool = True) -> SqliteLog:
        """Open a session for writing; `SessionStore.open` says more."""
        check_session_id(session_id)
        if not create and not self.exists(session_id):
            raise self._not_found(session_id)
        lock = self._lock(session_id)
        try:
            return self._open_locked(session_id, lock, create=create)
        except BaseException:
            lock.release()
            raise

    def read(self, session_id: str) -> Loaded:
        """Read a session, also while another process writes it; `SessionStore.read` says more."""
        if not self.exists(session_id):
            raise self._not_found(session_id)
        with self._reading() as connection:
            found = parse(_lines(connection, session_id))
        return Loaded(found.records, found.problems)

    def list(self) -> Sequence[SessionInfo]:
        """Every session, the one used last first.

        Raises:
            SessionReadError: The file cannot be read.
        """
        if not self.path.exists():
            return []
        with self._reading() as connection:
            found = [_info(row) for row in connection.execute(_LIST)]
        return sorted((info for info in found if info is not None), key=lambda info: (-info.updated, info.id))

    def exists(self, session_id: str) -> bool:
        """True if there is such a session.

        Raises:
            SessionReadError: The file cannot be read.
        """
        check_session_id(session_id)
        if not self.path.exists():
            return False
        with self._reading() as connection:
            return _fence(connection, session_id) is not None

    def delete(self, session_id: str) -> None:
        """Take a session away; `SessionStore.delete` says more."""
        if not self.exists(session_id):
            raise self._not_found(session_id)
        lock = self._lock(session_id)
        try:
            with _translated(self.path, writing=True), self._connected() as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("DELETE FROM records WHERE session = ?", (session_id,))
                connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
                connection.execute("COMMIT")
        finally:
            lock.release()

    def _open_locked(self, session_id: str, lock: SessionLock, *, create: bool) -> SqliteLog:
        with _translated(self.path, writing=True):
            connection = _connect(self.path)
            try:
                # In one transaction, with synchronous FULL: the fence is on the disk before anything is read.
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("BEGIN IMMEDIATE")
                if create:
                    made = (session_id, round(self._now(), 6))
                    connection.execute(
                        "INSERT OR IGNORE INTO sessions (id, made, fence) VALUES (?, ?, 0)", made
                    )
                connection.execute("UPDATE sessions SET fence = fence + 1 WHERE id = ?", (session_id,))
                fence = _fence(connection, session_id)
                found = parse(_lines(connection, session_id))
                connection.execute("COMMIT")
                connection.execute("PRAGMA synchronous = NORMAL")
                if fence is None:
                    raise self._not_found(session_id)  # noqa: TRY301 - closed in one place
                return SqliteLog(session_id, found, lock, self._now, self.path, connection, fence)
            except BaseException:
                connection.close()
                raise

    def _lock(self, session_id: str) -> SessionLock:
        try:
            for folder in (self.path.parent, self._locks):
                if not folder.is_dir():
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return take_lock(self._locks / f"{session_id}.lock", session_id)
        except OSError as error:
            raise SessionWriteError(error.filename or self._locks, error.strerror or error) from error

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(_connect(self.path)) as connection:
            yield connection

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with _translated(self.path, writing=False), self._connected() as connection:
            yield connection

    def _not_found(self, session_id: str) -> SessionNotFoundError:
        return SessionNotFoundError(f"There is no session {session_id!r} in {self.path}.")


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file, and make it for this user only if it is missing."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | OPEN_FLAGS, 0o600))
        sync_folder(path.parent)
    # Records come from several threads, one at a time: the log sees to that.
    connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        if _number(connection, "user_version") != _VERSION:
            _prepare(connection, path)
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file; refuse one that is not ours, or of a later version."""
    has_tables = _number(connection, "schema_version") > 0
    is_ours = _number(connection, "application_id") == _APPLICATION
    version = _number(connection, "user_version")
    if is_ours and version > _VERSION:
        raise SessionReadError(f"{path} was written by a later version of this package. Update the package.")
    if has_tables and not is_ours:
        raise SessionReadError(f"{path} is an SQLite file of another program. Name another file.")
    _use_wal(connection)
    connection.executescript(
        f"{_SCHEMA} PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_VERSION}; COMMIT;"
    )


def _use_wal(connection: sqlite3.Connection) -> None:
    """Where several processes make the same file, SQLite refuses this at once instead of waiting."""
    give_up = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:  # noqa: PERF203 - trying again is what the loop is for
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(_POLL_SECONDS)
        else:
            return


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _fence(connection: sqlite3.Connection, session_id: str) -> int | None:
    row = connection.execute(
        "SELECT coalesce(CAST(fence AS INTEGER), 0) FROM sessions WHERE id = ?", (session_id,)
    ).fetchone()
    return None if row is None else int(row[0])


def _lines(connection: sqlite3.Connection, session_id: str) -> Iterator[bytes]:
    rows = connection.execute("SELECT line FROM records WHERE session = ? ORDER BY number", (session_id,))
    return (line if isinstance(line, bytes) else str(line).encode("utf-8", "replace") for (line,) in rows)


def _info(row: tuple[str, float, float | None, float | None, float]) -> SessionInfo | None:
    """None for a row that is damaged."""
    session_id, made, first, last, size = row
    try:
        check_session_id(session_id)
        created = float(made if first is None else first)
        return SessionInfo(session_id, created, float(created if last is None else last), int(size))
    except (ConfigError, TypeError, ValueError):
        return None


@contextlib.contextmanager
def _translated(path: Path, *, writing: bool) -> Iterator[None]:
    """What SQLite or the system said, as an error of ours."""
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        # What SQLite says about a damaged file may quote it, and then has no Unicode form. But an
        # `OperationalError` is the world's doing: a full disk, a lock, a missing right.
        is_damage = isinstance(error, (sqlite3.DatabaseError, UnicodeDecodeError))
        is_damage = is_damage and not isinstance(error, sqlite3.OperationalError)
        if writing and not is_damage:
            raise SessionWriteError(path, error) from error
        advice = f" {_ADVICE.format(path=path)}" if is_damage else ""
        raise SessionReadError(f"Cannot read {path}: {error}.{advice}") from error
