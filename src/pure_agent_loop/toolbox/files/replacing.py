"""Write a file whole or not at all, in an open folder."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from contextlib import suppress

from pure_agent_loop.support.language import model_text
from pure_agent_loop.toolbox.complaints import WorkspaceError, shown
from pure_agent_loop.toolbox.files.folder import FolderHandle

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_PERMISSIONS = 0o777
_ANY_WRITE = 0o222


def replace_file(folder: FolderHandle, name: str, data: bytes, before: os.stat_result | None) -> None:
    """Atomically write or replace a file.

    Args:
        before: The replaced file, whose permissions and owner are kept; None for a new file.

    Raises:
        OSError: The file cannot be written; nothing has changed.
    """
    temporary = f".pal-{secrets.token_hex(8)}.tmp"
    descriptor = folder.open(temporary, _NEW, 0o666 if before is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if before is not None:
                _copy_attributes(file.fileno(), before)
            file.flush()
            os.fsync(file.fileno())
        folder.rename(temporary, name)
    except BaseException:
        with suppress(OSError):
            folder.remove(temporary)
        raise
    folder.sync()


def _copy_attributes(descriptor: int, before: os.stat_result) -> None:
    if sys.platform == "win32":
        return
    current = os.fstat(descriptor)
    if (current.st_uid, current.st_gid) != (before.st_uid, before.st_gid):
        with suppress(OSError):  # only root may change the owner of a file
            os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, before.st_mode & _PERMISSIONS)


def require_replaceable(before: os.stat_result | None, path: str) -> None:
    """Check that a file may be written in place of an existing entry.

    Args:
        before: The existing entry; None if missing.

    Raises:
        OSError: ``ELOOP`` for a link, ``EISDIR`` for a folder.
        WorkspaceError: The entry is not a regular file, or is read-only.
    """
    if before is None:
        return
    if stat.S_ISLNK(before.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if stat.S_ISDIR(before.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(before.st_mode):
        raise WorkspaceError(model_text("not_writable", path=shown(path)))
    if not before.st_mode & _ANY_WRITE:
        # Replacing a file needs no right to write it, but its read-only mark must be respected.
        raise WorkspaceError(model_text("marked_read_only", path=shown(path)))
