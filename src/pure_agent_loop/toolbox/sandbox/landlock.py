"""Landlock by ctypes: the Linux kernel confines a process and its children to some folders.

`reaper.py` loads this file in a Python without the package, so it must not import the package.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_VERSION_FLAG = 1
_SET_NO_NEW_PRIVS, _DROP_FROM_BOUNDING_SET = 38, 24

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = EXECUTE | READ_FILE | READ_DIR
_NOT_EVEN_INSIDE = _MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV
# Number of file access rights per Landlock version; versions 5 and later have 16.
_FILE_BITS = {1: 13, 2: 14, 3: 15, 4: 15}
_TCP = 1 | 2  # rights to bind and connect TCP ports, since version 4
_SCOPES = 1 | 2  # scopes: abstract Unix sockets and signals
SCOPED = 6  # the first version with scopes


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("access", ctypes.c_uint64), ("folder", ctypes.c_int32))


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(function: Callable[..., Any], *args: Any) -> int:
    result = int(function(*args))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def version() -> int:
    """Return the Landlock version of this kernel, or 0 if it has none."""
    try:
        return _checked(_system_call(), _CREATE_RULESET, None, 0, _VERSION_FLAG)
    except (OSError, AttributeError):
        return 0


def _system_call() -> Callable[..., Any]:
    call = _library().syscall
    call.restype = ctypes.c_long
    return lambda number, *args: call(ctypes.c_long(number), *args)


def prctl(option: int, value: int) -> None:
    """Call prctl(2) for this process.

    Raises:
        OSError: The kernel refused.
    """
    zero = ctypes.c_ulong(0)
    _checked(_library().prctl, ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero)


def no_new_privileges() -> None:
    """Prevent started programs from gaining more rights than this process has."""
    prctl(_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Remove root's capabilities from started programs, even if they run as root."""
    capability = 0
    try:
        while True:
            prctl(_DROP_FROM_BOUNDING_SET, capability)
            capability += 1
    except OSError as error:
        # EINVAL: no further capabilities. EPERM: not root, so there is nothing to drop.
        if error.errno not in {errno.EINVAL, errno.EPERM}:
            raise


def restrict(confine: Mapping[str, Any]) -> None:
    """Confine this process permanently.

    Args:
        confine: ``write``, ``read`` and ``devices``: lists of paths; missing ones are skipped.
            ``network``: True to allow TCP.

    Raises:
        OSError: The kernel does not support Landlock, or rejected the call.
    """
    landlock_version = version()
    if not landlock_version:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock")
    files = (1 << _FILE_BITS.get(landlock_version, 16)) - 1
    network = 0 if confine["network"] or landlock_version < 4 else _TCP
    rules = _Ruleset(files, network, _SCOPES if landlock_version >= SCOPED else 0)
    size = 24 if landlock_version >= SCOPED else 16 if landlock_version >= 4 else 8
    call = _system_call()
    ruleset = _checked(call, _CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), 0)
    try:
        _allow(call, ruleset, confine["read"], files & _READ)
        _allow(call, ruleset, confine["write"], files & ~_NOT_EVEN_INSIDE)
        _allow(call, ruleset, confine["devices"], files & (READ_FILE | WRITE_FILE))
        no_new_privileges()
        _checked(call, _RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(call: Callable[..., Any], ruleset: int, paths: Sequence[str], access: int) -> None:
    for path in paths:
        try:
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            is_folder = os.path.isdir(f"/proc/self/fd/{folder}")  # noqa: PTH112 - pathlib is slow to load
            rule = _Beneath(access if is_folder else access & _FILE_RIGHTS, folder)
            _checked(call, _ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
        finally:
            os.close(folder)
