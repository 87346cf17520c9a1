"""Sessions as files: one append-only JSON lines file per session. docs/journal.md describes the format.

<id>.jsonl             the records
<id>.lock              exists during writing, or after the writer was killed
<id>.torn              unfinished last lines, cut off when the session was opened
<id>.repaired.jsonl    a new session, made by `repair`
<id>.name              the id, if it is too long for a file name

An id that is not a safe file name is encoded; see `file_names.file_name`.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pure_agent_loop.errors import SessionError, SessionReadError
from pure_agent_loop.sessions.store import (
    BaseLog,
    Loaded,
    SessionInfo,
    check_session_name,
    list_entry,
    newest_first,
    not_found,
    write_errors,
)
from pure_agent_loop.sessions.stores.file_names import file_name, is_hashed, session_of
from pure_agent_loop.sessions.stores.records import Record, Transcript, parse
from pure_agent_loop.support.abilities import checked_function
from pure_agent_loop.support.disk import Appender, make_folder, sync_folder
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.locking import OPEN_FLAGS, SessionLock, take_lock, write_whole

SUFFIX, NAME_SUFFIX = ".jsonl", ".name"
_READ_ATTEMPTS = 3
_HEAD = re.compile(rb'\{"id":"[^"]{1,64}","parent":(?:null|"[^"]{1,64}"),"time":(-?[0-9.e+-]{1,30}),')
_HEAD_BYTES = 1 << 12


@dataclass(frozen=True, slots=True)
class RepairReport:
    """Result of `JsonlStore.repair`.

    Args:
        session_id: Id of the undamaged session: a new one, or the same if there was no damage.
        path: Path of the new file; None if there was no damage.
        kept: Number of records in the new file.
        changes: One sentence per difference from the damaged file.
    """

    session_id: str
    path: Path | None
    kept: int
    changes: list[str]


class JsonlLog(BaseLog):
    """JSON lines file open for writing, as returned by `JsonlStore.open`."""

    def __init__(
        self,
        session_id: str,
        transcript: Transcript,
        lock: SessionLock,
        now: Callable[[], float],
        file: Appender,
    ) -> None:
        super().__init__(session_id, transcript, lock, now)
        self._file = file

    def write(self, records: Sequence[Record], lines: Sequence[bytes], *, durable: bool) -> None:  # noqa: ARG002 - the base's signature
        """Append the lines to the file; see `BaseLog.write`."""
        self._file.append(b"".join(lines), durable=durable)

    def release(self) -> None:
        """Close the file."""
        self._file.close()


class JsonlStore:
    """Store that keeps sessions as JSON lines files in one folder.

    Args:
        folder: Folder for the files, created with the first session, readable by this user only.
        now: Function that returns the time of records, in seconds since the epoch.
    """

    def __init__(self, folder: str | os.PathLike[str], *, now: Callable[[], float] = time.time) -> None:
        self.folder = Path(folder).expanduser().absolute()
        self._now = checked_function("now", now)

    def open(self, session_id: str, *, create: bool = True) -> JsonlLog:
        """Open a session for writing, and cut off an unfinished last line; see `SessionStore.open`."""
        path = self._path(session_id)
        with write_errors(path):
            if create:
                make_folder(self.folder)
                self._write_name(session_id)
            elif not os.path.lexists(path):
                raise not_found(session_id, self.folder)
            lock = take_lock(self._file(session_id, ".lock"), session_id)
            try:
                return self._open_locked(session_id, lock, create=create)
            except BaseException:
                lock.release()
                raise

    def read(self, session_id: str) -> Loaded:
        """Read a session, even while another process writes it; see `SessionStore.read`."""
        path = self._path(session_id)
        try:
            transcript = _read_consistent(path)
        except FileNotFoundError:
            raise not_found(session_id, self.folder) from None
        except OSError as error:
            raise SessionReadError(notice("library.cannot_read", path=path, error=error)) from error
        return Loaded(transcript.records, transcript.problems)

    def first(self, session_id: str) -> Record | None:
        """Return the first record of a session without reading the rest; None if it is missing or damaged."""
        try:
            with _open_for_reading(self._path(session_id)) as source:
                transcript = parse(io.BytesIO(source.readline(_HEAD_BYTES)))
        except (OSError, SessionError):
            return None
        return transcript.records[0] if transcript.records else None

    def stamp(self, session_id: str) -> object:
        """Return a value that changes with each record; None if the session does not exist."""
        try:
            status = self._path(session_id).stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def list(self) -> Sequence[SessionInfo]:
        """Return all sessions, most recently used first.

        Raises:
            SessionReadError: The folder cannot be read.
        """
        try:
            return newest_first(_info(path) for path in self.folder.glob(f"*{SUFFIX}"))
        except OSError as error:
            raise SessionReadError(notice("library.cannot_read", path=self.folder, error=error)) from error

    def exists(self, session_id: str) -> bool:
        """Return True if the session exists."""
        return os.path.lexists(self._path(session_id))

    def delete(self, session_id: str) -> None:
        """Delete a session and its cut-off lines; see `SessionStore.delete`."""
        path = self._path(session_id)
        if not os.path.lexists(path):
            raise not_found(session_id, self.folder)
        with write_errors(path):
            lock = take_lock(self._file(session_id, ".lock"), session_id)
            try:
                path.unlink(missing_ok=True)
                for suffix in (".torn", NAME_SUFFIX):
                    self._file(session_id, suffix).unlink(missing_ok=True)
                sync_folder(self.folder)
            finally:
                lock.release()

    def attend(self, session_id: str) -> SessionLock:
        """Show other processes that a conversation has a session open, until the returned lock is released.

        The session can still be read and written by others.

        Raises:
            ConfigError: The id is invalid.
            SessionLockedError: Another conversation has the session open.
            OSError: The folder cannot be written.
        """
        path = self._file(check_session_name(session_id), ".open")
        make_folder(self.folder)
        return take_lock(path, session_id)

    def repair(self, session_id: str) -> RepairReport:
        """Copy the complete records of a damaged session to a new session. The old file is not changed.

        Raises:
            ConfigError: The id is invalid.
            SessionNotFoundError: The session does not exist.
            SessionLockedError: A writer has the session open.
            SessionReadError: The session cannot be read at all.
            SessionWriteError: The new file cannot be written.
        """
        if not self.exists(session_id):
            raise not_found(session_id, self.folder)
        with write_errors(self.folder):
            lock = take_lock(self._file(session_id, ".lock"), session_id)
        try:
            loaded = self.read(session_id)
            if not loaded.problems:
                return RepairReport(session_id, None, len(loaded.records), [])
            suffixes = (f"-{number}" if number > 1 else "" for number in itertools.count(1))
            names = (f"{session_id}.repaired{suffix}" for suffix in suffixes)
            new_id = next(name for name in names if not self.exists(name))
            path = self._path(new_id)
            with write_errors(path):
                self._write_name(new_id)
                write_whole(path, b"".join(record.to_line() for record in loaded.records), durable=True)
                sync_folder(self.folder)
            return RepairReport(new_id, path, len(loaded.records), loaded.problems)
        finally:
            lock.release()

    def _path(self, session_id: str) -> Path:
        return self._file(check_session_name(session_id), SUFFIX)

    def _file(self, session_id: str, suffix: str) -> Path:
        return self.folder / f"{file_name(session_id)}{suffix}"

    def _write_name(self, session_id: str) -> None:
        """Write the id to a separate file if the session's file name is only a hash."""
        path = self._file(session_id, NAME_SUFFIX)
        if is_hashed(path.name) and not os.path.lexists(path):
            write_whole(path, session_id.encode(), durable=True)
            sync_folder(self.folder)

    def _open_locked(self, session_id: str, lock: SessionLock, *, create: bool) -> JsonlLog:
        path = self._path(session_id)
        is_new = not os.path.lexists(path)
        if is_new and not create:
            raise not_found(session_id, self.folder)
        file = Appender.open(path)
        try:
            if is_new:
                sync_folder(self.folder)
            with _open_for_reading(path) as source:
                transcript = parse(source)
            if transcript.end < transcript.size or transcript.needs_newline:
                torn = self._file(session_id, ".torn")
                file.mend(transcript, torn)
                if transcript.end < transcript.size:
                    transcript.problems.append(f"the unfinished end of the file was moved to {torn}")
            return JsonlLog(session_id, transcript, lock, self._now, file)
        except BaseException:
            file.close()
            raise


def _open_for_reading(path: Path) -> BinaryIO:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | OPEN_FLAGS)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise SessionReadError(notice("library.cannot_read_irregular", path=path))
    return os.fdopen(handle, "rb")


def _read_consistent(path: Path) -> Transcript:
    """Read a file; a line that another process is still writing does not count as damage."""
    with _open_for_reading(path) as source:
        for _ in range(_READ_ATTEMPTS):
            transcript = parse(source)
            is_whole = transcript.end == transcript.size and not transcript.needs_newline
            if is_whole or os.fstat(source.fileno()).st_size == transcript.size:
                break
            source.seek(0)
    return transcript


def _info(path: Path) -> SessionInfo | None:
    """Return the list entry of a file; None if it is not a session, or is being deleted."""
    try:
        name = path.name.removesuffix(SUFFIX)
        name_file = path.with_name(name + NAME_SUFFIX)
        session_id = name_file.read_text("utf-8") if is_hashed(name) else session_of(name)
        with _open_for_reading(path) as source:
            status = os.fstat(source.fileno())
            created, updated = first_and_last_time(source)
    except (OSError, UnicodeError, SessionError):
        return None
    return list_entry(session_id, status.st_mtime, created, updated, status.st_size)


def first_and_last_time(file: BinaryIO) -> tuple[float | None, float | None]:
    """Return the times of the first and the last record; None for an unreadable one."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    first = _HEAD.match(file.read(_HEAD_BYTES))
    created = _number(first[1]) if first else None
    size_read = _HEAD_BYTES
    while created is not None:
        file.seek(max(0, size - size_read))
        heads = _HEAD.findall(file.read(size_read))
        if heads or size_read >= size:
            return created, _number(heads[-1]) if heads else created
        size_read *= 8  # the last line is longer than the part read so far
    return None, None


def _number(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
