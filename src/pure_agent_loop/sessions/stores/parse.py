"""From the bytes of a transcript to its records, whatever happened to them. Never raises.

1.  A whole line is one record.
2.  A line that is not is split where records begin. What is whole, by its checksum, is kept; each damaged
    piece is reported.
3.  An id that was there before: the first one stays, the second is reported.
4.  A parent that is not there: the record hangs on the one before it, and that is reported. So the records
    are always a tree in which parents come first.
5.  The last line must end in a newline; `end` says up to which byte the file may be kept.
6.  Nothing that was left out goes unreported; whole blank lines and blanks around a record are no damage.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pure_agent_loop.sessions.stores.records import DECODER, MARK, Record

MAX_PROBLEMS = 200
_BLANKS = b" \t\r\n"
_MOST_DIGITS = 12


@dataclass(slots=True)
class Transcript:
    """What was found.

    Args:
        records: The whole records, in the order of the file.
        problems: A sentence for each thing that was damaged; after the first 200 only their number.
        size: Bytes read.
        end: Bytes behind this offset belong to a line that was never finished.
        needs_newline: The last record is whole, but its newline is missing.
        last_number: No record has a greater number in its id, nor had a lost one, as far as can be told.
    """

    records: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    size: int = 0
    end: int = 0
    needs_newline: bool = False
    last_number: int = 0


def parse(lines: Iterable[bytes]) -> Transcript:
    """Read a transcript.

    Args:
        lines: Pieces that end at each newline byte and nowhere else, such as an open binary file or an
            `io.BytesIO`. (`splitlines` also splits at other characters.)
    """
    parser = _Parser()
    for line in lines:
        parser.take(line)
    return parser.done()


class _Parser:
    def __init__(self) -> None:
        self._found = Transcript()
        self._ids: set[str] = set()
        self._line = 0
        self._taken = 0  # records there were, as far as can be told, the lost ones too
        self._unnamed = 0

    def take(self, line: bytes) -> None:
        """One more line; only the last may lack its newline."""
        self._line += 1
        start = self._found.size
        self._found.size += len(line)
        try:
            self._keep(Record.from_line(line))
            kept = len(line)
        except ValueError as error:
            kept = self._salvage(line, start, str(error))
        if line.endswith(b"\n"):
            self._found.end = self._found.size
            return
        self._found.end = start + kept
        if kept:
            self._found.needs_newline = True
            self._report("the newline at its end is missing")
        elif not line.strip(_BLANKS):
            self._report("there is nothing in it, and the newline at its end is missing")

    def done(self) -> Transcript:
        """What was found in all lines."""
        self._found.last_number = max(self._found.last_number, self._taken)
        if self._unnamed:
            self._found.problems.append(f"{self._unnamed} more pieces are damaged")
        return self._found

    def _salvage(self, line: bytes, start: int, why: str) -> int:
        """Keep what is whole in a line that is not one record. Returns where the last record in it ends."""
        if line.endswith(b"\n") and not line.strip(_BLANKS):
            return 0
        bounds = [*_starts(line), len(line)]
        self._lose(line[: bounds[0]], start, why)
        whole = []
        for first, behind in itertools.pairwise(bounds):
            length = self._piece(line[first:behind], start + first)
            if length:
                whole.append(first + length)
        if len(whole) > 1:
            self._report(f"{len(whole)} records were glued together; they were split")
        return whole[-1] if whole else 0

    def _piece(self, piece: bytes, start: int) -> int:
        """Keep the record that begins here, if it is whole. Returns its length, or 0."""
        try:
            # Only the end is looked for, and every byte is one character of Latin-1.
            _, end = DECODER.raw_decode(piece.decode("latin-1"))
            # Pieces of two records can look like one; the checksum tells.
            record = Record.from_line(piece[:end], by_hand=False)
        except (ValueError, RecursionError) as error:
            why = str(error) if type(error) is ValueError else "it is cut off or overwritten"
            self._lose(piece, start, why)
            return 0
        self._keep(record)
        self._lose(piece[end:], start + end, "it follows a whole record", counts=False)
        return end

    def _keep(self, record: Record) -> None:
        self._taken += 1
        if record.id in self._ids:
            self._report(f"the id {record.id} was there before; this record was left out")
            return
        if record.parent is not None and record.parent not in self._ids:
            above = self._found.records[-1].id if self._found.records else None
            place = f"behind {above}" if above else "at the beginning"
            self._report(
                f"record {record.id} follows {record.parent}, which is not there; it was put {place}"
            )
            record = replace(record, parent=above)
        self._ids.add(record.id)
        self._found.records.append(record)
        if record.id.isdecimal() and len(record.id) <= _MOST_DIGITS:
            self._found.last_number = max(self._found.last_number, int(record.id))

    def _lose(self, piece: bytes, start: int, why: str, *, counts: bool = True) -> None:
        if not piece.strip(_BLANKS):
            return
        self._taken += counts
        self._report(f"{len(piece)} bytes from byte {start} on were left out: {why}")

    def _report(self, what: str) -> None:
        if len(self._found.problems) < MAX_PROBLEMS:
            self._found.problems.append(f"line {self._line}: {what}")
        else:
            self._unnamed += 1


def _starts(line: bytes) -> list[int]:
    found, at = [], line.find(MARK)
    while at >= 0:
        found.append(at)
        at = line.find(MARK, at + 1)
    return found
