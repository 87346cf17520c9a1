"""What stands behind words of a person: a prompt (``/SERVER:PROMPT``), resources (``@SERVER:URI``)."""

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
    """Servers by name: a dict of them, or `MCPServers`."""

    def get(self, name: str, /) -> MCPServer | None: ...  # noqa: D102 - as of a dict


async def with_all(servers: Named, task: str, typed: str) -> str:
    """A task with the prompt or the resources that a person named. What names no server is text.

    Args:
        typed: What of the task a person has typed; nothing else is looked into, least of all a prompt.

    Raises:
        ServerError: There is no such prompt or resource, or the server cannot be asked.
    """
    found = _PROMPT.fullmatch(typed)
    server = servers.get(found[1]) if found else None
    if found is not None and server is not None:
        return task.replace(typed, await server.prompt(found[2], found[3].split()), 1)
    texts = [task]
    for name, uri in _MENTION.findall(typed):
        server = servers.get(name)
        if server is not None:
            found = await server.read(uri)
            text = found if isinstance(found, str) else "\n".join(map(str, found))
            texts.append(mark_untrusted(text, f"{name}:{uri}"))
    return "\n\n".join(texts)


async def endings(server: MCPServer, prompt: str, words: Sequence[str]) -> Sequence[str]:
    """What the last of the words behind a prompt may go on to; nothing where the server does not say.

    Args:
        words: Those typed so far, at least one; the last may be empty.
    """
    *before, begun = words
    try:
        known = server.known_prompts or await server.prompts()
        names = next((args for name, _, args in known if name == prompt), ())
        if len(before) >= len(names):
            return []
        given = dict(zip(names, before, strict=False))
        return await server.complete(prompt, names[len(before)], begun, given)
    except ToolExecutionError:
        return []
