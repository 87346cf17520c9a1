"""The system's own lock on an open file: it ends with its process, `kill -9` included."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

OPEN_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_LOOK_AGAIN_SECONDS = 0.01

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
        handle: The open file.
        patience: How long to wait at most, in seconds.

    Returns:
        False if another still has it.
    """
    give_up = time.monotonic() + patience
    while not try_lock(handle):
        if time.monotonic() > give_up:
            return False
        time.sleep(_LOOK_AGAIN_SECONDS)
    return True


def is_still(handle: int, path: Path) -> bool:
    """False if the open file is not what stands at its path any more: the next to come locks another one."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
