"""Use the MCP servers that an editor configures."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.acp.wire import items, text
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.toolset import RunToolset
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.child import NEUTRAL_DIR
from pure_agent_loop.support.language import user_text

if TYPE_CHECKING:
    from pure_agent_loop.mcp import MCPServers


def has_mcp() -> bool:
    """Return True if the extra for MCP is installed."""
    return importlib.util.find_spec("mcp") is not None


def editors_servers(servers: Sequence[Mapping[str, Any]], folder: Path) -> MCPServers | None:
    """Return the MCP servers from an editor; None if there are none.

    Args:
        servers: Server tables of the protocol. The servers start outside the folder, like the user's own
            servers.
        folder: The folder, passed to the servers as the root.

    Raises:
        ConfigError: A server is invalid.
    """
    if not servers:
        return None
    from pure_agent_loop.mcp import MCPServer, MCPServers

    return MCPServers(MCPServer(**_server_of(table), roots=[str(folder)]) for table in servers)


def with_editors_servers(
    toolset: RunToolset, editors: MCPServers | None, output: CommandOutput
) -> RunToolset:
    """Add an editor's servers; print a notice for each server that is replaced by one of the same name."""
    if editors is None:
        return toolset
    from pure_agent_loop.mcp import MCPServers

    known = toolset.mcp.servers if toolset.mcp else ()
    for server in known:
        if editors.get(server.name):
            output.info(user_text("cli.acp_twice", name=server.name))
    kept = [server for server in known if not editors.get(server.name)]
    return replace(toolset, mcp=MCPServers([*kept, *editors.servers]))


def _server_of(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a server table of the protocol to arguments of `MCPServer`."""
    from pure_agent_loop.mcp import server_name_from

    name, kind = server_name_from(text(definition, "name")), definition.get("type", "stdio")
    if kind in ("http", "sse"):
        headers = {text(field, "name"): text(field, "value") for field in items(definition, "headers")}
        return {"name": name, "url": text(definition, "url"), "headers": headers, "transport": kind}
    args = definition.get("args") or []
    if kind != "stdio" or not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
        raise ConfigError(user_text("cli.acp_unknown_type", name=f"{name!r:.80}"))
    variables = {text(field, "name"): text(field, "value") for field in items(definition, "env")}
    return {
        "name": name,
        "command": [text(definition, "command"), *args],
        "env": variables,
        "cwd": NEUTRAL_DIR,
    }
