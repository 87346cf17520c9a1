"""Several servers as one toolset: queried in parallel, with a search if they have many tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.mcp.search import MAX_SHOWN, ToolSearch
from pure_agent_loop.mcp.server import MCPServer
from pure_agent_loop.support.language import model_text, notice
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.tool import StepContext, Tool

if TYPE_CHECKING:
    from typing_extensions import Self


class MCPServers:
    """Several servers as one toolset. If the servers have many tools, the model gets a search tool.

    Args:
        servers: The servers.
        most: Maximum number of tools shown; above it the model gets one search tool.

    Raises:
        ConfigError: Two servers have the same name.
    """

    def __init__(self, servers: Iterable[MCPServer], *, most: int = MAX_SHOWN) -> None:
        self.servers = list(servers)
        names = [server.name for server in self.servers]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigError(notice("library.mcp_twice", twice=min(twice)))
        self._shown = ToolSearch(self.every, most, "search_mcp_tools", f"MCP: {', '.join(names)}.")
        self._last: list[Sequence[Tool]] = []
        self._tools: Sequence[Tool] = []

    async def __aenter__(self) -> Self:
        for server in self.servers:  # entering only counts users: a server starts on first use
            await server.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.gather(*(server.__aexit__(*error) for server in self.servers))

    async def every(self, context: StepContext) -> Sequence[Tool]:
        """Return all tools of the servers, which start in parallel."""
        lists = list(await asyncio.gather(*(server.every(context) for server in self.servers)))
        if len(lists) != len(self._last) or any(a is not b for a, b in zip(lists, self._last, strict=True)):
            self._last, self._tools = lists, _by_name([tool for tools in lists for tool in tools], context)
        return self._tools

    async def list(self, context: StepContext) -> Sequence[Tool]:
        """Return the tools, or the search tool with the tools it has found."""
        return await self._shown.list(context)

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call a tool by name. Runs do not use this method, because each listed tool has its own function."""
        for tool in await self.every(StepContext()):
            if tool.name == name:
                return await tool.function(**args)
        raise LookupError(name)

    @property
    def known_tools(self) -> Sequence[Tool]:
        """The tools listed so far."""
        return [tool for server in self.servers for tool in server.known_tools]

    @property
    def known_prompts(self) -> Sequence[tuple[str, str]]:
        """The prompts listed so far: ``SERVER:PROMPT`` and description."""
        return [
            (f"{server.name}:{one_line(name)}", f"{' '.join(args).upper()} {description}".strip())
            for server in self.servers
            for name, description, args in server.known_prompts
        ]

    def get(self, name: str) -> MCPServer | None:
        """Return the server with a name; None if missing."""
        return next((server for server in self.servers if server.name == name), None)


def _by_name(tools: Iterable[Tool], context: StepContext) -> Sequence[Tool]:
    """Drop tools with a duplicate name: a server must not replace the tool of another server."""
    tools_by_name: dict[str, Tool] = {}
    for tool in tools:
        if tools_by_name.setdefault(tool.name, tool) is not tool:
            context.tell(model_text("tool_left_out", tool=tool.name, why=model_text("mcp_same_name")))
    return [*tools_by_name.values()]


def servers_in(toolsets: Iterable[object]) -> Sequence[MCPServer]:
    """Return the servers among toolsets, without duplicates."""
    servers_by_id: dict[int, MCPServer] = {}
    for toolset in toolsets:
        servers = (
            toolset.servers
            if isinstance(toolset, MCPServers)
            else [toolset]
            if isinstance(toolset, MCPServer)
            else []
        )
        servers_by_id |= {id(server): server for server in servers}
    return [*servers_by_id.values()]
