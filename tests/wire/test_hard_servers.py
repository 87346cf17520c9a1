"""Servers that say too much, or take too little; the same whichever way requests transport."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import select
import socket
import stat
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep

import pytest
import uvloop

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.testing import ScriptedServer
from tests.toolbox.web import certificate

from .talk import HI, ask, client_of, get_answer, get_error, run

LONG = 30_000_000  # characters: more than what lies between two programs holds


@contextmanager
def talking(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server on whose connections `talk` is called, each in a thread; gives the port."""
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    connections: list[socket.socket] = []

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            talk(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connections.append(listening.accept()[0])
                threads.append(threading.Thread(target=one, args=(connections[-1],)))
                threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join()
        for connection in connections:
            with suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RDWR)  # ends `recv`, should a failed test keep its client
        for thread in threads:
            thread.join()


def head_of(connection: socket.socket) -> bytes:
    """The head of a request, and what came of its body; empty at the end."""
    data = b""
    while b"\r\n\r\n" not in data and (more := connection.recv(65_536)):
        data += more
    return data


def taken(connection: socket.socket, read: Callable[[int], bytes] | None = None) -> bytes:
    """The head of a request whose body has come, too; empty at the end."""
    head, _, body = head_of(connection).partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.I)
    left = int(length[1]) - len(body) if length is not None else 0
    while left > 0 and (more := (read or connection.recv)(65_536)):
        left -= len(more)
    return head


def answer(text: str) -> bytes:
    """An answer in one piece."""
    body = json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode()
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )


# -- too much --------------------------------------------------------------------------------------


def test_immediate_second_response_is_discarded(transport):
    seen = []

    def talk(connection: socket.socket) -> None:
        while request := taken(connection):
            seen.append(request)
            connection.sendall(answer(f"answer {len(seen)}") + answer("of another request"))

    with talking(talk) as port:
        client = client_of(f"http://127.0.0.1:{port}/v1")

        async def work() -> list[str | None]:
            return [(await ask(client)).content for _ in range(3)]

        assert run(client, work) == ["answer 1", "answer 2", "answer 3"]


def test_late_second_response_is_discarded(transport):
    seen, was_read, is_sent = [], threading.Event(), threading.Event()

    def talk(connection: socket.socket) -> None:
        while request := taken(connection):
            seen.append(request)
            connection.sendall(answer(f"answer {len(seen)}"))
            was_read.wait(60)
            connection.sendall(answer("of another request"))
            is_sent.set()

    with talking(talk) as port:
        client = client_of(f"http://127.0.0.1:{port}/v1")

        async def work() -> list[str | None]:
            first = (await ask(client)).content
            was_read.set()
            await asyncio.to_thread(is_sent.wait, 60)
            # The event loop has read it, too, when it knows of a connection that came behind it.
            _, other = await asyncio.open_connection("127.0.0.1", port)
            other.close()
            return [first, (await ask(client)).content]

        assert run(client, work) == ["answer 1", "answer 2"]


# -- too little ------------------------------------------------------------------------------------


@pytest.fixture
def deaf():
    """The port of a server that takes no more than the head of a request, and what is set when it has."""
    has_head, may_go = threading.Event(), threading.Event()

    def talk(connection: socket.socket) -> None:
        head_of(connection)
        has_head.set()
        may_go.wait(60)

    with talking(talk) as port:
        try:
            yield port, has_head
        finally:
            may_go.set()


def test_a_long_request_that_is_not_taken_ends_in_time(transport, deaf):
    client = client_of(f"http://127.0.0.1:{deaf[0]}/v1", timeout=1)
    assert get_error(client, messages=[{"role": "user", "content": "x" * LONG}]).kind == "timeout"


def test_a_long_request_that_is_taken_slowly_is_sent(transport):
    """The limit is for a piece, not for all of it."""

    def talk(connection: socket.socket) -> None:
        def slowly(size: int) -> bytes:
            nonlocal came
            data = connection.recv(size)
            came += len(data)
            if came > LONG // 10:
                sleep(0.4)  # it is slow
                came = 0
            return data

        came = 0
        if taken(connection, slowly):
            connection.sendall(answer("hello"))

    with talking(talk) as port:
        client = client_of(f"http://127.0.0.1:{port}/v1", timeout=3)
        assert get_answer(client, messages=[{"role": "user", "content": "x" * LONG}]).content == "hello"


def connections_to(port: int) -> list[bool]:
    """Those of this process that are open, client sides only: whether more can be sent over them."""
    found = []
    for path in Path("/dev/fd").iterdir():
        number = int(path.name)
        with suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as each:
                if each.family == socket.AF_INET and each.getpeername()[1] == port:
                    poll = select.poll()
                    poll.register(each, select.POLLOUT)
                    found.append(bool(poll.poll(0)))
    return found


def test_a_long_request_that_is_stopped_keeps_no_connection(transport, deaf):
    port, has_head = deaf
    client = client_of(f"http://127.0.0.1:{port}/v1")

    async def work() -> list[bool]:
        task = asyncio.create_task(ask(client, messages=[{"role": "user", "content": "x" * LONG}]))
        await asyncio.to_thread(has_head.wait, 60)
        while connections_to(port) != [False]:  # until all that lies between the two is full
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await client.aclose()
        for _ in range(5):  # what is called soon
            await asyncio.sleep(0)
        return connections_to(port)

    assert run(client, work) == []


# -- event loops -----------------------------------------------------------------------------------


@pytest.fixture
def collect():
    """Collects garbage until none is left; a collection in another thread would end one here at once."""

    def collect_all() -> None:
        while gc.collect():  # what finalizers release is garbage of the next round
            pass

    gc.disable()
    yield collect_all
    gc.enable()


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # such a loop leaves that to Python
def test_loops_closed_without_aclose_are_freed_with_their_connections(transport, collect):
    with ScriptedServer(["hello"] * 10) as server:
        agent, loops = Agent(llm=client_of(server)), []
        for _ in range(10):
            loop = asyncio.new_event_loop()
            assert loop.run_until_complete(agent.arun("x")).content == "hello"
            loop.close()
            loops.append(weakref.ref(loop))
            del loop
        collect()
        assert sum(loop() is not None for loop in loops) <= 1
        del agent
        collect()
        assert not any(loop() for loop in loops)


def test_tls_in_a_loop_of_uvloop(transport, tmp_path: Path, monkeypatch):
    context, trusted = certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", trusted)

    def talk(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as safe:
            while taken(safe):
                safe.sendall(answer("hello"))

    with talking(talk) as port:
        client = client_of(f"https://localhost:{port}/v1")

        async def main() -> list[str | None]:
            try:
                return [(await ask(client)).content for _ in range(2)]
            finally:
                await client.aclose()

        assert uvloop.run(main()) == ["hello", "hello"]


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/a b", "/ü"])
def test_a_path_that_has_to_be_quoted_with_a_query(transport, path):
    seen = []

    def talk(connection: socket.socket) -> None:
        seen.append(taken(connection))
        connection.sendall(answer("hello"))

    with talking(talk) as port:
        client = client_of(f"http://127.0.0.1:{port}{path}")
        assert get_answer(client, extra_query={"a": "b"}).content == "hello"
    assert b" " not in seen[0].split(b"\r\n")[0].removeprefix(b"POST ").removesuffix(b" HTTP/1.1")
    assert seen[0].split(b"\r\n")[0].isascii()


def test_a_blank_key_is_none(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "\n")
    for key in ("", " ", None):
        with pytest.raises(ConfigError, match="No API key"):
            OpenAIClient("m", key, "https://api.example/v1").prepare()
    monkeypatch.setenv("OPENAI_API_KEY", "k\n")
    with ScriptedServer(["a"], api_key="k") as server:
        assert get_answer(OpenAIClient("m", " ", server.base_url), messages=HI).content == "a"


@pytest.mark.parametrize("proxy", ["http://[::1", "nonsense://127.0.0.1:9"])
def test_a_proxy_that_cannot_be_used_is_refused(transport, proxy, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(ConfigError):
        client_of("http://models.invalid/v1")
