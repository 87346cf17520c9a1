"""A filter of system calls: shuts what neither bubblewrap nor Landlock holds back.

A command shares the kernel's keyrings with us, whatever folders and namespaces it has; Landlock knows
neither Unix sockets with a path, nor UDP, nor shared memory, nor a change of a file's mode. So the calls for
these are refused. The filter speaks the classic BPF of the kernel
(``Documentation/userspace-api/seccomp_filter.rst``).

`reaper.py` loads this file by itself, in a Python without our package: it must import nothing of ours.
"""

from __future__ import annotations

import ctypes
import os
import struct

_AF_UNIX, _AF_VSOCK = 1, 40
# By machine: the kernel's word for it, and the numbers of the calls below; None where it has no such call.
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_SOCKET = (41, 198)
# add_key, request_key, keyctl, and io_uring_setup, which can open sockets on its own, past this filter.
_ALWAYS = ((248, 217), (249, 218), (250, 219), (425, 425))
# They set something about a process, and may do so for the caller only: prlimit64, sched_setparam,
# sched_setscheduler, sched_setaffinity, sched_setattr, setpriority, ioprio_set. The last numbers are what
# their first arguments are then.
_ABOUT = (
    *((302, 261, (0,)), (142, 118, (0,)), (144, 119, (0,)), (203, 122, (0,)), (314, 274, (0,))),
    *((141, 140, (0, 0)), (251, 30, (1, 0))),
)
# What every process of this machine has in common, where there is no namespace of its own: shared memory
# (shmget, shmat, shmctl), semaphores (semget, semop, semctl, semtimedop), message queues (msgget, msgsnd,
# msgrcv, msgctl, mq_open, mq_unlink), and what happens to files outside (inotify_init, inotify_init1,
# fanotify_init).
_SHARED = (
    *((29, 194), (30, 196), (31, 195), (64, 190), (65, 193), (66, 191), (220, 192), (68, 186), (69, 189)),
    *((70, 188), (71, 187), (240, 180), (241, 181), (253, None), (294, 26), (300, 262)),
)
# What changes a file without writing to it: chmod, fchmod, fchmodat, fchmodat2, chown, fchown, lchown,
# fchownat, utime, utimes, futimesat, utimensat, setxattr, lsetxattr, fsetxattr, setxattrat, removexattr,
# lremovexattr, fremovexattr, removexattrat, truncate, file_setattr.
_STILL = (
    *((90, None), (91, 52), (268, 53), (452, 452), (92, None), (93, 55), (94, None), (260, 54)),
    *((132, None), (235, None), (261, None), (280, 88), (188, 5), (189, 6), (190, 7), (463, 463)),
    *((197, 14), (198, 15), (199, 16), (466, 466), (76, 45), (469, 469)),
)
# What asks about a file or terminal, or sets something about a descriptor of one's own: TCGETS, TIOCGPGRP,
# TIOCOUTQ, TIOCGWINSZ, FIONREAD, FIONBIO, TIOCGSID, FIONCLEX, FIOCLEX, FIOQSIZE, TCGETS2, FIGETBSZ,
# FS_IOC_GETFLAGS, FS_IOC_GETVERSION, FS_IOC_FSGETXATTR, FS_IOC_FIEMAP. Each file system has more that change
# a file which was opened for reading, so the others are refused.
_IOCTL, _ASKING = (
    (16, 29),
    (
        *(0x5401, 0x540F, 0x5411, 0x5413, 0x541B, 0x5421, 0x5429, 0x5450, 0x5451, 0x5460, 0x802C542A, 0x2),
        *(0x80086601, 0x80087601, 0x801C581F, 0xC020660B),
    ),
)
_X32 = 0x40000000  # the same calls under other numbers
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # where they stand in what the filter looks at
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1  # 1 is EPERM
_SET_SECCOMP, _MODE_FILTER = 22, 2


def program(sockets: str = "any", machine: str = "", *, shared: bool = False, still: bool = False) -> bytes:
    """The filter as the kernel reads it; empty for a kind of machine that is not known here.

    Args:
        sockets: Which may be made: ``any`` but VSOCK, ``no-unix`` or ``none``; connected pairs always.
        machine: As `os.uname` says it; this one if empty.
        shared: Also refuse what all processes of this machine share, and what changes other processes; not
            needed in namespaces.
        still: Also refuse what changes files without writing to them; not needed on a read-only mount.
    """
    known = _MACHINES.get(machine or os.uname().machine)
    if known is None:
        return b""
    kernel_name, column = known
    lines = [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, kernel_name), _line_of(_REFUSE), (_LOAD, 0, 0, _NUMBER)]
    if column == 0:
        lines += [(_AT_LEAST, 0, 1, _X32), _line_of(_REFUSE)]
    refused = [*_ALWAYS, *(_SHARED if shared else ()), *(_STILL if still else ())]
    refused += [_SOCKET] if sockets == "none" else []
    for numbers in refused:
        if numbers[column] is not None:
            lines += [(_EQUAL, 0, 1, numbers[column]), _line_of(_REFUSE)]
    for *numbers, own in _ABOUT if shared else ():
        lines += _only(numbers[column], own)
    families = (_AF_VSOCK, *((_AF_UNIX,) if sockets == "no-unix" else ()))
    lines += _not(_SOCKET[column], 0, families)
    lines += _not(_IOCTL[column], 1, _ASKING, but=True) if still else []
    return b"".join(struct.pack("=HBBI", *line) for line in [*lines, _line_of(_ALLOW)])


_Line = tuple[int, int, int, int]  # code, how many lines to leave out on yes and on no, value


def _line_of(answer: int) -> _Line:
    return (_RETURN, 0, 0, answer)


def _not(number: int, argument: int, values: tuple[int, ...], *, but: bool = False) -> list[_Line]:
    """Refuse a call with one of these values in the low half of an argument; or `but` with these."""
    tests = [(_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    others, found = (_REFUSE, _ALLOW) if but else (_ALLOW, _REFUSE)
    inner = [_load(argument), *tests, _line_of(others), _line_of(found)]
    return [(_EQUAL, 0, len(inner), number), *inner]


def _only(number: int, values: tuple[int, ...]) -> list[_Line]:
    """Refuse a call unless its first arguments are these."""
    each = [(_load(at), (_EQUAL, 1, 0, value), _line_of(_REFUSE)) for at, value in enumerate(values)]
    inner = [*(line for lines in each for line in lines), _line_of(_ALLOW)]
    return [(_EQUAL, 0, len(inner), number), *inner]


def _load(argument: int) -> _Line:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * argument)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_char_p))


def install(sockets: str, *, shared: bool = False, still: bool = False) -> None:
    """Put the filter on this process and all it starts, for good. Needs no_new_privs. See `program`.

    Raises:
        OSError: The kernel refused.
    """
    lines = program(sockets, shared=shared, still=still)
    if not lines:
        return
    filled = _Program(len(lines) // 8, lines)
    zero = ctypes.c_ulong(0)
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), ctypes.byref(filled), zero, zero) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
