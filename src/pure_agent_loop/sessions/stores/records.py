"""One record of a session, and the line it is written as.

    {"id":"00000003","parent":"00000002","time":1767225600.5,"type":"result","data":{"a": 1},"crc":"85cf2159"}

Three things make a line safe to find again in a damaged file:

1.  It is ASCII: everything else is escaped, so no byte of a text can be taken for the end of a line.
2.  `crc` is the CRC-32 of every byte before ``,"crc"``: a flipped bit inside a text is seen.
3.  Only the outer object is written without blanks behind its colons. So ``{"id":"`` marks the start of a
    record, and nothing that a model or a tool put into `data` can look like one.

A whole line without `crc` is one that a person wrote or changed; it is taken, if it has these five keys.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.support.text import to_jsonable

MARK = b'{"id":"'
_CRC = b',"crc":"'
_SEAL = re.compile(rb',"crc":"([0-9a-f]{8})"\}\s*')
_KEYS = {"id", "parent", "time", "type", "data"}
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_TYPE = re.compile(r"[a-z][a-z0-9_.-]{0,63}")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


DECODER = json.JSONDecoder(parse_constant=_refuse)


def is_type(word: Any) -> bool:
    """True if `word` can be the type of a record: lower-case letters, digits, ``_ . -``, a letter first."""
    return isinstance(word, str) and _TYPE.fullmatch(word) is not None


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that happened in a session.

    Args:
        id: Names it within the session; ids of one writer sort in the order of writing.
        parent: The record it follows, None for the first.
        time: When, in seconds since the epoch.
        type: What kind of thing: one word.
        data: The rest: a JSON object.
    """

    id: str
    parent: str | None
    time: float
    type: str
    data: dict[str, Any]

    def to_line(self) -> bytes:
        """One line of ASCII with a newline behind it.

        Raises:
            ValueError: `data` has no JSON form (`text.to_jsonable` gives it one).
            TypeError: The same.
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
            line: The line.
            by_hand: Take it also without a checksum.

        Raises:
            ValueError: It is not exactly one whole record; the message says why, in half a sentence.
        """
        sealed = _check_seal(line)
        if not sealed and not by_hand:
            raise ValueError("its checksum is missing")
        try:
            fields = DECODER.decode(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError("it is no JSON object") from error
        _check(fields, sealed=sealed)
        data = fields["data"] if sealed else to_jsonable(fields["data"])
        return cls(fields["id"], fields["parent"], fields["time"], fields["type"], data)


def _check_seal(line: bytes) -> bool:
    """True if the line has a checksum, and it is right."""
    at = line.rfind(_CRC)
    seal = _SEAL.fullmatch(line, at) if at >= 0 else None
    if seal is None:
        return False
    if int(seal[1], 16) != zlib.crc32(memoryview(line)[:at]):
        raise ValueError("its checksum does not fit")
    return True


def _check(fields: Any, *, sealed: bool) -> None:
    """A later version may write more keys, under its checksum; without one, a strange key is damage."""
    if not isinstance(fields, dict) or not fields.keys() >= _KEYS:
        raise ValueError("it is no record")
    if not sealed and fields.keys() != _KEYS:
        raise ValueError(f"it has strange keys: {', '.join(sorted(fields.keys() - _KEYS))}"[:80])
    wrong = [name for name, fits in _FIELDS.items() if not fits(fields[name])]
    if wrong:
        raise ValueError(f"{' and '.join(wrong)} cannot be right")


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
