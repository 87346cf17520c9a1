"""MCP, both ways: servers of others as tools, and our tools and agents as a server.

        client                                                  server
    MCPServer            a server as a toolset              serving/   tools and agents for any MCP client
      ├─ settings        what it is, and what is used of it Published  prompts and resources beside them
      ├─ connection      one task owns each connection
      │    └─ pipes, network    stdio; streamable HTTP, SSE
      ├─ offered         its tools as ours, and what they said when they came
      ├─ results         what came of a call
      └─ asking          what a server may ask: roots, elicitation, sampling
    forms                a tool asks a person for several values
    mentions             prompts and resources in what a person types
    many                 several servers as one toolset, searched where their tools are many
    files                mcp.json, .mcp.json
    login                OAuth

The official SDK (the extra ``[mcp]``) is imported where a server is really used: it takes more than a second.
docs/mcp.md describes all of it.
"""

from typing import TYPE_CHECKING

from pure_agent_loop.support.lazy import names_loaded_later

if TYPE_CHECKING:
    from pure_agent_loop.mcp.forms import ask_form
    from pure_agent_loop.mcp.many import MCPServers, servers_in
    from pure_agent_loop.mcp.server import MCPServer
    from pure_agent_loop.mcp.serving.published import Published
    from pure_agent_loop.mcp.settings import OAuth

__all__ = ["MCPServer", "MCPServers", "OAuth", "Published", "ask_form", "servers_in"]

__getattr__, __dir__ = names_loaded_later(
    __name__,
    {
        "MCPServer": "server",
        "MCPServers": "many",
        "OAuth": "settings",
        "Published": "serving.published",
        "ask_form": "forms",
        "servers_in": "many",
    },
)
