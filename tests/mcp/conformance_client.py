"""A client for the official MCP conformance suite: a run that calls each tool of a server once.

mcp-client.sh 'python tests/mcp/conformance_client.py' tools_call auth/metadata-default ...
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from typing import Any

from pure_agent_loop import Agent
from pure_agent_loop.mcp import MCPServer
from pure_agent_loop.mcp.login import asking_browser
from pure_agent_loop.testing import ScriptedLLM, call

VALUES = {"integer": 2, "number": 2, "boolean": True, "array": [], "object": {}}


def value_for(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    return schema.get("default", VALUES.get(str(schema.get("type")), "text"))


def calls_for(tools: list[dict[str, Any]]) -> list[Any]:
    found = []
    for tool in (each["function"] for each in tools):
        fields = tool["parameters"].get("properties", {})
        wanted = tool["parameters"].get("required", fields)
        found.append(call(tool["name"], **{name: value_for(fields.get(name, {})) for name in wanted}))
    return found


def script(messages: Any, tools: Any, _: Any) -> Any:
    return "done" if messages[-1]["role"] == "tool" or not tools else calls_for(tools)


async def main(url: str) -> None:
    os.environ.setdefault("PURE_AGENT_LOOP_HOME", tempfile.mkdtemp())
    os.environ["BROWSER"] = "curl -s -L -o /dev/null %s"  # a person who agrees to everything
    settings = MCPServer(url=url, name="suite").settings
    async with asking_browser(settings, print) as auth:
        server = MCPServer(url=url, name="suite", pinned=False, auth=auth)
        agent = Agent(llm=ScriptedLLM(script, strict=False), tools=[server], on_ask=lambda _: True)
        result = await agent.arun("Call each tool.")
    print([each["content"] for each in result.messages if each["role"] == "tool"])


asyncio.run(main(sys.argv[-1]))
