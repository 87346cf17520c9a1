"""Append lines to a file atomically, and flush them to the disk."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path
from typing import Protocol

from pure_agent_loop.errors import SessionWriteError
from pure_agent_loop.support.locking import OPEN_FLAGS, is_still

_CUT_OFF = "it was truncated while open. Open it again to keep the remaining records"
TAKEN_AWAY = "the file was deleted, renamed or replaced while open. Restore it, or start again"


def flush_to_disk(handle: int) -> None:
    """Flush a file so that its content survives a power cut."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)  # fsync on macOS leaves data in the drive's cache
    elif hasattr(os, "fdatasync"):
        os.fdatasync(handle)
    else:
        os.fsync(handle)


def sync_folder(folder: Path) -> None:
    """Flush a folder, so that created and deleted names survive a power cut."""
    with contextlib.suppress(OSError):  # Windows and some network file systems cannot flush a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_folder(folder: Path) -> None:
    """Create a folder if missing, for this user only. An existing one keeps its permissions."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(folder.parent)


class FileEnd(Protocol):
    """State of the last line in a file of lines."""

    @property
    def size(self) -> int:
        """Number of bytes read."""

    @property
    def end(self) -> int:
        """Offset where an unfinished last line begins."""

    @property
    def needs_newline(self) -> bool:
        """True if the last line lacks only its newline."""


class Appender:
    """File to which complete lines are appended, one write each.

    Args:
        path: The file, for messages.
        handle: File descriptor, open for read and append.
    """

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle = handle
        self._size = os.fstat(handle).st_size

    @classmethod
    def open(cls, path: Path) -> Appender:
        """Open a file; create it for this user only if missing. Links are not followed.

        Raises:
            OSError: The file cannot be opened for writing.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | OPEN_FLAGS
        handle = os.open(path, flags, 0o600)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise SessionWriteError(path, "it is not a regular file. Move it away")
        return cls(path, handle)

    def append(self, line: bytes, *, durable: bool = False) -> None:
        """Append a line; if that fails, truncate the partial write.

        Args:
            durable: Return only after the line is on the disk.

        Raises:
            SessionWriteError: The write failed.
        """
        try:
            size = self._check_end()
            append_all(self._handle, line, size, durable=durable)
        except OSError as error:
            raise SessionWriteError(self._path, error.strerror or error) from error
        self._size = size + len(line)

    def mend(self, ending: FileEnd, torn: Path) -> None:
        """Move an unfinished last line to a separate file, and add a missing last newline.

        Args:
            torn: File to which the unfinished line is appended, with a newline.

        Raises:
            SessionWriteError: The write failed; nothing was removed.
        """
        try:
            if ending.end < ending.size:
                self._copy_tail(ending.end, torn)
                os.ftruncate(self._handle, ending.end)
            if ending.needs_newline:
                write_all(self._handle, b"\n")
            flush_to_disk(self._handle)
        except OSError as error:
            raise SessionWriteError(error.filename or self._path, error.strerror or error) from error
        self._size = os.fstat(self._handle).st_size

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def _check_end(self) -> int:
        """Return the size; reject a replaced or shortened file; end another writer's partial line."""
        if not is_still(self._handle, self._path):
            raise SessionWriteError(self._path, TAKEN_AWAY)
        if (status := os.fstat(self._handle)).st_size < self._size:
            raise SessionWriteError(self._path, _CUT_OFF)
        if status.st_size != self._size:
            os.lseek(self._handle, -1, os.SEEK_END)
            if os.read(self._handle, 1) != b"\n":
                write_all(self._handle, b"\n")
                return status.st_size + 1
        return status.st_size

    def _copy_tail(self, start: int, torn: Path) -> None:
        target = os.open(torn, os.O_WRONLY | os.O_APPEND | os.O_CREAT | OPEN_FLAGS, 0o600)
        try:
            os.lseek(self._handle, start, os.SEEK_SET)
            while chunk := os.read(self._handle, 1 << 20):
                write_all(target, chunk)
            write_all(target, b"\n")
            flush_to_disk(target)
        finally:
            os.close(target)
        sync_folder(torn.parent)


def append_all(handle: int, data: bytes, size: int, *, durable: bool = False) -> None:
    """Append all bytes to a file, or none.

    Args:
        size: Size of the file before the write.
        durable: Return only after the bytes are on the disk.
    """
    try:
        write_all(handle, data)
        if durable:
            flush_to_disk(handle)
    except BaseException:  # Ctrl-C must not leave a partial line either
        with contextlib.suppress(OSError):  # if this fails, the next writer detects the partial line
            os.ftruncate(handle, size)
        raise


def write_all(handle: int, data: bytes) -> None:
    """Write all bytes; if the first call wrote only some, write the rest, so that its error is raised."""
    written = os.write(handle, data)
    while written < len(data):
        count = os.write(handle, data[written:])
        if count == 0:
            raise OSError(f"only {written} of {len(data)} bytes were written")
        written += count
