"""A real Restate server, and processes that serve agents to it; both may be killed and started again.

The server is the program that ``make engines`` installs into ``.servers``. It keeps its data in a folder of
its own, listens on loopback only, and ends with this process.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.serving import free_port

from pure_agent_loop.llm.messages import to_keep

if TYPE_CHECKING:
    from typing_extensions import Self

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / ".servers" / "restate" / "node_modules" / "@restatedev"
SETTINGS = {
    "RESTATE_DISABLE_TELEMETRY": "true",
    "RESTATE_DEFAULT_NUM_PARTITIONS": "1",
    "RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE": "32MB",
    "RUST_LOG": "warn",
}
SECONDS = 60
WITHOUT_ASK = "a version without the agent that asks"
_PR_SET_PDEATHSIG = 1


def server_program() -> Path | None:
    """Return the server's program; None if it is not installed."""
    return next(PROGRAMS.glob("restate-server-*/bin/restate-server"), None)


def end_with_parent() -> None:
    """Let the system kill this process when the one that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def request(url: str, body: Any = None, method: str = "", *, timeout: float = SECONDS) -> Any:
    """Send JSON and return the JSON of the reply; an error of the server is returned as (status, text)."""
    data = None if body is None else json.dumps(body).encode()
    about = {} if data is None else {"content-type": "application/json"}
    asked = urllib.request.Request(url, data, about, method=method or ("GET" if data is None else "POST"))
    try:
        with urllib.request.urlopen(asked, timeout=timeout) as reply:
            text = reply.read()
            return json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class RestateServer:
    """The server, on the same folder and ports after each start.

    Args:
        folder: An empty folder for its data.
        settings: Further variables, such as ``RESTATE_WORKER__INVOKER__INACTIVITY_TIMEOUT``.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder, self.kills = folder, 0
        ports = {name: free_port() for name in ("INGRESS__", "ADMIN__", "")}
        self.ingress, self.admin = (f"http://127.0.0.1:{ports[name]}" for name in ("INGRESS__", "ADMIN__"))
        binds = {f"RESTATE_{name}BIND_ADDRESS": f"127.0.0.1:{port}" for name, port in ports.items()}
        self._environment = {**os.environ, **SETTINGS, **binds, **settings}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = server_program()
        assert program is not None, "make engines installs the server"
        self._log = (self.folder / "server.log").open("ab")
        self._process = subprocess.Popen(
            [program, "--base-dir", "data", "--node-name", "n1"],
            cwd=self.folder,
            env=self._environment,
            stdout=self._log,
            stderr=self._log,
            preexec_fn=end_with_parent,
        )
        self.wait_until(lambda: request(f"{self.admin}/health") is None)
        self.wait_until(lambda: not isinstance(request(f"{self.ingress}/restate/health"), tuple))

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._log.close()

    def wait_until(self, is_done: Any, seconds: float = SECONDS) -> None:
        """Ask until something is true; a server that is starting refuses connections."""
        give_up = time.monotonic() + seconds
        while True:
            try:
                if is_done():
                    return
            except OSError:
                pass
            assert time.monotonic() < give_up, (self.folder / "server.log").read_text()[-3000:]
            time.sleep(0.02)

    # -- what a user does by curl ---------------------------------------------------------------------------

    def register(self, uri: str, **fields: Any) -> None:
        reply = request(f"{self.admin}/deployments", {"uri": uri, **fields})
        assert not isinstance(reply, tuple), reply

    def call(self, session: str, handler: str, body: Any = None, **options: Any) -> Any:
        return request(f"{self.ingress}/PalSession/{session}/{handler}", body, "POST", **options)

    def send(self, session: str, **body: Any) -> str:
        """Begin a run, and return the id of its invocation."""
        return str(self.call(session, "run/send", body)["invocationId"])

    def outcome(self, invocation: str, *, timeout: float = SECONDS) -> Any:
        return request(f"{self.ingress}/restate/invocation/{invocation}/attach", timeout=timeout)

    def status(self, session: str) -> dict[str, Any]:
        status = self.call(session, "status")
        assert isinstance(status, dict), status
        return status

    def query(self, sql: str) -> list[dict[str, Any]]:
        asked = urllib.request.Request(
            f"{self.admin}/query",
            json.dumps({"query": sql}).encode(),
            {"content-type": "application/json", "accept": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=SECONDS) as reply:
            return list(json.loads(reply.read())["rows"])

    def cancel(self, invocation: str) -> None:
        """Cancel an invocation; one that has ended stays as it is."""
        request(f"{self.admin}/invocations/{invocation}/cancel", method="PATCH")

    def history(self, session: str) -> list[dict[str, Any]]:
        """Return the messages that a session keeps for its next run."""
        where = f"service_key = '{session}' AND key = 'session'"
        rows = self.query(f"SELECT value_utf8 FROM state WHERE {where}")
        return list(to_keep(json.loads(rows[0]["value_utf8"])["messages"]))

    def invocation(self, invocation: str) -> dict[str, Any]:
        """Return what the server holds about an invocation."""
        return self.query(f"SELECT * FROM sys_invocation WHERE id = '{invocation}'")[0]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
