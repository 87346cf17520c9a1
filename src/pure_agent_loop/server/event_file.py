"""Persisted events of a session, so that clients can reconnect after the server restarts.

Each session has one JSON-lines file. A line is written before any client receives its event, so that no
number is reused even if the process is killed. After a power failure the last lines may be missing, because
only the session itself is synced to disk. Above a maximum size, the older half of the file is deleted;
clients that need the deleted events read the session instead.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from pure_agent_loop.server.entries import ChannelEntry
from pure_agent_loop.support.disk import append_all
from pure_agent_loop.support.locking import OPEN_FLAGS

MAX_BYTES = 16 << 20
_TAIL = 1 << 20


class EventFile:
    """The event file of one session. Only one process at a time may write to the file.

    Args:
        session: The session's id.
    """

    def __init__(self, path: Path, session: str, max_bytes: int = MAX_BYTES) -> None:
        self.path, self._session, self._max_bytes = path, session, max_bytes
        self._handle: int | None = None
        self._size = 0

    def last_number(self) -> int:
        """Return the newest number, 0 if the file is empty. An incomplete last line is cut off."""
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
            return ChannelEntry.from_line(self._session, tail[begin:end]).number if end else 0
        except (ValueError, KeyError, TypeError):
            return max((entry.number for entry in self._entries()), default=0)

    def append(self, entries: list[ChannelEntry]) -> None:
        """Append entries, all or none.

        Raises:
            OSError: The entries were not written.
        """
        if self._handle is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | OPEN_FLAGS
            self._handle = os.open(self.path, flags, 0o600)
            self._size = os.fstat(self._handle).st_size
        data = b"".join(entry.to_line() for entry in entries)
        append_all(self._handle, data, self._size)
        self._size += len(data)
        if self._size > self._max_bytes:
            self._drop_older_half()

    def _drop_older_half(self) -> None:
        """Rewrite the file with its newer half. Open readers continue with the old file."""
        new = self.path.with_suffix(".new")
        with self.path.open("rb") as old, new.open("wb") as file:
            if sys.platform != "win32":
                os.fchmod(file.fileno(), 0o600)
            old.seek(self._size - self._max_bytes // 2)
            old.readline()
            while chunk := old.read(_TAIL):
                file.write(chunk)
        new.replace(self.path)
        self.close()

    def after(self, number: int, limit: int) -> list[ChannelEntry]:
        """Return at most `limit` entries after a number, oldest first. Damaged lines are skipped."""
        return list(islice(self._entries(number), limit))

    def _entries(self, after: int = 0) -> Iterator[ChannelEntry]:
        try:
            file: BinaryIO = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            for line in file:
                if not line.endswith(b"\n") or (after and _number(line) <= after):
                    continue
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    yield ChannelEntry.from_line(self._session, line)

    def close(self) -> None:
        """Close the file. The next `append` opens it again."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def delete(self) -> None:
        """Delete the file."""
        self.close()
        self.path.unlink(missing_ok=True)


def _number(line: bytes) -> int:
    """Return the number of a line without parsing the whole line."""
    digits = line[5 : line.find(b",", 5)]
    return int(digits) if line.startswith(b'{"n":') and digits.isdigit() else 1 << 62
