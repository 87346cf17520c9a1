"""One model server for each user and model file, shared by all their processes: start it, or join it."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import ConfigError, LLMError, MissingExtraError
from pure_agent_loop.local.engine.fetch import Progress, is_gguf, quiet
from pure_agent_loop.local.engine.lease import READY, Lease, read_state, take_lease
from pure_agent_loop.support.child import child_environment, module_argv
from pure_agent_loop.support.locking import file_lock
from pure_agent_loop.support.paths import data_folder, private_folder

_LOG_TAIL = 1500
_ENGINE_VARIABLES = (
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GGML_VK_VISIBLE_DEVICES",
)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server is started.

    Args:
        context: Tokens of context.
        idle: Seconds it stays without users. Does not matter when joining one that runs.
        start_timeout: Seconds it may take to load its model.
    """

    context: int = 4096
    idle: float = 60.0
    start_timeout: float = 300.0


def join_server(model: Path, on_progress: Progress = quiet, settings: ServerSettings | None = None) -> Lease:
    """Join the running server of a model file, or start one.

    Args:
        model: A GGUF file.
        on_progress: Called with short sentences.
        settings: How to start it.

    Returns:
        A lease; the server runs at least as long as it is held.

    Raises:
        ConfigError: There is no such file, or it is no GGUF file.
        MissingExtraError: The engine is not installed.
        LLMError: The server did not start.
    """
    settings = settings or ServerSettings()
    if not model.is_file():
        raise ConfigError(f"There is no model file {model}.")
    if not is_gguf(model):
        raise ConfigError(f"{model} is not a GGUF model file.")
    if importlib.util.find_spec("xllamacpp") is None:  # also where somebody else's server could be joined
        raise MissingExtraError("the embedded model", "local")
    base = private_folder(data_folder() / "servers") / _identity(model, settings)
    state = base.with_suffix(".json")
    lease = take_lease(read_state(state))
    if lease is None:
        with file_lock(base.with_suffix(".lock")):
            # Somebody else may have started it while we waited for the lock.
            lease = take_lease(read_state(state)) or _start(model, base, on_progress, settings)
    on_progress(f"Local model {model.stem}: server ready (process {lease.state.pid}).")
    return lease


def _identity(model: Path, settings: ServerSettings) -> str:
    """A name for this content of this file: one that was replaced gets a new server."""
    real = model.resolve()
    about = real.stat()
    text = f"{real}|{about.st_size}|{about.st_mtime_ns}|{settings.context}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _start(model: Path, base: Path, on_progress: Progress, settings: ServerSettings) -> Lease:
    on_progress(f"Starting the local model {model.stem} ({model.stat().st_size / 1e6:.0f} MB) ...")
    log = base.with_suffix(".log")
    ready = _launch(_command(model, base.with_suffix(".json"), settings), log, settings.start_timeout)
    lease = take_lease(read_state(base.with_suffix(".json"))) if ready else None
    if lease is None:
        raise LLMError(f"The local model server did not start. {_tail(log)}", kind="not_found")
    return lease


def _command(model: Path, state: Path, settings: ServerSettings) -> list[str]:
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
    """Start the process; True once it has said that it is ready, False if it ended before."""
    with log.open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own module
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
    assert process.stdout is not None  # asked for above
    with process.stdout as pipe:
        ready = any(line.strip() == READY for line in pipe)
    watch.cancel()
    # It outlives us or ends before us; in the second case somebody has to take its exit code.
    threading.Thread(target=process.wait, name="local-model-server", daemon=True).start()
    return ready


def _detached() -> dict[str, Any]:
    """The server is shared: Ctrl-C for the process that happened to start it is not meant for it."""
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
