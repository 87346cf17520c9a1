"""For every test: an environment without keys, asyncio only, and no way to a remote host."""

from __future__ import annotations

import gc
import ipaddress
import os
import signal
import socket
import sys

import pytest
from hypothesis import settings

from pure_agent_loop.llm.http.choice import HTTP_VARIABLE
from tests.postgres_server import PostgresServer
from tests.short_places import use_short_places

pytest_plugins = ["tests.reruns", "tests.sampling"]
NETWORK_FLAG = "PAL_TESTS_NETWORK"
TRANSPORTS = {"fast": "", "default": "httpx"}  # with aiohttp installed, and as if it were not
_FOREIGN = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "PAL_LANG")


def _is_local(host: object) -> bool:
    if not isinstance(host, str) or host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        pass
    try:  # the system reads 127.1, too
        return ipaddress.ip_address(socket.inet_aton(host)).is_loopback
    except OSError:
        return False


def _watch_sockets(event: str, args: tuple[object, ...]) -> None:
    if event == "socket.connect" and isinstance(args[1], tuple):
        host = args[1][0]
    elif event == "socket.getaddrinfo":
        host = args[0]
    else:
        return
    if not _is_local(host):
        raise RuntimeError(f"A test tried to reach {host!r}. Set {NETWORK_FLAG}=1 to allow that.")


# The same examples each time, however slow the machine; HYPOTHESIS_PROFILE=default looks for new ones.
settings.register_profile("steady", derandomize=True, database=None, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

use_short_places()

# A shell starts background jobs deaf to Ctrl-C, and what the tests start would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if not os.environ.get(NETWORK_FLAG):
    sys.addaudithook(_watch_sockets)


def pytest_collection_finish():
    """What 13,000 tests are made of stays: each collection of garbage would look through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(params=TRANSPORTS)
def transport(request, monkeypatch):
    """Each of the two libraries that requests travel through, in force for one test."""
    monkeypatch.setenv(HTTP_VARIABLE, TRANSPORTS[request.param])
    return TRANSPORTS[request.param]


@pytest.fixture(scope="session")
def postgres():
    """A real PostgreSQL, one for each process of tests. What is not durable stays in its memory for long."""
    with PostgresServer(settings={"wal_writer_delay": "10s"}) as server:
        yield server


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for name in _FOREIGN:
        monkeypatch.delenv(name, raising=False)
