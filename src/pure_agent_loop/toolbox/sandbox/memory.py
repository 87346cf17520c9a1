"""Memory in use by a process and its descendants on Linux.

The kernel's limits per process count reserved addresses, which programs with a garbage collector, sanitizers
and browsers take without using them. So the memory in use is measured, and shared pages count once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress


def exceeds(pid: int, limit: int) -> bool:
    """Return True if a process and its descendants together use more memory.

    Args:
        limit: Bytes.
    """
    pids = list(_family(pid))
    if sum(_number(each, "status", rb"VmRSS:\s+(\d+)") for each in pids) * 1024 <= limit:
        return False  # cheaper, and never less than the following
    return sum(_number(each, "smaps_rollup", rb"^Pss:\s+(\d+)") for each in pids) * 1024 > limit


def _family(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):  # the process has ended
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - only names are needed
            for child in _read(f"/proc/{pid}/task/{thread}/children").split():
                yield from _family(int(child))


def _number(pid: int, file: str, pattern: bytes) -> int:
    """Return a number of KiB from a file of a process; 0 if the process has ended."""
    match = re.search(pattern, _read(f"/proc/{pid}/{file}"), re.M)
    return int(match[1]) if match else 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - many files are read
            return file.read()
    except OSError:
        return b""
