"""What every log of ours does, wherever it writes: number the records, check them, let one thread write."""

from __future__ import annotations

import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.sessions.stores.parse import Transcript
from pure_agent_loop.sessions.stores.records import Record, is_type
from pure_agent_loop.support.text import to_jsonable

if TYPE_CHECKING:
    from typing_extensions import Self


class Lock(Protocol):
    """What keeps other writers away."""

    def release(self) -> None:
        """Let others write."""
        ...


class BaseLog(ABC):
    """A session that is open for writing.

    Args:
        found: What was in it.
        lock: The lock on it, which is let go with the log.
        now: Gives the time, in seconds since the epoch.
    """

    is_remote = False  # of one that is, an append may take long, and belongs into a thread

    def __init__(self, session_id: str, found: Transcript, lock: Lock, now: Callable[[], float]) -> None:
        self.session_id = session_id
        self.records = tuple(found.records)
        self.problems = tuple(found.problems)
        self._lock = lock
        self._now = now
        self._number = found.last_number
        self._ids = {record.id for record in found.records}
        self._newest = found.records[-1].id if found.records else None
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
    ) -> Record:
        """Write one record, wholly or not at all; `SessionLog.append` says more."""
        with self._mutex:
            self._check_usable()
            record = self._record(type, data, parent)
            self._write(record.to_line(), record, durable=durable)
            self._ids.add(record.id)
            self._newest = record.id
            return record

    def adopt(self, records: Sequence[Record]) -> None:
        """Write records of another session into this one, which must be empty, as they are.

        Args:
            records: In the order of writing.

        Raises:
            ConfigError: There is something in this session, or the log is closed.
            SessionWriteError: They could not all be written.
        """
        with self._mutex:
            self._check_usable()
            if self._newest is not None:
                raise ConfigError(f"Session {self.session_id!r} has records already; nothing can be adopted.")
            for record in records:
                self._write(record.to_line(), record, durable=record is records[-1])
                self._ids.add(record.id)
                self._newest = record.id
            self._number = max(
                (int(each.id) for each in records if each.id.isdecimal() and len(each.id) < 16), default=0
            )

    def close(self) -> None:
        """Let others write. May be called twice."""
        with self._mutex:
            if not self._is_open:
                return
            self._is_open = False
            if os.getpid() != self._pid:
                return  # a forked child: file and lock are its parent's
            try:
                self._release()
            finally:
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A log that nobody has any more must not keep the session locked.
        with contextlib.suppress(Exception):
            self.close()

    def _check_usable(self) -> None:
        if not self._is_open:
            raise ConfigError(f"The log of session {self.session_id!r} is closed; open it again to write.")
        if os.getpid() != self._pid:
            raise ConfigError(
                f"The log of session {self.session_id!r} was opened by process {self._pid}, before this one "
                "was forked from it. Only that process may write."
            )

    def _record(self, word: str, data: Mapping[str, Any], parent: str | None) -> Record:
        if not is_type(word):
            raise ConfigError(
                f"type={word!r:.100} cannot be the type of a record. Use at most 64 lower-case letters, "
                "digits, '_', '.' and '-', with a letter first."
            )
        if not isinstance(data, Mapping):
            raise ConfigError(
                f"data must be a mapping, not {data.__class__.__name__}. Put the value under a key."
            )
        plain = to_jsonable(data)
        if not isinstance(plain, dict):
            raise ConfigError(f"data cannot be read as a mapping: {plain:.100}")
        if parent is not None and parent not in self._ids:
            raise ConfigError(f"parent={parent!r:.100} is no record of session {self.session_id!r}.")
        # Counted before it is written: an interrupt in between costs a number, and never gives one twice.
        self._number += 1
        above = self._newest if parent is None else parent
        return Record(f"{self._number:08d}", above, round(self._now(), 6), word, plain)

    @abstractmethod
    def _write(self, line: bytes, record: Record, *, durable: bool) -> None:
        """Write the line wholly, or not at all and raise."""

    @abstractmethod
    def _release(self) -> None:
        """Close what is open."""
