"""What a caller sees is the same whichever way requests travel: closing, odd servers, odd settings."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.http.choice import HTTP_VARIABLE
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.retry import RetryConfig
from pure_agent_loop.testing import Gate, ScriptedServer, Status, deltas
from tests.serving import serving
from tests.toolbox.web import certificate

from .talk import HI, WAYS, ask, client_of, counting, get_answer, get_error, run

HELLO = json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}).encode()
LENGTH = b"Content-Length: %d\r\n" % len(HELLO)


class Seen(list[dict[str, str]]):
    """The headers of the requests that a server took, by names in lower case."""


@contextmanager
def saying(head: bytes, body: bytes = HELLO, tls: Any = None) -> Iterator[tuple[str, Seen]]:
    """A server that says the same to everybody: status and header fields as they are."""
    seen = Seen()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            seen.append({name.lower(): text for name, text in self.headers.items()})
            self.rfile.read(int(self.headers["Content-Length"]))
            self.wfile.write(b"HTTP/1.1 " + head + b"\r\n" + body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with serving(Handler, tls) as port:
        yield f"http{'s' if tls else ''}://localhost:{port}/v1", seen


# -- closing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", ["before", "middle"])
def test_answer_continues_after_close_and_its_connection_ends_with_it(transport, where, way):
    gate = Gate()
    item = deltas(gate, "hello") if where == "before" else deltas("hel", gate, "lo")
    with ScriptedServer([item]) as server, counting(server) as relay:
        client = client_of(relay.base_url)

        async def work() -> str | None:
            task = asyncio.create_task(ask(client, way))
            await gate.reached.wait_async()
            await asyncio.sleep(0)
            await client.aclose()
            gate.open()
            content = (await asyncio.wait_for(task, 30)).content
            assert await asyncio.to_thread(relay.ended.acquire, timeout=10)
            return content

        assert asyncio.run(work()) == "hello"
    gc.collect()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_kept_connection_that_ended_while_the_event_loop_was_busy(
    transport, scheme, tmp_path: Path, monkeypatch
):
    may_end, has_ended, seen = threading.Event(), threading.Event(), []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            seen.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.wfile.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + LENGTH + b"\r\n" + HELLO
            )
            may_end.wait(60)
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            has_ended.set()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    tls = None
    if scheme == "https":
        tls, trusted = certificate(tmp_path, "localhost")
        monkeypatch.setenv("SSL_CERT_FILE", trusted)
    with serving(Handler, tls) as port:
        client = client_of(f"{scheme}://localhost:{port}/v1")

        async def work() -> list[str | None]:
            first = (await ask(client)).content
            may_end.set()
            assert has_ended.wait(60)  # nothing else happens in this event loop meanwhile
            return [first, (await ask(client)).content]

        assert run(client, work) == ["hello", "hello"]
    assert len(seen) == 2


# -- odd servers -----------------------------------------------------------------------------------


def test_text_before_a_broken_connection_counts(transport):
    """The reader is slow, and the server leaves behind ``[DONE]`` without the end of the chunks."""
    said, left = threading.Event(), threading.Event()
    chunk = b"%x\r\n%s\r\n"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            self.wfile.write(head + piece("hel"))
            said.wait(60)
            done = b"data: [DONE]\n\n"
            self.wfile.write(piece("lo") + chunk % (len(done), done))
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            left.set()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    def piece(text: str) -> bytes:
        event = b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"
        return chunk % (len(event), event)

    with serving(Handler) as port:
        client = client_of(f"http://127.0.0.1:{port}/v1")

        async def work() -> str:
            texts = []
            async for delta in client.chat_stream(HI):
                texts.append(delta.text or "")
                if delta.text == "hel":
                    said.set()
                    await asyncio.to_thread(left.wait, 60)
                    # By now the loop has been told of the end, too: a new connection is behind it.
                    _, other = await asyncio.open_connection("127.0.0.1", port)
                    other.close()
                    await other.wait_closed()
            return "".join(texts)

        assert run(client, work) == "hello"


ODD_HEADS = {
    "two lengths": LENGTH * 2,
    "many fields": LENGTH + b"".join(b"X-%d: a\r\n" % number for number in range(300)),
}
COUNTS_FIELDS = "max_headers" in inspect.signature(aiohttp.ClientSession).parameters  # an old one does not


@pytest.mark.parametrize("odd", ODD_HEADS)
def test_body_unreadable_by_aiohttp_is_read_by_httpx_on_retry(transport, odd):
    is_read = bool(transport) or (odd == "many fields" and not COUNTS_FIELDS)
    with saying(b"200 OK\r\nContent-Type: application/json\r\n" + ODD_HEADS[odd]) as (url, seen):
        agent = Agent(llm=OpenAIClient("m", "k", url), retry=RetryConfig(base_delay=0.0, jitter=0.0))
        assert [agent.run("x").content for _ in range(3)] == ["hello"] * 3
        assert len(seen) == (3 if is_read else 4)


def test_unless_aiohttp_is_demanded(monkeypatch):
    monkeypatch.setenv(HTTP_VARIABLE, "aiohttp")
    with saying(b"200 OK\r\n" + ODD_HEADS["two lengths"]) as (url, _):
        client = client_of(url)
        assert [get_error(client).kind for _ in range(2)] == ["connection"] * 2


def test_an_address_that_aiohttp_does_not_take(transport):
    with ScriptedServer(["a"]) as server:
        assert get_answer(client_of(server.base_url.replace("127.0.0.1", "127.1"))).content == "a"


def test_no_cookie_is_kept(transport):
    with saying(b"200 OK\r\nSet-Cookie: a=b; Path=/\r\n" + LENGTH) as (url, seen):
        client = client_of(url)

        async def work() -> None:
            await ask(client)
            await ask(client)

        run(client, work)
        assert ["cookie" in each for each in seen] == [False, False]


class OnePort(ThreadingHTTPServer):
    """A server of http and https on one port: the first redirects to the second, which answers."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context, self.came, server = context, Seen(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                if isinstance(self.connection, ssl.SSLSocket):
                    server.came.append({name.lower(): text for name, text in self.headers.items()})
                    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + LENGTH
                    self.wfile.write(head + b"\r\n" + HELLO)
                else:
                    place = f"https://localhost:{server.server_port}/v1/chat/completions"
                    self.send_response(308)
                    self.send_header("location", place)
                    self.send_header("content-length", "0")
                    self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        super().__init__(("127.0.0.1", 0), Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        if request.recv(1, socket.MSG_PEEK) != b"\x16":  # the first byte of TLS
            return super().finish_request(request, client_address)
        with self.context.wrap_socket(request, server_side=True) as secure:
            return super().finish_request(secure, client_address)

    def handle_error(self, *_: object) -> None:
        """Say nothing: a client may reject the certificate."""


def test_redirect_to_tls_checks_the_certificate(transport, tmp_path: Path, monkeypatch):
    context, trusted = certificate(tmp_path, "localhost")
    with OnePort(context) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://localhost:{server.server_port}/v1"
        assert get_error(client_of(url)).kind == "connection"
        assert server.came == []
        monkeypatch.setenv("SSL_CERT_FILE", trusted)
        client = client_of(url)

        async def work() -> list[str | None]:
            return [each.content for each in await asyncio.gather(*(ask(client) for _ in range(3)))]

        assert run(client, work) == ["hello"] * 3
        assert len(server.came) == 3
        server.shutdown()
    gc.collect()


def test_redirect_to_tls_on_another_port_gets_nothing(transport, tmp_path: Path, monkeypatch):
    context, trusted = certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", trusted)
    head = b"200 OK\r\nContent-Type: application/json\r\n" + LENGTH
    with saying(head, tls=context) as (url, came):
        moved = Status(308, headers=(("Location", f"{url}/chat/completions"),))
        with ScriptedServer(handler=lambda _: moved, api_key="k") as server:
            error = get_error(client_of(server.base_url.replace("127.0.0.1", "localhost")))
    assert "redirects to another server: " in error.message
    assert came == []


# -- odd settings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0, -1.5, float("nan")])
@pytest.mark.parametrize("more", [{}, {"organization": "o"}], ids=["plain", "sdk"])
def test_a_timeout_that_leaves_no_time_is_refused(transport, seconds, more):
    with pytest.raises(ConfigError, match="timeout="):
        client_of("http://127.0.0.1:9/v1", timeout=seconds, **more)
    with ScriptedServer(["a"], strict=False) as server:
        client = client_of(server, **more)
        with pytest.raises(ConfigError, match="timeout="):
            get_answer(client, timeout=seconds)
        assert server.requests == []


def test_a_timeout_without_end_is_none(transport):
    with ScriptedServer(["a", "b"]) as server:
        assert get_answer(client_of(server, timeout=float("inf"))).content == "a"
        assert get_answer(client_of(server), timeout=float("inf")).content == "b"


ODD_FIELDS = [
    {"X-A": " padded "},
    {"X-A": "a\tb"},
    {"X-A": "a\x01b"},
    {"X-A": "a\nb"},
    {"X A": "b"},
    {"": "b"},
    {"X-A": "é"},
    {"é": "a"},
    {"X-A": "\ud800"},
    {"Content-Length": "3"},
    {"Expect": "100-continue"},
]


@pytest.mark.parametrize("given", ["default_headers", "extra_headers"])
@pytest.mark.parametrize("fields", ODD_FIELDS, ids=ascii)
def test_header_fields_are_sent_alike_or_refused_alike(fields, given, monkeypatch):
    def outcome(transport: str) -> Any:
        monkeypatch.setenv(HTTP_VARIABLE, transport)
        with ScriptedServer(["a"], strict=False) as server:
            settings, options = ({given: fields}, {}) if given == "default_headers" else ({}, {given: fields})
            try:
                get_answer(client_of(server, **settings), **options)
            except (LLMError, ConfigError) as error:
                return type(error), getattr(error, "kind", None)
            headers = server.requests[0].headers
            return {name: text for name, text in headers.items() if name != "host"}

    assert outcome("") == outcome("httpx")


@pytest.mark.parametrize("more", [{}, {"organization": "o"}], ids=["plain", "sdk"])
@pytest.mark.parametrize(
    "options", [{"extra_headers": {"X-A": "é"}}, {"extra_query": {"a": "\ud800"}}], ids=ascii
)
def test_unsendable_request_is_a_bad_request_error(transport, options, more):
    assert get_error(client_of("http://127.0.0.1:9/v1", **more), **options).kind == "bad_request"
