"""The tools of an MCP server: any program that speaks the protocol is a toolset. Needs the extra [mcp]."""

import sys
from pathlib import Path

from pure_agent_loop import Agent, EventType
from pure_agent_loop.mcp import MCPServer

# Any server: ["uvx", "mcp-server-time"], or url="https://...". This one is that of mcp_server.py.
command = [sys.executable, "-m", "pure_agent_loop", "mcp", "--functions", "mcp_server.py", "--tools", "none"]
server = MCPServer(command, name="shop", cwd=str(Path(__file__).parent))

for event in Agent(tools=[server]).run_stream("How many lamps are in stock?"):
    if event.type is EventType.ACTION:
        print(f"calls {event.tool} with {event.args}")
    elif event.type is EventType.OBSERVATION:
        print(event.result)
    elif event.type is EventType.LOOP_END:
        print(event.content)

# Output:
# calls mcp__shop__in_stock with {'article': 'lamp'}
# 12
# There are 12 lamps.
