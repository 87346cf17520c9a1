"""Folder of an audit log: its files in order, and the writers' lock."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from pure_agent_loop.errors import AuditError
from pure_agent_loop.support.folders import data_folder
from pure_agent_loop.support.locking import OPEN_FLAGS, is_still, try_lock

LOCK = "lock"
LOCK_SECONDS = 30.0  # a long timeout, because lock contention on a busy machine must not end a run
_FILE = re.compile(r"audit-(\d{6})\.jsonl")
_MIN_WAIT, _MAX_WAIT = 0.0002, 0.005


def default_folder() -> Path:
    """Return the folder of this user's audit log: ``audit`` in the data folder."""
    return data_folder() / "audit"


def file_name(number: int) -> str:
    """Return the name of the file with this number; numbers start at 1."""
    return f"audit-{number:06d}.jsonl"


def files_in(folder: Path) -> list[tuple[int, Path]]:
    """Return the files of a log in order, with their numbers; none if the folder is missing.

    Raises:
        OSError: The folder cannot be read.
    """
    try:
        matches = [(match, path) for path in folder.iterdir() if (match := _FILE.fullmatch(path.name))]
    except FileNotFoundError:
        return []
    return sorted((int(match[1]), path) for match, path in matches)


def open_file(path: Path, flags: int) -> int:
    """Open a file of the log without following a link.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | OPEN_FLAGS, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path} is not a regular file")
    return handle


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of the log.

    The lock file is opened each time, so that threads and forked children take turns too.

    Raises:
        AuditError: Another writer held the lock for too long.
        OSError: The lock file cannot be created.
    """
    handle = _acquire(folder / LOCK)
    try:
        yield
    finally:
        _release(handle)


def _acquire(path: Path) -> int:
    deadline, wait = time.monotonic() + LOCK_SECONDS, _MIN_WAIT
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o600)
        try:
            if try_lock(handle) and is_still(handle, path):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        if time.monotonic() > deadline:
            raise AuditError(
                path.parent,
                f"another process has held its lock for {LOCK_SECONDS:g} seconds",
                "Find the process that is stopped in the middle of a write, or use another folder",
            )
        time.sleep(wait)
        wait = min(wait * 2, _MAX_WAIT)


def _release(handle: int) -> None:
    if sys.platform != "win32":
        import fcntl

        # Closing is not enough: a child forked meanwhile has the file open too.
        fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)
