"""The two ways that requests travel: which one is taken, and that it makes no other difference."""

from __future__ import annotations

import gc
import gzip
import json
import select
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import openai
import pytest

from pure_agent_loop.errors import ConfigError, LLMError, MissingExtraError
from pure_agent_loop.llm.addresses import has_proxy
from pure_agent_loop.llm.failures import RedirectedError
from pure_agent_loop.llm.http.aio import LARGE
from pure_agent_loop.llm.http.choice import HTTP_VARIABLE
from pure_agent_loop.llm.http.httpx import library
from pure_agent_loop.llm.http.plain import moved_to
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.testing import ScriptedServer, Status, deltas
from tests.serving import serving
from tests.toolbox.web import certificate

from .talk import HI, ask, client_of, counting, get_answer, get_error, run

HELLO = json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}).encode()
BOTH = ("aiohttp", "httpx")
OF_THE_SDK, OURS = "AsyncOpenAI", "pure-agent-loop/"


@pytest.fixture(params=BOTH)
def demanded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One of the two, in force."""
    monkeypatch.setenv(HTTP_VARIABLE, request.param)
    return request.param


@pytest.fixture
def aio(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is demanded, and aiohttp is there."""
    monkeypatch.delenv(HTTP_VARIABLE, raising=False)


def way_of(server: ScriptedServer) -> str:
    """Who has sent the last request."""
    return server.requests[-1].headers["user-agent"]


# -- which one -------------------------------------------------------------------------------------


def test_a_plain_endpoint_is_asked_without_the_sdk(demanded):
    with ScriptedServer(["a"]) as server:
        assert get_answer(client_of(server, timeout=5.0, default_headers={"X-A": "b"})).content == "a"
        assert way_of(server).startswith(OURS)
        assert server.requests[0].headers["x-a"] == "b"


@pytest.mark.parametrize(
    ("demanded", "others"),
    [("aiohttp", "{'httpx', 'httpx2'}"), ("httpx", "{'aiohttp'}")],
    indirect=["demanded"],
)
def test_demanded_transport_is_used(demanded, others):
    code = (
        "import asyncio, sys\n"
        "from pure_agent_loop import Agent, OpenAIClient\n"
        "from pure_agent_loop.testing import ScriptedServer, call\n"
        "def add(a: int, b: list[int] = []) -> int: return a\n"
        "with ScriptedServer([call('add', a='1'), 'two']) as server:\n"
        "    agent = Agent(llm=OpenAIClient('m', 'k', server.base_url), tools=[add])\n"
        f"    print(agent.run('x').content, ({{'openai', 'pydantic'}} | {others}) & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "two set()\n"
    assert done.stderr == ""


SDK_ONLY: dict[str, dict[str, Any]] = {
    "an organization": {"organization": "o"},
    "retries of its own": {"max_retries": 1},
    "a default query": {"default_query": {"a": "b"}},
    "headers that are no texts": {"default_headers": {"X-A": b"b"}},
}


@pytest.mark.parametrize("settings", SDK_ONLY.values(), ids=SDK_ONLY)
def test_settings_of_the_sdk_are_in_force_by_the_sdk_or_refused(settings, aio, monkeypatch):
    with ScriptedServer(["a"]) as server:
        assert get_answer(client_of(server, **settings)).content == "a"
        assert way_of(server).startswith(OF_THE_SDK)
        monkeypatch.setenv(HTTP_VARIABLE, "aiohttp")
        with pytest.raises(ConfigError, match=f"aiohttp cannot be used with this {next(iter(settings))}"):
            client_of(server, **settings)


def test_so_are_its_variables(aio, monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    with ScriptedServer(["a"]) as server:
        get_answer(client_of(server))
        assert server.requests[0].headers["openai-organization"] == "org-1"
        monkeypatch.setenv(HTTP_VARIABLE, "aiohttp")
        with pytest.raises(ConfigError, match="the variable OPENAI_ORG_ID"):
            client_of(server)


def test_and_a_proxy(aio, monkeypatch):
    with ScriptedServer(["a"]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.base_url.removesuffix("/v1"))
        assert get_answer(client_of("http://models.invalid/v1")).content == "a"
        monkeypatch.setenv(HTTP_VARIABLE, "aiohttp")
        with pytest.raises(ConfigError, match="a proxy"):
            client_of("http://models.invalid/v1")


def test_no_proxy_variable_alone_needs_no_sdk(aio, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "models.invalid")
    with ScriptedServer(["a"]) as server:
        assert get_answer(client_of(server)).content == "a"
        assert way_of(server).startswith(OURS)


def test_options_of_one_request_that_only_the_sdk_knows(aio, monkeypatch):
    with ScriptedServer(["a", "b", "c"]) as server:
        client = client_of(server)
        assert get_answer(client, extra_query={"n": 7, "yes": True}).content == "a"
        assert way_of(server).startswith(OURS)
        assert server.requests[-1].path.endswith("?n=7&yes=true")
        assert get_answer(client, extra_query={"many": ["1", "2"]}).content == "b"
        assert way_of(server).startswith(OF_THE_SDK)
        assert get_answer(client).content == "c"
        assert way_of(server).startswith(OURS)
        monkeypatch.setenv(HTTP_VARIABLE, "aiohttp")
        with pytest.raises(ConfigError, match="extra_query"):
            get_answer(client_of(server), extra_query={"many": ["1", "2"]})


def test_an_address_that_the_library_refuses_is_one(monkeypatch):
    monkeypatch.setenv(HTTP_VARIABLE, "httpx")
    with pytest.raises(ConfigError, match="base_url is invalid"):
        OpenAIClient("m", "k", f"http://127.0.0.1/{'a' * 70_000}")


def test_unknown_http_library_is_refused(monkeypatch):
    monkeypatch.setenv(HTTP_VARIABLE, "curl")
    with pytest.raises(ConfigError, match="aiohttp, httpx"):
        OpenAIClient("m", "k", "http://127.0.0.1:9/v1")


def test_aiohttp_that_is_not_installed_is_refused_by_the_name_of_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.setenv(HTTP_VARIABLE, "aiohttp")
    with pytest.raises(MissingExtraError, match=r"\[fast\]"):
        OpenAIClient("m", "k", "http://127.0.0.1:9/v1")


# -- no other difference ---------------------------------------------------------------------------


@contextmanager
def tls_server(context: ssl.SSLContext) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """A server with a certificate; its address, and from which connection each request came."""
    came: list[tuple[str, int]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            came.append(self.client_address)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(HELLO)))
            self.end_headers()
            self.wfile.write(HELLO)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with serving(Handler, context) as port:
        yield f"https://localhost:{port}/v1", came


def test_certificates_are_checked_and_connections_kept(demanded, tmp_path: Path, monkeypatch):
    context, trusted = certificate(tmp_path, "localhost")
    with tls_server(context) as (url, came):
        error = get_error(client_of(url))
        assert error.kind == "connection"
        assert "certificate" in error.message.lower()
        assert came == []
        monkeypatch.setenv("SSL_CERT_FILE", trusted)
        client = client_of(url)

        async def work() -> list[str | None]:
            return [(await ask(client)).content for _ in range(3)]

        assert run(client, work) == ["hello"] * 3
        assert len(came) == 3
        assert len(set(came)) == 1
        gc.collect()  # complains of what was not closed, here and not in another test


@pytest.mark.parametrize("has_file", [True, False])
def test_certificates_of_a_folder_are_trusted_also_beside_a_file(demanded, has_file, tmp_path, monkeypatch):
    context, trusted = certificate(tmp_path, "localhost")
    (folder := tmp_path / "trusted").mkdir()
    subject = subprocess.run(
        ["openssl", "x509", "-hash", "-noout", "-in", trusted], capture_output=True, text=True, check=True
    )
    (folder / f"{subject.stdout.strip()}.0").write_bytes(Path(trusted).read_bytes())
    _, other = certificate(tmp_path / "trusted", "elsewhere")
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    if has_file:
        monkeypatch.setenv("SSL_CERT_FILE", other)
    else:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with tls_server(context) as (url, _):
        assert get_answer(client_of(url)).content == "hello"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_keeps_the_request(demanded, status):
    moved = Status(status, headers=(("Location", "/v2/chat/completions"),))
    with ScriptedServer(
        handler=lambda each: "there" if "/v2/" in each.path else moved, api_key="k"
    ) as server:
        assert get_answer(client_of(server)).content == "there"
        assert server.requests[0].body == server.requests[-1].body


WAYS = {
    "aiohttp": dict,
    "httpx": dict,
    "sdk": lambda: {"default_query": {"a": "b"}},
    "own client": lambda: {"http_client": openai.DefaultAsyncHttpxClient()},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "place", ["http://localhost:{port}/v1/chat/completions", "//127.0.0.1:1/v1", "//h:x/"]
)
def test_a_redirect_to_another_server_gets_nothing(way, status, place, monkeypatch):
    """Neither the conversation, nor a key in any header; also by the SDK, and by a user's own HTTP client."""
    monkeypatch.setenv(HTTP_VARIABLE, way if way in BOTH else "")
    with ScriptedServer(["taken"], strict=False) as other:
        place = place.format(port=other.base_url.split(":")[2].partition("/")[0])
        with ScriptedServer(handler=lambda _: Status(status, headers=(("Location", place),))) as server:
            error = get_error(
                OpenAIClient("m", "k", server.base_url, default_headers={"api-key": "s"}, **WAYS[way]())
            )
            # An older generation of the SDK's library rejects an invalid address by itself.
            rejects = library.__name__ == "httpx" and place == "//h:x/" and way not in BOTH
            assert error.kind == ("connection" if rejects else "bad_request")
            assert rejects or place.partition("//")[2] in error.message
            assert rejects or len(server.requests) == 1
        assert other.requests == other.other_requests == []


def test_a_redirect_without_end_ends(demanded):
    moved = Status(307, headers=(("Location", "/v1/chat/completions"),))
    with ScriptedServer(handler=lambda _: moved) as server:
        message = get_error(client_of(server)).message
    assert "redirects more than 20 times" in message
    assert "another server" not in message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("http://h/v1", "https://h/v1"),
        ("http://h:80/v1", "https://h:443/v2"),
        ("http://h:8080/", "https://h:8080/"),
    ],
)
def test_a_redirect_to_tls_on_the_same_server_is_followed(old, new):
    assert moved_to(old, new) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("http://h/v1", "https://h:8443/v1"),
        ("http://h:8080/v1", "https://h/v1"),
        ("https://h/v1", "http://h/v1"),
        ("https://h:8443/v1", "http://h:8443/v1"),
        ("http://h:443/v1", "https://h:80/v1"),
    ],
)
def test_a_redirect_to_another_port_or_without_tls_is_refused(old, new):
    with pytest.raises(RedirectedError, match="another server"):
        moved_to(old, new)


def test_a_packed_answer_is_unpacked(demanded):
    packed = Status(200, gzip.compress(HELLO), headers=(("Content-Encoding", "gzip"),))
    with ScriptedServer([packed]) as server:
        assert get_answer(client_of(server)).content == "hello"


def test_a_refusal_without_words_is_one(demanded):
    """What is known of a long request stands on it: see `kernel.request`."""
    with ScriptedServer([Status(400)]) as server:
        error = get_error(client_of(server))
    assert not error.original_error.body  # type: ignore[union-attr] # both have it


def test_a_key_in_a_refusal_is_not_shown(demanded):
    said = json.dumps({"error": {"message": "no key se-cret-123", "more": ["se-cret-123"]}}).encode()
    with ScriptedServer([Status(401, said)]) as server:
        error = get_error(client_of(server, api_key="se-cret-123"))
    cause = error.original_error
    assert "se-cret" not in f"{error} {cause} {cause.body!r}"  # type: ignore[union-attr] # both have it


def test_one_request_a_connection_where_a_header_says_so(demanded):
    with ScriptedServer(["a", "b"]) as server, counting(server) as relay:
        client = client_of(relay.base_url, default_headers={"Connection": "close"})

        async def work() -> None:
            await ask(client)
            await ask(client)

        run(client, work)
        assert relay.connections == 2


def test_connection_dropped_with_its_loop_causes_no_warning(demanded):
    code = (
        "import asyncio\n"
        "from pure_agent_loop.llm.http.choice import transport_for\n"
        "from pure_agent_loop.testing import ScriptedServer\n"
        'BODY = b\'{"model": "m", "messages": [{"role": "user", "content": "x"}]}\'\n'
        "async def ask(url):\n"
        "    transport = transport_for({'api_key': 'k', 'base_url': url})\n"
        "    answer = await transport.post(BODY, {})\n"
        "    print(len(await answer.read()) > 0)\n"
        "    while await answer.read(): pass\n"
        "    await answer.aclose()\n"
        "with ScriptedServer(['a', 'b']) as server:\n"
        "    for closing in (True, False):\n"
        "        loop = asyncio.new_event_loop()\n"
        "        loop.run_until_complete(ask(server.base_url))\n"
        "        if closing: loop.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\nTrue\n"
    assert done.stderr == ""


def test_connection_in_use_at_exit_causes_no_warning(demanded):
    code = (
        "import asyncio\n"
        "from pure_agent_loop import OpenAIClient\n"
        "from pure_agent_loop.testing import ScriptedServer\n"
        "with ScriptedServer(['a']) as server:\n"
        "    client = OpenAIClient('m', 'k', server.base_url)\n"
        "    loop = asyncio.new_event_loop()\n"
        "    answer = client.chat([{'role': 'user', 'content': 'x'}])\n"
        "    print(loop.run_until_complete(answer).content)\n"
        "    loop.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "a\n"
    assert done.stderr == ""


def test_a_stream_that_is_cut_into_tiny_pieces(demanded):
    with ScriptedServer([deltas("naïve ", "😀")], rechunk=1) as server:
        assert get_answer(client_of(server)).content == "naïve 😀"


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def _event(text: str) -> bytes:
    data = b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


REST = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


def _take_request(connection: socket.socket) -> None:
    with connection.makefile("rb") as lines:
        length = 0
        while (line := lines.readline().strip().lower()) != b"":
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        lines.read(length)


@pytest.mark.parametrize("size", [10, 2 * LARGE], ids=["short", "in pieces"])
def test_a_request_right_behind_an_answer_whose_connection_closes(demanded, size):
    """A server may close its connection behind an answer, and not say so before: llama.cpp does."""
    may_end, has_ended, taken = threading.Event(), threading.Event(), []

    def serve(listening: socket.socket) -> None:
        for number in range(2):
            connection, _ = listening.accept()
            with connection:
                _take_request(connection)
                taken.append(number)
                connection.sendall(HEAD + _event("a"))
                may_end.wait(60)
                connection.sendall(REST)
            has_ended.set()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=serve, args=[listening], daemon=True)
        server.start()
        client = client_of(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")

        async def work() -> str:
            async for delta in client.chat_stream(HI):
                if delta.text:
                    may_end.set()
                    has_ended.wait(60)  # the end of the answer and of the connection come at once
            return str((await ask(client, messages=[{"role": "user", "content": "x" * size}])).content)

        assert run(client, work) == "a"
        server.join(60)
    assert taken == [0, 1]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_this_machine_is_reached_past_any_proxy(demanded, monkeypatch, host):
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://user:pa55word@127.0.0.1:9")
    with ScriptedServer(["a"]) as server:
        assert get_answer(client_of(server.base_url.replace("127.0.0.1", host))).content == "a"


def test_also_through_the_sdk(aio, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with ScriptedServer(["a"]) as server:
        assert get_answer(client_of(server, organization="o")).content == "a"
        assert way_of(server).startswith(OF_THE_SDK)


@pytest.mark.parametrize(
    "host", ["127.8.9.10", "[::1]", "[::ffff:127.0.0.1]", "models.localhost", "localhost."]
)
def test_loopback_addresses_are_recognised(monkeypatch, host):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert not has_proxy(f"https://{host}:1/v1")
    assert has_proxy("https://127.0.0.1.models.invalid/v1")


@pytest.mark.parametrize("proxy", ["http://ada:canary@[::1", "ada:canary@[::1", "http://h:port"])
def test_invalid_proxy_is_named_in_the_error(monkeypatch, proxy):
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(ConfigError, match=r"cannot be built.*HTTPS_PROXY=http://.*unset it") as refused:
        OpenAIClient("m", "k", "https://models.invalid/v1")
    assert "canary" not in str(refused.value)


def test_a_proxy_on_the_way_to_tls(aio, tmp_path: Path, monkeypatch):
    context, trusted = certificate(tmp_path, "models.invalid")
    asked = []
    with tls_server(context) as (url, _):
        port = int(url.rpartition(":")[2].partition("/")[0])

        class Proxy(BaseHTTPRequestHandler):
            def do_CONNECT(self):
                asked.append(self.path)
                self.send_response(200)
                self.end_headers()
                with socket.create_connection(("127.0.0.1", port)) as other:
                    ends = {self.connection: other, other: self.connection}
                    while all(ends):
                        for end in select.select(list(ends), [], [])[0]:
                            data = end.recv(65536)
                            if not data:
                                return
                            ends[end].sendall(data)

            def log_message(self, *_):
                """Say nothing."""

        with serving(Proxy) as proxy_port:
            monkeypatch.setenv("SSL_CERT_FILE", trusted)
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy_port}")
            assert get_answer(client_of("https://models.invalid:8443/v1")).content == "hello"
    assert asked == ["models.invalid:8443"]


def test_proxy_failure_names_the_proxy_without_its_password(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://user:pa55word@127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "direct.invalid")
    with pytest.raises(LLMError, match=r"through the proxy http://127\.0\.0\.1:9\)") as caught:
        get_answer(client_of("http://models.invalid/v1"))
    assert "pa55word" not in str(caught.value)
    with pytest.raises(LLMError, match=r"direct\.invalid") as caught:
        get_answer(client_of("http://direct.invalid/v1"))
    assert "proxy" not in str(caught.value)
