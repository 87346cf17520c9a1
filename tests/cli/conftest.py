"""Runs the real command in a process of its own, in an environment without keys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests import forked
from tests.cli.screens import Screen

from pure_agent_loop.testing import ScriptedServer

PATIENCE = 60
KEY, WRONG = "sk-right-0123456789", "sk-wrong-0123456789"
MODELS = ["gpt-4o-mini", "gpt-4o-mini-2024-07-18", "lasting-1", "lasting-2"]
_FOREIGN = ("PAL_", "OPENAI_", "NO_COLOR", "FORCE_COLOR", "PURE_AGENT_LOOP", "COLUMNS", "PYTHON")


class Pal:
    """The command with a clean environment and an empty working folder."""

    command = (sys.executable, "-m", "pure_agent_loop")

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "work"
        self.workspace.mkdir()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN) or k == "PYTHONPATH"}
        self.env["PAL_HOME"] = str(folder / "home")
        self.env["TERM"] = "xterm"

    def use(self, server) -> None:
        self.env.update(PAL_BASE_URL=server.base_url, PAL_MODEL="scripted")

    def __call__(self, *words: str, text: str | bytes = b"", **more: str) -> subprocess.CompletedProcess[str]:
        data = text.encode() if isinstance(text, str) else text
        argv, env = [*self.command, *words], {**self.env, **more}
        done = forked.run(argv, data, cwd=self.workspace, env=env, timeout=PATIENCE)
        out, err = done.stdout.decode(), done.stderr.decode()
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def start(self, *words: str, **options) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        options = {"args": [*self.command, *words], **pipes, **options}
        return forked.Popen(cwd=self.workspace, env=self.env, **options)


@pytest.fixture
def pal(tmp_path: Path) -> Pal:
    return Pal(tmp_path)


@pytest.fixture
def screen_class():
    """What a conversation is shown on."""
    return Screen


@pytest.fixture
def chat(pal, screen_class):
    """Opens a conversation on a script."""
    opened = []

    def open_chat(script, *words, **size):
        server = ScriptedServer(**script) if isinstance(script, dict) else ScriptedServer(script)
        opened.append(server.__enter__())
        pal.use(server)
        screen = screen_class(pal, *words, **size)
        opened.append(screen)
        screen.server = server
        if not words:
            screen.until("/ commands")
        return screen

    yield open_chat
    for each in reversed(opened):
        each.__exit__(None, None, None)


@pytest.fixture
def source(pal):
    (pal.workspace / "src").mkdir()
    (pal.workspace / "src" / "a.py").write_text("one\nlast\n")
    return pal.workspace / "src" / "a.py"


@pytest.fixture
def maker():
    """Run a server that lists models for the right key, and answers it; yield its URL and its requests."""
    requests: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(("GET", self.headers.get("Authorization", "")))
            if self._is_known():
                self._send(200, {"data": [{"id": model} for model in MODELS]})

        def _is_known(self) -> bool:
            is_known = self.headers.get("Authorization") == f"Bearer {KEY}"
            if not is_known:
                self._send(401, {"error": {"message": "no such key"}})
            return is_known

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(("POST", body["model"]))
            if not self._is_known():
                return
            message = {"role": "assistant", "content": "Hello from the maker."}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._send(200, {"id": "1", "model": body["model"], "choices": [choice]})

        def _send(self, status: int, body: dict) -> None:
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1", requests
    server.shutdown()
    server.server_close()
