"""Expand prompts (``/SERVER:PROMPT``) and resources (``@SERVER:URI``) in a person's text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from pure_agent_loop.errors import ToolExecutionError
from pure_agent_loop.toolbox.untrusted import mark_untrusted

if TYPE_CHECKING:
    from pure_agent_loop.mcp.server import MCPServer

_MENTION = re.compile(r"(?:^|(?<=\s))@([A-Za-z0-9][A-Za-z0-9_-]*):(\S+)")
_PROMPT = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_-]*):(\S*)\s*(.*)", re.DOTALL)


class Named(Protocol):
    """Servers by name: a dict, or `MCPServers`."""

    def get(self, name: str, /) -> MCPServer | None: ...  # noqa: D102 - like `dict.get`


async def expand_mentions(servers: Named, task: str, typed: str) -> str:
    """Return a task with the prompt or the resources that it mentions expanded.

    Mentions of unknown servers are kept unchanged.

    Args:
        typed: The part of the task that a person typed; only this part is searched, never a prompt's text.

    Raises:
        ServerError: The prompt or resource does not exist, or the server cannot be reached.
    """
    match = _PROMPT.fullmatch(typed)
    server = servers.get(match[1]) if match else None
    if match is not None and server is not None:
        return task.replace(typed, await server.prompt(match[2], match[3].split()), 1)
    texts = [task]
    for name, uri in _MENTION.findall(typed):
        server = servers.get(name)
        if server is not None:
            content = await server.read(uri)
            text = content if isinstance(content, str) else "\n".join(map(str, content))
            texts.append(mark_untrusted(text, f"{name}:{uri}"))
    return "\n\n".join(texts)


async def prompt_completions(server: MCPServer, prompt: str, words: Sequence[str]) -> Sequence[str]:
    """Return completions for the last word after a prompt; empty if the server offers none.

    Args:
        words: The words typed so far, at least one; the last may be empty.
    """
    *before, begun = words
    try:
        known = server.known_prompts or await server.prompts()
        names = next((args for name, _, args in known if name == prompt), ())
        if len(before) >= len(names):
            return []
        values = dict(zip(names, before, strict=False))
        return await server.complete(prompt, names[len(before)], begun, values)
    except ToolExecutionError:
        return []
