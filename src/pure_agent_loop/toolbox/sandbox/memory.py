"""Memory in use by a process and its descendants on Linux.

The kernel's limits per process count reserved addresses, which programs with a garbage collector, sanitizers
and browsers take without using them. So the memory in use is measured, and shared pages count once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# Anonymous and shared memory; pages of files can be dropped at any time.
_RESIDENT, _PROPORTIONAL = rb"^Rss(?:Anon|Shmem):\s+(\d+)", rb"^Pss_(?:Anon|Shmem):\s+(\d+)"


def exceeds(pid: int, limit: int) -> bool:
    """Return True if a process and its descendants together use more memory.

    Args:
        limit: Bytes.
    """
    pids = list(_family(pid))
    if sum(_number(each, "status", _RESIDENT) for each in pids) * 1024 <= limit:
        return False  # cheaper, and never less than the following
    return sum(map(_proportional, pids)) * 1024 > limit


def _proportional(pid: int) -> int:
    """Return the memory of a process, of shared pages its part; all of them if it hides its pages."""
    return _number(pid, "smaps_rollup", _PROPORTIONAL) or _number(pid, "status", _RESIDENT)


def _family(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):  # the process has ended
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - only names are needed
            for child in _read(f"/proc/{pid}/task/{thread}/children").split():
                yield from _family(int(child))


def _number(pid: int, file: str, pattern: bytes) -> int:
    """Return the sum of the numbers of KiB in a file of a process; 0 if the process has ended."""
    for folder in (
        f"/proc/{pid}",
        *map(str, Path(f"/proc/{pid}/task").glob("*")),
    ):  # the first thread may have ended
        if matches := re.findall(pattern, _read(f"{folder}/{file}"), re.M):
            return sum(map(int, matches))
    return 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - many files are read
            return file.read()
    except OSError:
        return b""
