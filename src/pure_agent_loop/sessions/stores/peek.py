"""When a transcript begins and ends, without reading all of it."""

from __future__ import annotations

import os
import re
from typing import BinaryIO

_HEAD = re.compile(rb'\{"id":"[^"]{1,64}","parent":(?:null|"[^"]{1,64}"),"time":(-?[0-9.e+-]{1,30}),')
_FIRST_LOOK = 1 << 12


def first_and_last_time(file: BinaryIO) -> tuple[float | None, float | None]:
    """The times of the first and the last record, None where none can be read.

    Args:
        file: A transcript, open for reading.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    first = _HEAD.match(file.read(_FIRST_LOOK))
    created = _number(first[1]) if first else None
    look = _FIRST_LOOK
    while created is not None:
        file.seek(max(0, size - look))
        heads = _HEAD.findall(file.read(look))
        if heads or look >= size:
            return created, _number(heads[-1]) if heads else created
        look *= 8  # the last line is longer
    return None, None


def _number(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
