"""Whose a server on a port of this machine is. Every user may open one, and would read all it is asked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_LISTENING = "0A"
_LEAST_PERSON = 1000  # accounts below are the system's
# 127.0.0.1, any address, and the same as IPv6 writes them, as the kernel's tables do.
_ADDRESSES = (
    *("0100007F", "00000000", "7F000001"),
    *("0" * 32, "0000000000000000FFFF00000100007F", "00000000000000000000FFFF7F000001"),
)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who listens on a port.

    Args:
        name: The process or account, for a person to read.
        is_safe: Whether it is this user, or an account of the system.
    """

    name: str
    is_safe: bool


def owner_of(port: int) -> Owner:
    """Who listens on a port of 127.0.0.1. Where that cannot be told, it is not safe.

    Args:
        port: The port.
    """
    found = [*_listeners(port, Path("/proc/net/tcp")), *_listeners(port, Path("/proc/net/tcp6"))]
    if not found:
        return Owner("an account that cannot be told", is_safe=False)
    # All of them: which of two is asked depends on their addresses.
    stranger = next((user for user, _ in found if user != os.getuid() and user >= _LEAST_PERSON), None)
    if stranger is not None:
        return Owner(f"the account {_account(stranger)}", is_safe=False)
    user, inode = found[0]
    return Owner(_process(inode) or f"the account {_account(user)}", is_safe=True)


def _listeners(port: int, table: Path) -> list[tuple[int, str]]:
    """User and inode of each socket."""
    try:
        rows = [line.split() for line in table.read_text(encoding="ascii").splitlines()[1:]]
    except (OSError, ValueError):
        return []
    wanted = {f"{address}:{port:04X}" for address in _ADDRESSES}
    return [(int(row[7]), row[9]) for row in rows if row[3] == _LISTENING and row[1] in wanted]


def _account(user: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _process(inode: str) -> str:
    """The process that holds a socket; "" if it is not one of ours to look at."""
    return next(filter(None, (_holder(folder, inode) for folder in Path("/proc").glob("[0-9]*"))), "")


def _holder(folder: Path, inode: str) -> str:
    try:
        if any(str(entry.readlink()) == f"socket:[{inode}]" for entry in (folder / "fd").iterdir()):
            return f"process {folder.name}, {(folder / 'comm').read_text().strip()!r}"
    except OSError:  # it has ended, or is not ours to look at
        pass
    return ""
