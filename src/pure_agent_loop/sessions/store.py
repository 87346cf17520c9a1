"""Session store interface, its value types, and checks of session ids."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import WeakValueDictionary

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.sessions.stores.records import Record, file_name
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.language import notice

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_ID = 200
# The suffix that `JsonlStore.repair` appends does not count, so that each session can be repaired.
_UNFIT = ("Cc", "Cs", "Zl", "Zp")  # control characters, surrogates, line and paragraph separators
_REPAIRED = re.compile(r"(\.repaired(-\d+)?)*$")


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
        created: Time of the first record, or of the session's creation if empty, in seconds since the epoch.
        updated: Time of the last record; `created` if there is none.
        size_bytes: Approximate size of the records.
    """

    id: str
    created: float
    updated: float
    size_bytes: int


class SessionLog(Protocol):
    """Session open for writing. May be used from several threads of the process that opened it."""

    @property
    def session_id(self) -> str:
        """Id of the session."""
        ...

    @property
    def records(self) -> Sequence[Record]:
        """Records at the time of opening."""
        ...

    @property
    def problems(self) -> Sequence[str]:
        """Sentences about damage at the time of opening, and its repair."""
        ...

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
            data: Content of the record. Values without a JSON form become text.
            parent: Id of the record it follows; None for the newest.
            durable: Return only when this and all earlier records would survive a power cut.

        Returns:
            The record as it will be read back.

        Raises:
            ConfigError: The type, the data or the parent is invalid, or the log is closed.
            SessionWriteError: The record was not written; earlier records are intact.
            SessionLockedError: Another writer has taken over the session.
        """
        ...

    def close(self) -> None:
        """Release the session for other writers. May be called twice."""
        ...

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
            session_id: Any text of up to 200 characters, on one line; see `check_session_name`.
            create: Create the session if missing.

        Raises:
            ConfigError: The id is invalid.
            SessionNotFoundError: The session does not exist and `create` is False.
            SessionLockedError: Another writer has it open, in this or another process.
            SessionReadError: The storage cannot be read at all.
            SessionWriteError: The storage cannot be written.
        """
        ...

    def read(self, session_id: str) -> Loaded:
        """Read a session, even while another process writes it. Changes nothing.

        Raises:
            ConfigError: The id is invalid.
            SessionNotFoundError: The session does not exist.
            SessionReadError: The session cannot be read at all.
        """
        ...

    def list(self) -> Sequence[SessionInfo]:
        """Return all sessions, most recently used first."""
        ...

    def exists(self, session_id: str) -> bool:
        """Return True if the session exists."""
        ...

    def delete(self, session_id: str) -> None:
        """Delete a session.

        Raises:
            ConfigError: The id is invalid.
            SessionNotFoundError: The session does not exist.
            SessionLockedError: A writer has it open.
            SessionWriteError: The session cannot be deleted.
        """
        ...


class HasStore(Protocol):
    """Object that holds a store, such as a `SessionManager`."""

    store: SessionStore


SessionPlace: TypeAlias = str | os.PathLike[str] | SessionStore | HasStore  # see `store_at`


class Stamps(Protocol):
    """Store with a cheap check for changes of a session."""

    def stamp(self, session_id: str) -> object:
        """Return a value that changes with each record; None if the session does not exist."""
        ...


class ClosesStore(Protocol):
    """Store that holds connections."""

    def close(self) -> None:
        """Close the connections."""
        ...


_OPENING_LOCKS: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OPENING_LOCKS.clear)  # no thread of the child holds a lock


@contextlib.contextmanager
def opening_lock(session_id: str) -> Iterator[None]:
    """Hold the lock for opening a session in this process: threads take turns.

    A run holds it only while it opens its session; an answer holds it until it is written. So an answer
    recorded by the same process never makes a run fail with `SessionLockedError`.
    """
    with _OPENING_LOCKS.setdefault(session_id, threading.Lock()):
        yield


def close_store(store: object) -> None:
    """Close the connections of a store, if it has any."""
    closable = as_protocol(store, ClosesStore)
    if closable is not None:
        closable.close()


def is_remote(log: SessionLog) -> bool:
    """Return True if writing to the log takes network time and must happen in a thread."""
    return bool(getattr(log, "is_remote", False))


def check_session_id(session_id: Any) -> str:
    """Return the id if it is safe as a file name on every system.

    For stores that use ids as file names unchanged. The stores of this package accept everything that
    `check_session_name` accepts, and encode it.

    Args:
        session_id: Value to check.

    Raises:
        ConfigError: The id is not safe.
    """
    if file_name(check_session_name(session_id)) != session_id:
        raise ConfigError(notice("library.session_file_name", session_id=session_id))
    return str(session_id)


def check_session_name(session_id: Any) -> str:
    """Return the id if it is valid: any text of up to 200 characters, on one line.

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
