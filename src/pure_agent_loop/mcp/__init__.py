"""MCP, both ways: servers of others as tools, and our tools and agents as a server.

        client                                                  server
    MCPServer            a server as a toolset              serving    tools and agents for any MCP client
      ├─ settings        what it is, and what is used of it mounted    the same inside of an ASGI application
      ├─ connection      one task owns each connection
      │    └─ pipes, network    stdio; streamable HTTP, SSE
      ├─ offered         its tools as ours; `approvals` remembers what they said
      ├─ results         what came of a call
      └─ asking          what a server may ask: roots, elicitation, sampling
    many                 several servers as one toolset, searched where their tools are many
    files                mcp.json, .mcp.json
    login                OAuth

The official SDK (the extra ``[mcp]``) is imported where a server is really used: it takes more than a second.
docs/mcp.md describes all of it.
"""

from typing import TYPE_CHECKING

from pure_agent_loop.support.lazy import names_loaded_later

if TYPE_CHECKING:
    from pure_agent_loop.mcp.many import MCPServers, servers_in
    from pure_agent_loop.mcp.server import MCPServer

__all__ = ["MCPServer", "MCPServers", "servers_in"]

__getattr__, __dir__ = names_loaded_later(
    __name__, {"MCPServer": "server", "MCPServers": "many", "servers_in": "many"}
)
