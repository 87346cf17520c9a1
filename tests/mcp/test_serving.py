"""Our tools and agents as an MCP server: `pal mcp` on stdio, and /mcp of the HTTP server."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import httpx2
import mcp_types
import pytest
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.mcp.my_agents import harm, helper, look
from tests.serving import serving_app

from mcp import Client
from pure_agent_loop import PermissionRules
from pure_agent_loop.mcp import MCPServer
from pure_agent_loop.server import Person, create_app

HERE = Path(__file__).parent
TOKEN, OTHER = "owner-token-of-tests", "another-token-of-tests"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "my_agents.py").write_text((HERE / "my_agents.py").read_text())
    return work


def text_of(result):
    return result.content[0].text


def pal_mcp(place, *words):
    args = ["-m", "pure_agent_loop", "mcp", "--agents", "my_agents:agents", *words]
    return StdioServerParameters(command=sys.executable, args=args, cwd=str(place), env=dict(os.environ))


def test_in_chinese_a_client_reads_no_english_sentence(place, monkeypatch):
    monkeypatch.setenv("PAL_LANG", "zh")
    questions = []

    async def allow(_, question):
        questions.append(question.message)
        return mcp_types.ElicitResult(action="accept", content={"allow": True})

    async def talk():
        async with Client(pal_mcp(place), elicitation_callback=allow) as client:
            missing = await client.call_tool("read_file", {"path": "s.txt"})
            await client.call_tool("write_file", {"path": "s.txt", "content": "two\n"})
            return missing

    missing = asyncio.run(talk())
    assert "没有 's.txt'。" in text_of(missing)
    assert len(questions) == 1
    assert questions[0].startswith("是否允许以 {")


def test_read_files_are_remembered_across_calls(place):
    async def allow(*_):
        return mcp_types.ElicitResult(action="accept", content={"allow": True})

    async def talk():
        write = {"path": "s.txt", "content": "two\n"}
        async with Client(pal_mcp(place), elicitation_callback=allow) as client:
            found = []
            await client.call_tool("read_file", {"path": "s.txt"})
            (place / "s.txt").write_text("one\nmine\n")
            found.append(await client.call_tool("write_file", write))
            await client.call_tool("read_file", {"path": "s.txt"})
            found.append(await client.call_tool("write_file", write))
            return list(map(text_of, found))

    (place / "s.txt").write_text("one\n")
    stale, fresh = asyncio.run(talk())
    assert "+mine" in stale
    assert fresh.startswith("Replaced")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_pal_mcp_serves_tools_agents_and_sessions(place, mode):
    asked, told = [], []

    async def elicit(_, params):
        asked.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"allow": True})

    async def tell(progress, total, message):
        told.append(message)

    async def talk():
        async with Client(pal_mcp(place), mode=mode, elicitation_callback=elicit) as client:
            tools = {each.name: each for each in (await client.list_tools()).tools}
            assert {"read_file", "write_file", "shell", "helper"} <= set(tools)
            assert tools["read_file"].annotations.read_only_hint is True
            done = await client.call_tool("write_file", {"path": "a.txt", "content": "hi"})
            assert (done.is_error, (place / "a.txt").read_text()) == (False, "hi")
            out = await client.call_tool("read_file", {"path": "../../etc/passwd"})
            assert out.is_error
            assert "outside the workspace" in text_of(out)
            assert (await client.call_tool("no_such", {})).is_error
            found = await client.call_tool("helper", {"task": "look"}, progress_callback=tell)
            assert (text_of(found), found.is_error) == ("It said: seen", False)
            uri = found.content[1].uri
            assert uri in [each.uri for each in (await client.list_resources()).resources]
            assert "Step 1: look" in (await client.read_resource(uri)).contents[0].text
            with pytest.raises(MCPError, match="Resource not found"):
                await client.read_resource("pal://sessions/../../etc")
            again = {"task": "look", "session": uri.rpartition("/")[2]}
            assert not (await client.call_tool("helper", again)).is_error
            assert (await client.call_tool("helper", {"task": "look", "session": "not-mine"})).is_error

    asyncio.run(talk())
    assert asked == ['May write_file be called with {"path": "a.txt", "content": "hi"}? the mode \'ask\'']
    assert told == ["look", "looking"]
    audit = [path.read_text() for path in (place.parent / "home" / "audit").rglob("*.jsonl")]
    assert sum(text.count("write_file") for text in audit) >= 1


DEPS = """
from pure_agent_loop import Agent, RunContext, tool
from pure_agent_loop.testing import ScriptedLLM
from my_agents import answer

@tool(read_only=True)
def whose(ctx: RunContext[str]) -> str:
    "Says whose it is."
    return f"of {ctx.deps}"

def deps():
    return "Ada"

agent = Agent(llm=ScriptedLLM(answer, strict=False), tools=[whose], permission_mode="ask")
"""


@pytest.mark.parametrize(("words", "text"), [(["--deps", "my_deps:deps"], "It said: of Ada"), ([], "deps")])
def test_agents_whose_tools_want_deps_get_them_or_say_so(place, words, text):
    (place / "my_deps.py").write_text(DEPS)

    async def talk():
        async with Client(pal_mcp(place, "--agents", "my_deps:agent", *words)) as client:
            return await client.call_tool("default", {"task": "whose"})

    found = asyncio.run(talk())
    assert (text in text_of(found), found.is_error) == (True, not words)


def test_a_single_agent_has_its_own_name(place):
    (place / "named.py").write_text("import my_agents\nagent = my_agents.helper.clone(name='researcher')\n")

    async def talk():
        async with Client(pal_mcp(place, "--agents", "named:agent")) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    names = asyncio.run(talk())
    assert ("researcher" in names, "default" in names) == (True, False)


def test_deps_without_agents_are_refused(place):
    args = [sys.executable, "-m", "pure_agent_loop", "mcp", "--deps", "my_deps:deps"]
    ended = subprocess.run(args, cwd=place, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (ended.returncode, "--agents" in ended.stderr) == (2, True)


def test_unanswerable_question_is_denied(place):
    async def talk():
        async with Client(pal_mcp(place, "--deny", "glob")) as client:
            denied = await client.call_tool("write_file", {"path": "a.txt", "content": "hi"})
            ruled = await client.call_tool("glob", {"pattern": "*"})
            agent = await client.call_tool("helper", {"task": "harm"})
            return [text_of(each) for each in (denied, ruled, agent)], denied.is_error

    (denied, ruled, agent), is_error = asyncio.run(talk())
    assert is_error
    assert "No person can be asked here" in denied
    assert not (place / "a.txt").exists()
    assert "PermissionDenied" in ruled
    assert "No person can be asked here" in agent


@pytest.fixture
def served(place):
    """The address of a server with two people."""
    import hashlib

    other = Person("ann", frozenset({"use"}), hashlib.sha256(OTHER.encode()).hexdigest())
    command = [sys.executable, "-I", "-S", str(HERE / "bad_server.py"), "ok"]
    agent = helper.clone(tools=[look, harm, MCPServer(command, name="bad")])
    app = create_app(agent, token=TOKEN, users=[other], folder=place / "server")

    async def during(work):
        async with serving_app(app) as url:
            return await work(f"{url}/mcp")

    return lambda work: asyncio.run(during(work))


def http(token, **more):
    return httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}", **more})


def test_http_client_gets_only_tools_and_sessions_of_its_person(served):
    async def talk(url):
        seen = {}
        for token in (TOKEN, OTHER):
            async with http(token) as own, Client(streamable_http_client(url, http_client=own)) as client:
                names = {each.name for each in (await client.list_tools()).tools}
                found = await client.call_tool("default", {"task": "look"})
                sessions = (await client.list_resources()).resources
                harm = await client.call_tool("harm", {})
                seen[token] = (names, text_of(found), len(sessions), text_of(harm))
        return seen

    seen = served(talk)
    assert seen[TOKEN][0] == {"default", "look", "harm"}
    assert seen[OTHER][0] == {"default"}  # she may give tasks, no more
    assert seen[TOKEN][1] == seen[OTHER][1] == "It said: seen"
    assert seen[TOKEN][2] == 1
    assert seen[OTHER][2] == 0
    assert "No person can be asked here" in seen[TOKEN][3]
    assert "Unknown tool 'harm'" in seen[OTHER][3]


@pytest.mark.parametrize("content", [{"answer": "yes"}, {"allow": "true"}, {"allow": 1}, {}])
def test_only_a_yes_to_the_question_allows(place, content):
    async def odd(_, __):
        return mcp_types.ElicitResult(action="accept", content=content)

    async def talk():
        async with Client(pal_mcp(place), elicitation_callback=odd, mode="legacy") as client:
            return await client.call_tool("write_file", {"path": "a.txt", "content": "hi"})

    assert asyncio.run(talk()).is_error
    assert not (place / "a.txt").exists()


def test_unanswered_question_does_not_block_others(served):
    async def talk(url):
        asked, answered = asyncio.Event(), asyncio.Event()

        async def slow(_, __):
            asked.set()
            await answered.wait()
            return mcp_types.ElicitResult(action="accept", content={"allow": True})

        async with http(TOKEN) as one, http(TOKEN) as two:
            first = streamable_http_client(url, http_client=one)
            second = streamable_http_client(url, http_client=two)
            async with (
                Client(first, elicitation_callback=slow, mode="legacy") as thinking,
                Client(second, mode="legacy") as other,
            ):
                waiting = asyncio.ensure_future(thinking.call_tool("harm", {}))
                await asked.wait()
                denied = await asyncio.wait_for(other.call_tool("harm", {}), 20)
                answered.set()
                return text_of(denied), text_of(await waiting)

    denied, done = served(talk)
    assert "No person can be asked here" in denied
    assert done == "harmed"


def test_call_uses_the_settings_of_its_agent(place):
    rules = PermissionRules(allow=["harm"], deny=["look"])
    agent = helper.clone(permission_rules=rules, system_prompt=lambda: 1 / 0)  # no model reads that

    async def talk():
        app = create_app(agent, token=TOKEN, folder=place / "server")
        async with (
            serving_app(app) as url,
            http(TOKEN) as own,
            Client(streamable_http_client(f"{url}/mcp", http_client=own)) as client,
        ):
            return [text_of(await client.call_tool(each, {})) for each in ("harm", "look")]

    harmed, looked = asyncio.run(talk())
    assert harmed == "harmed"
    assert "PermissionDenied" in looked


def test_operator_sees_the_state_of_mcp_servers(served):
    async def talk(url):
        agents = url.replace("/mcp", "/api/agents")
        async with http(TOKEN) as own, http(OTHER) as ann:
            before = (await own.get(agents)).json()["agents"][0]["servers"]
            async with Client(streamable_http_client(url, http_client=own)) as client:
                await client.call_tool("default", {"task": "mcp__bad__work"})
            after = (await own.get(agents)).json()["agents"][0]["servers"]
            return before[0]["state"], after[0], (await ann.get(agents)).json()["agents"][0]["servers"]

    before, after, hers = served(talk)
    assert (before, after["state"], after["tools"], hers) == ("idle", "ready", 1, [])


def test_its_door_is_that_of_the_server(served):
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    accept = {"Accept": "application/json, text/event-stream"}

    async def talk(url):
        async with (
            http("nobody", **accept) as none,
            http(TOKEN, **accept) as own,
            http(OTHER, **accept) as ann,
        ):
            codes = [
                (await none.post(url, json=hello)).status_code,
                (await own.post(url, json=hello, headers={"Origin": "http://evil.example"})).status_code,
                (await own.post(url, json=hello, headers={"Host": "evil.example"})).status_code,
                (
                    await own.post(url, content=json.dumps(hello), headers={"Content-Type": "text/plain"})
                ).status_code,
            ]
            begun = await own.post(url, json=hello)
            session = {"Mcp-Session-Id": begun.headers["mcp-session-id"]}
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            codes += [(await each.post(url, json=ping, headers=session)).status_code for each in (own, ann)]
            return codes

    assert served(talk) == [401, 403, 421, 415, 200, 404]
