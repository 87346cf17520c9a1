"""Client programs: environment variables, execution, and parsing of the output.

A program may print invalid output, crash, hang or print too much. Each of these is a result of the check, not
an error of the kit.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from llm_client_conformance.quirks import TOOLS, Outcome, OutcomeCall
from llm_client_conformance.scenes import KEY, PROTOCOLS, TASK, Scene
from llm_client_conformance.scripted.server import ScriptedServer
from llm_client_conformance.values import ERROR_KINDS, LLMError, TokenUsage

FIELDS = ("text", "calls", "error", "reasoning", "finish_reason", "usage")
_MOST = 16 << 20  # bytes of output after which a program is stopped
_KEPT = 1 << 20  # bytes at the end of the output that are read
_PATIENCE = 2.0  # seconds to wait for the output of a program that has ended
_running: set[subprocess.Popen[bytes]] = set()


class BadOutput(Exception):  # noqa: N818 - a judgement, not a failure
    """The program printed no result, or an invalid one. The message has the reason."""


def variables(scene: Scene, server: ScriptedServer, timeout: float) -> dict[str, str]:
    """Return the environment variables of a program in a scene.

    Args:
        scene: The scene.
        server: The running server of the scene.
        timeout: Seconds without data that the program should tolerate.
    """
    tools = [tool["function"] for tool in TOOLS]
    return {
        "CONFORMANCE_PROTOCOL": scene.protocol,
        "CONFORMANCE_BASE_URL": PROTOCOLS[scene.protocol].base_url(server),
        "CONFORMANCE_API_KEY": KEY,
        "CONFORMANCE_MODEL": scene.model,
        "CONFORMANCE_TASK": TASK,
        "CONFORMANCE_TOOLS": json.dumps(tools),
        "CONFORMANCE_RESULTS": json.dumps(scene.results) if scene.results else "",
        "CONFORMANCE_TIMEOUT": f"{timeout:g}",
    }


@dataclass(frozen=True)
class Ended:
    """Outcome of a program that has ended.

    Args:
        code: Exit status; None if the program was stopped at the deadline.
        output: End of the standard output.
        errors: End of the standard error.
        is_flood: True if the program was stopped because it printed too much.
    """

    code: int | None
    output: bytes
    errors: bytes
    is_flood: bool = False


class _Tail:
    """Reads a pipe in a thread, keeps the end of the output and counts all bytes."""

    def __init__(self, pipe: IO[bytes], stop: threading.Event) -> None:
        self._pipe, self._stop = pipe, stop
        self._pieces = bytearray()
        self.count = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while piece := os.read(self._pipe.fileno(), 1 << 16):
                self.count += len(piece)
                self._pieces += piece
                del self._pieces[:-_KEPT]
                if self.count > _MOST:
                    self._stop.set()
                    return

    def end(self) -> bytes:
        """Return the kept output, without waiting if a child of the program holds the pipe open."""
        self._thread.join(_PATIENCE)
        return bytes(self._pieces)


def run_program(command: Sequence[str], environment: Mapping[str, str], deadline: float) -> Ended:
    """Run a program until it ends, or stop it and its children at the deadline.

    Args:
        command: Program and arguments.
        environment: Additional environment variables.
        deadline: Seconds.

    Raises:
        OSError: The program cannot be started.
    """
    program = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        start_new_session=True,
    )
    _running.add(program)
    assert program.stdout is not None
    assert program.stderr is not None
    stop = threading.Event()
    output, errors = _Tail(program.stdout, stop), _Tail(program.stderr, stop)

    def wait() -> None:
        program.wait()
        stop.set()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    try:
        is_stopped = stop.wait(deadline)
        is_flood = max(output.count, errors.count) > _MOST
        code = program.poll() if is_stopped else None
    finally:
        _kill(program)
        _running.discard(program)
    waiting.join(_PATIENCE)
    return Ended(code, output.end(), errors.end(), is_flood)


def end_programs() -> None:
    """Stop all running programs."""
    for program in list(_running):
        _kill(program)


def _kill(program: subprocess.Popen[bytes]) -> None:
    """Stop a program and its children."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(program.pid, signal.SIGKILL)
    else:
        program.kill()


# -- reading of a result ---------------------------------------------------------------------------------


def result_of(output: bytes) -> tuple[Outcome | LLMError, frozenset[str]]:
    """Parse the last line of the output that is a result.

    Args:
        output: Standard output of a program.

    Returns:
        The outcome or the error, and the fields that the program does not report.

    Raises:
        BadOutput: No line is a result, or a field of the result is invalid.
    """
    for line in reversed(output.splitlines()):
        if not line.lstrip().startswith(b"{"):
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and value.keys() & set(FIELDS):
            return _read(value)
    raise BadOutput("no line of the output is a JSON object with a result")


def _read(value: Mapping[str, Any]) -> tuple[Outcome | LLMError, frozenset[str]]:
    error = value.get("error")
    if error is not None:
        if error not in ERROR_KINDS:
            raise BadOutput(f"error: {error!r:.60} is unknown, use one of: {', '.join(ERROR_KINDS)}")
        return LLMError(f"the program reported {error!r}", kind=error), frozenset()
    for name in ("text", "reasoning", "finish_reason"):
        if not isinstance(value.get(name), (str, type(None))):
            raise BadOutput(f"{name}: a text or null is required, not {value[name]!r:.60}")
    outcome = Outcome(
        value.get("text"),
        value.get("reasoning"),
        tuple(_calls(value.get("calls"))),
        value.get("finish_reason"),
        _usage(value.get("usage")),
    )
    return outcome, frozenset(name for name in FIELDS[3:] if name not in value)


def _calls(calls: Any) -> list[OutcomeCall]:
    if not isinstance(calls, (list, type(None))):
        raise BadOutput(f"calls: a list is required, not {calls!r:.60}")
    read = []
    for number, item in enumerate(calls or ()):
        arguments = item.get("arguments") if isinstance(item, dict) else "?"
        if not isinstance(arguments, (dict, type(None))) or not isinstance(item.get("name"), str):
            raise BadOutput(f"calls[{number}]: a name, and an object or null as arguments are required")
        read.append(OutcomeCall(str(item["id"]) if item.get("id") else None, item["name"], arguments))
    if not any("id" in item for item in calls or ()):  # the program does not report ids
        read = [item._replace(id=f"call {number}") for number, item in enumerate(read)]
    return read


def _usage(usage: Any) -> TokenUsage | None:
    if usage is None:
        return None
    sent, written = (usage.get(name) if isinstance(usage, dict) else None for name in ("input", "output"))
    if type(sent) is not int or type(written) is not int:
        raise BadOutput(f"usage: null, or an object with input and output is required, not {usage!r:.60}")
    return TokenUsage(sent, written, sent + written, estimated=bool(usage.get("estimated")))
