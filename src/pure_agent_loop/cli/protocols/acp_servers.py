"""MCP servers that an editor names: handed to the room for MCP, where it can be used."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pure_agent_loop.acp.params import items, text
from pure_agent_loop.cli.toolset import Toolset
from pure_agent_loop.errors import ConfigError


def has_mcp() -> bool:
    """Whether servers of tools can be used here."""
    return all(map(importlib.util.find_spec, ("pure_agent_loop.mcp", "mcp")))


def with_servers(toolset: Toolset, servers: Sequence[Mapping[str, Any]]) -> Toolset:
    """The toolset with the MCP servers that an editor has named, beside those of the settings.

    Args:
        servers: As the protocol describes them.

    Raises:
        ConfigError: One of them cannot be used.
    """
    if not servers:
        return toolset
    room, known = importlib.import_module("pure_agent_loop.mcp"), getattr(toolset, "mcp", None)
    made = [room.MCPServer(**server_of(each)) for each in servers]
    both = {"mcp": room.MCPServers([*(known.servers if known else ()), *made])}
    return replace(toolset, **both)


def server_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """What `MCPServer` takes, of what the protocol says."""
    name, kind = text(given, "name"), given.get("type", "stdio")
    if kind in ("http", "sse"):
        headers = {text(each, "name"): text(each, "value") for each in items(given, "headers")}
        return {"name": name, "url": text(given, "url"), "headers": headers, "transport": kind}
    args = given.get("args") or []
    if kind != "stdio" or not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        raise ConfigError(f"mcpServers: {name!r:.80} is of no kind that is known here.")
    variables = {text(each, "name"): text(each, "value") for each in items(given, "env")}
    return {"name": name, "command": [text(given, "command"), *args], "env": variables}
