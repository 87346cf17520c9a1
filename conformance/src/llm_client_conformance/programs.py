"""Client programs: the variables that one is given, the run of one, and the reading of what it prints.

A program may print rubbish, crash, hang or flood its output: each is a result, and none an error of the kit.
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
_MOST = 16 << 20  # bytes of output before a program is ended
_KEPT = 1 << 20  # bytes of its end that are read
_PATIENCE = 2.0  # seconds for the output of a program that has ended
_running: set[subprocess.Popen[bytes]] = set()


class BadOutput(Exception):  # noqa: N818 - a judgement, not a failure
    """Program printed no result, or a wrong one. The message says what was wrong."""


def variables(scene: Scene, server: ScriptedServer, timeout: float) -> dict[str, str]:
    """Return the environment variables of a program in a scene.

    Args:
        scene: The scene.
        server: Its server, running.
        timeout: Seconds of silence that the program should bear.
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
    """End of a program.

    Args:
        code: Exit status; None if it was ended at the deadline.
        output: End of its standard output.
        errors: End of its standard error.
        is_flood: Whether it was ended because it printed too much.
    """

    code: int | None
    output: bytes
    errors: bytes
    is_flood: bool = False


class _Tail:
    """Reader of a pipe in a thread; keeps the end and counts the rest."""

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
        """Return what was kept, without waiting for a pipe that a child of the program holds open."""
        self._thread.join(_PATIENCE)
        return bytes(self._pieces)


def run_program(command: Sequence[str], environment: Mapping[str, str], deadline: float) -> Ended:
    """Run a program to its end, or end it and its children at the deadline.

    Args:
        command: Program and arguments.
        environment: Further variables.
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
    """End all programs that are running."""
    for program in list(_running):
        _kill(program)


def _kill(program: subprocess.Popen[bytes]) -> None:
    """End a program and its children."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(program.pid, signal.SIGKILL)
    else:
        program.kill()


# -- reading of a result ---------------------------------------------------------------------------------


def result_of(output: bytes) -> tuple[Outcome | LLMError, frozenset[str]]:
    """Read the last line of the output that is a result.

    Args:
        output: Standard output of a program.

    Returns:
        The outcome or the error, and the fields that the program does not report.

    Raises:
        BadOutput: There is no such line, or one of its fields is invalid.
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
    if not any("id" in item for item in calls or ()):  # a program that does not report ids
        read = [item._replace(id=f"call {number}") for number, item in enumerate(read)]
    return read


def _usage(usage: Any) -> TokenUsage | None:
    if usage is None:
        return None
    sent, written = (usage.get(name) if isinstance(usage, dict) else None for name in ("input", "output"))
    if type(sent) is not int or type(written) is not int:
        raise BadOutput(f"usage: null, or an object with input and output is required, not {usage!r:.60}")
    return TokenUsage(sent, written, sent + written, estimated=bool(usage.get("estimated")))
