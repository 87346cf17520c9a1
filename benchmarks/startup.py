"""Measure the start: CPU and wall time from exec until a result appears.

    python -m benchmarks.startup [--rounds 9]

Each row is a process of its own that is killed at its moment, so later work is not counted:

- an import: the process ends after the import
- ``pal --help``: the process ends
- ``pal -p``: the request has arrived at a server on this machine
- ``pal``: the prompt is shown on the terminal

CPU is user and system time of the process with all its threads and the processes it has waited for, as the
system counts it. The rows take turns for some rounds, and each figure is the median of them; the first round
writes the bytecode, into a folder of its own, and does not count. `over` is what is left without bare Python.
Below the table: an agent with 20 tools, built in a process that has done so before. Linux and macOS.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import select
import signal
import socket
import statistics
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE = 300.0
PAL = ("-c", "import sys; from pure_agent_loop.cli import main; sys.exit(main())")  # as its script does
PROMPT = "\x1b[?2004h"  # the line editor has begun to read
ENTRY = ">"
MS, TOOLS = 1000.0, 20
KEPT = ("PATH", "HOME", "LANG", "PYTHONPATH")


@dataclass
class Row:
    """One way to start.

    Args:
        name: Name in the table.
        words: The command line, after Python.
        until: The event to wait for: ``end``, ``request`` or ``prompt``.
        cpu: CPU seconds of each round.
        wall: Wall seconds of each round.
    """

    name: str
    words: tuple[str, ...]
    until: str = "end"
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


def rows() -> list[Row]:
    """Return the rows to measure, bare Python first."""
    agent = "from pure_agent_loop import Agent, tool"
    return [
        Row("bare Python", ("-c", "pass")),
        Row("`import pure_agent_loop`", ("-c", "import pure_agent_loop")),
        Row(f"`{agent}`", ("-c", agent)),
        Row("`import openai`", ("-c", "import openai")),
        Row("`pal --help`", (*PAL, "--help")),
        Row("`pal run --help`", (*PAL, "run", "--help")),
        Row("`pal -p`, until its request arrives", (*PAL, "-p", "Hello"), "request"),
        Row("`pal`, until its prompt", PAL, "prompt"),
    ]


def measure(row: Row, env: Mapping[str, str], folder: Path) -> tuple[float, float]:
    """Start a row once.

    Args:
        row: What to start.
        env: Its environment.
        folder: Where.

    Returns:
        Seconds of CPU, and on the clock.

    Raises:
        RuntimeError: What is waited for did not come.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        env = {**env, "PAL_BASE_URL": address, "PAL_MODEL": "scripted", "PAL_API_KEY": "none"}
        begun = time.perf_counter()
        with _started(row, env, folder) as (pid, terminal):
            text = None
            try:
                text = _UNTIL[row.until](terminal, server)
                wall = time.perf_counter() - begun
            finally:
                if row.until != "end" or text is None:
                    # The process id stays reserved until the process was waited for.
                    os.kill(pid, signal.SIGKILL)
                _, status, usage = os.wait4(pid, 0)
    if (row.until == "end" and status) or text is None:
        raise RuntimeError(f"{row.name}: {text}")
    return usage.ru_utime + usage.ru_stime, wall


@contextlib.contextmanager
def _started(row: Row, env: Mapping[str, str], folder: Path) -> Iterator[tuple[int, int]]:
    """Start a process at a new terminal without forking this one; return it and our side of the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, b"\x18\x00\x50\x00\x00\x00\x00\x00")  # 24 rows, 80 columns
    streams = [(os.POSIX_SPAWN_DUP2, theirs, number) for number in range(3)]
    here = Path.cwd()
    os.chdir(folder)
    try:
        pid = os.posix_spawn(
            sys.executable, [sys.executable, *row.words], dict(env), file_actions=streams, setsid=True
        )
    finally:
        os.chdir(here)
        os.close(theirs)
    try:
        yield pid, ours
    finally:
        os.close(ours)


def _shown(terminal: int, wanted: str | None) -> str | None:
    """Read the output until a text appears or the output ends; return None if the text did not appear."""
    shown = ""
    while select.select([terminal], [], [], PATIENCE)[0]:
        try:
            shown += os.read(terminal, 65_536).decode("utf-8", "replace")
        except OSError:  # the other side is closed
            break
        if wanted and wanted in shown and ENTRY in shown[shown.index(wanted) :]:
            return shown
    return shown if wanted is None else None


def _request(_: int, server: socket.socket) -> str | None:
    """Return the first bytes of the model request; answer other requests with 404."""
    server.settimeout(PATIENCE)
    while True:
        connection, _from = server.accept()
        with connection:
            head = connection.recv(65_536).decode("utf-8", "replace")
            if "/chat/completions" in head:
                return head
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


_UNTIL: dict[str, Callable[[int, socket.socket], str | None]] = {
    "end": lambda terminal, _: _shown(terminal, None),
    "request": _request,
    "prompt": lambda terminal, _: _shown(terminal, PROMPT),
}


def table(measured: Sequence[Row]) -> str:
    """Return the figures as Markdown."""
    bare = statistics.median(measured[0].cpu)
    lines = ["| | CPU ms | over bare Python | wall ms |", "|---|--:|--:|--:|"]
    for row in measured:
        cpu, wall = statistics.median(row.cpu), statistics.median(row.wall)
        lines.append(f"| {row.name} | {cpu * MS:.0f} | {(cpu - bare) * MS:.0f} | {wall * MS:.0f} |")
    return "\n".join(lines)


def agent_of(count: int) -> float:
    """Return the CPU seconds to build an agent of plain functions, in this process.

    Args:
        count: Number of functions.
    """
    from pure_agent_loop import Agent
    from pure_agent_loop.testing import ScriptedLLM

    def made(number: int) -> Callable[..., str]:
        def forecast(city: str, days: int = 1) -> str:
            """Forecast the weather.

            Args:
                city: Where.
                days: How many.
            """
            return f"{city} {days}"

        forecast.__name__ = f"forecast_{number}"
        return forecast

    functions, client = [made(number) for number in range(count)], ScriptedLLM([])
    begun = time.process_time()
    Agent(llm=client, tools=functions)
    return time.process_time() - begun


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="What starting costs.")
    parser.add_argument("--rounds", type=int, default=9, metavar="N")
    rounds: int = parser.parse_args(argv).rounds
    measured = rows()
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "work"
        folder.mkdir()
        env = {name: os.environ[name] for name in KEPT if name in os.environ}
        env |= {"PAL_HOME": f"{base}/home", "PYTHONPYCACHEPREFIX": f"{base}/pyc"}
        env |= {"TERM": "xterm-256color"}
        for number in range(rounds + 1):
            for row in measured:
                cpu, wall = measure(row, env, folder)
                if number:
                    row.cpu.append(cpu)
                    row.wall.append(wall)
    print(f"Python {sys.version.split()[0]}, {rounds} rounds, load {os.getloadavg()[0]:.1f}\n")
    print(table(measured))
    agent_of(TOOLS)  # loads the modules before the measurement
    times = sorted(agent_of(TOOLS) * MS for _ in range(4 * rounds))
    middle = statistics.median(times)
    print(f"\nAn agent with {TOOLS} tools, CPU ms: {middle:.1f} (the least: {times[0]:.1f})")


if __name__ == "__main__":
    main()
