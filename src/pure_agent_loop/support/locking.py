"""The system's own lock on an open file: it ends with its process, `kill -9` included."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

OPEN_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_FIRST_WAIT, _LONGEST_WAIT = 0.005, 0.1

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30  # a locked byte cannot be read by others, and what stands in the file may be for them

    def try_lock(handle: int) -> bool:
        """Lock an open file for this process alone; False if another has it."""
        os.lseek(handle, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(handle: int) -> bool:
        """Lock an open file or folder for this opening of it alone; False if another has it."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def lock_within(handle: int, patience: float) -> bool:
    """Lock an open file, waiting for whoever has it. The system's own waiting could not be given up.

    Args:
        patience: How long to wait at most, in seconds.

    Returns:
        False if another still has it.
    """
    give_up, wait = time.monotonic() + patience, _FIRST_WAIT
    while not try_lock(handle):
        if time.monotonic() > give_up:
            return False
        time.sleep(wait)
        wait = min(wait * 2, _LONGEST_WAIT)
    return True


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, waiting for it for as long as it takes.

    Args:
        path: The lock file; it is made if missing and never deleted: a lock on a deleted file guards nothing.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o600)
    try:
        lock_within(handle, math.inf)
        yield
    finally:
        os.close(handle)  # closing lets go


def is_still(handle: int, path: Path) -> bool:
    """False if the open file is not what stands at its path any more: the next to come locks another one."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
