"""Operating-system locks on open files; a lock ends with its process, even with `kill -9`."""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import SessionLockedError
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.parsing import read_json

OPEN_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_FIRST_WAIT, _LONGEST_WAIT = 0.005, 0.1

if sys.platform == "win32":
    import msvcrt

    # Offset of the locked byte: past the content, because other processes cannot read a locked byte.
    _FAR = 1 << 30

    def try_lock(handle: int) -> bool:
        """Lock an open file for this process alone; return False if another process holds the lock."""
        os.lseek(handle, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(handle: int) -> bool:
        """Lock an open file or folder for this handle; return False if another handle holds the lock."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


_HELD: weakref.WeakSet[SessionLock] = weakref.WeakSet()
MEMORY_FILE = "MEMORY.md"
PATIENCE_SECONDS = 10.0
FIRST_LINE = b"# Memory\n"


def lock_within(handle: int, patience: float) -> bool:
    """Lock an open file, waiting until its holder releases it.

    The lock is polled, because a blocking lock cannot be cancelled.

    Args:
        patience: Longest wait in seconds.

    Returns:
        False if another process still holds the lock.
    """
    give_up, wait = time.monotonic() + patience, _FIRST_WAIT
    while not try_lock(handle):
        if time.monotonic() > give_up:
            return False
        time.sleep(wait)
        wait = min(wait * 2, _LONGEST_WAIT)
    return True


@contextlib.contextmanager
def _locked_within(patience: float, handle: int, path: Path) -> Iterator[None]:
    """Hold an exclusive lock on an open file, and close it at the end.

    Raises:
        TimeoutError: Another program still holds the lock on `path`.
    """
    try:
        if not lock_within(handle, patience):
            raise TimeoutError(f"{path.name} is still locked by another program")
        yield
    finally:
        os.close(handle)  # closing releases the lock


def file_lock(path: Path) -> contextlib.AbstractContextManager[None]:
    """Hold an exclusive lock on a file; wait for it without a time limit.

    Args:
        path: Lock file; created if missing and never deleted, as a lock on a deleted file guards nothing.
    """
    return _locked_within(math.inf, os.open(path, os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o600), path)


def is_still(handle: int, path: Path) -> bool:
    """Return True if the path still leads to the open file, so that a lock on that file excludes others."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False


# -- session lock: one writer per session; the lock ends with its process and names its holder -----------
# The operating system's lock on the file decides: it ends with the process, even with `kill -9`. The content
# of the lock file is only information for people.


class SessionLock:
    """A held lock.

    Args:
        handle: File descriptor of the lock file, open and locked.
    """

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle: int | None = handle
        _HELD.add(self)

    def release(self) -> None:
        """Release the lock. May be called twice."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        # The file is deleted while locked: another process that has opened it detects that the path has
        # changed.
        with contextlib.suppress(OSError):  # Windows cannot delete an open file; an old lock file is harmless
            if is_still(handle, self._path):  # otherwise the path now leads to another process's file
                self._path.unlink()
        os.close(handle)

    def forget(self) -> None:
        """Drop the lock in a forked child: it belongs to the parent."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


def _forget_all() -> None:
    for lock in list(_HELD):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def take_lock(path: Path, session_id: str) -> SessionLock:
    """Take the lock, or raise at once an error that names its holder.

    Args:
        path: The lock file, created if missing.

    Raises:
        SessionLockedError: Another process holds the lock.
        OSError: The file cannot be created or locked.
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
        os.close(handle)  # the previous holder deleted the file; lock the new one


def is_locked(path: Path) -> bool:
    """Return True if this or another process holds the lock. The file is created if missing.

    Raises:
        OSError: The file cannot be created or locked.
    """
    try:
        take_lock(path, path.name).release()
    except SessionLockedError:
        return True
    return False


def _write_holder(handle: int) -> None:
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": round(time.time(), 3)}
    with contextlib.suppress(OSError):  # a full disk must not prevent opening a session
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, json.dumps(holder).encode())


def _locked(session_id: str, handle: int) -> SessionLockedError:
    pid, host, since = _read_holder(handle)
    if pid is None or since is None:
        return SessionLockedError(session_id, notice("library.unknown_process"))
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(since))
    words = notice("library.process", pid=pid, host=host, when=when)
    return SessionLockedError(session_id, words, pid=pid, host=host, since=since)


def _read_holder(handle: int) -> tuple[int | None, str, float | None]:
    try:
        os.lseek(handle, 0, os.SEEK_SET)
        holder: Any = read_json(os.read(handle, 1_000))
        pid, since = int(holder["pid"]), float(holder["since"])
        time.gmtime(since)
        return pid, str(holder["host"]), since
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return None, "", None


# -- write a shared Markdown file: one writer at a time, replaced atomically -----------------------------


def _open_lock(path: Path) -> int:
    if sys.platform == "win32":
        return os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | OPEN_FLAGS)
    # The folder is locked: each write replaces the file, and a separate lock file would be left behind.
    return os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def change_file(path: Path, change: Callable[[bytes], bytes | None]) -> None:
    """Replace a file by the result of `change`, under an exclusive lock.

    Args:
        path: The file; if it is missing, `change` gets a heading as the old bytes.
        change: Function from the old bytes to the new ones; None leaves the file unchanged.

    Raises:
        OSError: The file cannot be written, is a link, or stays locked by another program.
    """
    with _locked_within(PATIENCE_SECONDS, _open_lock(path), path):
        if path.is_symlink():  # a link may lead out of the workspace
            raise OSError(f"{path.name} is a symbolic link")
        new = change(path.read_bytes() if path.exists() else FIRST_LINE)
        if new is not None:
            write_whole(path, new, durable=True)


def append_section(path: Path, section: str) -> None:
    """Add a section to a Markdown file, unless a section already has the same text.

    Args:
        path: The file; created if missing.

    Raises:
        OSError: See `change_file`.
    """
    body = section.partition("\n")[2].strip()

    def change(old: bytes) -> bytes | None:
        sections = old.decode("utf-8", "replace").replace("\r\n", "\n").split("\n## ")
        is_there = any(text.partition("\n")[2].strip() == body for text in sections)
        return None if is_there else with_section(old, section)

    change_file(path, change)


def with_section(old: bytes, section: str) -> bytes:
    """Return the file's content with a section appended."""
    return old.rstrip() + b"\n\n" + section.encode("utf-8", "replace")


def write_whole(path: Path, data: bytes, *, durable: bool = False, mode: int = 0o600) -> None:
    """Write a file whole or not at all.

    Args:
        durable: Flush the content to the disk before it replaces the old file.
        mode: Permissions of the new file.
    """
    temporary = path.with_name(f".tmp-{os.urandom(8).hex()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN_FLAGS, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(handle)
        if mode != 0o600:
            temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
