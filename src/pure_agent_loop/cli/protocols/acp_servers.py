"""MCP servers that an editor names: handed to the room for MCP, where it can be used."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.acp.params import items, text
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.toolset import Toolset
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.child import ELSEWHERE

if TYPE_CHECKING:
    from pure_agent_loop.mcp import MCPServers


def has_mcp() -> bool:
    """Whether servers of tools can be used here."""
    return importlib.util.find_spec("mcp") is not None


def editors_servers(servers: Sequence[Mapping[str, Any]], folder: Path) -> MCPServers | None:
    """The MCP servers that an editor has named; None if there are none.

    Args:
        servers: As the protocol describes them. They start outside of the folder, as those of the user do.
        folder: What they are told to keep to.

    Raises:
        ConfigError: One of them cannot be used.
    """
    if not servers:
        return None
    from pure_agent_loop.mcp import MCPServer, MCPServers

    return MCPServers(MCPServer(**_server_of(each), roots=[str(folder)]) for each in servers)


def with_editors_servers(toolset: Toolset, editors: MCPServers | None, output: Output) -> Toolset:
    """The toolset with the servers of an editor; of one name the editor's counts, which is said."""
    if editors is None:
        return toolset
    from pure_agent_loop.mcp import MCPServers

    known = toolset.mcp.servers if toolset.mcp else ()
    for each in known:
        if editors.get(each.name):
            output.say(f"MCP server left out: {each.name!r} of your settings, as the editor names one so.")
    kept = [each for each in known if not editors.get(each.name)]
    return replace(toolset, mcp=MCPServers([*kept, *editors.servers]))


def _server_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """What `MCPServer` takes, of what the protocol says."""
    from pure_agent_loop.mcp.settings import as_name

    name, kind = as_name(text(given, "name")), given.get("type", "stdio")
    if kind in ("http", "sse"):
        headers = {text(each, "name"): text(each, "value") for each in items(given, "headers")}
        return {"name": name, "url": text(given, "url"), "headers": headers, "transport": kind}
    args = given.get("args") or []
    if kind != "stdio" or not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        raise ConfigError(f"mcpServers: {name!r:.80} is of no kind that is known here.")
    variables = {text(each, "name"): text(each, "value") for each in items(given, "env")}
    return {"name": name, "command": [text(given, "command"), *args], "env": variables, "cwd": ELSEWHERE}
