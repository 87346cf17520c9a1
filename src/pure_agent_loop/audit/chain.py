"""Appending to an audit log that several processes write and that any of them may leave unfinished.

Under the lock: read the head, take in what a killed writer left behind it, append, move the head on. Nothing
that is found is ever removed. An unfinished line gets its newline and a line that says what it was
(``torn``); what no writer of ours leaves behind gets a line that `verify` reports (``cut``, ``foreign``,
``head``).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pure_agent_loop.audit.folder import file_name, files_in, locked, make_folder, open_file
from pure_agent_loop.audit.head import Found, Head, read_head, write_head
from pure_agent_loop.audit.seal import KEY_VARIABLE, Sealer
from pure_agent_loop.audit.walk import LONGEST_LINE, BrokenChain, Walk
from pure_agent_loop.errors import AuditError
from pure_agent_loop.support.disk import flush_to_disk, sync_folder

Fields = dict[str, Any]
_FIX = "Make room or make the folder writable, or give AuditLog another path; until then no tool is called"


class Chain:
    """The writing end of an audit log.

    Args:
        folder: Where it is; made with the first line.
        sealer: Seals the lines.
        durable: Each line is on the disk before `append` returns.
        max_bytes: A file longer than this is followed by another one.
        now: Gives the time of lines, in seconds since the epoch.
    """

    def __init__(
        self,
        folder: Path,
        sealer: Sealer,
        *,
        durable: bool,
        max_bytes: int,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self._sealer = sealer
        self._durable = durable
        self._max_bytes = max_bytes
        self._now = now

    def check(self) -> None:
        """Find out whether lines can be written; see `append_all`."""
        self.append_all([])

    def append(self, fields: Fields) -> int:
        """Append a line and return its number; see `append_all`."""
        return self.append_all([fields])

    def append_all(self, records: Sequence[Fields]) -> int:
        """Append lines, all or none, and return the number of the last.

        Args:
            records: Plain JSON; number, time and the links of the chain are added.

        Raises:
            AuditError: It cannot be written.
        """
        try:
            make_folder(self.folder)
            with locked(self.folder):
                return self._append(records) if records else 0
        except OSError as error:
            raise AuditError(error.filename or self.folder, error.strerror or error, _FIX) from error

    def _append(self, records: Sequence[Fields]) -> int:
        head, marks = self._standing()
        head, found = self._caught_up(head)
        if head.size >= self._max_bytes and not found and not marks:
            head = self._next_file(head)
            head, found = self._caught_up(head)
        path = self.folder / file_name(head.file)
        handle = open_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            before = os.fstat(handle).st_size
            data, moved = self._sealed(
                head, [*marks, *found, *records], self._missing_newline(handle, before)
            )
            moved = replace(moved, size=before + len(data))
            self._write(handle, data, before)
            try:
                write_head(self.folder, self._sealer, moved, durable=False)
            except OSError:
                with contextlib.suppress(OSError):  # else the line stays, as one of a call that never ended
                    os.ftruncate(handle, before)
                raise
        finally:
            os.close(handle)
        if not before:
            sync_folder(self.folder)
        return moved.count

    def _write(self, handle: int, data: bytes, before: int) -> None:
        try:
            written = 0
            while written < len(data):
                written += os.write(handle, data[written:])
            if self._durable:
                flush_to_disk(handle)
        except BaseException:  # an interrupt from the keyboard must not leave half a line either
            with contextlib.suppress(OSError):  # what stays is closed off by the next writer
                os.ftruncate(handle, before)
            raise

    def _sealed(self, head: Head, records: Sequence[Fields], start: bytes) -> tuple[bytes, Head]:
        data, count, last = start, head.count, head.last
        for record in records:
            count += 1
            links = {"key": self._sealer.key_id, "prev": last}
            line, last = self._sealer.seal({"n": count, "time": round(self._now(), 6), **record, **links})
            data += line
        return data, replace(head, turn=head.turn + 1, count=count, last=last)

    @staticmethod
    def _missing_newline(handle: int, size: int) -> bytes:
        if not size:
            return b""
        os.lseek(handle, size - 1, os.SEEK_SET)
        return b"" if os.read(handle, 1) == b"\n" else b"\n"

    def _standing(self) -> tuple[Head, list[Fields]]:
        """Where the log ends, as far as the head knows."""
        found = read_head(self.folder, self._sealer) or Found((), "it was missing")
        if found.heads and not found.problem:
            return found.heads[0], []
        if found.heads:
            head = found.heads[0]
        else:
            files = files_in(self.folder)
            if not files:  # before there is anything to cut off
                write_head(self.folder, self._sealer, Head(turn=0), durable=True)
                return Head(turn=0), []
            self._check_key(found, files[-1][1])
            head = self._recovered(*files[-1])
        return replace(head, turn=-1), [{"kind": "head", "what": found.problem}]  # it is begun anew

    def _check_key(self, found: Found, path: Path) -> None:
        """A log goes on with the key it was begun with, so nobody can start to write without it unseen."""
        whys = [found.problem]
        with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
            try:
                self._sealer.open(file.readline(LONGEST_LINE))
            except ValueError as error:
                whys.append(str(error))
        for why in whys:
            if why.startswith("it was written with"):
                fix = f"Give the {KEY_VARIABLE} it was begun with, or another folder"
                raise AuditError(self.folder, f"cannot be gone on with: {why}", fix)

    def _recovered(self, number: int, path: Path) -> Head:
        """Where the log ends, from its last file alone."""
        head, size = Head(file=number), 0
        with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
            while line := file.readline(LONGEST_LINE):
                size += len(line)
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    fields, last = self._sealer.open(line)
                    head = replace(head, count=int(fields["n"]), last=last, size=size)
        return head

    def _caught_up(self, head: Head) -> tuple[Head, list[Fields]]:
        """Take in what stands behind the head; with what has to be said about it."""
        path = self.folder / file_name(head.file)
        try:
            handle = open_file(path, os.O_RDONLY)
        except FileNotFoundError:
            lost = {"kind": "cut", "file": path.name, "size": head.size, "found": 0}
            return (head, [lost]) if head.size else (head, [])
        with os.fdopen(handle, "rb") as file:
            size = os.fstat(handle).st_size
            if size == head.size:
                return head, []
            if size < head.size:
                return head, [{"kind": "cut", "file": path.name, "size": head.size, "found": size}]
            file.seek(head.size)
            return self._taken_in(head, file.read())

    def _taken_in(self, head: Head, data: bytes) -> tuple[Head, list[Fields]]:
        walk, good, position = Walk(self._sealer, head.count, head.last), 0, 0
        with contextlib.suppress(BrokenChain):
            for line in io.BytesIO(data):
                position += len(line)
                # One that lacks nothing but its newline is whole as soon as that is put behind it.
                if walk.step(line if line.endswith(b"\n") else line + b"\n") is not None:
                    good = position
        head = replace(head, count=walk.count, last=walk.last, size=head.size + good)
        return head, [_about(data[good:])] if data[good:] else []

    def _next_file(self, head: Head) -> Head:
        """Tell of the next file before it is made, so that it is never there unannounced."""
        head = replace(head, turn=head.turn + 1, file=head.file + 1, size=0)
        write_head(self.folder, self._sealer, head, durable=True)
        return head


def _about(rest: bytes) -> Fields:
    """The line that explains bytes which are none. Only a write that was cut off leaves no newline."""
    kind = "foreign" if rest.endswith(b"\n") else "torn"
    rest = rest if kind == "foreign" else rest + b"\n"
    return {"kind": kind, "bytes": len(rest), "sha256": hashlib.sha256(rest).hexdigest()}
