"""Start or join the model server that all processes of a user share for a model file."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import LLMError, MissingExtraError
from pure_agent_loop.local.engine.leases import Lease, read_state, take_lease
from pure_agent_loop.local.engine.models import Progress, checked_file, quiet
from pure_agent_loop.support.child import child_environment, module_argv
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.locking import file_lock

READY = b"ready"  # line that the server prints when it is ready
_LOG_TAIL = 1500
_ENGINE_VARIABLES = (
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GGML_VK_VISIBLE_DEVICES",
)


@dataclass(frozen=True, slots=True)
class StartSettings:
    """Start settings of a server.

    Args:
        idle: Seconds for which the server keeps running without a lease. Ignored if a running server is
            joined.
    """

    context: int = 4096
    idle: float = 60.0
    start_timeout: float = 300.0


def check_engine() -> None:
    """Raise `MissingExtraError` if the engine is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtraError(notice("library.feature_model"), "local")


def join_server(model: Path, on_progress: Progress = quiet, settings: StartSettings | None = None) -> Lease:
    """Join the running server for a model file, or start one.

    Args:
        model: A GGUF file.
        on_progress: Function called with short progress messages.
        settings: Start settings.

    Returns: A lease; the server runs while the lease is held.

    Raises:
        ConfigError: The file is missing or is not a GGUF file.
        MissingExtraError: The engine is not installed.
        LLMError: The server did not start.
    """
    settings = settings or StartSettings()
    checked_file(model)
    check_engine()  # the engine is required even if a running server could be joined
    base = private_folder(data_folder() / "servers") / _identity(model, settings)
    state = base.with_suffix(".json")
    lease = take_lease(read_state(state))
    if lease is None:
        with file_lock(base.with_suffix(".lock")):
            # Another process may have started the server while this one waited for the lock.
            lease = take_lease(read_state(state)) or _start(model, base, on_progress, settings)
    on_progress(notice("library.server_ready", model=model.stem, process=lease.state.pid))
    return lease


def _identity(model: Path, settings: StartSettings) -> str:
    """Return a name for the file's current version and the context size; each gets its own server."""
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
    """Start the process; return True when the server is ready, False if the process ended first."""
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
    assert process.stdout is not None  # because of stdout=PIPE above
    with process.stdout as pipe:
        ready = any(line.strip() == READY for line in pipe)
    watch.cancel()
    # If the server ends before this process does, this process must collect the server's exit code.
    threading.Thread(target=process.wait, name="local-model-server", daemon=True).start()
    return ready


def _detached() -> dict[str, Any]:
    """Return options that keep Ctrl-C in the starting process from reaching the shared server."""
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
