"""Sessions that a server over HTTP no longer has, and servers that are gone."""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import sys
import uuid
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest
from tests.serving import free_port, serving

from pure_agent_loop import Agent, EventType
from pure_agent_loop.mcp import MCPServer
from pure_agent_loop.testing import ScriptedLLM, call

WORK = "mcp__shop__work"
JSON, TEXT, EVENTS = "application/json", "text/plain", "text/event-stream"
UNKNOWN = {"code": -32001, "message": "Session not found"}
# Answers to a request with a session that the server has forgotten: status, type of the content, body.
REFUSALS = {
    "bare": (404, "", ""),
    "words": (404, TEXT, "Not Found"),
    "page": (404, JSON, '{"detail": "Not Found"}'),
    "deep": (404, JSON, "[" * 100_000),
    "events": (404, EVENTS, ""),
    "JSON-RPC": (404, JSON, json.dumps({"jsonrpc": "2.0", "id": None, "error": UNKNOWN})),
    "other id": (404, JSON, json.dumps({"jsonrpc": "2.0", "id": "server-error", "error": UNKNOWN})),
    "older": (
        400,
        JSON,
        '{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "No session."}}',
    ),
    "older text": (400, TEXT, "Bad Request: invalid Mcp-Session-Id"),
}


class Shop:
    """A server of one tool, over both transports; `forget` loses its sessions."""

    def __init__(self, refusal="JSON-RPC", hints=None, version="2025-06-18"):
        self.refusal, self.hints, self.version = REFUSALS[refusal], hints or {}, version
        self.sessions: dict[str, queue.Queue] = {}
        self.begun = self.calls = 0
        self.forgets_at = 0  # number of a call
        self.rejects_all = self.lacks_tool = self.has_stream = False

    def forget(self):
        before, self.sessions = self.sessions, {}
        return before

    def begin(self):
        session = uuid.uuid4().hex
        self.sessions[session] = queue.Queue()
        self.begun += 1
        return session

    def before_call(self):
        if self.rejects_all or self.calls + 1 == self.forgets_at:
            self.forgets_at = 0
            self.forget()

    def result(self, message):
        method = message["method"]
        if method == "initialize":
            info = {"serverInfo": {"name": "shop", "version": "1"}, "capabilities": {"tools": {}}}
            return {"protocolVersion": self.version, **info}
        if method == "tools/list":
            schema = {"type": "object", "properties": {}}
            return {"tools": [{"name": "work", "inputSchema": schema, "annotations": self.hints}]}
        if method == "tools/call":
            self.calls += 1
            return {"content": [{"type": "text", "text": f"result {self.calls}"}]}
        return {}


class Handler(BaseHTTPRequestHandler):
    shop: Shop

    def log_message(self, *_):
        pass

    def answer(self, status, kind="", body="", **headers):
        self.send_response(status)
        for name, value in {"Content-Type": kind, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body.encode())

    def do_DELETE(self):
        self.answer(200)

    def do_GET(self):
        shop, old = self.shop, self.path == "/sse"
        session = shop.begin() if old else self.headers.get("mcp-session-id")
        if session not in shop.sessions or not (old or shop.has_stream):
            self.answer(404)
            return
        start = f"event: endpoint\ndata: /post?sessionId={session}\n\n" if old else "retry: 1\n\n"
        messages = shop.sessions[session]
        self.answer(200, EVENTS, start)
        while (text := messages.get()) is not None:
            self.wfile.write(f"event: message\ndata: {text}\n\n".encode())

    def do_POST(self):
        message, old = json.loads(self.rfile.read(int(self.headers["content-length"]))), "?" in self.path
        session = self.path.rpartition("=")[2] if old else self.headers.get("mcp-session-id")
        if message["method"] == "initialize" and not old:
            session = self.shop.begin()
        elif message["method"] == "tools/call":
            self.shop.before_call()
        if session in self.shop.sessions:
            self.accept(message, session, old)
        else:
            self.answer(*(self.shop.refusal if session else (400,)))

    def accept(self, message, session, old):
        frame = {"jsonrpc": "2.0", "id": message.get("id")}
        if message["method"] == "tools/call" and self.shop.lacks_tool:
            error = {"code": -32601, "message": "Method not found"}
            self.answer(404, JSON, json.dumps({**frame, "error": error}))
        elif "id" not in message:
            self.answer(202)
        elif old:
            self.shop.sessions[session].put(json.dumps({**frame, "result": self.shop.result(message)}))
            self.answer(202)
        else:
            body = json.dumps({**frame, "result": self.shop.result(message)})
            self.answer(200, JSON, body, mcp_session_id=session)


def handler_of(shop):
    return type("BoundHandler", (Handler,), {"shop": shop})


@contextmanager
def opened(shop, transport="http", **options):
    with serving(handler_of(shop)) as port:
        url = f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
        yield MCPServer(url=url, name="shop", transport=transport, trusted=True, **options)
        for messages in shop.forget().values():
            messages.put(None)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))


def run(server, times):
    llm = ScriptedLLM([*(call(WORK, n=number) for number in range(times)), "done"], strict=False)
    result = asyncio.run(Agent(llm=llm, tools=[server], permission_mode="bypass").arun("go"))
    assert result.content == "done"
    return result, [each["content"] for each in result.messages if each["role"] == "tool"]


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("transport", ["http", "sse"])
def test_call_after_a_lost_session_succeeds_in_a_new_one(refusal, transport):
    shop = Shop(refusal)
    shop.forgets_at = 2
    with opened(shop, transport, timeout=20) as server:
        result, seen = run(server, 3)
    assert "result 1" in seen[0]
    assert "its effects are unknown" in seen[1]
    assert "the next call starts a new one" in seen[1]
    assert "result 2" in seen[2]
    assert (shop.begun, shop.calls) == (2, 2)
    assert [event for event in result.events if event.type is EventType.NOTICE] == []  # the server is alive


@pytest.mark.parametrize("hints", [{"idempotentHint": True}, {"readOnlyHint": True}])
@pytest.mark.parametrize("transport", ["http", "sse"])
def test_idempotent_call_is_repeated_in_a_new_session(hints, transport):
    shop = Shop(hints=hints)
    shop.forgets_at = 2
    with opened(shop, transport) as server:
        _, seen = run(server, 2)
    assert "result 1" in seen[0]
    assert "result 2" in seen[1]
    assert (shop.begun, shop.calls) == (2, 2)


def test_hint_of_an_untrusted_server_does_not_repeat_a_call():
    shop = Shop(hints={"idempotentHint": True})
    shop.forgets_at = 1
    with serving(handler_of(shop)) as port:
        _, seen = run(MCPServer(url=f"http://127.0.0.1:{port}/mcp", name="shop"), 2)
    assert "its effects are unknown" in seen[0]
    assert "result 1" in seen[1]


def test_idempotent_call_is_repeated_only_once():
    shop = Shop(hints={"idempotentHint": True})
    shop.rejects_all = True
    with opened(shop) as server:
        _, seen = run(server, 1)
    assert "its effects are unknown" in seen[0]
    assert shop.begun == 2


def test_missing_method_with_status_404_does_not_end_the_session():
    shop = Shop()
    shop.lacks_tool = True
    with opened(shop) as server:
        _, seen = run(server, 2)
    assert "Method not found" in seen[1]
    assert shop.begun == 1


async def _pinged(server, shop):
    async with server:
        await server.look()
        shop.forget()
        await server.ping()
        return await server.call("work", {})


def test_ping_in_a_lost_session_begins_a_new_one():
    shop = Shop()
    with opened(shop) as server:
        assert "result 1" in str(asyncio.run(_pinged(server, shop)))
    assert shop.begun == 2


async def _reconnected(server, shop):
    async with server:
        await server.look()
        while not shop.sessions:
            await asyncio.sleep(0)
        for messages in shop.forget().values():
            messages.put(None)  # the stream of the server's messages ends; its client opens it again
        while server.state.state == "ready":
            await asyncio.sleep(0)
        return await server.call("work", {})


def test_lost_session_noticed_by_the_stream_of_messages_is_replaced_before_a_call():
    shop = Shop()
    shop.has_stream = True
    with opened(shop) as server:
        assert "result 1" in str(asyncio.run(_reconnected(server, shop)))
    assert shop.begun == 2


def test_dead_server_is_a_notice_and_a_warning(caplog):
    away = f"http://127.0.0.1:{free_port()}/mcp"
    server = MCPServer(url=away, name="shop")
    llm = ScriptedLLM([call("mcp__shop__connect"), "done"], strict=False)
    with caplog.at_level(logging.WARNING, "pure_agent_loop"):
        result = asyncio.run(Agent(llm=llm, tools=[server]).arun("go"))
    notices = [event.content for event in result.events if event.type is EventType.NOTICE]
    assert any(f"No answer from {away}" in text for text in notices)
    assert not [event for event in result.events if event.type is EventType.PROGRESS]
    records = [record for record in caplog.records if "MCP server 'shop'" in record.getMessage()]
    assert {record.levelname for record in records} == {"WARNING"}
    assert len(records) == 2  # one for each start


DYING = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    method = message["method"]
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        result = {"protocolVersion": version, "serverInfo": {"name": "s", "version": "1"}}
        result["capabilities"] = {"tools": {}}
    elif method == "tools/list":
        result = {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        os._exit(3)
    if "id" in message:
        error = {"error": {"code": -32601, "message": "no"}}
        answer = error if method == "server/discover" else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


def test_server_that_dies_in_a_call_is_a_notice_and_a_warning(caplog):
    server = MCPServer([sys.executable, "-I", "-S", "-c", DYING], name="shop")
    with caplog.at_level(logging.WARNING, "pure_agent_loop"):
        result, seen = run(server, 1)
    assert "its effects are unknown" in seen[0]
    notices = [event.content for event in result.events if event.type is EventType.NOTICE]
    assert [text for text in notices if "exit code 3" in text]
    assert [record for record in caplog.records if "exit code 3" in record.getMessage()]
