"""The events of a session on disk, so that a client that comes back after a restart finds its place.

One file of JSON lines for each session. A line is written before any client sees its event, so no number is
given twice when the process is killed. (After a power cut the last lines may be missing: what counts stands
in the session, which is synced.) Beyond a size the older half goes; who wants that reads the session.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pure_agent_loop.server.entries import Entry
from pure_agent_loop.support.locking import OPEN_FLAGS

MOST_BYTES = 16 << 20
_TAIL = 1 << 20


class EventFile:
    """The file of one session. Opened for writing by one process at a time.

    Args:
        path: Where.
        session: The session.
        most_bytes: From when on the older half goes.
    """

    def __init__(self, path: Path, session: str, most_bytes: int = MOST_BYTES) -> None:
        self.path, self._session, self._most = path, session, most_bytes
        self._handle: int | None = None
        self._size = 0

    def last_number(self) -> int:
        """The number of the newest whole line; a line that was never finished is cut off. 0 for none."""
        if not self.path.exists():
            return 0
        with self.path.open("rb+") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - _TAIL)
            while True:
                file.seek(start)
                tail = file.read()
                end = tail.rfind(b"\n") + 1
                begin = tail.rfind(b"\n", 0, end - 1) + 1 if end else 0
                if start == 0 or begin > 0:
                    break
                start = max(0, start - 4 * _TAIL)
            if end < len(tail):
                file.truncate(start + end)
        try:
            return Entry.from_line(self._session, tail[begin:end]).number if end else 0
        except (ValueError, KeyError, TypeError):
            return max((each.number for each in self._entries()), default=0)

    def append(self, entries: list[Entry]) -> None:
        """Write entries with one write.

        Raises:
            OSError: They could not be written.
        """
        if self._handle is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | OPEN_FLAGS
            self._handle = os.open(self.path, flags, 0o600)
            self._size = os.fstat(self._handle).st_size
        data = b"".join(each.to_line() for each in entries)
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._handle, view) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self._size)
            raise
        self._size += len(data)
        if self._size > self._most:
            self._shorten()

    def _shorten(self) -> None:
        """Leave the newer half. Readers that have the old file open read it to its end."""
        new = self.path.with_suffix(".new")
        with self.path.open("rb") as old, new.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)
            old.seek(self._size - self._most // 2)
            old.readline()
            while chunk := old.read(_TAIL):
                file.write(chunk)
        new.replace(self.path)
        self.close()

    def after(self, number: int, most: int) -> list[Entry]:
        """The entries behind a number, oldest first; what is damaged is passed over.

        Args:
            number: The last one that is known; 0 for none.
            most: How many at most.
        """
        found = []
        for entry in self._entries(number):
            found.append(entry)
            if len(found) >= most:
                break
        return found

    def _entries(self, after: int = 0) -> Iterator[Entry]:
        try:
            file: BinaryIO = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            for line in file:
                if not line.endswith(b"\n") or (after and _number(line) <= after):
                    continue
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    yield Entry.from_line(self._session, line)

    def close(self) -> None:
        """Close it; it is opened again when something is to be written."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def delete(self) -> None:
        """Take it away."""
        self.close()
        self.path.unlink(missing_ok=True)


def _number(line: bytes) -> int:
    """The number at the start of a line, read without the rest."""
    digits = line[5 : line.find(b",", 5)]
    return int(digits) if line.startswith(b'{"n":') and digits.isdigit() else 1 << 62
