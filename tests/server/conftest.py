"""Real servers as processes, and real clients."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests import forked
from websockets.sync.client import ClientConnection, connect

from pure_agent_loop.testing import ScriptedServer

PROGRAM = Path(__file__).parent / "serving_program.py"
OWNER = "owner-token-0123456789"


class Server(forked.Popen):
    """A process that has the libraries of a server in memory at its start."""

    rooms = (*forked.ROOMS, "server", "server.serving", "audit", "snapshots")


class ServerProcess:
    """A server, its folder and its model; it can be killed and started again."""

    def __init__(self, folder: Path, model: str, **about: Any) -> None:
        self.folder, self.model = folder, model
        self._about = {"people": {}, "limits": {}, **about}
        self.port = 0
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> ServerProcess:
        given = {"folder": str(self.folder), "model": self.model, "port": self.port, **self._about}
        with (self.folder / "stderr").open("a") as errors:
            self.process = Server(
                [sys.executable, "-W", "error", str(PROGRAM), json.dumps(given)],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=Path(__file__).parents[2],
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.folder / "stderr").read_text()
        self.port = int(line)
        return self

    def kill(self, number: int = signal.SIGKILL) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Wait until it has ended."""
        assert self.process is not None
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, token: str = OWNER, **headers: str) -> httpx2.Client:
        who = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx2.Client(base_url=self.url, headers={**who, **headers}, timeout=60)

    def socket(self, token: str = OWNER, queue: int | None = None) -> ClientConnection:
        headers = {"Authorization": f"Bearer {token}"}
        return connect(
            f"ws://127.0.0.1:{self.port}/ws", additional_headers=headers, max_queue=queue, max_size=None
        )

    def effects(self) -> list[str]:
        path = self.folder / "effects"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """A function that starts a server on a script."""
    started: list[ServerProcess] = []
    models: list[ScriptedServer] = []

    def start(script: Any = None, **about: Any) -> ServerProcess:
        given = {"handler": script} if callable(script) else {"script": script or []}
        model = ScriptedServer(**given, strict=False)
        models.append(model)
        model.__enter__()
        server = ServerProcess(tmp_path_factory.mktemp("server"), model.base_url, **about)
        started.append(server)
        return server.start()

    yield start
    for server in started:
        if server.process is not None:
            server.kill()
    for model in models:
        model.__exit__(None, None, None)
    for server in started:
        errors = (server.folder / "stderr").read_text()
        assert "Traceback" not in errors, errors


@pytest.fixture(scope="module")
def browser():
    from tests.server.browser import chromium  # it knows the servers of this file

    with chromium() as found:
        yield found


@pytest.fixture
def visit(browser):
    """A function that has somebody visit a server; at the end nothing may have gone wrong on the page."""
    from tests.server.browser import Visit

    visits: list[Any] = []

    def begin(server, **about):
        visits.append(Visit(browser, server, **about))
        return visits[-1].enter()

    yield begin
    for each in visits:
        each.close()


def sse(response: httpx2.Response, until: int | None = None) -> list[dict[str, Any]]:
    """The events of a stream until it ends, or so many of them."""
    found, name = [], ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            found.append({"control": name, **json.loads(line[6:])} if name else json.loads(line[6:]))
            if until is not None and len(found) >= until:
                break
        elif not line:
            name = ""
    return found


def events_of(
    client: httpx2.Client, run: str, after: int = 0, until: int | None = None
) -> list[dict[str, Any]]:
    """What a client gets that comes back with a number, without controls."""
    headers = {"Last-Event-ID": str(after)} if after else {}
    with client.stream("GET", f"/api/runs/{run}/events", headers=headers) as response:
        if response.status_code == 204:
            return []
        assert response.status_code == 200, response.read()
        return [each for each in sse(response, until) if "control" not in each]


def transcript(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What a view shows that is put together from events, by the rules of docs/server.md."""
    shown: list[tuple[str, str]] = []
    texts: dict[int, str] = {}
    calls: dict[str, int] = {}
    for event in events:
        data, kind = event["data"], event["type"]
        if kind == "run_start":
            texts.clear()
            if data["task"]:
                shown.append(("task", data["task"]))
        elif kind == "thought":
            entry = ("answer", data["content"])
            if event["step"] in texts:  # the run goes on in this step: it is the same answer
                continue
            texts[event["step"]] = data["content"]
            if data["content"] and entry not in shown[-1:]:
                shown.append(entry)
        elif kind == "action" and data["call_id"] not in calls:
            calls[data["call_id"]] = len(shown)
            shown.append(("call", data["tool"]))
        elif kind == "observation" and ("result", data["call_id"]) not in calls:
            calls["result", data["call_id"]] = 1
            shown.append(("result", data["tool"]))
    return shown
