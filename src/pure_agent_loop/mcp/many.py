"""Several servers as one toolset: asked side by side, and searched where they have many tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.mcp.in_use import tell_person
from pure_agent_loop.mcp.server import MCPServer
from pure_agent_loop.mcp.shown import MOST_SHOWN, Shown
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.tool import StepContext, Tool

if TYPE_CHECKING:
    from typing_extensions import Self


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
        names = [each.name for each in self.servers]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigError(f"Two MCP servers have the name {min(twice)!r}. Give one another name=.")
        self._shown = Shown(self.every, most, "search_mcp_tools", f"MCP: {', '.join(names)}.")
        self._last: list[Sequence[Tool]] = []
        self._tools: Sequence[Tool] = []

    async def __aenter__(self) -> Self:
        for each in self.servers:  # to enter one only counts: it is started when it is needed
            await each.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.gather(*(each.__aexit__(*error) for each in self.servers))

    async def every(self, context: StepContext) -> Sequence[Tool]:
        """All their tools; the servers are started side by side."""
        found = list(await asyncio.gather(*(each.every(context) for each in self.servers)))
        if len(found) != len(self._last) or any(a is not b for a, b in zip(found, self._last, strict=True)):
            self._last, self._tools = found, _by_name(tool for tools in found for tool in tools)
        return self._tools

    async def list(self, context: StepContext) -> Sequence[Tool]:
        """Their tools, or the search among them with what it has found."""
        return await self._shown.list(context)

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call a tool; a run does not need it, because what `list` gives has a function."""
        for tool in await self.every(StepContext()):
            if tool.name == name:
                return await tool.function(**args)
        raise LookupError(name)

    @property
    def known_tools(self) -> Sequence[Tool]:
        """The tools that they were found to have so far."""
        return [tool for each in self.servers for tool in each.known_tools]

    @property
    def known_prompts(self) -> Sequence[tuple[str, str]]:
        """The prompts that were heard of so far: ``SERVER:PROMPT``, and what each is for."""
        return [
            (f"{each.name}:{one_line(name)}", f"{' '.join(args).upper()} {about}".strip())
            for each in self.servers
            for name, about, args in each.known_prompts
        ]

    def get(self, name: str) -> MCPServer | None:
        """The server of that name."""
        return next((each for each in self.servers if each.name == name), None)


def _by_name(tools: Iterable[Tool]) -> Sequence[Tool]:
    """Each name once: a server whose prefix is that of another one may not take its place."""
    found: dict[str, Tool] = {}
    for each in tools:
        if found.setdefault(each.name, each) is not each:
            tell_person(f"The tool {each.name} is left out: another MCP server has one of that name.")
    return [*found.values()]


def servers_in(toolsets: Iterable[object]) -> Sequence[MCPServer]:
    """The servers among some toolsets, each once."""
    found: dict[int, MCPServer] = {}
    for each in toolsets:
        mine = each.servers if isinstance(each, MCPServers) else [each] if isinstance(each, MCPServer) else []
        found |= {id(server): server for server in mine}
    return [*found.values()]
