"""How requests of makers' protocols travel: with proxies, redirects and options of the SDK."""

import asyncio
import http.server
import threading
import urllib.request

import pytest

from llm_client_conformance.protocols import MessagesServer, ResponsesServer
from pure_agent_loop import AnthropicClient, ResponsesClient
from pure_agent_loop.errors import LLMError
from tests.llm.protocols.loops import in_a_loop

USER = [{"role": "user", "content": "q"}]
CLIENTS = {"messages": (AnthropicClient, MessagesServer), "responses": (ResponsesClient, ResponsesServer)}


class Redirecting:
    """A server that redirects each request, and one on another host name that keeps what comes."""

    def __enter__(self):
        self.seen = seen = []

        class Thief(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                seen.append(dict(self.headers))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.thief = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Thief)
        target = f"http://localhost:{self.thief.server_port}/steal"

        class Moved(Thief):
            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(307)
                self.send_header("location", target)
                self.send_header("content-length", "0")
                self.end_headers()

        self.moved = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Moved)
        for server in (self.thief, self.moved):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        for server in (self.thief, self.moved):
            server.shutdown()
            server.server_close()


@pytest.mark.parametrize("library", ["", "httpx"])
@pytest.mark.parametrize("name", CLIENTS)
@in_a_loop
async def test_no_redirect_takes_the_key_elsewhere(name, library):
    with Redirecting() as servers, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAL_HTTP", library)
        client = CLIENTS[name][0](
            "claude-opus-4-6", "SECRETKEY", f"http://127.0.0.1:{servers.moved.server_port}"
        )
        with pytest.raises(LLMError, match="redirects to another server: "):
            await client.chat(USER)
        await client.aclose()
    assert servers.seen == []


@pytest.mark.parametrize("name", CLIENTS)
@in_a_loop
async def test_sdk_only_requests_are_sent(name):
    kind, server_kind = CLIENTS[name]
    with server_kind(["a"], api_key="k") as server:
        client = kind("claude-opus-4-6", "k", server.base_url)
        response = await client.chat(USER, extra_query={"a": ["b", "c"]})
        await client.aclose()
        headers = server.requests[0].headers
    assert response.content == "a"
    assert ("authorization" in headers) == (name == "responses")


class Breaking(http.server.ThreadingHTTPServer):
    """A server whose body ends without its last chunk: the connection fails behind a whole response.

    Its answer is that of another server, the first event apart from the rest.
    """

    def __init__(self, answering):
        self.rest, self.was_closed = threading.Event(), threading.Event()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                asked = urllib.request.Request(answering + self.path, body, dict(self.headers))
                with urllib.request.urlopen(asked) as answer:
                    kind, events = answer.headers["content-type"], answer.read()
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                first = events.index(b"\n\n", events.index(b"delta")) + 2
                self.wfile.write(b"%x\r\n%s\r\n" % (first, events[:first]))
                server.rest.wait(30)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(events) - first, events[first:]))
                self.close_connection = True

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    def shutdown_request(self, request):
        super().shutdown_request(request)
        self.was_closed.set()


@pytest.mark.parametrize("library", ["", "httpx"])
@pytest.mark.parametrize("name", CLIENTS)
@in_a_loop
async def test_text_before_a_failed_connection_is_read(name, library):
    kind, server_kind = CLIENTS[name]
    with server_kind(["It is 3."]) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAL_HTTP", library)
        breaking = Breaking(server.base_url)
        threading.Thread(target=breaking.serve_forever, daemon=True).start()
        client = kind("claude-opus-4-6", "k", f"http://127.0.0.1:{breaking.server_port}")
        text, reason = "", None
        async for delta in client.chat_stream(USER):
            text, reason = text + delta.text, delta.finish_reason or reason
            if not breaking.rest.is_set():
                breaking.rest.set()
                assert breaking.was_closed.wait(30)
                for _ in range(50):  # the event loop reads all, also the end, before the next read
                    await asyncio.sleep(0)
        await client.aclose()
        breaking.shutdown()
        breaking.server_close()
    assert (text, reason) == ("It is 3.", "stop")


@pytest.mark.parametrize("library", ["", "httpx"])
@pytest.mark.parametrize("name", CLIENTS)
@in_a_loop
async def test_a_connection_is_used_again(name, library):
    kind, server_kind = CLIENTS[name]
    with server_kind(["a", "b", "c"]) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAL_HTTP", library)
        client = kind("claude-opus-4-6", "k", server.base_url)
        for _ in range(3):
            async for _delta in client.chat_stream(USER):
                pass
        await client.aclose()
        assert server.connections == 1
