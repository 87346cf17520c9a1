"""Memory in use by a process and its descendants on Linux.

The kernel's per-process limits count reserved addresses, which garbage-collected programs, sanitizers and
browsers reserve without using them. So the memory in use is measured instead, and shared pages count once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

# Count only anonymous and shared memory, because file pages can be dropped at any time.
_RESIDENT, _PROPORTIONAL = rb"^Rss(?:Anon|Shmem):\s+(\d+)", rb"^Pss_(?:Anon|Shmem):\s+(\d+)"


def exceeds(pid: int, limit: int) -> bool:
    """Return True if a process and its descendants together use more memory than `limit`.

    Args:
        limit: Bytes.
    """
    pids = list(family(pid))
    if sum(_number(each, "status", _RESIDENT) for each in pids) * 1024 <= limit:
        return False  # even this cheap upper bound is within the limit
    return sum(map(_proportional, pids)) * 1024 > limit


def _proportional(pid: int) -> int:
    """Return a process's memory, with its share of shared pages (all of them if its maps are hidden)."""
    return _number(pid, "smaps_rollup", _PROPORTIONAL) or _number(pid, "status", _RESIDENT)


def family(pid: int) -> Iterator[int]:
    """Yield a process and its descendants, parents first."""
    yield pid
    for thread in _threads(pid):
        for child in _read(f"{thread}/children").split():
            yield from family(int(child))


def _threads(pid: int) -> list[str]:
    """Return the folders of a process's threads; none if the process has ended (`Path.glob` might raise)."""
    try:
        return [f"/proc/{pid}/task/{name}" for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 - only names are needed
    except OSError:
        return []


def _number(pid: int, file: str, pattern: bytes) -> int:
    """Return the sum of the KiB values in a process's file in ``/proc``; 0 if the process has ended."""
    for folder in (f"/proc/{pid}", *_threads(pid)):  # per thread, because the first thread may have ended
        if matches := re.findall(pattern, _read(f"{folder}/{file}"), re.M):
            return sum(map(int, matches))
    return 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - many files are read
            return file.read()
    except OSError:
        return b""
