"""MCP client and server: foreign servers as toolsets, and tools and agents as an MCP server.

    serving/             tools and agents as a server for any MCP client
    MCPServer            a foreign server as a toolset
      ├─ settings        one server's settings
      ├─ use             its connection, tools and prompts while runs are using it
      ├─ connection      one task owns each connection
      │    └─ pipes, network    stdio; streamable HTTP, SSE
      ├─ tools           its tools as `Tool`s
      ├─ approvals       detects changed descriptions
      ├─ lenient         checks its answers entry by entry
      ├─ results         results of its calls
      ├─ progress        messages and progress of its calls
      └─ asking          its requests: roots, elicitation, sampling
    forms                a tool asks a person for several values
    mentions             prompts and resources that a person's text names
    many, search         several servers as one toolset, with a search when they have many tools
    files                mcp.json, .mcp.json
    login                OAuth, with its token_storage

The official SDK (the extra ``[mcp]``) is imported on first use, because the import takes more than a second.
See docs/mcp.md.
"""

from typing import TYPE_CHECKING

from pure_agent_loop.support.lazy import lazy_exports

if TYPE_CHECKING:
    from pure_agent_loop.mcp.approvals import Approvals
    from pure_agent_loop.mcp.connection import ServerError
    from pure_agent_loop.mcp.files import (
        UnsetVariableError,
        change_user_servers,
        server_tables,
        settings_from_table,
        user_servers,
        user_servers_path,
    )
    from pure_agent_loop.mcp.forms import ask_form
    from pure_agent_loop.mcp.login import forget_login, log_in
    from pure_agent_loop.mcp.many import MCPServers, servers_in
    from pure_agent_loop.mcp.mentions import expand_mentions, prompt_completions
    from pure_agent_loop.mcp.pipes import server_log_path
    from pure_agent_loop.mcp.server import MCPServer
    from pure_agent_loop.mcp.serving.one_call import OneCall
    from pure_agent_loop.mcp.serving.published import Published
    from pure_agent_loop.mcp.serving.server import AgentServer, Caller, serve_stdio
    from pure_agent_loop.mcp.settings import OAuth, ServerSettings, server_name_from

__all__ = [
    "AgentServer",
    "Approvals",
    "Caller",
    "MCPServer",
    "MCPServers",
    "OAuth",
    "OneCall",
    "Published",
    "ServerError",
    "ServerSettings",
    "UnsetVariableError",
    "ask_form",
    "change_user_servers",
    "expand_mentions",
    "forget_login",
    "log_in",
    "prompt_completions",
    "serve_stdio",
    "server_log_path",
    "server_name_from",
    "server_tables",
    "servers_in",
    "settings_from_table",
    "user_servers",
    "user_servers_path",
]

_OF_FILES = (
    "UnsetVariableError",
    "change_user_servers",
    "server_tables",
    "settings_from_table",
    "user_servers",
    "user_servers_path",
)
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AgentServer": "serving.server",
        "Approvals": "approvals",
        "Caller": "serving.server",
        "OneCall": "serving.one_call",
        "ServerError": "connection",
        "ServerSettings": "settings",
        "expand_mentions": "mentions",
        "forget_login": "login",
        "log_in": "login",
        "prompt_completions": "mentions",
        "serve_stdio": "serving.server",
        "MCPServer": "server",
        "MCPServers": "many",
        "OAuth": "settings",
        "Published": "serving.published",
        "ask_form": "forms",
        "servers_in": "many",
        "server_log_path": "pipes",
        "server_name_from": "settings",
        **dict.fromkeys(_OF_FILES, "files"),
    },
)
