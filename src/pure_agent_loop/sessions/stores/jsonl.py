"""Sessions as files: one append-only file of JSON lines each. docs/sessions.md describes the format.

<id>.jsonl             the records
<id>.lock              there while somebody writes, or was killed writing
<id>.torn              ends of lines that were never finished, cut off when the session was opened
<id>.repaired.jsonl    what `repair` made: a session of its own
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pure_agent_loop.errors import (
    ConfigError,
    SessionError,
    SessionNotFoundError,
    SessionReadError,
    SessionWriteError,
)
from pure_agent_loop.sessions.store import Loaded, SessionInfo, check_session_id
from pure_agent_loop.sessions.stores.log import BaseLog
from pure_agent_loop.sessions.stores.parse import Transcript, parse
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.support.disk import Appender, sync_folder
from pure_agent_loop.support.locking import OPEN_FLAGS
from pure_agent_loop.support.writer_lock import SessionLock, take_lock

SUFFIX = ".jsonl"
_LOOKS = 3


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What `JsonlStore.repair` did.

    Args:
        session_id: The session that is whole: a new one, or the same if nothing was damaged.
        path: The new file, None if nothing was damaged.
        kept: How many records it holds.
        changes: A sentence for each thing that differs from the damaged file.
    """

    session_id: str
    path: Path | None
    kept: int
    changes: list[str]


class JsonlLog(BaseLog):
    """A file of JSON lines that is open for writing. `JsonlStore.open` makes it."""

    def __init__(
        self, session_id: str, found: Transcript, lock: SessionLock, now: Callable[[], float], file: Appender
    ) -> None:
        super().__init__(session_id, found, lock, now)
        self._file = file

    def _write(self, line: bytes, record: Record, *, durable: bool) -> None:  # noqa: ARG002 - the line is enough
        self._file.append(line, durable=durable)

    def _release(self) -> None:
        self._file.close()


class JsonlStore:
    """Sessions as files of JSON lines in one folder.

    Args:
        folder: Where. It is made when the first session is, for this user only.
        now: Gives the time of records, in seconds since the epoch.
    """

    def __init__(self, folder: str | os.PathLike[str], *, now: Callable[[], float] = time.time) -> None:
        self.folder = Path(folder).expanduser().absolute()
        self._now = now

    def open(self, session_id: str, *, create: bool = True) -> JsonlLog:
        """Open a session for writing, and cut off an unfinished last line; see `SessionStore.open`."""
        path = self._path(session_id)
        with _writing(path):
            if create:
                _make_folder(self.folder)
            elif not _is_there(path):
                raise _not_found(session_id, self.folder)
            lock = take_lock(self._beside(session_id, ".lock"), session_id)
            try:
                return self._open_locked(session_id, lock, create=create)
            except BaseException:
                lock.release()
                raise

    def read(self, session_id: str) -> Loaded:
        """Read a session, also while another process writes it; `SessionStore.read` says more."""
        path = self._path(session_id)
        try:
            found = _read_settled(path)
        except FileNotFoundError:
            raise _not_found(session_id, self.folder) from None
        except OSError as error:
            raise SessionReadError(f"Cannot read {path}: {error}") from error
        return Loaded(found.records, found.problems)

    def first(self, session_id: str) -> Record | None:
        """The first record of a session, without reading the rest; None if there is none that is whole."""
        try:
            with _open_for_reading(self._path(session_id)) as source:
                found = parse(io.BytesIO(source.readline(_FIRST_LOOK)))
        except (OSError, SessionError):
            return None
        return found.records[0] if found.records else None

    def list(self) -> Sequence[SessionInfo]:
        """Every session, the one used last first.

        Raises:
            SessionReadError: The folder cannot be read.
        """
        try:
            found = [info for path in self.folder.glob(f"*{SUFFIX}") if (info := _info(path)) is not None]
        except OSError as error:
            raise SessionReadError(f"Cannot read {self.folder}: {error}") from error
        return sorted(found, key=lambda info: (-info.updated, info.id))

    def exists(self, session_id: str) -> bool:
        """True if there is such a session."""
        return _is_there(self._path(session_id))

    def delete(self, session_id: str) -> None:
        """Take a session away, with what was cut off from it; `SessionStore.delete` says more."""
        path = self._path(session_id)
        if not _is_there(path):
            raise _not_found(session_id, self.folder)
        with _writing(path):
            lock = take_lock(self._beside(session_id, ".lock"), session_id)
            try:
                path.unlink(missing_ok=True)
                self._beside(session_id, ".torn").unlink(missing_ok=True)
                sync_folder(self.folder)
            finally:
                lock.release()

    def repair(self, session_id: str) -> RepairReport:
        """Write what is whole in a damaged session into a session of its own. The old file stays as it is.

        Raises:
            ConfigError: The id cannot be one.
            SessionNotFoundError: There is none.
            SessionLockedError: A writer has it open.
            SessionReadError: It cannot be read at all.
            SessionWriteError: The new file cannot be written.
        """
        if not self.exists(session_id):
            raise _not_found(session_id, self.folder)
        with _writing(self.folder):
            lock = take_lock(self._beside(session_id, ".lock"), session_id)
        try:
            loaded = self.read(session_id)
            if not loaded.problems:
                return RepairReport(session_id, None, len(loaded.records), [])
            new_id = next(each for each in _repaired_names(session_id) if not self.exists(each))
            path = self._path(new_id)
            with _writing(path):
                _write_whole(path, loaded.records)
            return RepairReport(new_id, path, len(loaded.records), loaded.problems)
        finally:
            lock.release()

    def _path(self, session_id: str) -> Path:
        return self._beside(check_session_id(session_id), SUFFIX)

    def _beside(self, session_id: str, suffix: str) -> Path:
        return self.folder / f"{session_id}{suffix}"

    def _open_locked(self, session_id: str, lock: SessionLock, *, create: bool) -> JsonlLog:
        path = self._path(session_id)
        is_new = not _is_there(path)
        if is_new and not create:
            raise _not_found(session_id, self.folder)
        file = Appender.open(path)
        try:
            if is_new:
                sync_folder(self.folder)
            with _open_for_reading(path) as source:
                found = parse(source)
            if found.end < found.size or found.needs_newline:
                torn = self._beside(session_id, ".torn")
                file.mend(found, torn)
                if found.end < found.size:
                    found.problems.append(f"the unfinished end of the file was moved to {torn}")
            return JsonlLog(session_id, found, lock, self._now, file)
        except BaseException:
            file.close()
            raise


def _not_found(session_id: str, folder: Path) -> SessionNotFoundError:
    return SessionNotFoundError(f"There is no session {session_id!r} in {folder}.")


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SessionWriteError(error.filename or path, error.strerror or error) from error


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return  # it may be one that the user shares on purpose
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    sync_folder(folder.parent)


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def _open_for_reading(path: Path) -> BinaryIO:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | OPEN_FLAGS)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise SessionReadError(f"Cannot read {path}: it is no file. Move it away.")
    return os.fdopen(handle, "rb")


def _read_settled(path: Path) -> Transcript:
    """Read a file; an unfinished line that another process is just writing is no damage."""
    with _open_for_reading(path) as source:
        for _ in range(_LOOKS):
            found = parse(source)
            is_whole = found.end == found.size and not found.needs_newline
            if is_whole or os.fstat(source.fileno()).st_size == found.size:
                break
            source.seek(0)
    return found


def _info(path: Path) -> SessionInfo | None:
    """None for what is no session, or is just being taken away."""
    try:
        session_id = check_session_id(path.name.removesuffix(SUFFIX))
        with _open_for_reading(path) as source:
            about = os.fstat(source.fileno())
            created, updated = first_and_last_time(source)
    except (OSError, SessionError, ConfigError):
        return None
    created = about.st_mtime if created is None else created
    return SessionInfo(session_id, created, created if updated is None else updated, about.st_size)


def _repaired_names(session_id: str) -> Iterator[str]:
    yield f"{session_id}.repaired"
    number = 2
    while True:
        yield f"{session_id}.repaired-{number}"
        number += 1


def _write_whole(path: Path, records: Sequence[Record]) -> None:
    """Write a file that is either not there or whole."""
    draft = path.with_name(path.name + ".new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | OPEN_FLAGS, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(record.to_line() for record in records)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


_HEAD = re.compile(rb'\{"id":"[^"]{1,64}","parent":(?:null|"[^"]{1,64}"),"time":(-?[0-9.e+-]{1,30}),')
_FIRST_LOOK = 1 << 12


def first_and_last_time(file: BinaryIO) -> tuple[float | None, float | None]:
    """The times of the first and the last record, None where none can be read.

    Args:
        file: A transcript, open for reading.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    first = _HEAD.match(file.read(_FIRST_LOOK))
    created = _number(first[1]) if first else None
    look = _FIRST_LOOK
    while created is not None:
        file.seek(max(0, size - look))
        heads = _HEAD.findall(file.read(look))
        if heads or look >= size:
            return created, _number(heads[-1]) if heads else created
        look *= 8  # the last line is longer
    return None, None


def _number(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
