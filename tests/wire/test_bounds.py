"""Bounds on what is read of a response: an error's body, a document, an event; also where they are packed."""

from __future__ import annotations

import asyncio
import gzip
import http.server
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest

from pure_agent_loop import Agent, AnthropicClient, GeminiClient, OpenAIClient, ResponsesClient, RetryConfig
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.bounds import MAX_ERROR_BYTES, MAX_PART_BYTES
from pure_agent_loop.llm.http.choice import HTTP_VARIABLE
from pure_agent_loop.llm.wire import SSEDecoder
from pure_agent_loop.support.inflate import Inflater

MB = 1_000_000
TRANSPORTS: dict[str, Callable[[], dict[str, Any]]] = {
    "aiohttp": dict,
    "httpx": dict,
    "sdk": lambda: {"default_query": {"a": "b"}},
    "own client": lambda: {"http_client": openai.DefaultAsyncHttpxClient()},
}
PROTOCOLS: dict[str, Callable[[str], Any]] = {
    "chat": lambda url: OpenAIClient("m", "k", f"{url}/v1"),
    "messages": lambda url: AnthropicClient("claude-opus-4-6", "k", url),
    "responses": lambda url: ResponsesClient("m", "k", url),
    "gemini": lambda url: GeminiClient("gemini-2.5-flash", "k", url),
}
# Status, content type and beginning of a response without end, and its bound.
KINDS = {
    "error": (503, "application/json", b'{"error": "', MAX_ERROR_BYTES),
    "document": (200, "application/json", b'{"a": "', MAX_PART_BYTES),
    "event": (200, "text/event-stream", b'data: {"a": "', MAX_PART_BYTES),
    "line": (200, "text/event-stream", b"event: ", MAX_PART_BYTES),
}


def packing(coding: str) -> Callable[[bytes], bytes]:
    """Return a function that compresses the pieces of one body."""
    if not coding:
        return bytes
    packer = zlib.compressobj(9, zlib.DEFLATED, {"gzip": 31, "deflate": 15}[coding])
    return lambda data: packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)


class Endless(http.server.ThreadingHTTPServer):
    """A server whose bodies do not end; `sent` counts the bytes of the last one, before compression."""

    def __init__(self, kind: str, coding: str) -> None:
        self.kind, self.coding, self.requests, self.sent = KINDS[kind], coding, 0, 0
        super().__init__(("127.0.0.1", 0), EndlessHandler)


class EndlessHandler(http.server.BaseHTTPRequestHandler):
    server: Endless

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.requests += 1
        status, content_type, begin, _ = self.server.kind
        pack = packing(self.server.coding)
        self.send_response(status)
        self.send_header("content-type", content_type)
        if self.server.coding:
            self.send_header("content-encoding", self.server.coding)
        self.end_headers()
        self.server.sent = 0
        try:
            self.wfile.write(pack(begin))
            while self.server.sent < 200 * MB:  # the client gives up long before
                self.wfile.write(pack(b"a" * MB))
                self.server.sent += MB
        except OSError:
            pass

    do_POST = do_GET  # noqa: N815 - the library's name

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def endless(kind: str, coding: str = "") -> Iterator[tuple[Endless, str]]:
    with Endless(kind, coding) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def check_refused(client: Any, server: Endless) -> None:
    result = Agent(llm=client, retry=RetryConfig(max_retries=2, base_delay=0.0, jitter=0.0)).run("x")
    assert f"larger than {server.kind[3] // MB} MB" in str(result.error)
    assert server.requests == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_endless_part_of_any_protocol_ends_run(protocol, kind):
    with endless(kind, "gzip") as (server, url):
        check_refused(PROTOCOLS[protocol](url), server)


@pytest.mark.parametrize(
    ("kind", "coding"), [("error", ""), ("error", "gzip"), ("error", "deflate"), ("document", "gzip")]
)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_endless_part_of_any_transport_ends_run(transport, kind, coding, monkeypatch):
    monkeypatch.setenv(HTTP_VARIABLE, transport if transport in ("aiohttp", "httpx") else "")
    with endless(kind, coding) as (server, url):
        check_refused(OpenAIClient("m", "k", f"{url}/v1", **TRANSPORTS[transport]()), server)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_packed_error_keeps_little_memory(transport, monkeypatch):
    monkeypatch.setenv(HTTP_VARIABLE, transport if transport in ("aiohttp", "httpx") else "")
    with endless("error", "gzip") as (server, url):
        client = OpenAIClient("m", "k", f"{url}/v1", **TRANSPORTS[transport]())
        tracemalloc.start()
        try:
            check_refused(client, server)
            assert tracemalloc.get_traced_memory()[1] < 12 * MB
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("kind", ["error", "document"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_endless_facts_are_refused(transport, kind, monkeypatch):
    monkeypatch.setenv(HTTP_VARIABLE, transport if transport in ("aiohttp", "httpx") else "")

    async def look(client: OpenAIClient, url: str) -> None:
        await (await client._connections.transport()).get(url, 60.0)

    with endless(kind, "gzip") as (server, url):
        client = OpenAIClient("m", "k", f"{url}/v1", **TRANSPORTS[transport]())
        with pytest.raises(LLMError, match=f"larger than {server.kind[3] // MB} MB"):
            asyncio.run(look(client, f"{url}/props"))


def test_endless_count_of_tokens_is_refused():
    with endless("document", "gzip") as (server, url):
        client = AnthropicClient("claude-opus-4-6", "k", url)
        with pytest.raises(LLMError, match="larger than 32 MB"):
            asyncio.run(client.count_tokens([{"role": "user", "content": "x"}]))
        assert server.requests == 1


# -- parts, pure -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece_bytes", [2 * MB, MAX_PART_BYTES + 1_000])
def test_event_at_its_bound_is_read_and_a_longer_one_is_not(piece_bytes):
    for extra in (0, 1):
        decoder, found = SSEDecoder(), list[bytes]()
        data = b"data: " + b"a" * (MAX_PART_BYTES - 6 + extra) + b"\n\ndata: b\n\n"
        pieces = [data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)]
        if extra:
            with pytest.raises(LLMError, match="event is larger than 32 MB"):
                found += [payload for piece in pieces for payload in decoder.feed(piece)]
        else:
            found += [payload for piece in pieces for payload in decoder.feed(piece)]
            assert [len(payload) for payload in found] == [MAX_PART_BYTES - 6, 1]


def test_many_small_events_beyond_the_bound_are_read():
    decoder, event = SSEDecoder(), b"data: " + b"a" * MB + b"\n\n"
    assert sum(len(decoder.feed(event)) for _ in range(40)) == 40


@pytest.mark.parametrize("piece_bytes", [1, 7, 1_000])
@pytest.mark.parametrize("limit", [1, 100, 100_000])
@pytest.mark.parametrize("form", ["gzip", "gzip parts and padding", "zlib", "raw"])
def test_inflated_body_is_the_same_for_all_pieces_and_limits(form, limit, piece_bytes):
    text = b"abc" * 2_000 + bytes(range(256))
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = {
        "gzip": gzip.compress(text),
        "gzip parts and padding": gzip.compress(text[:50]) + gzip.compress(text[50:]) + b"\0" * 20,
        "zlib": zlib.compress(text),
        "raw": raw.compress(text) + raw.flush(),
    }[form]
    inflater, found = Inflater(), bytearray()
    for at in range(0, len(packed), piece_bytes):
        data = packed[at : at + piece_bytes]
        while piece := inflater.feed(data, limit):
            assert len(piece) <= limit
            found, data = found + piece, b""
    assert found == text


def test_encoding_that_was_not_requested_is_an_error(monkeypatch):
    with endless("error", "gzip") as (server, url):
        server.kind = (200, "application/json\r\ncontent-encoding: br", b"", 0)
        server.coding = ""
        result = Agent(llm=OpenAIClient("m", "k", f"{url}/v1")).run("x")
        assert "compressed its response as 'br'" in str(result.error)
        assert server.requests == 1
