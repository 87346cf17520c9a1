"""The folder of an audit log: its files in their order, and the lock that its writers take in turn."""

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
from pure_agent_loop.support.disk import sync_folder
from pure_agent_loop.support.locking import OPEN_FLAGS, is_still, try_lock
from pure_agent_loop.support.paths import data_folder

LOCK = "lock"
LOCK_SECONDS = 30.0  # a busy machine is no reason to end a run
_FILE = re.compile(r"audit-(\d{6})\.jsonl")
_FIRST_WAIT, _LONGEST_WAIT = 0.0002, 0.005


def default_folder() -> Path:
    """Where this user's audit log is: ``audit`` in the data folder."""
    return data_folder() / "audit"


def file_name(number: int) -> str:
    """The name of the file of that number, from 1."""
    return f"audit-{number:06d}.jsonl"


def files_in(folder: Path) -> list[tuple[int, Path]]:
    """The files of a log in their order, with their numbers; none if there is no folder.

    Raises:
        OSError: The folder cannot be read.
    """
    try:
        found = [(match, path) for path in folder.iterdir() if (match := _FILE.fullmatch(path.name))]
    except FileNotFoundError:
        return []
    return sorted((int(match[1]), path) for match, path in found)


def make_folder(folder: Path) -> None:
    """Make it, for this user only, if it is missing."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(folder.parent)


def open_file(path: Path, flags: int) -> int:
    """Open a file of the log and follow no link.

    Raises:
        OSError: It cannot be opened, or is no file.
    """
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | OPEN_FLAGS, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path} is no file")
    return handle


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of the log. It is opened anew each time, so threads and forked children take turns too.

    Raises:
        AuditError: Another writer did not let go of it.
        OSError: The lock cannot be made.
    """
    handle = _take(folder / LOCK)
    try:
        yield
    finally:
        _let_go(handle)


def _take(path: Path) -> int:
    deadline, wait = time.monotonic() + LOCK_SECONDS, _FIRST_WAIT
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
        wait = min(wait * 2, _LONGEST_WAIT)


def _let_go(handle: int) -> None:
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_UN)  # a child forked meanwhile has the same lock, and may live long
    os.close(handle)
