"""Revisions of the protocol: docs/mcp.md lists them, and client and server speak each of them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, KNOWN_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from tests.mcp.my_agents import helper, look
from tests.mcp.test_lost_sessions import Shop, opened, run
from tests.serving import serving_app

from mcp import Client
from pure_agent_loop.mcp import MCPServer
from pure_agent_loop.server import create_app

TOKEN = "owner-token-of-tests"
DOCS = Path(__file__).parents[2] / "docs" / "mcp.md"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))


def test_documented_revisions_are_those_that_are_spoken():
    section = DOCS.read_text().partition("### Protocol revisions")[2].partition("\n#")[0]
    assert tuple(re.findall(r"`(\d{4}-\d\d-\d\d)`", section)) == KNOWN_PROTOCOL_VERSIONS


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_server_of_a_revision_with_a_handshake_is_used(version):
    shop = Shop(version=version)
    with opened(shop) as server:
        _, seen = run(server, 1)
    assert "result 1" in seen[0]


def talk(tmp_path, work):
    app = create_app(helper.clone(tools=[look]), token=TOKEN, folder=tmp_path / "s")

    async def during():
        async with (
            serving_app(app) as url,
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as own,
        ):
            return await asyncio.wait_for(work(f"{url}/mcp", own), 30)

    return asyncio.run(during())


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_client_of_a_revision_with_a_handshake_is_served(version, tmp_path):
    async def work(url, own):
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}

        async def ask(method, params, **more):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return await own.post(url, json=body, headers={**headers, **more})

        info = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        start = await ask("initialize", info)
        session = {"mcp-session-id": start.headers["mcp-session-id"], "mcp-protocol-version": version}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await own.post(url, json=ready, headers={**headers, **session})
        return start.text, (await ask("tools/list", {}, **session)).text

    start, tools = talk(tmp_path, work)
    assert f'"protocolVersion":"{version}"' in start.replace(": ", ":")
    assert '"look"' in tools


@pytest.mark.parametrize("version", MODERN_PROTOCOL_VERSIONS)
def test_both_sides_speak_a_revision_without_a_handshake(version, tmp_path):
    async def work(url, own):
        async with Client(streamable_http_client(url, http_client=own), mode=version) as client:
            tools = await client.list_tools()
            spoken = client.protocol_version
        ours = MCPServer(url=url, name="pal", headers={"Authorization": f"Bearer {TOKEN}"})
        async with ours:
            await ours.look()
            client = await ours._current_use.connection.client()
            return spoken, [tool.name for tool in tools.tools], client.protocol_version, ours.known_tools

    spoken, names, ours, known = talk(tmp_path, work)
    assert (spoken, ours) == (version, version)
    assert "look" in names
    assert "mcp__pal__look" in [tool.name for tool in known]
