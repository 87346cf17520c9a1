"""Find the owner of a local port: any user can open one, and the server on it can read all requests."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

_LISTENING = "0A"
_MIN_PERSON = 1000  # lower user ids are system accounts
# 127.0.0.1 and the wildcard address, as IPv4 and IPv6, in both byte orders, as in /proc/net/tcp.
_ADDRESSES = (
    *("0100007F", "00000000", "7F000001"),
    *("0" * 32, "0000000000000000FFFF00000100007F", "00000000000000000000FFFF7F000001"),
)


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a listening port.

    Args:
        name: The process or account, for display.
        is_safe: True for this user and for system accounts.
    """

    name: str
    is_safe: bool


def owner_of(port: int) -> Owner:
    """Return the owner of a port on 127.0.0.1; an unknown owner is not safe."""
    listeners = [*_listeners(port, Path("/proc/net/tcp")), *_listeners(port, Path("/proc/net/tcp6"))]
    if sys.platform == "win32" or not listeners:
        return Owner("an unknown account", is_safe=False)
    # Several listeners may use the port on different addresses, and any of them may get the request.
    stranger = next((user for user, _ in listeners if user != os.getuid() and user >= _MIN_PERSON), None)
    if stranger is not None:
        return Owner(f"the account {_account(stranger)}", is_safe=False)
    user, inode = listeners[0]
    return Owner(_process(inode) or f"the account {_account(user)}", is_safe=True)


def _listeners(port: int, table: Path) -> list[tuple[int, str]]:
    """Return the user and inode of each listening socket."""
    try:
        rows = [line.split() for line in table.read_text(encoding="ascii").splitlines()[1:]]
    except (OSError, ValueError):
        return []
    wanted = {f"{address}:{port:04X}" for address in _ADDRESSES}
    return [(int(row[7]), row[9]) for row in rows if row[3] == _LISTENING and row[1] in wanted]


def _account(user: int) -> str:
    if sys.platform == "win32":
        return str(user)
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _process(inode: str) -> str:
    """Return the process that holds a socket; "" if it cannot be inspected."""
    return next(filter(None, (_holder(folder, inode) for folder in Path("/proc").glob("[0-9]*"))), "")


def _holder(folder: Path, inode: str) -> str:
    try:
        if any(str(entry.readlink()) == f"socket:[{inode}]" for entry in (folder / "fd").iterdir()):
            return f"process {folder.name}, {(folder / 'comm').read_text().strip()!r}"
    except OSError:  # the process has ended, or access is not permitted
        pass
    return ""
