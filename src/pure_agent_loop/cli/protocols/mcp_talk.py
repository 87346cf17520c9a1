"""MCP servers in what a person types: how they stand, their prompts (/), their resources (@)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pure_agent_loop.cli.chat.custom import command_in, no_command
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.mcp.connection import ServerError
from pure_agent_loop.mcp.mentions import with_all
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.terminal import one_line

if TYPE_CHECKING:
    from pure_agent_loop.mcp import MCPServers


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


async def with_named(servers: MCPServers, task: str, typed: str) -> str:
    """A task with the prompt and the resources that it names; see `with_all`.

    Args:
        task: The task.
        typed: What of it a person has typed.

    Raises:
        ConfigError: The server has no such prompt.
        ServerError: There is no such resource, or the server cannot be asked.
    """
    try:
        return await with_all(servers, task, typed)
    except ServerError as error:
        name, _ = command_in(typed) or ("", "")
        server = servers.get(name.partition(":")[0])
        known = [each for each, _ in servers.known_prompts]
        if server is None or not server.known_prompts or name in known:
            raise
        raise ConfigError(no_command(name, known)) from error


@contextmanager
def held(servers: MCPServers, task: str | None, typed: str) -> Iterator[str | None]:
    """Keep servers for all of a command, and give its task with the prompts and resources it names.

    Args:
        task: The task; None for none.
        typed: What of it a person has typed.

    Raises:
        ConfigError: The server has no such prompt.
        ServerError: There is no such resource, or the server cannot be asked.
    """
    run_sync(servers.__aenter__())
    try:
        yield task if task is None or not typed else run_sync(with_named(servers, task, typed))
    finally:
        run_sync(servers.__aexit__())
