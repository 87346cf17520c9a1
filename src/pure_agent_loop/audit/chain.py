"""Append to an audit log that several processes write. A killed writer may leave its last line unfinished.

The head records where the log ends. A writer holds the lock while it reads the head, processes bytes that a
killed writer left after that end, appends its lines, and updates the head. Nothing is ever removed. An
unfinished line is ended, and the next line describes it (``torn``). Damage that no writer can cause is
recorded in a line that `verify` reports (``cut``, ``foreign``, ``head``, ``lost``).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pure_agent_loop.audit.folder import file_name, files_in, locked, open_file
from pure_agent_loop.errors import AuditError, ConfigError
from pure_agent_loop.support.abilities import checked_function
from pure_agent_loop.support.disk import append_all, make_folder, sync_folder
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.language import model_text, notice
from pure_agent_loop.support.locking import OPEN_FLAGS
from pure_agent_loop.support.parsing import parsed_object
from pure_agent_loop.support.variables import variable

# -- one line of an audit log: JSON that ends with a hash over all of its bytes --------------------------
#     {"n":7,"time":1767225600.5,"kind":"call", ... ,"key":null,"prev":"<hash of line 6>","hash":"<64
# digits>"}
#
# The hash covers the bytes as written, so that each line has only one valid form. With a key the hash is an
# HMAC: without the key, it is impossible to write a valid line.

KEY_VARIABLE = "PAL_AUDIT_KEY"
GENESIS = "0" * 64  # value of `prev` in the first line
_MIN_KEY_LENGTH = 16
_END = re.compile(rb',"hash":"([0-9a-f]{64})"\}\n')
_END_LENGTH = len(b',"hash":""}\n') + 64
MAX_LINE_BYTES = 4 << 20  # maximum bytes to read as one line; written lines are much shorter
NAME = "head"
PLACE = 512  # bytes of a slot: one sector, which a disk writes atomically
_FIX = "Free space or make the folder writable, or give AuditLog another path; until then no tool is called"


class Sealer:
    """Writes and reads lines with their hashes.

    Args:
        key: A secret of at least 16 characters; None uses ``PAL_AUDIT_KEY`` if set, "" uses no
            key.

    Raises:
        ConfigError: The key is too short.
    """

    def __init__(self, key: str | bytes | None = None) -> None:
        secret = variable(KEY_VARIABLE) if key is None else key
        self._key = secret.encode("utf-8", "surrogateescape") if isinstance(secret, str) else secret
        if self._key and len(self._key) < _MIN_KEY_LENGTH:
            raise ConfigError(
                notice(
                    "library.audit_key",
                    key_variable=KEY_VARIABLE,
                    count=len(self._key),
                    min_key_length=_MIN_KEY_LENGTH,
                )
            )
        # Identifies the key without revealing it, so that a wrong key is not reported as damage.
        self.key_id = self._digest(b"name of the key of an audit log")[:12] if self._key else None

    def _digest(self, body: bytes) -> str:
        if self._key:
            return hmac.new(self._key, body, hashlib.sha256).hexdigest()
        return hashlib.sha256(body).hexdigest()

    def seal(self, fields: dict[str, Any]) -> tuple[bytes, str]:
        """Return fields (plain JSON) as a line of printable ASCII with a newline, and its hash."""
        text = json.dumps(fields, separators=(",", ":"), allow_nan=False)
        body = text[:-1].replace("\x7f", "\\u007f").encode("ascii")
        digest = self._digest(body)
        return b'%b,"hash":"%b"}\n' % (body, digest.encode()), digest

    def open(self, line: bytes) -> tuple[dict[str, Any], str]:
        """Return the fields of a line (with its newline), and its hash.

        Raises:
            ValueError: The line is not exactly what `seal` wrote; the message gives the reason.
        """
        position = len(line) - _END_LENGTH
        end = _END.fullmatch(line, position) if position > 0 else None
        if end is None:
            raise ValueError("it is not a complete line of an audit log")
        if not hmac.compare_digest(self._digest(line[:position]), end[1].decode()):
            raise ValueError(self._mismatch_reason(line))
        fields = _parse(line)
        if fields.get("key") != self.key_id:
            raise ValueError(self._mismatch_reason(line))
        return fields, end[1].decode()

    def _mismatch_reason(self, line: bytes) -> str:
        try:
            key_id = _parse(line).get("key")
        except ValueError:
            return "its hash does not match: it was changed"
        if key_id == self.key_id:
            return "its hash does not match: it was changed"
        if key_id is None:
            return "it was written without a key, so anyone could have written it"
        if self.key_id is None:
            return f"it was written with the key {str(key_id)[:12]!r}; set {KEY_VARIABLE} to check it"
        return f"it was written with another key ({str(key_id)[:12]!r}, expected {self.key_id!r})"


def _parse(line: bytes) -> dict[str, Any]:
    fields = parsed_object(line)
    if fields is None:
        raise ValueError("it is not a JSON object")
    return fields


# -- read along the hash chain of an audit log, line by line, in one pass --------------------------------


class BrokenChain(ValueError):  # noqa: N818 - a state of the log
    """The chain is broken at this line.

    Args:
        what: Reason, as part of a sentence.
        at: Number of lines back from the line just read.
    """

    def __init__(self, what: str, at: int = 0) -> None:
        self.at = at
        super().__init__(what)


class UnfinishedTail:
    """Bytes after the last valid line: the unfinished line of a killed writer, or damage."""

    def __init__(self) -> None:
        self.size = 0
        self.lines = 0
        self.why = ""
        self.ends_line = False
        self._digest = hashlib.sha256()

    def add(self, data: bytes, why: str = "") -> None:
        """Add bytes."""
        self.why = self.why or why
        self.size += len(data)
        self.lines += 1
        self.ends_line = data.endswith(b"\n")
        self._digest.update(data)

    def mark(self) -> dict[str, Any]:
        """Return the fields that identify these bytes in a `torn` line."""
        return {"bytes": self.size, "sha256": self._digest.hexdigest()}


class Walk:
    """Position in the chain."""

    def __init__(self, sealer: Sealer, count: int = 0, last: str = GENESIS) -> None:
        self._sealer = sealer
        self.count = count
        self.last = last
        self.rest = UnfinishedTail()
        self.torn = 0

    def step(self, line: bytes) -> dict[str, Any] | None:
        """Read the next line.

        Returns:
            The line's fields; None for an unreadable line, which the next line may explain.

        Raises:
            BrokenChain: The line is valid, but does not belong at this place in the chain.
        """
        try:
            fields, digest = self._sealer.open(line)
        except ValueError as error:
            self.rest.add(line, str(error))
            return None
        if self.rest.size:
            if fields.get("kind") != "torn" or not self.rest.mark().items() <= fields.items():
                raise BrokenChain(self.rest.why, self.rest.lines)
            self.torn += 1
        self._check(fields)
        self.count, self.last, self.rest = self.count + 1, digest, UnfinishedTail()
        return fields

    def _check(self, fields: dict[str, Any]) -> None:
        number, expected = fields.get("n"), self.count + 1
        if number != expected or isinstance(number, bool):
            raise BrokenChain(f"its number is {number!r:.40}, expected {expected}")
        if fields.get("prev") != self.last:
            raise BrokenChain(
                f"it does not follow line number {self.count}: that line was changed or replaced"
            )


# -- recorded end of an audit log, in a small separate file, so that a truncated log is detected ---------
# The file has two slots of 512 bytes, written in turn. An interrupted write can damage only the newer
# slot; the other slot still holds the end of the log as it was one write earlier.


@dataclass(frozen=True, slots=True)
class Head:
    """End of the log.

    Args:
        count: Number of the last line.
        last: Hash of the last line.
        size: Size of the last file, in bytes.
    """

    turn: int = -1
    count: int = 0
    last: str = GENESIS
    file: int = 1
    size: int = 0


@dataclass(frozen=True, slots=True)
class HeadFile:
    """Content of the head file.

    Args:
        heads: Readable slots, the newest first.
        problem: Description of damage; empty if there is none.
    """

    heads: tuple[Head, ...]
    problem: str = ""


def read_head(folder: Path, sealer: Sealer) -> HeadFile | None:
    """Read the head file; None if it is missing.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        handle = os.open(folder / NAME, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | OPEN_FLAGS)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        data = file.read(2 * PLACE + 1)
    heads, problem = [], "" if len(data) in (PLACE, 2 * PLACE) else "its length is wrong"
    for place in range(0, len(data), PLACE):
        try:
            heads.append(_parse_slot(data[place : place + PLACE], place // PLACE, sealer))
        except ValueError as error:  # noqa: PERF203 - only two slots
            problem = problem or str(error)
    heads.sort(key=lambda head: -head.turn)
    return HeadFile(tuple(heads), problem or _inconsistency(heads))


def _parse_slot(place: bytes, number: int, sealer: Sealer) -> Head:
    line = place.rstrip(b" ")
    if len(place) != PLACE:
        raise ValueError("it is truncated")
    fields, _ = sealer.open(line)
    values: list[Any] = [fields.get(name) for name in ("turn", "count", "last", "file", "size")]
    head = Head(*values)
    numbers = (head.turn, head.count, head.file, head.size)
    is_head = fields.get("kind") == "head" and isinstance(head.last, str)
    if not is_head or not all(type(value) is int and value >= 0 for value in numbers):
        raise ValueError("its fields are not those of a head")
    if head.turn % 2 != number:
        raise ValueError("it is in the wrong slot")
    return head


def _inconsistency(heads: list[Head]) -> str:
    """Return a problem unless the slots' turns are consecutive or there was only one write."""
    turns = [head.turn for head in heads]
    is_consistent = turns == [0] or (len(turns) == 2 and turns[0] == turns[1] + 1)
    return "" if is_consistent else "one of its two slots is missing or old"


def write_head(folder: Path, sealer: Sealer, head: Head, *, durable: bool) -> None:
    """Write the head to the older of the two slots; if the head's turn is 0, start a new file.

    Raises:
        OSError: The head cannot be written.
    """
    fields: dict[str, Any] = {
        "kind": "head",
        "turn": head.turn,
        "count": head.count,
        "last": head.last,
        "file": head.file,
        "size": head.size,
        "key": sealer.key_id,
    }
    line, _ = sealer.seal(fields)
    flags = os.O_WRONLY | os.O_CREAT | OPEN_FLAGS | (os.O_TRUNC if head.turn == 0 else 0)
    handle = os.open(folder / NAME, flags, 0o600)
    try:
        os.lseek(handle, head.turn % 2 * PLACE, os.SEEK_SET)
        if os.write(handle, line.ljust(PLACE)) != PLACE:
            raise OSError("the head was written only in part")
        if durable:
            os.fsync(handle)
    finally:
        os.close(handle)


Fields = dict[str, Any]


class ChainWriter:
    """Writer of an audit log.

    Args:
        folder: Folder of the log; created with the first line.
        durable: True if each line must be on disk before `append` returns.
        max_bytes: Size after which a new file is started.
        now: Function that returns the time for a line, in seconds since the epoch.
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
        self._now = checked_function("now", now)
        self._newest: tuple[Head, bytes] | None = None  # head and bytes of the last write
        self._notices: list[str] = []

    def check(self) -> None:
        """Check that lines can be written; see `append_all`."""
        self.append_all([])

    def take_notices(self) -> str:
        """Return notices for the user since the last call; empty if there are none."""
        notices, self._notices = self._notices, []
        return " ".join(notices)

    def append(self, fields: Fields) -> int:
        """Append a line and return its number; see `append_all`."""
        return self.append_all([fields])

    def append_all(self, records: Sequence[Fields]) -> int:
        """Append lines, all or none, and return the number of the last.

        Args:
            records: Plain JSON; the number, the time and the links of the chain are added.

        Raises:
            AuditError: The log cannot be written.
        """
        try:
            make_folder(self.folder)
            with locked(self.folder):
                return self._append(records) if records else 0
        except OSError as error:
            raise AuditError(error.filename or self.folder, error.strerror or error, _FIX) from error

    def _append(self, records: Sequence[Fields]) -> int:
        head, marks = self._current_head()
        marks += self._lost_lines(head)
        head, repairs = self._catch_up(head)
        if head.size >= self._max_bytes and not repairs and not marks:
            head = self._next_file(head)
            head, repairs = self._catch_up(head)
        path = self.folder / file_name(head.file)
        handle = open_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size_before = os.fstat(handle).st_size
            data, new_head = self._seal_all(
                head, [*marks, *repairs, *records], self._missing_newline(handle, size_before)
            )
            new_head = replace(new_head, size=size_before + len(data))
            append_all(handle, data, size_before, durable=self._durable)
            self._newest = new_head, data
            self._note_damage([*marks, *repairs])
            try:
                write_head(self.folder, self._sealer, new_head, durable=False)
            except OSError:
                # If truncation fails too, the line stays in the log, as if the call were unfinished.
                with contextlib.suppress(OSError):
                    os.ftruncate(handle, size_before)
                raise
        finally:
            os.close(handle)
        if not size_before:
            sync_folder(self.folder)
        return new_head.count

    def _seal_all(self, head: Head, records: Sequence[Fields], start: bytes) -> tuple[bytes, Head]:
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

    def _lost_lines(self, head: Head) -> list[Fields]:
        """Return a `lost` line if lines that this writer has written are missing."""
        if self._newest is None:
            return []
        newest, data = self._newest
        if head.count == newest.count and head.last == newest.last:
            return []
        # Nothing is missing if other writers have only appended lines since then.
        if head.count > newest.count and self._is_in_file(newest, data):
            return []
        return [{"kind": "lost", "count": newest.count, "last": newest.last}]

    def _note_damage(self, lines: Sequence[Fields]) -> None:
        """Keep a notice about damage for the user. A torn line that a killed writer left is not damage."""
        if kinds := {line["kind"] for line in lines} - {"torn"}:
            self._notices.append(
                model_text("audit_lost" if "lost" in kinds else "audit_damaged", path=self.folder)
            )
            LOG.warning("%s", self._notices[-1])

    def _is_in_file(self, newest: Head, data: bytes) -> bool:
        try:
            with os.fdopen(open_file(self.folder / file_name(newest.file), os.O_RDONLY), "rb") as file:
                file.seek(newest.size - len(data))
                return file.read(len(data)) == data
        except OSError:
            return False

    def _current_head(self) -> tuple[Head, list[Fields]]:
        """Return the end of the log according to the head file, and lines about its damage."""
        head_file = read_head(self.folder, self._sealer) or HeadFile((), "it was missing")
        if head_file.heads and not head_file.problem:
            return head_file.heads[0], []
        if head_file.heads:
            head = head_file.heads[0]
        else:
            files = files_in(self.folder)
            if not files:  # nothing can be missing in a new log
                write_head(self.folder, self._sealer, Head(turn=0), durable=True)
                return Head(turn=0), []
            self._check_key(head_file, files[-1][1])
            head = self._recover_head(*files[-1])
        # Turn -1 makes the next write start a new head file.
        return replace(head, turn=-1), [{"kind": "head", "what": head_file.problem}]

    def _check_key(self, head_file: HeadFile, path: Path) -> None:
        """Reject any key but the one the log was started with, because a key change must not go unnoticed."""
        reasons = [head_file.problem]
        with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
            try:
                self._sealer.open(file.readline(MAX_LINE_BYTES))
            except ValueError as error:
                reasons.append(str(error))
        for reason in reasons:
            if reason.startswith("it was written with"):
                fix = f"Set {KEY_VARIABLE} to the key it was started with, or use another folder"
                raise AuditError(self.folder, f"cannot be continued: {reason}", fix)

    def _recover_head(self, number: int, path: Path) -> Head:
        """Find the end of the log by reading only its last file."""
        head, size = Head(file=number), 0
        with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
            while line := file.readline(MAX_LINE_BYTES):
                size += len(line)
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    fields, last = self._sealer.open(line)
                    head = replace(head, count=int(fields["n"]), last=last, size=size)
        return head

    def _catch_up(self, head: Head) -> tuple[Head, list[Fields]]:
        """Process the bytes after the head. Return the new head, and lines about damage."""
        path = self.folder / file_name(head.file)
        try:
            handle = open_file(path, os.O_RDONLY)
        except FileNotFoundError:
            problem = {"kind": "cut", "file": path.name, "size": head.size, "found": 0}
            return (head, [problem]) if head.size else (head, [])
        with os.fdopen(handle, "rb") as file:
            size = os.fstat(handle).st_size
            if size == head.size:
                return head, []
            if size < head.size:
                return head, [{"kind": "cut", "file": path.name, "size": head.size, "found": size}]
            file.seek(head.size)
            return self._read_valid_lines(head, file.read())

    def _read_valid_lines(self, head: Head, data: bytes) -> tuple[Head, list[Fields]]:
        walk, valid_size, position = Walk(self._sealer, head.count, head.last), 0, 0
        with contextlib.suppress(BrokenChain):
            for line in io.BytesIO(data):
                position += len(line)
                # A line that lacks only its newline becomes complete when the newline is added.
                if walk.step(line if line.endswith(b"\n") else line + b"\n") is not None:
                    valid_size = position
        head = replace(head, count=walk.count, last=walk.last, size=head.size + valid_size)
        return head, [_unreadable_line(data[valid_size:])] if data[valid_size:] else []

    def _next_file(self, head: Head) -> Head:
        """Announce the next file in the head before creating it, so that it never exists unannounced."""
        head = replace(head, turn=head.turn + 1, file=head.file + 1, size=0)
        write_head(self.folder, self._sealer, head, durable=True)
        return head


def _unreadable_line(rest: bytes) -> Fields:
    """Return the line that explains unreadable bytes.

    Only an interrupted write leaves a line without a newline.
    """
    kind = "foreign" if rest.endswith(b"\n") else "torn"
    rest = rest if kind == "foreign" else rest + b"\n"
    return {"kind": kind, "bytes": len(rest), "sha256": hashlib.sha256(rest).hexdigest()}
