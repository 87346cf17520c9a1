"""`pal serve` on a database, with its child and a scripted model, as processes of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

from tests.server.conftest import OWNER

from pure_agent_loop.durable import Engine
from pure_agent_loop.testing import ScriptedServer, call

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
PAL = [sys.executable, "-m", "pure_agent_loop"]


def next_answer(request):
    how = request.messages[-1]
    if how["role"] == "tool" or how["content"] == "live":
        return "alive"
    return call("die", how=how["content"])


class Page:
    """A `pal serve` with its child."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.database = f"sqlite:///{folder / 'runs.sqlite'}"
        self.model = ScriptedServer(handler=next_answer, strict=False)
        self.model.start()
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "PAL_HOME": str(folder / "home"),
            "PAL_SERVER_TOKEN": OWNER,
            "PAL_TEST_SERVER": self.model.base_url,
            "PAL_TEST_FOLDER": str(folder),
        }
        agents = [
            "--agents",
            "tests.server.dying_agents:agents",
            "--deps",
            "tests.server.dying_agents:make_deps",
        ]
        self.process = subprocess.Popen(
            [*PAL, "serve", "--port", "0", "--database", self.database, *agents, *words],
            env=self.environment,
            cwd=folder,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._heard = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self.until(r"http://127\.0\.0\.1:\d+")[0]
        self.engine = Engine(self.database)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._heard:
                self.lines.append(line)
                self._heard.notify_all()

    def until(self, pattern: str, *, after: int = 0) -> re.Match[str]:
        """Wait for a line of the log."""

        def found() -> re.Match[str] | None:
            matches = (re.search(pattern, line) for line in self.lines[after:])
            return next((match for match in matches if match), None)

        with self._heard:
            assert self._heard.wait_for(found, PATIENCE), "".join(self.lines)
        match = found()
        assert match is not None
        return match

    def worker(self, after: int = 0) -> int:
        """The pid of the child, when it is ready."""
        return int(self.until(r"worker \S+-(\d+)-\w+ started", after=after)[1])

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
        self.engine.close()
        self.model.close()
