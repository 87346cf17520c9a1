"""A filter of system calls: shuts what neither bubblewrap nor Landlock holds back.

A command shares the kernel's keyrings with us, whatever folders and namespaces it has; and Landlock knows
neither Unix sockets with a path nor UDP. So the calls for these are refused. The filter speaks the classic
BPF of the kernel (``Documentation/userspace-api/seccomp_filter.rst``).

`reaper.py` loads this file by itself, in a Python without our package: it must import nothing of ours.
"""

from __future__ import annotations

import ctypes
import os
import struct

_AF_UNIX = 1
# By machine: the kernel's word for it, and the numbers of socket, and of add_key, request_key, keyctl and
# io_uring_setup. The last can open sockets on its own, past this filter.
_MACHINES = {
    "x86_64": (0xC000003E, 41, (248, 249, 250, 425)),
    "aarch64": (0xC00000B7, 198, (217, 218, 219, 425)),
}
_X32 = 0x40000000  # the same calls under other numbers
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16  # where they stand in what the filter looks at
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1  # 1 is EPERM
_SET_SECCOMP, _MODE_FILTER = 22, 2


def program(sockets: str = "any", machine: str = "") -> bytes:
    """The filter as the kernel reads it; empty for a kind of machine that is not known here.

    Args:
        sockets: Which may be made: ``any``, ``no-unix`` or ``none``; pairs of connected ones always.
        machine: As `os.uname` says it; this one if empty.
    """
    known = _MACHINES.get(machine or os.uname().machine)
    if known is None:
        return b""
    kernel_name, socket, refused = known
    # Each entry: code, value, and what a match does: go on, or refuse.
    wanted = [(_LOAD, _MACHINE, ""), (_EQUAL, kernel_name, "else refuse"), (_LOAD, _NUMBER, "")]
    wanted += [(_AT_LEAST, _X32, "refuse")] if kernel_name == _MACHINES["x86_64"][0] else []
    wanted += [(_EQUAL, number, "refuse") for number in refused]
    if sockets == "none":
        wanted.append((_EQUAL, socket, "refuse"))
    elif sockets == "no-unix":
        wanted += [(_EQUAL, socket, "else allow"), (_LOAD, _FIRST_ARGUMENT, ""), (_EQUAL, _AF_UNIX, "refuse")]
    count = len(wanted)  # behind them: allow, refuse
    lines = [_line(code, value, what, count - at) for at, (code, value, what) in enumerate(wanted, start=1)]
    return b"".join([*lines, _line(_RETURN, _ALLOW, "", 0), _line(_RETURN, _REFUSE, "", 0)])


def _line(code: int, value: int, what: str, to_allow: int) -> bytes:
    yes, no = {
        "refuse": (to_allow + 1, 0),
        "else refuse": (0, to_allow + 1),
        "else allow": (0, to_allow),
    }.get(what, (0, 0))
    return struct.pack("=HBBI", code, yes, no, value)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_char_p))


def install(sockets: str) -> None:
    """Put the filter on this process and all it starts, for good. Needs no_new_privs.

    Raises:
        OSError: The kernel refused.
    """
    lines = program(sockets)
    if not lines:
        return
    filled = _Program(len(lines) // 8, lines)
    zero = ctypes.c_ulong(0)
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), ctypes.byref(filled), zero, zero) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
