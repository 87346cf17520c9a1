"""All sessions in one SQLite file. The rows hold the same lines as the files of `JsonlStore`.

Two mechanisms exclude a second writer: an operating-system lock on a file, released when its process ends,
and a number in the session's row (the fence) that each opening increments, for systems with unreliable locks.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pure_agent_loop.errors import (
    SessionLockedError,
    SessionReadError,
    SessionWriteError,
)
from pure_agent_loop.sessions.store import (
    BaseLog,
    Loaded,
    SessionInfo,
    check_session_name,
    list_entry,
    lock_session,
    newest_first,
    not_found,
)
from pure_agent_loop.sessions.stores.records import BASE_HEAD, HEAD_CHARS, Record, Transcript, parse
from pure_agent_loop.support.abilities import checked_function
from pure_agent_loop.support.disk import TAKEN_AWAY, sync_folder
from pure_agent_loop.support.folders import expanded
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.locking import OPEN_FLAGS, SessionLock

_APPLICATION = 0x50414C53
_VERSION = 1
_LOCK_SECONDS = 30.0
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
AND (? = 0 OR EXISTS (SELECT 1 FROM records WHERE session = id AND number = ?))
"""
_LINES = "SELECT line FROM records WHERE session = ? AND number >= ? ORDER BY number"
_BASE = f"""
SELECT number FROM records WHERE session = ?
AND instr(CAST(substr(line, 1, {HEAD_CHARS}) AS TEXT), ?) ORDER BY number DESC LIMIT 1
"""  # noqa: S608 - constants
_LAST = "SELECT coalesce(max(number), 0) FROM records WHERE session = ?"
_LIST = """
SELECT id, made,
    (SELECT time FROM records WHERE session = id ORDER BY number LIMIT 1),
    (SELECT time FROM records WHERE session = id ORDER BY number DESC LIMIT 1),
    (SELECT total(length(line)) FROM records WHERE session = id)
FROM sessions
"""
_ADVICE = (
    "The file is damaged. Move it away and start with a new one, or recover its content with: "
    "sqlite3 {path} .recover | sqlite3 new.sqlite"
)


class OpenFiles:
    """Files of an open database in WAL mode; SQLite would go on writing to them even if they were deleted.

    Args:
        path: Path of the database. Files are compared by inode, which is not reused while a file is open.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        files = (path, Path(f"{path}-wal"))
        self._known = [(file, identity) for file in files if (identity := _identity(file)) is not None]

    def check(self) -> None:
        """Check that the paths still lead to these files.

        Raises:
            SessionWriteError: A file was deleted, renamed or replaced.
        """
        if any(_identity(path) != identity for path, identity in self._known):
            raise SessionWriteError(self._path, TAKEN_AWAY)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class SqliteLog(BaseLog):
    """Session in an SQLite file open for writing, as returned by `SqliteStore.open`."""

    has_tail = True

    def __init__(
        self,
        session_id: str,
        transcript: Transcript,
        lock: SessionLock,
        now: Callable[[], float],
        path: Path,
        connection: sqlite3.Connection,
        fence: int,
        last: int,
    ) -> None:
        super().__init__(session_id, transcript, lock, now)
        self._path = path
        self._connection = connection
        self._fence, self._last = fence, last
        self._is_full = False
        self._files = OpenFiles(path)

    def write(self, records: Sequence[Record], lines: Sequence[bytes], *, durable: bool) -> None:
        """Insert the lines in one transaction; see `BaseLog.write`."""
        last: int | None = self._last
        with _as_session_errors(self._path, writing=True):
            self._files.check()
            if durable is not self._is_full:
                self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._is_full = durable
            with _transaction(self._connection):
                for record, line in zip(records, lines, strict=True):
                    row = (record.time, line, self.session_id, self._fence, last, last)
                    cursor = self._connection.execute(_APPEND, row)
                    last = cursor.lastrowid if cursor.rowcount == 1 else None
                    # Only the first row can fail, because no other writer is in this transaction.
                    if last is None:
                        break
            if last is not None:
                self._last = last
                return
            fence = _fence(self._connection, self.session_id)
        if fence not in (None, self._fence):
            raise SessionLockedError(
                self.session_id, "another process, which has taken it over from this one"
            )
        raise SessionWriteError(self._path, "records of this session were deleted while it was open")

    def release(self) -> None:
        """Close the connection."""
        self._connection.close()


class SqliteStore:
    """Store that keeps sessions in one SQLite file, in WAL mode.

    Args:
        path: Path of the file, created with the first session, readable by this user only; lock files are in
            a folder next to the file.
        now: Function that returns the time of records, in seconds since the epoch.
    """

    def __init__(self, path: str | os.PathLike[str], *, now: Callable[[], float] = time.time) -> None:
        self.path = expanded(path).absolute()
        self._locks = self.path.with_name(self.path.name + ".locks")
        self._now = checked_function("now", now)

    def prepare(self) -> None:
        """Create the file and its tables now, so that other tables can be added to it.

        Raises:
            SessionReadError: The file belongs to another program, or is damaged.
            SessionWriteError: The file cannot be created.
        """
        with _as_session_errors(self.path, writing=True):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.closing(_connect(self.path)):
                pass

    def open(self, session_id: str, *, create: bool = True, tail: bool = False) -> SqliteLog:
        """Open a session for writing; see `SessionStore.open`.

        Args:
            tail: Read only the newest ``base`` record and those after it.
        """
        check_session_name(session_id)
        if not create and not self.exists(session_id):
            raise not_found(session_id, self.path)
        lock = lock_session(self._locks, session_id)
        try:
            return self._open_locked(session_id, lock, create=create, tail=tail)
        except BaseException:
            lock.release()
            raise

    def read(self, session_id: str, *, tail: bool = False) -> Loaded:
        """Read a session, even while another process writes it; see `SessionStore.read` and `open`."""
        if not self.exists(session_id):
            raise not_found(session_id, self.path)
        with self._connected() as connection:
            transcript = parse(_lines(connection, session_id, tail=tail), is_tail=tail)
        return Loaded(transcript.records, transcript.problems)

    def stamp(self, session_id: str) -> object:
        """Return a value that changes with each record; None if the session does not exist."""
        with self._connected() as connection:
            newest = "SELECT max(number) FROM records WHERE session = ?"
            return connection.execute(newest, (session_id,)).fetchone()[0]

    def list(self) -> Sequence[SessionInfo]:
        """Return all sessions, most recently used first.

        Raises:
            SessionReadError: The file cannot be read.
        """
        if not self.path.exists():
            return []
        with self._connected() as connection:
            return newest_first(list_entry(*row) for row in connection.execute(_LIST))

    def exists(self, session_id: str) -> bool:
        """Return True if the session exists.

        Raises:
            SessionReadError: The file cannot be read.
        """
        check_session_name(session_id)
        if not self.path.exists():
            return False
        with self._connected() as connection:
            return _fence(connection, session_id) is not None

    def delete(self, session_id: str) -> None:
        """Delete a session; see `SessionStore.delete`."""
        if not self.exists(session_id):
            raise not_found(session_id, self.path)
        lock = lock_session(self._locks, session_id)
        try:
            with self._connected(writing=True) as connection, _transaction(connection):
                connection.execute("DELETE FROM records WHERE session = ?", (session_id,))
                connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
        finally:
            lock.release()

    def _open_locked(self, session_id: str, lock: SessionLock, *, create: bool, tail: bool) -> SqliteLog:
        with _as_session_errors(self.path, writing=True):
            connection = _connect(self.path)
            try:
                # One transaction with synchronous FULL, so that the fence is on disk before the records are
                # read.
                connection.execute("PRAGMA synchronous = FULL")
                with _transaction(connection):
                    if create:
                        session_row = (session_id, round(self._now(), 6))
                        connection.execute(
                            "INSERT OR IGNORE INTO sessions (id, made, fence) VALUES (?, ?, 0)", session_row
                        )
                    connection.execute("UPDATE sessions SET fence = fence + 1 WHERE id = ?", (session_id,))
                    fence = _fence(connection, session_id)
                    transcript = parse(_lines(connection, session_id, tail=tail), is_tail=tail)
                    last = int(connection.execute(_LAST, (session_id,)).fetchone()[0])
                connection.execute("PRAGMA synchronous = NORMAL")
                if fence is None:
                    raise not_found(session_id, self.path)  # noqa: TRY301 - closed in one place
                return SqliteLog(session_id, transcript, lock, self._now, self.path, connection, fence, last)
            except BaseException:
                connection.close()
                raise

    @contextlib.contextmanager
    def _connected(self, *, writing: bool = False) -> Iterator[sqlite3.Connection]:
        with (
            _as_session_errors(self.path, writing=writing),
            contextlib.closing(_connect(self.path)) as connection,
        ):
            yield connection


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # after some errors, SQLite has already rolled back
            connection.execute("ROLLBACK")
        raise


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file; create it, for this user only, if missing."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | OPEN_FLAGS, 0o600))
        sync_folder(path.parent)
    # Several threads use the connection, but the log ensures that only one does at a time.
    connection = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        if _number(connection, "user_version") != _VERSION:
            _prepare(connection, path)
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in a new file; reject a file from another program or a later version."""
    has_tables = _number(connection, "schema_version") > 0
    is_ours = _number(connection, "application_id") == _APPLICATION
    version = _number(connection, "user_version")
    if is_ours and version > _VERSION:
        raise SessionReadError(notice("library.later_version", path=path))
    if has_tables and not is_ours:
        raise SessionReadError(notice("library.foreign_sqlite", path=path))
    _use_wal(connection)
    connection.executescript(
        f"{_SCHEMA} PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_VERSION}; COMMIT;"
    )


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL mode. SQLite fails at once, instead of waiting, if several processes do this."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:  # noqa: PERF203 - retried
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _fence(connection: sqlite3.Connection, session_id: str) -> int | None:
    row = connection.execute(
        "SELECT coalesce(CAST(fence AS INTEGER), 0) FROM sessions WHERE id = ?", (session_id,)
    ).fetchone()
    return None if row is None else int(row[0])


def _lines(connection: sqlite3.Connection, session_id: str, *, tail: bool) -> Iterator[bytes]:
    first = connection.execute(_BASE, (session_id, BASE_HEAD)).fetchone() if tail else None
    rows = connection.execute(_LINES, (session_id, first[0] if first else 0))
    return (line if isinstance(line, bytes) else str(line).encode("utf-8", "replace") for (line,) in rows)


@contextlib.contextmanager
def _as_session_errors(path: Path, *, writing: bool) -> Iterator[None]:
    """Convert SQLite and system errors to session errors."""
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        # SQLite may quote bytes of a damaged file in its error, which then cannot be decoded.
        # `OperationalError` does not mean damage, but a full disk, a lock or a missing permission.
        is_damage = isinstance(error, (sqlite3.DatabaseError, UnicodeDecodeError))
        is_damage = is_damage and not isinstance(error, sqlite3.OperationalError)
        if writing and not is_damage:
            raise SessionWriteError(path, error) from error
        advice = f" {_ADVICE.format(path=path)}" if is_damage else ""
        raise SessionReadError(
            notice("library.cannot_read_advice", path=path, error=error, advice=advice)
        ) from error
