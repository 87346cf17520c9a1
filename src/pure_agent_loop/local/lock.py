"""A lock between processes that ends with its holder, however that ends."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_POLL_SECONDS = 0.1

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        while True:  # LK_LOCK gives up after ten tries, so the waiting is done here
            with contextlib.suppress(OSError):
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
                return
            time.sleep(_POLL_SECONDS)

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, waiting for it if need be.

    Args:
        path: The lock file; it is made if missing and never deleted: a lock on a deleted file guards nothing.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(handle)
        yield
    finally:
        os.close(handle)  # closing lets go
