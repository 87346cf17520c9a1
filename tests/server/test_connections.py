"""Connections on which nobody says who they are: they end, and there are only so many."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import socket
import subprocess
import sys

import pytest
from tests.server.conftest import OWNER

HEAD = b"GET /api/agents HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture(scope="module")
def server(serve):
    return serve([], head_seconds=1.0)


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"G",
        HEAD + b"X-Long: ",
        HEAD + b"Authorization: Bearer " + OWNER.encode() + b"\r\n\r\n" + HEAD,  # the second of two
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999\r\n\r\nx",  # answered before its end
    ],
)
def test_a_head_that_never_ends_ends_its_connection(server, begun):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(60)
        connection.sendall(begun)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(65536):
                received += data
        assert received.count(b"HTTP/1.1 408") == (b"\r\n\r\n" not in begun)


def test_a_slow_head_that_trickles_ends_too(server):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(0.1)
        ended = False
        for _ in range(600):
            with contextlib.suppress(TimeoutError):
                ended = connection.recv(65536).startswith(b"HTTP/1.1 408")
                break
            with contextlib.suppress(OSError):
                connection.sendall(b"G")
        assert ended


def test_request_with_a_token_is_answered_during_a_flood(tmp_path):
    """The process may open 256 files, and 300 connections say nothing."""
    (tmp_path / "flooded.py").write_text(
        "from pure_agent_loop import Agent\n"
        "agents = {'a': Agent(model='m', base_url='http://127.0.0.1:9/v1', api_key='x')}\n"
    )
    brought = "brought-by-the-operator-0123456789"
    about = {"PAL_SERVER_TOKEN": brought, "PAL_HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "pure_agent_loop", "serve", "--agents", "flooded:agents", "--port", "0"],
        env={**os.environ, **about},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
    )
    said = ""
    for line in process.stderr:  # ends with the process
        said += line
        if "full access" in line:
            break
    port = int(re.search(r"127.0.0.1:(\d+)", said)[1])
    with contextlib.ExitStack() as flood:
        for number in range(300):
            stranger = flood.enter_context(socket.create_connection(("127.0.0.1", port), 30))
            stranger.sendall(HEAD)
            if number % 60 == 0:
                assert asked(port, brought).startswith(b"HTTP/1.1 200")
        assert asked(port, brought).startswith(b"HTTP/1.1 200")
    process.terminate()
    said += process.communicate(timeout=60)[1]
    assert "serving http" in said
    assert brought not in said


def asked(port, token):
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(HEAD + f"Authorization: Bearer {token}\r\nConnection: close\r\n\r\n".encode())
        return connection.recv(65536)
