"""MCP servers in a conversation: how they stand, their prompts (/), their resources (@)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pure_agent_loop.cli.nearest import did_you_mean
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.toolbox.untrusted import mark_untrusted

if TYPE_CHECKING:
    from pure_agent_loop.mcp import MCPServer, MCPServers

_MENTION = re.compile(r"(?:^|(?<=\s))@([A-Za-z0-9][A-Za-z0-9_-]*):(\S+)")


async def lines_about(servers: MCPServers) -> list[str]:
    """How each server stands, and what prompts it has, as lines of Markdown."""
    lines: list[str] = []
    for server in servers.servers:
        state = server.state
        tools = f", {state.tools} tools" if state.state == "ready" else ""
        error = f": {one_line(state.error, 400)}" if state.error else ""
        lines.append(f"`{server.name}` {state.state}{tools}{error}")
        if state.state == "ready" and server.has_prompts:
            await server.prompts()
    return [*lines, *(f"`/{name}` {about}" for name, about in servers.known_prompts)]


async def prompt_task(servers: MCPServers, name: str, words: str) -> str:
    """The task that ``/SERVER:PROMPT WORDS`` stands for.

    Raises:
        ConfigError: There is no such server.
        ServerError: It has no such prompt, or cannot be asked.
    """
    server, _, prompt = name.partition(":")
    return await _named(servers, server).prompt(prompt, words.split())


async def with_resources(servers: MCPServers | None, task: str) -> str:
    """A task with what stands behind each ``@SERVER:URI`` in it. What names no server is text.

    Raises:
        ServerError: It cannot be read.
    """
    texts = [task]
    for name, uri in _MENTION.findall(task) if servers is not None else ():
        server = servers.get(name) if servers is not None else None
        if server is not None:
            found = await server.read(uri)
            text = found if isinstance(found, str) else "\n".join(map(str, found))
            texts.append(mark_untrusted(text, f"{name}:{uri}"))
    return "\n\n".join(texts)


def _named(servers: MCPServers, name: str) -> MCPServer:
    found = servers.get(name)
    if found is None:
        known = [each.name for each in servers.servers]
        raise ConfigError(f"There is no MCP server {name!r:.60}.{did_you_mean(name, known)}")
    return found
