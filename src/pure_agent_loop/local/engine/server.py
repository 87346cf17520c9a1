"""The model server process: ``python -m pure_agent_loop.local.engine.server MODEL STATE_FILE``.

It runs llama.cpp's own OpenAI-compatible server (from xllamacpp) on a free loopback port with a random
key, writes its address to a state file, and exits when no lease has been held for a while.
Started by `joining`.
"""

from __future__ import annotations

import argparse
import contextlib
import hmac
import os
import secrets
import selectors
import socket
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pure_agent_loop.local.engine.joining import READY
from pure_agent_loop.local.engine.leases import (
    ANSWER_SECONDS,
    HOST,
    LINE_LIMIT,
    OK,
    State,
    greeting,
    write_state,
)
from pure_agent_loop.support.locking import file_lock
from pure_agent_loop.support.parsing import read_json

_START_GRACE = 20.0


def main(arguments: Sequence[str]) -> None:
    """Load the model, serve until no lease is left, then end the process."""
    options = _options(arguments)
    if hasattr(os, "nice"):
        os.nice(5)
    key = secrets.token_urlsafe(32)
    listener = socket.create_server((HOST, 0))
    engine = start_engine(options.model, options.context, key)
    url = engine.listening_address
    control = listener.getsockname()[1]
    write_state(options.state, State(os.getpid(), url, key, control, _count_parameters(url, key)))
    with contextlib.suppress(OSError):  # the process that started this server may have ended
        print(READY.decode(), flush=True)  # noqa: T201 - the starter reads it from the pipe
    Leases(listener, key, options.idle).serve()
    _remove_state(options.state, key)
    # Skip the engine's destructor, which would wait for its threads forever; no state needs to be saved.
    os._exit(0)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="pure_agent_loop.local.engine.server")
    parser.add_argument("model", type=Path)
    parser.add_argument("state", type=Path)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--idle", type=float, default=60.0)
    return parser.parse_args(arguments)


def thread_count() -> int:
    """Return the number of usable cores minus one: the server is very slow if every core is busy."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, cores - 1)


def start_engine(model: Path, context: int, key: str) -> Any:
    """Start llama.cpp's server, and return when the model is loaded."""
    import xllamacpp  # type: ignore[import-untyped,unused-ignore]  # it has no types

    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {model.stem}
    params.n_ctx = context
    params.n_parallel = 1
    params.hostnames = [HOST]
    params.port = 0
    params.api_keys = [key]
    params.use_jinja = True
    params.ui = params.endpoint_slots = params.fit_params = False
    params.cache_ram_mib = 512
    params.verbosity = 2  # keep prompts out of the log
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = thread_count()
    return xllamacpp.Server(params)


def _count_parameters(url: str, key: str) -> int:
    """Return the parameter count that the engine reports, or 0."""
    request = urllib.request.Request(url + "/v1/models", headers={"Authorization": f"Bearer {key}"})  # noqa: S310 - our own server
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=ANSWER_SECONDS) as answer:
            return int(read_json(answer.read())["data"][0]["meta"]["n_params"])
    except (OSError, ValueError, LookupError, TypeError):
        return 0


def _remove_state(path: Path, key: str) -> None:
    """Delete this server's state file, unless a newer server has replaced it."""
    # While this process holds the start lock, no new file can be written.
    with file_lock(path.with_suffix(".lock")), contextlib.suppress(OSError, ValueError):
        if read_json(path.read_text(encoding="utf-8"))["key"] == key:
            path.unlink()


class Leases:
    """Counts the leases of this server.

    Args:
        idle: Seconds without any lease after which `serve` returns.
        grace: Seconds to wait for the first lease; used if longer than `idle`.
    """

    def __init__(self, listener: socket.socket, key: str, idle: float, grace: float = _START_GRACE) -> None:
        self._listener = listener
        self._key = key
        self._idle = idle
        self._selector = selectors.DefaultSelector()
        # Connection -> received part of the handshake; None once leased.
        self._open: dict[socket.socket, bytes | None] = {}
        # The process that started this server may be slow to connect, so allow it a grace period.
        self._ends_at = time.monotonic() + max(idle, grace)

    def serve(self) -> None:
        """Serve until no lease has been held for the idle time."""
        self._selector.register(self._listener, selectors.EVENT_READ)
        while (left := self._time_left()) is None or left > 0:
            for entry, _ in self._selector.select(left):
                if entry.fileobj is self._listener:
                    self._accept()
                elif isinstance(entry.fileobj, socket.socket):
                    self._read(entry.fileobj)
        self._selector.close()
        for open_one in [self._listener, *self._open]:
            open_one.close()  # a client that connects too late is rejected, and starts a new server

    def _time_left(self) -> float | None:
        """Return the seconds left to wait for a lease, or None while one is held."""
        if any(handshake is None for handshake in self._open.values()):
            return None
        return self._ends_at - time.monotonic()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            self._open[connection] = b""
            self._selector.register(connection, selectors.EVENT_READ)
            self._send(connection, greeting(self._key))

    def _read(self, connection: socket.socket) -> None:
        try:
            piece = connection.recv(LINE_LIMIT)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        handshake = self._open.get(connection)
        if not piece or (handshake is not None and not self._read_handshake(connection, handshake + piece)):
            self._drop(connection)

    def _read_handshake(self, connection: socket.socket, handshake: bytes) -> bool:
        """Store the handshake so far; return False if it is too long, or complete but not the key."""
        self._open[connection] = handshake
        if not handshake.endswith(b"\n"):
            return len(handshake) < LINE_LIMIT
        if not hmac.compare_digest(handshake.strip(), self._key.encode()):
            return False
        self._open[connection] = None
        self._send(connection, OK)
        return True

    def _send(self, connection: socket.socket, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the connection is closed; the next read detects that
            connection.send(data)

    def _drop(self, connection: socket.socket) -> None:
        if self._open.pop(connection, b"") is None:
            self._ends_at = time.monotonic() + self._idle
        self._selector.unregister(connection)
        connection.close()


if __name__ == "__main__":
    main(sys.argv[1:])
