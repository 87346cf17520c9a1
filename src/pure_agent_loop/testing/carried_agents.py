"""Agents for the processes of an engine under test, which kill themselves at points that the test chooses."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.testing.killed_work import KILL
from pure_agent_loop.testing.llm import ScriptedLLM
from pure_agent_loop.testing.script import answer, call
from pure_agent_loop.tool import tool

# Names of functions that write; `do_commit` is SQLAlchemy's.
_WRITES = ("append", "append_all", "change", "change_many", "transaction", "do_commit")
CHANGED = "changed"  # if this file exists, new processes use other agents and append their pid to it
_TASK = re.compile(r"(\d+) calls in rounds of (\d+) for (\w+)")


def carrier_agents(folder: str) -> Mapping[str, Agent]:
    """Return the agents that the processes of an engine under test execute.

    Args:
        folder: Folder that `carrier_contract` gave to `make_carrier`.
    """
    switch = _KillSwitch(Path(folder))
    switch.watch()

    @tool
    def put(run: str, n: int) -> str:
        """Record an effect."""
        switch.count()
        _write_line(Path(folder) / "effects", f"{run} {n} {os.getpid()}")
        switch.count()
        return f"put {n}"

    @tool
    def hold(run: str, n: int) -> str:
        """Record an effect, and wait until the test opens the gate."""
        put.function(run, n)
        while not (Path(folder) / "gate").exists():
            time.sleep(0.05)
        return f"put {n}"

    @tool
    def other() -> str:
        """Do nothing."""
        return ""

    about: dict[str, Any] = {"tools": [put, hold]}
    if (Path(folder) / CHANGED).exists():
        _write_line(Path(folder) / CHANGED, str(os.getpid()))
        about = {"tools": [other, put, hold], "system_prompt": "The code has changed."}
    limits = LoopLimits(max_steps=10_000, max_tool_calls=100_000)
    model = ScriptedLLM(_next_answer, strict=False)
    return {
        "put": Agent(llm=model, limits=limits, **about),
        "ask": Agent(llm=model, limits=limits, permission_mode="ask", **about),
    }


def _next_answer(messages: list[dict[str, Any]], tools: Any, options: Any) -> Any:  # noqa: ARG001 - a script
    """Return the next round of calls or, after the last round, the results that the model got, as JSON."""
    texts = [str(message["content"]) for message in messages if message["role"] == "user"]
    task = _TASK.search(texts[-1])
    assert task, texts
    number, width, name = int(task[1]), int(task[2]), task[3]
    start = max(at for at, message in enumerate(messages) if message["role"] == "user")
    done = [message for message in messages[start:] if message["role"] == "tool"]
    if len(done) >= number:
        return json.dumps([str(message["content"]) for message in done])
    run = texts[-1].partition(":")[0]
    return answer(
        *(call(name, run=run, n=len(done) + more) for more in range(min(width, number - len(done))))
    )


class _KillSwitch:
    """Kills this process at the point whose number the test has written to a file, after deleting that file.

    Points are the beginning and the end of each function that writes, in any thread, and the moments before
    and after an effect.
    """

    def __init__(self, folder: Path) -> None:
        self._order, self._killed, self._points = folder / "kill", folder / "killed", folder / "points"
        self._count = 0
        self._lock = threading.Lock()
        _write_line(folder / "pids", str(os.getpid()))

    def watch(self) -> None:
        """Start counting the writes of this thread and of all threads started later."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def count(self) -> None:
        """If the test has ordered a kill, count a point, and kill the process at the ordered point."""
        if not self._order.exists():
            self._count = 0
            return
        with self._lock:
            try:
                number = int(self._order.read_text())
            except (OSError, ValueError):
                self._count = 0
                return
            self._count += 1
            (points := self._points.with_suffix(f".{os.getpid()}")).write_text(str(self._count))
            points.replace(self._points)  # atomically: the test may be reading the file
            if self._count >= number:
                self._order.unlink()
                _write_line(self._killed, str(os.getpid()))
                os.kill(os.getpid(), KILL)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "return") and frame.f_code.co_name in _WRITES and _is_write(frame):
            self.count()


def _is_write(frame: FrameType) -> bool:
    """Return True if a frame writes to a session's log or to the database, except in heartbeat threads."""
    owner, name = frame.f_locals.get("self"), frame.f_code.co_name
    is_write = name == "do_commit" or hasattr(
        owner, "session_id" if name.startswith("append") else "runs_table"
    )
    return is_write and not threading.current_thread().name.startswith("pal-")


def _write_line(path: Path, line: str) -> None:
    """Append a line that survives a kill."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)
