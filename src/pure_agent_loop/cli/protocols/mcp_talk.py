"""MCP servers in user input: the state of servers, prompts (/) and resources (@)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pure_agent_loop.cli.chat.custom import command_in, no_command
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.mcp import ServerError, expand_mentions
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.terminal import one_line

if TYPE_CHECKING:
    from pure_agent_loop.mcp import MCPServers


async def lines_about(servers: MCPServers) -> list[str]:
    """Return the state and the prompts of each server, as lines of Markdown."""
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
    """Expand the prompt and the resources that a task names; see `expand_mentions`.

    Args:
        typed: The part of the task that the user typed.

    Raises:
        ConfigError: The server has no such prompt.
        ServerError: The resource does not exist, or the server failed.
    """
    try:
        return await expand_mentions(servers, task, typed)
    except ServerError as error:
        name, _ = command_in(typed) or ("", "")
        server = servers.get(name.partition(":")[0])
        known = [prompt for prompt, _ in servers.known_prompts]
        if server is None or not server.known_prompts or name in known:
            raise
        raise ConfigError(no_command(name, known)) from error


@contextmanager
def held(servers: MCPServers, task: str | None, typed: str) -> Iterator[str | None]:
    """Keep servers open within the block, and yield the task with its prompts and resources expanded.

    Args:
        typed: The part of the task that the user typed.

    Raises:
        ConfigError: The server has no such prompt.
        ServerError: The resource does not exist, or the server failed.
    """
    run_sync(servers.__aenter__())
    try:
        yield task if task is None or not typed else run_sync(with_named(servers, task, typed))
    finally:
        run_sync(servers.__aexit__())
