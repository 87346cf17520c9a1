"""A model server that nobody named gets the task only if it is this user's own, or the system's."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from pure_agent_loop.local.engine.detect import find_server
from pure_agent_loop.local.engine.owner import owner_of

SERVER = """
import http.server, json, os, socket, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"data": [{"id": "stranger"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.HTTPServer((sys.argv[2], 0), Handler, bind_and_activate=False)
server.server_close()
mine = os.geteuid()
os.seteuid(int(sys.argv[1]))  # a socket belongs to whoever made it
server.socket = socket.create_server((sys.argv[2], 0))
os.seteuid(mine)
print(server.socket.getsockname()[1], flush=True)
server.serve_forever()
"""
PERSON, SYSTEM = 4321, 987
ROOT = os.name == "posix" and os.getuid() == 0
# Only root can be several users; for others each case is their own, which must be safe.
USERS = [(PERSON, False), (SYSTEM, True), (65534, False), (0, True)] if ROOT else [(os.getuid(), True)]


@pytest.fixture
def serve():
    started = []

    def begin(user, host="127.0.0.1"):
        words = [sys.executable, "-c", SERVER, str(user), host]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd="/")
        started.append(process)
        return int(process.stdout.readline()), process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize(("user", "safe"), USERS)
def test_whose_a_server_is(serve, user, safe, host):
    port, process = serve(user, host)
    refused = []
    found = asyncio.run(find_server({"Ollama": port}, 5.0, on_refusal=refused.append))
    if safe:
        assert found is not None
        assert str(process.pid) in found.owner
        assert refused == []
    else:
        assert found is None
        assert len(refused) == 1
        assert f"127.0.0.1:{port}" in refused[0]
        named = asyncio.run(find_server({"": port}, 5.0, named=True))
        assert named is not None
        assert named.model == "stranger"


def test_unknown_owner_is_not_safe():
    assert not owner_of(1).is_safe
