"""A system call filter for access that neither bubblewrap nor Landlock blocks.

A command shares the kernel's keyrings with this process in any folder and namespace. Landlock does not cover
Unix sockets with a path, UDP, shared memory, or changes of file modes. The filter rejects the calls for
these. The filter is written in the kernel's classic BPF (``Documentation/userspace-api/seccomp_filter.rst``).

`reaper.py` loads this file in a Python without the package, so it must not import the package.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Sequence
from typing import Any

# Allowed address families of ``socket``, by the value of `sockets`. Netlink is limited to network addresses.
_UNIX, _NETLINK, _NO_UNIX = 1, 16, (2, 10)  # address families: Unix, netlink, (IPv4, IPv6)
_FAMILIES = {"any": (_UNIX, *_NO_UNIX), "no-unix": _NO_UNIX, "none": ()}
# A datagram or "raw" socket of a pair can send to other addresses; the types listed here cannot.
_PAIRED, _KIND_BITS = (1, 5), 0xF  # SOCK_STREAM, SOCK_SEQPACKET; the higher bits are flags
# Per machine: the kernel's id for it, and the column of its call numbers below; a number is None if the
# machine lacks the call.
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_SOCKET, _SOCKETPAIR = (41, 198), (53, 199)
# add_key, request_key, keyctl, io_uring_setup (which can open sockets past this filter), and pidfd_getfd
# (which takes descriptors of other processes).
_ALWAYS = ((248, 217), (249, 218), (250, 219), (425, 425), (438, 438))
# Calls that change a process, allowed for the caller only: prlimit64, sched_setparam, sched_setscheduler,
# sched_setaffinity, sched_setattr, setpriority, ioprio_set. The last tuple of each holds the leading
# arguments that identify the caller.
_CALLER_ONLY = (
    *((302, 261, (0,)), (142, 118, (0,)), (144, 119, (0,)), (203, 122, (0,)), (314, 274, (0,))),
    *((141, 140, (0, 0)), (251, 30, (1, 0))),
)
# Resources that, without namespaces, all processes on this machine share: shared memory
# (shmget, shmat, shmctl), semaphores (semget, semop, semctl, semtimedop), message queues (msgget, msgsnd,
# msgrcv, msgctl, mq_open, mq_unlink), and notifications about files (inotify_init, inotify_init1,
# fanotify_init).
_SHARED = (
    *((29, 194), (30, 196), (31, 195), (64, 190), (65, 193), (66, 191), (220, 192), (68, 186), (69, 189)),
    *((70, 188), (71, 187), (240, 180), (241, 181), (253, None), (294, 26), (300, 262)),
)
# Calls that change a file without writing to it: chmod, fchmod, fchmodat, fchmodat2, chown, fchown, lchown,
# fchownat, utime, utimes, futimesat, utimensat, setxattr, lsetxattr, fsetxattr, setxattrat, removexattr,
# lremovexattr, fremovexattr, removexattrat, truncate, file_setattr.
_METADATA_CHANGES = (
    *((90, None), (91, 52), (268, 53), (452, 452), (92, None), (93, 55), (94, None), (260, 54)),
    *((132, None), (235, None), (261, None), (280, 88), (188, 5), (189, 6), (190, 7), (463, 463)),
    *((197, 14), (198, 15), (199, 16), (466, 466), (76, 45), (469, 469)),
)
# Queries of a file or terminal, and settings of the caller's own descriptors: TCGETS, TIOCGPGRP,
# TIOCOUTQ, TIOCGWINSZ, FIONREAD, FIONBIO, TIOCGSID, FIONCLEX, FIOCLEX, FIOQSIZE, TCGETS2, FIGETBSZ,
# FS_IOC_GETFLAGS, FS_IOC_GETVERSION, FS_IOC_FSGETXATTR, FS_IOC_FIEMAP. Other file system requests may change
# a file that was opened for reading, so they are rejected.
_IOCTL, _SAFE_REQUESTS = (
    (16, 29),
    (
        *(0x5401, 0x540F, 0x5411, 0x5413, 0x541B, 0x5421, 0x5429, 0x5450, 0x5451, 0x5460, 0x802C542A, 0x2),
        *(0x80086601, 0x80087601, 0x801C581F, 0xC020660B),
    ),
)
_X32 = 0x40000000  # marks x32 call numbers, which duplicate all calls
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # offsets in the filter's input
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1  # 1 is EPERM
_SET_SECCOMP, _MODE_FILTER = 22, 2


def program(sockets: str = "any", machine: str = "", *, shared: bool = False, still: bool = False) -> bytes:
    """Return the filter in the kernel's format; empty for an unknown machine type.

    Args:
        sockets: Allowed sockets: ``any`` (IP and Unix), ``no-unix`` or ``none``. Connected stream pairs are
            always allowed, datagram pairs only with ``any``.
        machine: As in `os.uname`; this machine's if empty.
        shared: Also reject access to resources that all processes on this machine share, and changes to other
            processes; not needed in namespaces.
        still: Also reject calls that change a file without writing to it; not needed on a read-only mount.
    """
    if not machine and sys.platform == "win32":
        return b""  # Windows has no seccomp
    entry = _MACHINES.get(machine or os.uname().machine)
    if entry is None:
        return b""
    kernel_name, column = entry
    lines = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, kernel_name),
        _return_line(_REFUSE),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if column == 0:
        lines += [(_AT_LEAST, 0, 1, _X32), _return_line(_REFUSE)]
    refused = [*_ALWAYS, *(_SHARED if shared else ()), *(_METADATA_CHANGES if still else ())]
    for numbers in refused:
        if numbers[column] is not None:
            lines += [(_EQUAL, 0, 1, numbers[column]), _return_line(_REFUSE)]
    for *numbers, own in _CALLER_ONLY if shared else ():
        lines += _restrict(numbers[column], [(at, (value,)) for at, value in enumerate(own)])
    families = _FAMILIES[sockets]
    pair: list[tuple[Any, ...]] = [(0, (_UNIX,)), *([] if sockets == "any" else [(1, _PAIRED, _KIND_BITS)])]
    made: list[list[tuple[Any, ...]]] = [[(0, families)], [(0, (_NETLINK,)), (2, (0,))]] if families else []
    lines += _restrict(_SOCKET[column], *made)
    lines += _restrict(_SOCKETPAIR[column], pair)
    lines += _restrict(_IOCTL[column], [(1, _SAFE_REQUESTS)]) if still else []
    return b"".join(struct.pack("=HBBI", *line) for line in [*lines, _return_line(_ALLOW)])


_Instruction = tuple[int, int, int, int]  # code, lines to skip if true, lines to skip if false, value


def _return_line(answer: int) -> _Instruction:
    return (_RETURN, 0, 0, answer)


def _restrict(number: int, *ways: Sequence[Any]) -> list[_Instruction]:
    """Reject a call unless the low half of each argument in one of the `ways` has a listed value.

    Args:
        ways: Lists of (argument, values, mask); the mask is left out if all bits count.
    """
    inner: list[_Instruction] = []
    for way in ways:
        # Number of instructions left in this branch, which are skipped if an argument does not match.
        left = sum(len(values) + 1 + len(bits) for _, values, *bits in way) + 1
        for argument, values, *bits in way:
            left -= len(values) + 1 + len(bits)
            inner += [_load(argument), *((_AND, 0, 0, mask) for mask in bits)]
            inner += [(_EQUAL, following, 0, value) for following, value in _counted_down(values[:-1])]
            inner.append((_EQUAL, 0, left, values[-1]))
        inner.append(_return_line(_ALLOW))
    inner.append(_return_line(_REFUSE))
    return [(_EQUAL, 0, len(inner), number), *inner]


def _counted_down(values: Sequence[int]) -> list[tuple[int, int]]:
    """Return each value with the number of tests that follow its own test."""
    return [(len(values) - at, value) for at, value in enumerate(values)]


def _load(argument: int) -> _Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * argument)


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_char_p))


def install(sockets: str, *, shared: bool = False, still: bool = False) -> None:
    """Install the filter permanently, for this process and its children. The process must have set
    no_new_privs. See `program`.

    Raises:
        OSError: The kernel refused.
    """
    lines = program(sockets, shared=shared, still=still)
    if not lines:
        return
    filled = _FilterProgram(len(lines) // 8, lines)
    zero = ctypes.c_ulong(0)
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), ctypes.byref(filled), zero, zero) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
