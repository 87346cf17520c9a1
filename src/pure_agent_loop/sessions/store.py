"""Session store interface, its value types, session id checks, and shared parts of the stores."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import re
import secrets
import threading
import time
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

from pure_agent_loop.errors import ConfigError, SessionLockedError, SessionNotFoundError, SessionWriteError
from pure_agent_loop.sessions.stores.file_names import file_name
from pure_agent_loop.sessions.stores.records import Record, Transcript, is_type
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.locking import SessionLock, take_lock
from pure_agent_loop.support.text import to_jsonable

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
Row: TypeAlias = tuple[str, Mapping[str, Any]]  # type and data of a record
MAX_ID = 200
BASE_BYTES = 1 << 16  # minimum size of the records between two bases
# Unicode categories of control characters, surrogates, line and paragraph separators.
_UNFIT = ("Cc", "Cs", "Zl", "Zp")
# A suffix from `JsonlStore.repair` does not count toward the maximum length, so any session can be repaired.
_REPAIRED = re.compile(r"(\.repaired(-\d+)?)*$")
_OPENING_LOCKS: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
_GUARD = threading.Lock()  # guards the dictionary; alone, `setdefault` could give two threads different locks


@dataclass(frozen=True, slots=True)
class Loaded:
    """Content of a session.

    Args:
        records: Complete records, in the order they were written. A parent comes before its children.
        problems: One sentence per damaged place; empty if there is no damage.
    """

    records: list[Record]
    problems: list[str]


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """Entry of a session list.

    Args:
        id: Session id.
        created: Time of the first record, in seconds since the epoch; the creation time of a session without
            records.
        updated: Time of the last record; `created` if there is none.
        size_bytes: Approximate size of the records.
    """

    id: str
    created: float
    updated: float
    size_bytes: int


class SessionLog(Protocol):
    """Session open for writing. A log may be used from several threads of the process that opened it."""

    @property
    def session_id(self) -> str:
        """Id of the session."""

    @property
    def records(self) -> Sequence[Record]:
        """Records at the time of opening."""

    @property
    def problems(self) -> Sequence[str]:
        """Descriptions of damage found when the session was opened, and of its repair."""

    def append(
        self,
        type: str,  # noqa: A002 - the name of the field
        data: Mapping[str, Any],
        *,
        parent: str | None = None,
        durable: bool = False,
    ) -> Record:
        """Write one record atomically.

        Args:
            type: Kind of record: lower-case letters, digits, ``_ . -``, starting with a letter.
            data: Content of the record. Values that cannot be written as JSON become text.
            parent: Id of the record that this one follows; None for the newest record.
            durable: Return only when this and all earlier records would survive a power cut.

        Returns:
            The record as it will be read back.

        Raises:
            ConfigError: The type, the data or the parent is invalid, or the log is closed.
            SessionWriteError: The record was not written; earlier records are intact.
            SessionLockedError: Another writer has taken over the session.
        """

    def close(self) -> None:
        """Release the session for other writers. A second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SessionStore(Protocol):
    """Storage for sessions. `pure_agent_loop.testing.check_store` tests an implementation."""

    def open(self, session_id: str, *, create: bool = True) -> SessionLog:
        """Open a session for writing; only one writer at a time is allowed.

        Args:
            session_id: Any string of up to 200 characters, on one line; see `check_session_name`.
            create: Create the session if missing.

        Raises:
            ConfigError: The id is invalid.
            SessionNotFoundError: The session does not exist and `create` is False.
            SessionLockedError: Another writer has the session open, in this or another process.
            SessionReadError: The storage cannot be read at all.
            SessionWriteError: The storage cannot be written.
        """

    def read(self, session_id: str) -> Loaded:
        """Read a session, even while another process writes it. Changes nothing.

        Raises:
            ConfigError: The id is invalid.
            SessionNotFoundError: The session does not exist.
            SessionReadError: The session cannot be read at all.
        """

    def list(self) -> Sequence[SessionInfo]:
        """Return all sessions, most recently used first."""

    def exists(self, session_id: str) -> bool:
        """Return True if the session exists."""

    def delete(self, session_id: str) -> None:
        """Delete a session.

        Raises:
            ConfigError: The id is invalid.
            SessionNotFoundError: The session does not exist.
            SessionLockedError: A writer has the session open.
            SessionWriteError: The session cannot be deleted.
        """


class HasStore(Protocol):
    """Object that holds a store, such as a `SessionManager`."""

    store: SessionStore


SessionPlace: TypeAlias = str | os.PathLike[str] | SessionStore | HasStore  # see `store_at`


class AppendsMany(Protocol):
    """Log that writes several records in one commit."""

    def append_all(self, rows: Sequence[Row], *, durable: bool = False) -> list[Record]:
        """Write several records atomically, each as the child of the previous one; see `SessionLog.append`.

        Args:
            rows: Type and data of each record.
        """


class Stamps(Protocol):
    """Store with a cheap check for changes to a session."""

    def stamp(self, session_id: str) -> object:
        """Return a value that changes with each record; None if the session does not exist."""


class ClosesStore(Protocol):
    """Store that holds connections."""

    def close(self) -> None:
        """Close the connections."""


def _forget_opening_locks() -> None:
    """Start without locks in a forked child, where no thread holds one."""
    _OPENING_LOCKS.clear()
    _GUARD.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_GUARD.acquire, after_in_parent=_GUARD.release, after_in_child=_forget_opening_locks
    )


def opening_lock(session_id: str) -> threading.Lock:
    """Return the lock with which the threads of this process take turns at opening a session.

    A run holds the lock only while opening its session; an answer holds the lock until it is written.
    Therefore an answer recorded by the same process never makes a run fail with `SessionLockedError`.
    """
    with _GUARD:
        return _OPENING_LOCKS.setdefault(session_id, threading.Lock())


def retry_while_locked(action: Callable[[], T], seconds: float, pause: float) -> T:
    """Retry a function while it raises `SessionLockedError`; return its result. Blocks the thread.

    Args:
        seconds: The error is raised after this time.
        pause: Seconds between two calls.
    """
    give_up = time.monotonic() + seconds
    while True:
        try:
            return action()
        except SessionLockedError:
            if time.monotonic() >= give_up:
                raise
        time.sleep(pause)


async def aretry_while_locked(action: Callable[[], T], seconds: float, pause: float) -> T:
    """Retry a function, from async code, while it raises `SessionLockedError`; see `retry_while_locked`.

    The function is not called in a thread, because a cancelled caller would leave the session open.
    """
    give_up = time.monotonic() + seconds
    while True:
        try:
            return action()
        except SessionLockedError:
            if time.monotonic() >= give_up:
                raise
        await asyncio.sleep(pause)


def close_store(store: object) -> None:
    """Close the connections of a store, if it has any."""
    closable = as_protocol(store, ClosesStore)
    if closable is not None:
        closable.close()


def needs_base(log: SessionLog) -> bool:
    """Return True if it is time for a ``base`` record, which saves later runs reading the whole session."""
    return bool(getattr(log, "needs_base", False))


def tail_option(method: Callable[..., Any]) -> dict[str, bool]:
    """Return the argument that makes a store's method read from the newest ``base``; empty if unsupported."""
    return {"tail": True} if "tail" in inspect.signature(method).parameters else {}


def appends_many(log: SessionLog) -> AppendsMany | None:
    """Return the log if its class has `append_all`.

    A class that wraps a log and passes on unknown methods has its own `append`, which must not be bypassed.
    """
    return cast("AppendsMany", log) if hasattr(type(log), "append_all") else None


def append_all(log: SessionLog, rows: Sequence[Row], *, durable: bool) -> list[Record]:
    """Write records in one commit, or one after another if the log cannot write several at once."""
    many = appends_many(log)
    if many is not None:
        return many.append_all(rows, durable=durable)
    last = len(rows) - 1
    return [log.append(*row, durable=durable and number == last) for number, row in enumerate(rows)]


def is_remote(log: SessionLog) -> bool:
    """Return True if writing to the log goes over the network and must happen in a thread."""
    return bool(getattr(log, "is_remote", False))


def check_session_id(session_id: Any) -> str:
    """Return the id if it is safe as a file name on every system.

    This check is for stores that use ids as file names unchanged. The stores of this package accept
    everything that `check_session_name` accepts, and encode it.

    Args:
        session_id: Value to check.

    Raises:
        ConfigError: The id is not safe.
    """
    if file_name(check_session_name(session_id)) != session_id:
        raise ConfigError(notice("library.session_file_name", session_id=session_id))
    return str(session_id)


def check_session_name(session_id: Any) -> str:
    """Return the id if it is valid: any string of up to 200 characters, on one line.

    Args:
        session_id: Value to check.

    Raises:
        ConfigError: The id is invalid.
    """
    text = session_id if isinstance(session_id, str) else ""
    why = ""
    if not text.strip():
        why = notice("library.id_blank")
    elif len(_REPAIRED.sub("", text)) > MAX_ID:
        why = notice("library.id_long", count=len(text), limit=MAX_ID)
    elif any(unicodedata.category(character) in _UNFIT for character in text):
        why = notice("library.id_control")
    if why:
        raise ConfigError(notice("library.session_id", session_id=session_id, why=why))
    return text


def new_session_id(now: float | None = None) -> str:
    """Return a new id such as ``20260131-142501-9f3a1c5e``: the time in UTC and a random suffix.

    Args:
        now: Time in seconds since the epoch; None for the current time.
    """
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{secrets.token_hex(4)}"


# -- shared by the stores of this package ----------------------------------------------------------------


class Lock(Protocol):
    """Lock against other writers."""

    def release(self) -> None:
        """Release the session for other writers."""


class BaseLog(ABC):
    """Base of session logs: it checks and numbers records; a subclass writes the lines. See `SessionLog`.

    Set `is_remote` to True if writing goes over the network: a run then writes in a thread. Set `has_tail` to
    True if the store's `open` and `read` have the argument ``tail``, and read only the newest ``base`` record
    and those after it.

    Args:
        session_id: Id of the session.
        transcript: The session's records so far, as `parse` returns them.
        lock: Lock of the session, for example from `lock_session`; it is released when the log is closed.
        now: Function that returns the time, in seconds since the epoch.
    """

    is_remote = False
    has_tail = False

    def __init__(
        self, session_id: str, transcript: Transcript, lock: Lock, now: Callable[[], float] = time.time
    ) -> None:
        self.session_id = session_id
        self.records = tuple(transcript.records)
        self.problems = tuple(transcript.problems)
        self._lock = lock
        self._now = now
        before_base, behind_base = transcript.base
        self._bytes_to_base = max(BASE_BYTES, behind_base - before_base)
        self._bytes_since_base = transcript.size - behind_base
        self._number = transcript.last_number
        self._ids = {record.id for record in transcript.records}
        self._newest = transcript.records[-1].id if transcript.records else None
        self._mutex = threading.RLock()
        self._pid = os.getpid()
        self._is_open = True

    def append(
        self,
        type: str,  # noqa: A002 - the name of the field
        data: Mapping[str, Any],
        *,
        parent: str | None = None,
        durable: bool = False,
        at: float | None = None,
    ) -> Record:
        """Write one record atomically; see `SessionLog.append`.

        Args:
            at: Time to give the record, in seconds since the epoch, if writing it must not count as using the
                session; None for the current time.
        """
        return self._append([(type, data)], parent, durable=durable, at=at)[0]

    def append_all(self, rows: Sequence[Row], *, durable: bool = False) -> list[Record]:
        """Write several records in one commit; see `AppendsMany.append_all`."""
        return self._append(rows, None, durable=durable)

    def _append(
        self, rows: Sequence[Row], parent: str | None, *, durable: bool, at: float | None = None
    ) -> list[Record]:
        with self._mutex:
            self._check_usable()
            if parent is not None and parent not in self._ids:
                raise ConfigError(f"parent={parent!r:.100} is not a record of session {self.session_id!r}.")
            records: list[Record] = []
            previous = self._newest if parent is None else parent
            for kind, data in rows:
                records.append(self._record(kind, data, previous, at))
                previous = records[-1].id
            lines = [record.to_line() for record in records]
            self.write(records, lines, durable=durable)
            self._bytes_since_base += sum(map(len, lines))
            self._ids.update(record.id for record in records)
            self._newest = previous
            return records

    def adopt(self, records: Sequence[Record]) -> None:
        """Copy records from another session unchanged; this session must be empty.

        Args:
            records: Records in the order they were written.

        Raises:
            ConfigError: The session already has records, or the log is closed.
            SessionWriteError: Not all records could be written.
        """
        with self._mutex:
            self._check_usable()
            if self._newest is not None:
                raise ConfigError(f"Session {self.session_id!r} is not empty, so it cannot adopt records.")
            for record in records:
                self.write([record], [record.to_line()], durable=record is records[-1])
                self._ids.add(record.id)
                self._newest = record.id
            self._number = max(
                (int(record.id) for record in records if record.id.isdecimal() and len(record.id) < 16),
                default=0,
            )

    @property
    def needs_base(self) -> bool:
        """True if the records since the last ``base`` are at least as large as that record."""
        return self.has_tail and self._bytes_since_base >= self._bytes_to_base

    def close(self) -> None:
        """Release the session for other writers. A second call does nothing."""
        with self._mutex:
            if not self._is_open:
                return
            self._is_open = False
            if os.getpid() != self._pid:
                return  # in a forked child, the file and the lock belong to the parent
            try:
                self.release()
            finally:
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # An unreferenced log must not keep its session locked.
        with contextlib.suppress(Exception):
            self.close()

    def _check_usable(self) -> None:
        if not self._is_open:
            raise ConfigError(
                f"The log of session {self.session_id!r} is closed. Reopen the session to write."
            )
        if os.getpid() != self._pid:
            raise ConfigError(
                f"The log of session {self.session_id!r} belongs to process {self._pid}. "
                "This process is a fork of it and cannot write."
            )

    def _record(
        self, kind: str, data: Mapping[str, Any], parent: str | None, at: float | None = None
    ) -> Record:
        if not is_type(kind):
            raise ConfigError(
                f"type={kind!r:.100} is not a valid record type. Use at most 64 lower-case letters, "
                "digits, '_', '.' and '-', starting with a letter."
            )
        if not isinstance(data, Mapping):
            raise ConfigError(
                f"data must be a mapping, not {data.__class__.__name__}. Put the value under a key."
            )
        plain = to_jsonable(data)
        if not isinstance(plain, dict):
            raise ConfigError(f"data cannot be read as a mapping: {plain:.100}")
        # The number is incremented before the write, so that an interrupt may skip a number but not reuse
        # one.
        self._number += 1
        time = self._now() if at is None else at
        return Record(f"{self._number:08d}", parent, round(time, 6), kind, plain)

    @abstractmethod
    def write(self, records: Sequence[Record], lines: Sequence[bytes], *, durable: bool) -> None:
        """Write all records, or write nothing and raise. Only one thread at a time calls this.

        Args:
            records: The records, in order.
            lines: The same records as lines, for `parse`.
            durable: Return only when these and all earlier records would survive a power cut.

        Raises:
            SessionWriteError: The records were not written.
            SessionLockedError: Another writer has taken over the session.
        """

    @abstractmethod
    def release(self) -> None:
        """Close files and connections. Called once, before the lock is released."""


def lock_session(folder: Path, session_id: str) -> SessionLock:
    """Lock a session against other processes of this machine; the lock ends with this process.

    Args:
        folder: Folder of the lock files, created if missing.
        session_id: Id of the session.

    Raises:
        SessionLockedError: The lock is held by another process, or by another log in this process.
        SessionWriteError: The lock file cannot be created.
    """
    with write_errors(folder):
        for each in (folder.parent, folder):  # `mkdir` applies the mode only to the last folder of a path
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        return take_lock(folder / f"{file_name(session_id)}.lock", session_id)


def not_found(session_id: str, place: object) -> SessionNotFoundError:
    """Return the error for a session that does not exist in a store.

    Args:
        place: Folder, file or database of the store.
    """
    return SessionNotFoundError(notice("library.no_session_in", session_id=session_id, place=place))


@contextlib.contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Raise system errors as `SessionWriteError`."""
    try:
        yield
    except OSError as error:
        raise SessionWriteError(error.filename or path, error.strerror or error) from error


def newest_first(sessions: Iterable[SessionInfo | None]) -> list[SessionInfo]:
    """Sort the entries of a session list, newest first, and leave out damaged sessions (None)."""
    return sorted((info for info in sessions if info is not None), key=lambda info: (-info.updated, info.id))


def list_entry(session_id: Any, made: Any, first: Any, last: Any, size: Any) -> SessionInfo | None:
    """Return a session's list entry from the values in a store; None if a value is damaged.

    Args:
        made: Time of the session's creation.
        first: Time of the first record; None if there is none.
        last: Time of the last record; None if there is none.
        size: Size in bytes.
    """
    try:
        created = float(made if first is None else first)
        updated = float(created if last is None else last)
        return SessionInfo(check_session_name(session_id), created, updated, int(size))
    except (ConfigError, TypeError, ValueError):
        return None
