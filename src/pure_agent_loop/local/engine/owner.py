"""Find the owner of a local port: any user can open one, and its server can read all requests."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import ConfigError, LLMError, MissingExtraError
from pure_agent_loop.local.engine.models import Progress, is_gguf, quiet
from pure_agent_loop.support.child import child_environment, module_argv
from pure_agent_loop.support.disk import data_folder, private_folder
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.locking import file_lock

_LISTENING = "0A"
_MIN_PERSON = 1000  # lower user ids are system accounts
# 127.0.0.1 and the wildcard address, as IPv4 and IPv6, in both byte orders, as in /proc/net/tcp.
_ADDRESSES = (
    *("0100007F", "00000000", "7F000001"),
    *("0" * 32, "0000000000000000FFFF00000100007F", "00000000000000000000FFFF7F000001"),
)
HOST = "127.0.0.1"
LINE_LIMIT = 200
ANSWER_SECONDS = 5.0
OK = b"ok\n"
READY = b"ready"  # printed by the server when it is ready
_LOG_TAIL = 1500
_ENGINE_VARIABLES = (
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GGML_VK_VISIBLE_DEVICES",
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
    # Check every listener: the addresses decide which one gets the request.
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
    except OSError:  # ended, or not permitted
        pass
    return ""


# -- leases: connections that keep a shared model server running -----------------------------------------
# A server has a control port next to its HTTP port. A client process connects to it and keeps the connection
# open: that is its lease. When the process ends, in whatever way, the system closes the connection, and a
# server without leases exits after a while. The greeting proves that the listener is the server in the state
# file: a stale state file, a reused port or a reused process id has no effect.
#
# 1. server: ``pal1 PROOF``, a hash of the key
# 2. client: the key
# 3. server: ``ok``; the lease is now held


@dataclass(frozen=True, slots=True)
class State:
    """Connection data of a running server, in a file that only its user can read.

    Args:
        url: URL of the server, without ``/v1``.
        key: The API key, which the control port requires too.
        parameters: Size of the model in parameters; 0 if unknown.
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
    new = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(asdict(state), file)
    new.replace(path)


def read_state(path: Path) -> State | None:
    """Return the state in a file, or None if it is missing or invalid."""
    try:
        return State(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


class Lease:
    """A connection that keeps a server running, until `release` or the end of the process."""

    def __init__(self, state: State, connection: socket.socket) -> None:
        self.state = state
        self._connection = connection

    def release(self) -> None:
        """Release the server. A second call does nothing."""
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


# -- start or join the model server that all processes of a user share per model file --------------------


@dataclass(frozen=True, slots=True)
class StartSettings:
    """Start settings of a server.

    Args:
        idle: Seconds that it runs without a lease. Ignored when joining a running server.
    """

    context: int = 4096
    idle: float = 60.0
    start_timeout: float = 300.0


def check_engine() -> None:
    """Raise `MissingExtraError` if the engine is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtraError(notice("library.feature_model"), "local")


def join_server(model: Path, on_progress: Progress = quiet, settings: StartSettings | None = None) -> Lease:
    """Join the running server of a model file, or start one.

    Args:
        model: A GGUF file.
        on_progress: Called with short progress messages.
        settings: Start settings.

    Returns:
        A lease; the server runs while it is held.

    Raises:
        ConfigError: The file is missing or is not a GGUF file.
        MissingExtraError: The engine is not installed.
        LLMError: The server did not start.
    """
    settings = settings or StartSettings()
    if not model.is_file():
        raise ConfigError(notice("library.model_file_missing", path=model))
    if not is_gguf(model):
        raise ConfigError(notice("library.not_gguf", path=model))
    check_engine()  # even if a running server could be joined
    base = private_folder(data_folder() / "servers") / _identity(model, settings)
    state = base.with_suffix(".json")
    lease = take_lease(read_state(state))
    if lease is None:
        with file_lock(base.with_suffix(".lock")):
            # Another process may have started it while this one waited for the lock.
            lease = take_lease(read_state(state)) or _start(model, base, on_progress, settings)
    on_progress(notice("library.server_ready", model=model.stem, process=lease.state.pid))
    return lease


def _identity(model: Path, settings: StartSettings) -> str:
    """Return a name for the file's content, so that a replaced file gets a new server."""
    real = model.resolve()
    status = real.stat()
    text = f"{real}|{status.st_size}|{status.st_mtime_ns}|{settings.context}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _start(model: Path, base: Path, on_progress: Progress, settings: StartSettings) -> Lease:
    on_progress(notice("library.starting", model=model.stem, size=f"{model.stat().st_size / 1e6:.0f}"))
    log = base.with_suffix(".log")
    ready = _launch(_command(model, base.with_suffix(".json"), settings), log, settings.start_timeout)
    lease = take_lease(read_state(base.with_suffix(".json"))) if ready else None
    if lease is None:
        raise LLMError(notice("library.local_not_started", tail=_tail(log)), kind="not_found")
    return lease


def _command(model: Path, state: Path, settings: StartSettings) -> list[str]:
    words = (
        str(model.resolve()),
        str(state),
        "--context",
        str(settings.context),
        "--idle",
        str(settings.idle),
    )
    return module_argv("pure_agent_loop.local.engine.server", *words, needs=["xllamacpp"])


def _launch(command: list[str], log: Path, timeout: float) -> bool:
    """Start the process; True when it is ready, False if it ended first."""
    with log.open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603 - a module of this package
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=log.parent,
            env=child_environment(*_ENGINE_VARIABLES),
            **_detached(),
        )
    watch = threading.Timer(timeout, process.kill)
    watch.daemon = True
    watch.start()
    assert process.stdout is not None  # stdout=PIPE above
    with process.stdout as pipe:
        ready = any(line.strip() == READY for line in pipe)
    watch.cancel()
    # If the server ends before this process, its exit code must be collected.
    threading.Thread(target=process.wait, name="local-model-server", daemon=True).start()
    return ready


def _detached() -> dict[str, Any]:
    """Return options that keep the starter's Ctrl-C from the shared server."""
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
        return {"creationflags": flags | subprocess.BELOW_NORMAL_PRIORITY_CLASS}
    return {"start_new_session": True}


def _tail(log: Path) -> str:
    try:
        text = log.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        text = ""
    return f"The end of its log ({log}):\n{text[-_LOG_TAIL:]}" if text else f"Its log is empty ({log})."
