"""Appending to a file so that a line is there wholly or not at all, and getting it onto the disk."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path
from typing import Protocol

from pure_agent_loop.errors import SessionWriteError
from pure_agent_loop.support.locking import OPEN_FLAGS

_CHUNK = 1 << 20


def flush_to_disk(handle: int) -> None:
    """Wait until what was written to a file would survive a power cut."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)  # there, fsync leaves it in the drive's own memory
    elif hasattr(os, "fdatasync"):
        os.fdatasync(handle)
    else:
        os.fsync(handle)


def sync_folder(folder: Path) -> None:
    """Make sure that names which were made or taken away in a folder stay so."""
    with contextlib.suppress(OSError):  # Windows cannot, and some network file systems
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class Ending(Protocol):
    """How a file of lines was found to end."""

    @property
    def size(self) -> int:
        """Bytes that were read."""

    @property
    def end(self) -> int:
        """Bytes behind this offset belong to a line that was never finished."""

    @property
    def needs_newline(self) -> bool:
        """The last line is whole, but its newline is missing."""


class Appender:
    """A file to which whole lines are appended, each with one write.

    Args:
        path: The file, for messages.
        handle: It, open for reading and appending.
    """

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle = handle
        self._size = os.fstat(handle).st_size

    @classmethod
    def open(cls, path: Path) -> Appender:
        """Open a file, and make it for this user only if it is missing. No link is followed.

        Raises:
            OSError: It cannot be opened for writing.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | OPEN_FLAGS
        handle = os.open(path, flags, 0o600)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise SessionWriteError(path, "it is no file; move it away")
        return cls(path, handle)

    def append(self, line: bytes, *, durable: bool = False) -> None:
        """Append a line; if that fails, take back what was written of it.

        Args:
            line: With a newline at its end.
            durable: Return only when it would survive a power cut.

        Raises:
            SessionWriteError: It failed.
        """
        try:
            before = self._check_end()
            try:
                _write_all(self._handle, line)
                if durable:
                    flush_to_disk(self._handle)
            except BaseException:  # an interrupt from the keyboard must not leave half a line either
                with contextlib.suppress(OSError):  # what stays is found by `_check_end` the next time
                    os.ftruncate(self._handle, before)
                raise
        except OSError as error:
            raise SessionWriteError(self._path, error.strerror or error) from error
        self._size = before + len(line)

    def mend(self, found: Ending, torn: Path) -> None:
        """Move an unfinished last line into a file of its own, and end the last whole one.

        Args:
            torn: Where the unfinished line is appended, with a newline.

        Raises:
            SessionWriteError: It failed; nothing was taken away.
        """
        try:
            if found.end < found.size:
                self._copy_tail(found.end, torn)
                os.ftruncate(self._handle, found.end)
            if found.needs_newline:
                _write_all(self._handle, b"\n")
            flush_to_disk(self._handle)
        except OSError as error:
            raise SessionWriteError(error.filename or self._path, error.strerror or error) from error
        self._size = os.fstat(self._handle).st_size

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def _check_end(self) -> int:
        """Return the size. If it is not what we left, somebody wrote without the lock; end their line."""
        about = os.fstat(self._handle)
        if about.st_nlink == 0:
            raise SessionWriteError(self._path, "the file was deleted while it was open")
        if about.st_size != self._size and about.st_size:
            os.lseek(self._handle, -1, os.SEEK_END)
            if os.read(self._handle, 1) != b"\n":
                _write_all(self._handle, b"\n")
                return about.st_size + 1
        return about.st_size

    def _copy_tail(self, start: int, torn: Path) -> None:
        target = os.open(torn, os.O_WRONLY | os.O_APPEND | os.O_CREAT | OPEN_FLAGS, 0o600)
        try:
            os.lseek(self._handle, start, os.SEEK_SET)
            while chunk := os.read(self._handle, _CHUNK):
                _write_all(target, chunk)
            _write_all(target, b"\n")
            flush_to_disk(target)
        finally:
            os.close(target)
        sync_folder(torn.parent)


def _write_all(handle: int, data: bytes) -> None:
    """One write; only when the system takes less, another for the rest, which says why if it fails."""
    written = os.write(handle, data)
    while written < len(data):
        more = os.write(handle, data[written:])
        if more == 0:
            raise OSError(f"only {written} of {len(data)} bytes were taken")
        written += more
