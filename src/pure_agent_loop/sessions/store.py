"""What a store of sessions is: the interface, the values it speaks in, and the names sessions may have."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.support.abilities import able

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_ID = 64
# What `JsonlStore.repair` appends does not count, so that each session can be repaired.
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}?(\.repaired(-\d+)?)*")
_DEVICES = {
    "CON",
    "PRN",
    "AUX",
    "NUL",
    *(f"{name}{number}" for name in ("COM", "LPT") for number in range(10)),
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a session holds.

    Args:
        records: The whole records, in the order of writing. A parent stands before its children.
        problems: A sentence for each thing that was damaged; empty if nothing was.
    """

    records: list[Record]
    problems: list[str]


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What a list of sessions shows.

    Args:
        id: The session.
        created: Time of the first record, in seconds since the epoch; without any, when the session was made.
        updated: Time of the last record; without any, the same as `created`.
        size_bytes: How much its records take, about.
    """

    id: str
    created: float
    updated: float
    size_bytes: int


class SessionLog(Protocol):
    """A session that is open for writing. May be used from several threads of the process that opened it."""

    @property
    def session_id(self) -> str:
        """The session."""
        ...

    @property
    def records(self) -> Sequence[Record]:
        """What was there when it was opened."""
        ...

    @property
    def problems(self) -> Sequence[str]:
        """What was damaged when it was opened, and what was done about it, as sentences."""
        ...

    def append(
        self,
        type: str,  # noqa: A002 - the name of the field
        data: Mapping[str, Any],
        *,
        parent: str | None = None,
        durable: bool = False,
    ) -> Record:
        """Write one record, wholly or not at all.

        Args:
            type: What kind of thing: lower-case letters, digits, ``_ . -``, a letter first.
            data: The rest. What has no JSON form becomes text.
            parent: The record it follows; None for the newest.
            durable: Return only when it would survive a power cut, with all that was written before.

        Returns:
            The record as it will be read back.

        Raises:
            ConfigError: The type, the data or the parent cannot be right, or the log is closed.
            SessionWriteError: It could not be written; what was written before is whole.
            SessionLockedError: Another writer has taken the session over.
        """
        ...

    def close(self) -> None:
        """Let others write. May be called twice."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SessionStore(Protocol):
    """A place where sessions are kept. `pure_agent_loop.testing.check_store` says whether yours is one."""

    def open(self, session_id: str, *, create: bool = True) -> SessionLog:
        """Open a session for writing; only one writer at a time can.

        Args:
            session_id: At most 64 letters, digits and ``_ - .``, not a dot first.
            create: Make it if there is none.

        Raises:
            ConfigError: The id cannot be one.
            SessionNotFoundError: There is none, and none was to be made.
            SessionLockedError: Another writer has it open, here or in another process.
            SessionReadError: What holds the sessions cannot be read at all.
            SessionWriteError: Nothing can be written there.
        """
        ...

    def read(self, session_id: str) -> Loaded:
        """Read a session, also while another process writes it. Changes nothing.

        Raises:
            ConfigError: The id cannot be one.
            SessionNotFoundError: There is none.
            SessionReadError: It cannot be read at all.
        """
        ...

    def list(self) -> Sequence[SessionInfo]:
        """Every session, the one used last first."""
        ...

    def exists(self, session_id: str) -> bool:
        """True if there is such a session."""
        ...

    def delete(self, session_id: str) -> None:
        """Take a session away.

        Raises:
            ConfigError: The id cannot be one.
            SessionNotFoundError: There is none.
            SessionLockedError: A writer has it open.
            SessionWriteError: It cannot be taken away.
        """
        ...


class ClosesStore(Protocol):
    """A store that holds connections."""

    def close(self) -> None:
        """Give them back."""
        ...


def close_store(store: object) -> None:
    """Have a store give back what it holds, if it holds something."""
    closing = able(store, ClosesStore)
    if closing is not None:
        closing.close()


def is_remote(log: SessionLog) -> bool:
    """Whether writing to a log may take as long as a network does: then it is done in a thread."""
    return bool(getattr(log, "is_remote", False))


def check_session_id(session_id: Any) -> str:
    """Return the id if it is safe as a file name on every system.

    Args:
        session_id: Whatever was given.

    Raises:
        ConfigError: It is not.
    """
    if not _ID.fullmatch(session_id if isinstance(session_id, str) else ""):
        raise ConfigError(
            f"session_id={session_id!r:.100} cannot name a session. Use at most {MAX_ID} letters, digits "
            "and '-', '_', '.', and no dot at the start; new_session_id() makes one."
        )
    if session_id.partition(".")[0].upper() in _DEVICES:
        raise ConfigError(
            f"session_id={session_id!r} is the name of a device on Windows. Put a letter in front of it."
        )
    return str(session_id)


def new_session_id(now: float | None = None) -> str:
    """A new id such as ``20260131-142501-9f3a1c5e``: when (UTC), and something random.

    Args:
        now: The time in seconds since the epoch; None for the present.
    """
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{secrets.token_hex(4)}"
