"""Your tools and agents as an MCP server, for editors and other agents. Needs the extra [mcp].

The command of the server is `pal mcp --agents mcp_server:agents --functions mcp_server.py --tools none`:
--agents brings agents, --functions the functions of a file, and --tools none leaves out those of `pal run`.
"""

import asyncio
import os
import sys
from pathlib import Path

from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import CallToolResult, TextContent

from mcp import Client
from pure_agent_loop import Agent, tool


@tool(read_only=True)
def in_stock(article: str) -> int:
    """Count the pieces of an article in stock."""
    return {"lamp": 12, "chair": 3}.get(article, 0)


agents = {"helper": Agent(description="Answers questions about the shop.", tools=[in_stock])}
PAL = [sys.executable, "-m", "pure_agent_loop"]  # the same as `pal`
COMMAND = [*PAL, "mcp", "--agents", "mcp_server:agents", "--functions", "mcp_server.py", "--tools", "none"]

if __name__ == "__main__":
    # What an editor does, with the official client.
    async def client() -> None:
        program = StdioServerParameters(
            command=COMMAND[0], args=COMMAND[1:], cwd=Path(__file__).parent, env=dict(os.environ)
        )
        with Path("server.log").open("w") as log:
            async with Client(stdio_client(program, errlog=log)) as server:
                for known in (await server.list_tools()).tools:
                    print(f"{known.name}: {known.description}")
                print(text_of(await server.call_tool("in_stock", {"article": "lamp"})))
                print(text_of(await server.call_tool("helper", {"task": "How many lamps are there?"})))

    def text_of(result: CallToolResult) -> str:
        return "\n".join(part.text for part in result.content if isinstance(part, TextContent))

    asyncio.run(client())

# Output:
# in_stock: Count the pieces of an article in stock.
# helper: Give a task to the agent helper. Answers questions about the shop.
# 12
# There are 12 lamps.
