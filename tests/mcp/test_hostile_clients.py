"""Clients that do not keep to the protocol: each reads what is wrong, nobody waits, nothing stays behind."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack

import httpx2
import pytest
from tests.mcp.my_agents import helper, look
from tests.serving import serving_app

from pure_agent_loop import tool
from pure_agent_loop.server import create_app

TOKEN = "owner-token-of-tests"
VERSION = "2025-11-25"
INFO = {"capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
DEEP = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
HUGE = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"x" * (9 << 20) + b'"}}'


class Held:
    """A call that goes on until it is cancelled."""

    def __init__(self) -> None:
        self.started, self.ended = asyncio.Event(), asyncio.Event()


HELD: list[Held] = []


@tool(read_only=True)
async def hold() -> str:
    """Holds."""
    HELD.append(held := Held())
    WAITING.set()
    try:
        await asyncio.Event().wait()
    finally:
        held.ended.set()
    return ""


WAITING = asyncio.Event()


def rpc(method, params=None, number=1):
    found = {"jsonrpc": "2.0", "method": method}
    found |= {} if number is None else {"id": number}
    return found if params is None else {**found, "params": params}


HELLO = rpc("initialize", {"protocolVersion": VERSION, **INFO})
HOLD = {"name": "hold", "arguments": {}}


class Http:
    """A client, and the id of a session that has begun."""

    def __init__(self, client, url) -> None:
        self._client, self.url, self.session = client, url, ""

    async def post(self, body, **headers):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        about = {
            "Content-Type": "application/json",
            **({"Mcp-Session-Id": self.session} if self.session else {}),
        }
        return await self._client.post(self.url, content=content, headers={**about, **headers})

    async def begin(self):
        self.session = (await self.post(HELLO)).headers["mcp-session-id"]
        await self.post(rpc("notifications/initialized", number=None))
        return self

    async def end(self):
        return await self._client.delete(self.url, headers={"Mcp-Session-Id": self.session})


async def end_watcher():
    """The library's own: it looks for the end of the process twice a second, as long as its loop runs."""
    watchers = [each for each in asyncio.all_tasks() if each.get_coro().__name__ == "_shutdown_watcher"]
    for each in watchers:
        each.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    """Runs work with a client of a server."""
    app = create_app(helper.clone(tools=[look, hold]), token=TOKEN, folder=tmp_path_factory.mktemp("s"))
    loop, stack = asyncio.new_event_loop(), AsyncExitStack()
    url = loop.run_until_complete(stack.enter_async_context(serving_app(app)))
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}

    async def during(work):
        async with httpx2.AsyncClient(headers=headers, timeout=30) as client:
            return await asyncio.wait_for(work(Http(client, f"{url}/mcp")), 60)

    yield lambda work: loop.run_until_complete(during(work))
    loop.run_until_complete(stack.aclose())
    loop.run_until_complete(end_watcher())
    left = asyncio.all_tasks(loop)
    loop.close()
    assert not left


def said(answer):
    """The error of an answer, or its result."""
    text = answer.text.partition("data: ")[2] if answer.text.startswith("event:") else answer.text
    found = json.loads(text)
    return found.get("error", found.get("result", found))


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{nope", 400, -32700),
        (b"\xff\xfe\x00", 400, -32700),
        (DEEP, 400, -32700),
        ([HELLO], 400, -32602),
        ({"jsonrpc": "2.0", "id": 1}, 400, -32602),
        ({**HELLO, "jsonrpc": "1.0"}, 400, -32602),
        ({**HELLO, "id": {}}, 400, -32600),
        (rpc("tools/list"), 400, -32600),
        (rpc("initialize", {"protocolVersion": 7}), 200, -32602),
    ],
)
def test_invalid_first_request_is_rejected(http, body, status, code):
    async def work(client):
        return await client.post(body)

    answer = http(work)
    assert (answer.status_code, said(answer)["code"]) == (status, code)


def test_a_body_that_is_too_large_is_refused(http):
    async def work(client):
        await client.begin()
        return (await client.post(HUGE)).status_code, said(await client.post(rpc("ping")))

    assert http(work) == (413, {})


def test_an_unknown_version_gets_one_that_is_known(http):
    async def work(client):
        begun = await client.post(rpc("initialize", {"protocolVersion": "1999-01-01", **INFO}))
        await client.begin()
        return said(begun), await client.post(rpc("ping"), **{"MCP-Protocol-Version": "1999-01-01"})

    begun, later = http(work)
    assert begun["protocolVersion"] >= VERSION
    assert (later.status_code, said(later)["code"]) == (400, -32602)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (rpc("no/such"), -32601),
        (rpc("tools/call", {"name": 1}), -32602),
        (rpc("tools/call", {"name": "look", "arguments": [1]}), -32602),
        (rpc("tools/call", {"name": "look", "_meta": {"progressToken": {}}}), -32602),
        (rpc("resources/read", {"uri": "pal://sessions/\0"}), -32002),
        (rpc("resources/subscribe", {"uri": "x" * 100_000}), -32002),
        (rpc("logging/setLevel", {"level": "loud"}), -32602),
        (rpc("prompts/get", {"name": "x" * 100_000}), -32602),
        (rpc("completion/complete", {"ref": {"type": "x"}, "argument": {}}), -32602),
    ],
)
def test_a_wrong_request_is_answered_and_the_next_one_too(http, body, code):
    async def work(client):
        await client.begin()
        return said(await client.post(body)), said(await client.post(rpc("ping")))

    wrong, right = http(work)
    assert (wrong["code"], right) == (code, {})
    assert len(wrong["message"]) < 300


@pytest.mark.parametrize(
    "body",
    [
        rpc("notifications/cancelled", {"requestId": 999}, number=None),
        rpc("notifications/cancelled", {"requestId": {"a": 1}}, number=None),
        rpc("notifications/progress", {"progressToken": 5, "progress": 1}, number=None),
        {"jsonrpc": "2.0", "id": 77, "result": {}},
    ],
)
def test_news_of_nothing_is_taken_and_does_nothing(http, body):
    async def work(client):
        await client.begin()
        return (await client.post(body)).status_code, said(await client.post(rpc("ping")))

    assert http(work) == (202, {})


async def held_call(client, number):
    """A call at work, and its request."""
    WAITING.clear()
    asked = asyncio.create_task(client.post(rpc("tools/call", HOLD, number)))
    await WAITING.wait()
    return HELD[-1], asked


def test_an_id_in_use_is_refused_and_the_first_call_can_be_cancelled(http):
    async def work(client):
        await client.begin()
        held, asked = await held_call(client, 5)
        twice = [await client.post(rpc("ping", number=each)) for each in (5, "5")]
        other = await (await Http(client._client, client.url).begin()).post(rpc("ping", number=5))
        await client.post(rpc("notifications/cancelled", {"requestId": 5}, number=None))
        await held.ended.wait()
        return twice, other, said(await asked), said(await client.post(rpc("ping", number=5)))

    twice, other, first, again = http(work)
    for each in twice:
        assert each.status_code == 400
        assert "is in use" in said(each)["message"]
    assert said(other) == {}  # another session has ids of its own
    assert first["message"] == "Request cancelled"
    assert again == {}


def test_client_lost_in_the_middle_of_a_call_leaves_no_task(http):
    async def work(client):
        await client.begin()
        held, asked = await held_call(client, 6)
        asked.cancel()
        await asyncio.wait([asked])
        assert said(await client.post(rpc("ping", number=7))) == {}
        await client.end()
        await held.ended.wait()
        return (await client.post(rpc("ping"))).status_code

    assert http(work) == 404


def test_a_flood_is_answered_or_refused(http):
    async def work(client):
        await client.begin()
        found = await asyncio.gather(*(client.post(rpc("ping", number=each)) for each in range(300)))
        return {each.status_code for each in found}

    assert http(work) <= {200, 429}


def test_lines_of_a_client_on_standard_input(tmp_path):
    (tmp_path / "held.py").write_text(
        "import asyncio, pathlib\n"
        "from pure_agent_loop import tool\n"
        "@tool(read_only=True)\n"
        "async def hold() -> str:\n"
        "    'Holds.'\n"
        "    print('held', flush=True)\n"
        "    try:\n"
        "        await asyncio.Event().wait()\n"
        "    finally:\n"
        "        with pathlib.Path('ended').open('a') as file:\n"
        "            file.write('x')\n"
    )
    env = {**os.environ, "PAL_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    args = [sys.executable, "-m", "pure_agent_loop", "mcp", "--tools", "none", "--functions", "held.py"]

    async def talk():
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *args, cwd=tmp_path, env=env, stdin=pipe, stdout=pipe, stderr=pipe, limit=1 << 26
        )

        async def answers(count, *messages):
            lines = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in messages]
            process.stdin.write(b"\n".join([*lines, b""]))
            await process.stdin.drain()
            return [json.loads(await process.stdout.readline()) for _ in range(count)]

        async def held():
            while b"held" not in await process.stderr.readline():  # what tools print goes there
                pass

        found = await answers(2, rpc("tools/list", number=1), b"nope")
        found += await answers(1, HELLO, rpc("notifications/initialized", number=None))
        found += await answers(4, b"[]", b"\xff\xfe", DEEP, HUGE)
        call = rpc("tools/call", HOLD, 5)
        found += await answers(1, call, rpc("ping", number=5))
        await held()
        cancelled = rpc("notifications/cancelled", {"requestId": 5}, number=None)
        found += await answers(1, cancelled, rpc("ping", number=5))
        flood = await answers(1_000, *(rpc("ping", number=each) for each in range(1_000)))
        await answers(0, call)
        await held()
        process.stdin.write(b'{"half')
        process.stdin.close()
        rest, errors = await process.communicate()
        return found, flood, process.returncode, rest, errors.decode()

    found, flood, code, rest, errors = asyncio.run(asyncio.wait_for(talk(), 100))
    codes = [each.get("error", {}).get("code") for each in found]
    assert codes == [-32600, -32700, None, -32700, -32700, -32700, None, -32600, None]
    assert "initialize" in found[0]["error"]["message"]
    assert len(flood) == 1_000
    assert not any("error" in each for each in flood)
    assert code == 0
    assert b"-32700" in rest
    assert "Traceback" not in errors
    assert (tmp_path / "ended").read_text() == "xx"
