"""How a process holds on to a shared model server.

Beside its HTTP port a server has a control port. A user connects there and keeps the connection open: that
is its lease. However a user ends, the system closes the connection, and a server without leases ends
itself after a while. The greeting proves that the listener is the server the state file speaks of, so a
state file left behind by a crash, a reused port or a reused process id cannot mislead anyone.

1. server: ``pal1 PROOF``, a hash of the key
2. user:   the key
3. server: ``ok``; from now on the lease is held
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

HOST = "127.0.0.1"
LINE_LIMIT = 200
ANSWER_SECONDS = 5.0
OK = b"ok\n"
READY = b"ready"  # what the server prints for its starter once it serves


@dataclass(frozen=True, slots=True)
class State:
    """What a running server tells its users through a file only they can read.

    Args:
        pid: Its process.
        url: Where it serves, without ``/v1``.
        key: The API key, and the word that opens the control port.
        control: The control port.
        parameters: Size of the model in parameters; 0 if unknown.
    """

    pid: int
    url: str
    key: str = field(repr=False)
    control: int
    parameters: int


def greeting(key: str) -> bytes:
    """The server's first line."""
    return b"pal1 " + hashlib.sha256(b"server:" + key.encode()).hexdigest().encode() + b"\n"


def write_state(path: Path, state: State) -> None:
    """Put the state where users look for it, all at once and readable only by this user."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(asdict(state), file)
    new.replace(path)


def read_state(path: Path) -> State | None:
    """The state in a file, or None if there is none that can be used."""
    try:
        return State(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


class Lease:
    """A held connection to a running server. Let go with `release`, or by ending the process.

    Args:
        state: The server.
        connection: The open control connection.
    """

    def __init__(self, state: State, connection: socket.socket) -> None:
        self.state = state
        self._connection = connection

    def release(self) -> None:
        """Let go. A second call does nothing."""
        self._connection.close()


def take_lease(state: State | None) -> Lease | None:
    """Connect to a server's control port.

    Returns:
        The lease, or None if that server does not run (any more).
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
        return False  # somebody else has that port now
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
