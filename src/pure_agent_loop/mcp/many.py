"""Several servers as one toolset: asked side by side, and searched where they have many tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.mcp.server import MCPServer
from pure_agent_loop.tool import StepContext, Tool

if TYPE_CHECKING:
    from typing_extensions import Self

MOST_SHOWN = 40  # tools; of more the model gets a search


class MCPServers:
    """Servers as one toolset. Where they have more than a few tools, the model searches among them.

    Args:
        servers: The servers.
        most: How many tools a model is shown; of more it gets one tool that searches.

    Raises:
        ConfigError: Two have one name.
    """

    def __init__(self, servers: Iterable[MCPServer], *, most: int = MOST_SHOWN) -> None:
        self.servers = list(servers)
        self._most = most
        names = [each.name for each in self.servers]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigError(f"Two MCP servers have the name {min(twice)!r}. Give one another name=.")
        self._all = _All(self.servers)
        self._search: Any = None

    async def __aenter__(self) -> Self:
        for each in self.servers:  # to enter one only counts: it is started when it is needed
            await each.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.gather(*(each.__aexit__(*error) for each in self.servers))

    async def list(self, context: StepContext) -> Sequence[Tool]:
        """Their tools, or the search among them with what it has found."""
        tools = await self._all.list(context)
        if len(tools) <= self._most:
            return tools
        if self._search is None:
            from pure_agent_loop.toolsets.search import searchable

            about = ", ".join(each.name for each in self.servers)
            self._search = searchable(self._all, name="search_mcp_tools", about=f"MCP: {about}.")
        found: Sequence[Tool] = await self._search.list(context)
        return found

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call a tool; a run does not need it, because what `list` gives has a function."""
        for tool in await self._all.list(StepContext()):
            if tool.name == name:
                return await tool.function(**args)
        raise LookupError(name)

    def get(self, name: str) -> MCPServer | None:
        """The server of that name."""
        return next((each for each in self.servers if each.name == name), None)


class _All:
    """All tools of the servers, without a search."""

    def __init__(self, servers: Sequence[MCPServer]) -> None:
        self._servers = servers
        self._last: list[Sequence[Tool]] = []
        self._tools: list[Tool] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """The servers are left by whom they belong to."""

    async def list(self, context: StepContext) -> Sequence[Tool]:
        found = list(await asyncio.gather(*(each.list(context) for each in self._servers)))
        if len(found) != len(self._last) or any(a is not b for a, b in zip(found, self._last, strict=True)):
            self._last, self._tools = found, [tool for tools in found for tool in tools]
        return self._tools

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        raise LookupError(name)
