"""Session record and its line format.

    {"id":"00000003","parent":"00000002","time":1767225600.5,"type":"result","data":{"a": 1},"crc":"85cf2159"}

Three properties make a record recoverable from a damaged file:

1.  A line is ASCII with everything else escaped, so that no byte of a text looks like the end of a line.
2.  `crc` is the CRC-32 of every byte before ``,"crc"``, so that a flipped bit inside a text is detected.
3.  Only the outer object is written without blanks after its colons. So ``{"id":"`` marks the start of a
    record, and nothing that a model or a tool put into `data` looks like one.

A complete line without `crc` was written or edited by a person; it is accepted if it has these five keys.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pure_agent_loop.support.parsing import JsonDecoder, reject_constant
from pure_agent_loop.support.text import to_jsonable

MARK = b'{"id":"'
_CRC = b',"crc":"'
_SEAL = re.compile(rb',"crc":"([0-9a-f]{8})"\}\s*')
_KEYS = {"id", "parent", "time", "type", "data"}
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_TYPE = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
MAX_PROBLEMS = 200
BASE = "base"  # type of a record from which later runs can start, without reading earlier records
# Occurs in the head of a base's line and never inside `data`: see rule 3 above.
BASE_HEAD = f'"type":"{BASE}","data":'
HEAD_CHARS = 250  # maximum length of a line up to `data`: ids are bounded
_BLANKS = b" \t\r\n"
_MAX_DIGITS = 12


DECODER = JsonDecoder(parse_constant=reject_constant)


def is_type(value: Any) -> bool:
    """Return True for a valid record type: lower-case letters, digits, ``_ . -``, starting with a letter."""
    return isinstance(value, str) and _TYPE.fullmatch(value) is not None


def dicts_in(data: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects in a list field of a record's data; other items are skipped."""
    items = data.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a session.

    Args:
        id: Id within the session; ids of one writer sort in the order they were written.
        parent: Id of the record that this one follows; None for the first.
        time: Time of recording, in seconds since the epoch.
        type: Kind of record: one word.
        data: Content, as a JSON object.
    """

    id: str
    parent: str | None
    time: float
    type: str
    data: dict[str, Any]

    def to_line(self) -> bytes:
        """Return the record as one line of ASCII, with a newline.

        Raises:
            ValueError: `data` cannot be written as JSON (use `text.to_jsonable`).
            TypeError: `data` cannot be written as JSON.
        """
        outer = {"id": self.id, "parent": self.parent, "time": self.time, "type": self.type}
        head = json.dumps(outer, separators=(",", ":"), allow_nan=False)
        data = json.dumps(self.data, separators=(",", ": "), allow_nan=False)
        body = f'{head[:-1]},"data":{data}'.encode("ascii")
        return b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))

    @classmethod
    def from_line(cls, line: bytes, *, by_hand: bool = True) -> Record:
        """Read a line, with or without its newline.

        Args:
            line: Bytes of the line.
            by_hand: Accept a line without a checksum.

        Raises:
            ValueError: The line is not exactly one complete record; the message gives the reason.
        """
        sealed = _check_seal(line)
        if not sealed and not by_hand:
            raise ValueError("its checksum is missing")
        try:
            fields = DECODER.decode(line.decode("utf-8"))
        except ValueError as error:
            raise ValueError("it is not a JSON object") from error
        _check_fields(fields, sealed=sealed)
        data = fields["data"] if sealed else to_jsonable(fields["data"])
        return cls(fields["id"], fields["parent"], fields["time"], fields["type"], data)


def _check_seal(line: bytes) -> bool:
    """Return True if the line has a correct checksum."""
    position = line.rfind(_CRC)
    seal = _SEAL.fullmatch(line, position) if position >= 0 else None
    if seal is None:
        return False
    if int(seal[1], 16) != zlib.crc32(memoryview(line)[:position]):
        raise ValueError("its checksum does not match")
    return True


def _check_fields(fields: Any, *, sealed: bool) -> None:
    """Check the fields: a later version may add keys, but only in a line with a checksum."""
    if not isinstance(fields, dict) or not fields.keys() >= _KEYS:
        raise ValueError("it is not a record")
    if not sealed and fields.keys() != _KEYS:
        raise ValueError(f"it has unknown keys: {', '.join(sorted(fields.keys() - _KEYS))}"[:80])
    if invalid := [name for name, is_valid in _FIELDS.items() if not is_valid(fields[name])]:
        raise ValueError(f"invalid {' and '.join(invalid)}")


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _is_time(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 1e15 and math.isfinite(value)


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "id": _is_id,
    "parent": lambda value: value is None or _is_id(value),
    "time": _is_time,
    "type": is_type,
    "data": lambda value: isinstance(value, dict),
}


# -- recover the records of a transcript from its bytes, whatever the damage. Never raises ---------------
# 1.  A complete line is one record.
# 2.  Any other line is split where records begin. Pieces with a valid checksum are kept; damaged pieces are
#     reported.
# 3.  A duplicate id: the first record is kept, the second is reported.
# 4.  A missing parent: the record becomes a child of the previous one, and this is reported. So the
# records are always a tree in which parents come first.
# 5.  The last line must end in a newline; `end` is the offset up to which the file may be kept.
# 6.  Everything left out is reported; blank lines and blanks around a record are not damage.


@dataclass(slots=True)
class Transcript:
    """Result of reading a transcript.

    Args:
        records: Complete records, in file order.
        problems: One sentence per damaged place; after the first 200, only their number.
        size: Number of bytes read.
        end: Offset after the last finished line; bytes after it belong to an unfinished line.
        needs_newline: True if the last record is complete but lacks its newline.
        last_number: Highest number in the record ids, including an estimate for lost records.
        base: Offsets where the line of the newest ``base`` begins and ends; 0 if there is none.
    """

    records: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    size: int = 0
    end: int = 0
    needs_newline: bool = False
    last_number: int = 0
    base: tuple[int, int] = (0, 0)


def parse(lines: Iterable[bytes], *, is_tail: bool = False) -> Transcript:
    """Read a transcript.

    Args:
        lines: Pieces that end at each newline byte and nowhere else, such as an open binary file or
            `io.BytesIO`. (`splitlines` also splits at other characters.)
        is_tail: True if the first record may follow one that is not among the lines.
    """
    parser = _TranscriptParser(is_tail=is_tail)
    for line in lines:
        parser.add_line(line)
    return parser.finish()


class _TranscriptParser:
    def __init__(self, *, is_tail: bool) -> None:
        self._is_tail = is_tail
        self._transcript = Transcript()
        self._ids: set[str] = set()
        self._line = self._start = 0
        self._seen = 0  # number of records read, including an estimate of lost records
        self._unreported = 0

    def add_line(self, line: bytes) -> None:
        """Read the next line; only the last may lack its newline."""
        self._line += 1
        self._start = start = self._transcript.size
        self._transcript.size += len(line)
        try:
            self._keep(Record.from_line(line))
            kept = len(line)
        except ValueError as error:
            kept = self._salvage(line, start, str(error))
        if line.endswith(b"\n"):
            self._transcript.end = self._transcript.size
            return
        self._transcript.end = start + kept
        if kept:
            self._transcript.needs_newline = True
            self._report("its final newline is missing")
        elif not line.strip(_BLANKS):
            self._report("it is empty, and its final newline is missing")

    def finish(self) -> Transcript:
        """Return the transcript of all lines read."""
        self._transcript.last_number = max(self._transcript.last_number, self._seen)
        if self._unreported:
            self._transcript.problems.append(f"{self._unreported} more pieces are damaged")
        return self._transcript

    def _salvage(self, line: bytes, start: int, why: str) -> int:
        """Keep the complete records in a damaged line. Return the offset where the last one ends."""
        if line.endswith(b"\n") and not line.strip(_BLANKS):
            return 0
        bounds = [*_starts(line), len(line)]
        self._drop(line[: bounds[0]], start, why)
        ends = []
        for first, end in itertools.pairwise(bounds):
            if length := self._read_piece(line[first:end], start + first):
                ends.append(first + length)
        if len(ends) > 1:
            self._report(f"{len(ends)} records were joined on one line; they were split")
        return ends[-1] if ends else 0

    def _read_piece(self, piece: bytes, start: int) -> int:
        """Keep the record at the start of a piece if it is complete. Return its length, or 0."""
        try:
            # In Latin-1 every byte is one character, so the end position is also the offset in bytes.
            _, end = DECODER.raw_decode(piece.decode("latin-1"))
            # Pieces of two records can look like one record, but then the checksum is wrong.
            record = Record.from_line(piece[:end], by_hand=False)
        except ValueError as error:
            why = str(error) if type(error) is ValueError else "it is truncated or overwritten"
            self._drop(piece, start, why)
            return 0
        self._keep(record)
        self._drop(piece[end:], start + end, "it follows a complete record", counts=False)
        return end

    def _keep(self, record: Record) -> None:
        self._seen += 1
        if record.id in self._ids:
            self._report(f"the id {record.id} is a duplicate; this record was left out")
            return
        is_first_of_tail = self._is_tail and not self._ids
        if record.parent is not None and record.parent not in self._ids and not is_first_of_tail:
            previous = self._transcript.records[-1].id if self._transcript.records else None
            place = f"after {previous}" if previous else "to the start"
            self._report(
                f"record {record.id} follows {record.parent}, which is missing; it was moved {place}"
            )
            record = replace(record, parent=previous)
        if record.type == BASE:
            self._transcript.base = self._start, self._transcript.size
        self._ids.add(record.id)
        self._transcript.records.append(record)
        if record.id.isdecimal() and len(record.id) <= _MAX_DIGITS:
            self._transcript.last_number = max(self._transcript.last_number, int(record.id))

    def _drop(self, piece: bytes, start: int, why: str, *, counts: bool = True) -> None:
        if not piece.strip(_BLANKS):
            return
        self._seen += counts
        self._report(f"{len(piece)} bytes from byte {start} were left out: {why}")

    def _report(self, what: str) -> None:
        if len(self._transcript.problems) < MAX_PROBLEMS:
            self._transcript.problems.append(f"line {self._line}: {what}")
        else:
            self._unreported += 1


def _starts(line: bytes) -> list[int]:
    positions, position = [], line.find(MARK)
    while position >= 0:
        positions.append(position)
        position = line.find(MARK, position + 1)
    return positions
