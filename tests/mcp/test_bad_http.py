"""Servers over HTTP that misbehave: each ends in a clear sentence, and never the run."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn
from starlette.responses import PlainTextResponse, RedirectResponse, StreamingResponse

from pure_agent_loop import Agent
from pure_agent_loop.mcp import MCPServer
from pure_agent_loop.testing import ScriptedLLM, call

KINDS = {
    "broken": "HTTP status 500",
    "missing": "HTTP status 404",
    "locked": "pal mcp login bad",
    "page": "cannot be used",
    "elsewhere": "Redirect to",
    "silent": "The server did not answer within 0.5 seconds",
    "huge": "The server sent more than 50,000,000 bytes",
    "half": "cannot be used",
}


async def lots():
    yield b'{"jsonrpc": "2.0", "id": 0, "result": "'
    for _ in range(60):
        yield b"x" * 1_000_000
        await asyncio.sleep(0)


async def answer(kind):
    if kind == "huge":
        return StreamingResponse(lots(), media_type="application/json")
    return {
        "broken": PlainTextResponse("oh", 500),
        "missing": PlainTextResponse("no", 404),
        "locked": PlainTextResponse("no", 401),
        "page": PlainTextResponse("<html>Welcome</html>", media_type="text/html"),
        "elsewhere": RedirectResponse("http://127.0.0.1:9/mcp", 302),
        "half": PlainTextResponse('{"jsonrpc": "2.0", "id"', media_type="application/json"),
    }[kind]


async def app(scope, receive, send):
    assert scope["type"] == "http"
    if scope["path"] == "/silent":
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    response = await answer(scope["path"].strip("/"))
    await response(scope, receive, send)


@pytest.fixture(scope="module")
def address(loop):
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="off"))

    async def start():
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0)
        return task

    task = loop.run_until_complete(start())
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = server.force_exit = True
    loop.run_until_complete(task)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_over_http_that_misbehaves_is_an_error_of_a_tool(loop, address, kind, tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path))
    start = {"start_timeout": 0.5} if kind == "silent" else {}
    bad = MCPServer(url=f"{address}/{kind}", name="bad", **start)
    agent = Agent(llm=ScriptedLLM([call("mcp__bad__connect"), "done"]), tools=[bad])
    result = loop.run_until_complete(agent.arun("go"))
    said = next(each["content"] for each in result.messages if each["role"] == "tool")
    assert (result.content, KINDS[kind] in said) == ("done", True), said
