"""Leases keep a shared model server running; a lease is a connection to the server's control port.

A server has a control port next to its HTTP port. A client process connects to the control port and keeps the
connection open, as the process's lease. When the process ends, in whatever way, the system closes the
connection, and a server without leases exits after a while. The server's greeting proves that the server is
the one named in the state file, so a stale state file, a reused port or a reused process id does no harm.

1. server: ``pal1 PROOF``, a hash of the key
2. client: the key
3. server: ``ok``; the lease is now held
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pure_agent_loop.support.locking import write_whole
from pure_agent_loop.support.parsing import read_json

HOST = "127.0.0.1"
LINE_LIMIT = 200
ANSWER_SECONDS = 5.0
OK = b"ok\n"


@dataclass(frozen=True, slots=True)
class State:
    """Connection data of a running server, in a file that only its user can read.

    Args:
        url: URL of the server, without ``/v1``.
        key: The API key, which the control port requires too.
        parameters: Number of parameters of the model; 0 if unknown.
    """

    pid: int
    url: str
    key: str = field(repr=False)
    control: int
    parameters: int


def greeting(key: str) -> bytes:
    """Return the server's first line."""
    return b"pal1 " + hashlib.sha256(b"server:" + key.encode()).hexdigest().encode() + b"\n"


def write_state(path: Path, state: State) -> None:
    """Write the state file atomically, readable only by this user."""
    write_whole(path, json.dumps(asdict(state)).encode())


def read_state(path: Path) -> State | None:
    """Return the state in a file, or None if it is missing or invalid."""
    try:
        return State(**read_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


class Lease:
    """A connection that keeps a server running, until `release` or the end of the process."""

    def __init__(self, state: State, connection: socket.socket) -> None:
        self.state = state
        self._connection = connection

    def release(self) -> None:
        """Release the server. A repeated call does nothing."""
        self._connection.close()


def take_lease(state: State | None) -> Lease | None:
    """Connect to a server's control port.

    Returns:
        The lease, or None if the server is not running.
    """
    if state is None:
        return None
    with contextlib.suppress(OSError, ValueError):
        connection = socket.create_connection((HOST, state.control), ANSWER_SECONDS)
        try:
            if _shake_hands(connection, state.key):
                connection.settimeout(None)
                return Lease(state, connection)
        except OSError:
            pass
        connection.close()
    return None


def _shake_hands(connection: socket.socket, key: str) -> bool:
    wanted = greeting(key)
    if _read_line(connection.recv) != wanted:
        return False  # another program has the port now
    connection.sendall(key.encode() + b"\n")
    return _read_line(connection.recv) == OK


def _read_line(receive: Callable[[int], bytes]) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < LINE_LIMIT:
        piece = receive(1)
        if not piece:
            break
        line += piece
    return line
