"""One writer for a session: a lock that ends with its process, and says who holds it.

The system's own lock on a file is what counts: it is gone when the process is, `kill -9` included. What
stands in the file is only for people.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import weakref
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import SessionLockedError
from pure_agent_loop.support.locking import OPEN_FLAGS, is_still, try_lock

_MOST_BYTES = 1_000


class SessionLock:
    """A lock that is held.

    Args:
        path: The lock file.
        handle: It, open and locked.
    """

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle: int | None = handle
        _HELD.add(self)

    def release(self) -> None:
        """Let go. May be called twice."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        # Taken away while it is held: whoever has opened it by now will find that it is not the same file.
        with contextlib.suppress(OSError):  # Windows refuses, and an old lock file does no harm
            if is_still(handle, self._path):  # else somebody took ours away, and this one is another's
                self._path.unlink()
        os.close(handle)

    def forget(self) -> None:
        """In a forked child: the lock is the parent's, and must end with it."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


_HELD: weakref.WeakSet[SessionLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_HELD):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def take_lock(path: Path, session_id: str) -> SessionLock:
    """Take the lock, or say at once who has it.

    Args:
        path: The lock file, made if missing.

    Raises:
        SessionLockedError: Somebody else holds it.
        OSError: The file cannot be made or locked.
    """
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o600)
        try:
            if not try_lock(handle):
                raise _locked(session_id, handle)  # noqa: TRY301 - the handle is closed in one place
            if is_still(handle, path):
                _write_holder(handle)
                return SessionLock(path, handle)
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the holder before took the file away; there is a new one to lock


def _write_holder(handle: int) -> None:
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": round(time.time(), 3)}
    with contextlib.suppress(OSError):  # a full disk must not keep anybody from opening a session
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, json.dumps(holder).encode())


def _locked(session_id: str, handle: int) -> SessionLockedError:
    pid, host, since = _read_holder(handle)
    if pid is None or since is None:
        return SessionLockedError(session_id, "another process, which has not said which")
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(since))
    words = f"process {pid} on {host} since {when}"
    return SessionLockedError(session_id, words, pid=pid, host=host, since=since)


def _read_holder(handle: int) -> tuple[int | None, str, float | None]:
    try:
        os.lseek(handle, 0, os.SEEK_SET)
        found: Any = json.loads(os.read(handle, _MOST_BYTES))
        pid, since = int(found["pid"]), float(found["since"])
        time.gmtime(since)
        return pid, str(found["host"]), since
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None, "", None
