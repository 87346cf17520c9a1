"""Writing a file whole or not at all, in a folder that is held open."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress

from pure_agent_loop.toolbox.complaints import WorkspaceError, shown
from pure_agent_loop.toolbox.files.folder import Folder
from pure_agent_loop.toolbox.files.words import say

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_PERMISSIONS = 0o777
_SOME_MAY_WRITE = 0o222


def replace_file(folder: Folder, name: str, data: bytes, before: os.stat_result | None) -> None:
    """Put a file in the place of what has its name, in one moment.

    Args:
        before: The file in whose place it comes, whose permissions and owner it keeps; None for a new one.

    Raises:
        OSError: It cannot be written; everything is as it was.
    """
    temporary = f".pal-{secrets.token_hex(8)}.tmp"
    descriptor = folder.open(temporary, _NEW, 0o666 if before is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if before is not None:
                _like(file.fileno(), before)
            file.flush()
            os.fsync(file.fileno())
        folder.rename(temporary, name)
    except BaseException:
        with suppress(OSError):
            folder.remove(temporary)
        raise
    folder.sync()


def _like(descriptor: int, before: os.stat_result) -> None:
    if not hasattr(os, "fchown"):  # Windows
        return
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (before.st_uid, before.st_gid):
        with suppress(OSError):  # only root may give files away
            os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, before.st_mode & _PERMISSIONS)


def require_replaceable(before: os.stat_result | None, path: str) -> None:
    """Check what a file would be put in the place of.

    Args:
        before: What lies there; None if nothing.
        path: As the model wrote it.

    Raises:
        OSError: ``ELOOP`` for a link, ``EISDIR`` for a folder.
        WorkspaceError: It is something else that is no file, or is read-only.
    """
    if before is None:
        return
    if stat.S_ISLNK(before.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if stat.S_ISDIR(before.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(before.st_mode):
        raise WorkspaceError(say("not_writable", path=shown(path)))
    if not before.st_mode & _SOME_MAY_WRITE:
        # Putting a file in its place needs no right to write it, but the mark is there for a reason.
        raise WorkspaceError(say("marked_read_only", path=shown(path)))
