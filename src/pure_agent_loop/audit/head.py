"""How far an audit log goes: a small file beside it, so that a cut tail is found.

It has two places of 512 bytes, written in turn. A write that is cut off can only spoil the newer one, and the
other still tells where the log was one line before.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pure_agent_loop.audit.seal import GENESIS, Sealer
from pure_agent_loop.support.locking import OPEN_FLAGS

NAME = "head"
PLACE = 512  # a sector: the disk writes it as one


@dataclass(frozen=True, slots=True)
class Head:
    """How far the log goes.

    Args:
        turn: Counts the writes of the head.
        count: The number of the last line.
        last: Its hash.
        file: The number of the file it is in.
        size: How long that file is.
    """

    turn: int = -1
    count: int = 0
    last: str = GENESIS
    file: int = 1
    size: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """What the file of the head says.

    Args:
        heads: What is readable, the newest first.
        problem: What is wrong with it; empty if nothing is.
    """

    heads: tuple[Head, ...]
    problem: str = ""


def read_head(folder: Path, sealer: Sealer) -> Found | None:
    """Read it; None if there is none.

    Raises:
        OSError: It cannot be read.
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
            heads.append(_open(data[place : place + PLACE], place // PLACE, sealer))
        except ValueError as error:  # noqa: PERF203 - there are two
            problem = problem or str(error)
    heads.sort(key=lambda head: -head.turn)
    return Found(tuple(heads), problem or _disagreement(heads))


def _open(place: bytes, number: int, sealer: Sealer) -> Head:
    line = place.rstrip(b" ")
    if len(place) != PLACE:
        raise ValueError("it is cut off")
    fields, _ = sealer.open(line)
    values: list[Any] = [fields.get(name) for name in ("turn", "count", "last", "file", "size")]
    head = Head(*values)
    numbers = (head.turn, head.count, head.file, head.size)
    is_head = fields.get("kind") == "head" and isinstance(head.last, str)
    if not is_head or not all(type(each) is int and each >= 0 for each in numbers):
        raise ValueError("it says what no head says")
    if head.turn % 2 != number:
        raise ValueError("it is in the wrong place")
    return head


def _disagreement(heads: list[Head]) -> str:
    """Both places follow each other, or there was only one write yet."""
    turns = [head.turn for head in heads]
    fits = turns == [0] or (len(turns) == 2 and turns[0] == turns[1] + 1)
    return "" if fits else "one of its two places is missing or old"


def write_head(folder: Path, sealer: Sealer, head: Head, *, durable: bool) -> None:
    """Write the head over the older of the two places; turn 0 begins it anew.

    Raises:
        OSError: It cannot be written.
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
            raise OSError("the head was not taken whole")
        if durable:
            os.fsync(handle)
    finally:
        os.close(handle)
