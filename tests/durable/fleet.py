"""Real workers as processes of their own, with a scripted server as their model."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tests import forked

from pure_agent_loop.cli import main
from pure_agent_loop.durable import Engine
from pure_agent_loop.llm.messages import text_of
from pure_agent_loop.sessions import Record
from pure_agent_loop.testing import ScriptedServer, call

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


def next_answer(request: Any) -> Any:
    """The task says what is done: ``put 1, put 2`` calls twice, one after the other, and is done."""
    texts = [text_of(each["content"]) for each in request.messages if each["role"] == "user"]
    words = next(text for text in texts if not text.startswith("[Context")).split(", ")  # not the facts
    if words == ["beat"]:
        return "HEARTBEAT_OK"
    done = sum(1 for each in request.messages if each.get("tool_calls"))
    if done >= len(words):
        return f"Did {len(words)}."
    name, number = words[done].split()
    return call(name, n=int(number))


def name_of(lines: list[str]) -> str:
    """The name of a worker in the database."""
    found = re.search(r" worker (\S+) started: ", lines[-1])
    assert found, lines
    return found[1]


class Done(NamedTuple):
    """What a command said."""

    returncode: int
    stdout: str
    stderr: str


class Worker(forked.Popen):
    """A process that has the engine in memory at its start."""

    rooms = (*forked.ROOMS, "durable.worker", "durable.engine", "testing")


class Fleet:
    """One database, and workers on it."""

    def __init__(self, folder: Path, database: str = "") -> None:
        self.folder = folder
        self.database = database or f"sqlite:///{folder / 'd.sqlite'}"
        self.marks_path, self.gate = folder / "marks", folder / "gate"
        self.server = ScriptedServer(handler=next_answer)
        self.workers: list[subprocess.Popen[str]] = []

    def __enter__(self):
        self.server.start()
        self.engine = Engine(self.database)
        return self

    def __exit__(self, *_):
        for each in self.workers:
            each.kill()
            each.wait(PATIENCE)
            assert each.stderr is not None
            each.stderr.close()
        self.engine.close()
        self.server.close()
        self.server.assert_clean()

    @property
    def environment(self) -> dict[str, str]:
        source = str(ROOT / "src")
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([source, str(ROOT), str(self.folder)]),
            "PAL_HOME": str(self.folder / "home"),
            "PAL_DATABASE": self.database,
            "PAL_TEST_SERVER": self.server.base_url,
            "PAL_TEST_MARKS": str(self.marks_path),
            "PAL_TEST_GATE": str(self.gate),
        }

    def begin(
        self, *words: str, agents: str | None = "tests.durable.durable_agents:agents"
    ) -> subprocess.Popen[str]:
        """A worker, which has not said yet that it is ready."""
        which = [] if agents is None else ["--agents", agents]
        command = [sys.executable, "-m", "pure_agent_loop", "worker", *which, *words]
        worker = Worker(command, env=self.environment, cwd=self.folder, stderr=subprocess.PIPE, text=True)
        self.workers.append(worker)
        return worker

    def ready(self, worker: subprocess.Popen[str]) -> list[str]:
        """Its first lines, when it can take runs; the last one names it: see `name_of`."""
        assert worker.stderr is not None
        lines: list[str] = []
        while not lines or "queues" not in lines[-1]:
            lines.append(worker.stderr.readline())
            assert lines[-1], "".join(lines)
        threading.Thread(target=worker.stderr.read, daemon=True).start()  # or the pipe would fill up
        return lines

    def start(self, *words: str, agents: str = "tests.durable.durable_agents:agents") -> list[str]:
        """A worker that can take runs; its first lines."""
        return self.ready(self.begin(*words, agents=agents))

    def end(self, worker: subprocess.Popen[str], number: int = signal.SIGTERM) -> int:
        """Send a signal to a worker and wait for its end."""
        worker.send_signal(number)
        return worker.wait(PATIENCE)

    def marks(self) -> list[str]:
        return self.marks_path.read_text().splitlines() if self.marks_path.exists() else []

    def pal(self, *words: str) -> Done:
        """A command of the command line, in this process: the worker is in another one."""
        out, err, before = io.StringIO(), io.StringIO(), dict(os.environ)
        stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO())
        os.environ.update(self.environment)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(words)
        finally:
            sys.stdin = stdin
            os.environ.clear()
            os.environ.update(before)
        return Done(code, out.getvalue(), err.getvalue())

    def pal_json(self, *words: str) -> Any:
        done = self.pal(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def older(line: bytes, seconds: float) -> bytes:
    """The line of a record, as it would be if it had been written some seconds earlier."""
    record = Record.from_line(line)
    return replace(record, time=record.time - seconds).to_line().rstrip(b"\n")
