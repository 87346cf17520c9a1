"""A client for the official MCP conformance suite: lists the tools of a server and calls each.

mcp-client.sh 'python tests/mcp/conformance_client.py' tools_call ...
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from pure_agent_loop.mcp import MCPServer
from pure_agent_loop.tool import StepContext

VALUES = {"integer": 2, "number": 2, "boolean": True, "array": [], "object": {}}


def value_for(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    return schema.get("default", VALUES.get(str(schema.get("type")), "text"))


async def main(url: str) -> None:
    async with MCPServer(url=url, name="suite", pinned=False) as server:
        for tool in await server.list(StepContext()):
            fields = tool.parameters.get("properties", {})
            wanted = tool.parameters.get("required", fields)
            print(await tool.execute({name: value_for(fields.get(name, {})) for name in wanted}))


asyncio.run(main(sys.argv[-1]))
