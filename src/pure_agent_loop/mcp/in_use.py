"""A server while it is in use, and what its calls have to do with the run that makes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.mcp.asking import Asking
from pure_agent_loop.mcp.connection import Connection
from pure_agent_loop.mcp.settings import ServerSettings
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.tool import Tool
from pure_agent_loop.tool_context import RunContext, current_run

LOG = logging.getLogger("pure_agent_loop.mcp")
MOST_PAGES = 100
TELL_SECONDS = 0.1  # between two words of progress
Tools = list[Tool]
Prompts = Sequence[tuple[str, str, Sequence[str]]]  # name, what it is for, names of its arguments


class InUse:
    """A server while runs of one event loop use it."""

    def __init__(self, settings: ServerSettings, asking: Asking, login: Callable[[], Awaitable[Any]]) -> None:
        self.users = 0
        self.asking = asking
        self.tools: Tools | None = None
        self.is_stale = False
        self.news: dict[str, tuple[Tool, str]] = {}  # with the digest of what it says
        self.prompts: Prompts = ()
        self.has_prompts = False
        self.listing = asyncio.Lock()
        self.connection = Connection(settings, asking.callbacks, login, self._note_change, asking.log)

    def _note_change(self) -> None:
        self.is_stale = True


async def all_pages(what: str, most: int, client: Any) -> list[Any]:
    """All that a list has, page by page."""
    found: list[Any] = []
    cursor: str | None = None
    seen: set[str | None] = set()
    while cursor not in seen and len(seen) < MOST_PAGES and len(found) < most:
        seen.add(cursor)
        # The SDK's cache is for many equal questions; ours is asked when something has changed.
        page = await getattr(client, f"list_{what}")(cursor=cursor, cache_mode="refresh")
        found += getattr(page, what)
        cursor = page.next_cursor
        if cursor is None:
            break
    return found[:most]


def run_here() -> RunContext[Any] | None:
    """The run this code is in; None outside of one."""
    try:
        return current_run()
    except ConfigError:
        return None


def tell_person(text: str) -> None:
    """Say something to the person whose run it is."""
    run = run_here()
    if run is None:
        LOG.warning("%s", text)
    else:
        run.progress(text)


def teller(run: RunContext[Any] | None) -> Callable[..., Awaitable[None]] | None:
    """Tells the run how far a call is, not too often."""
    if run is None:
        return None
    context, next_time = copy_context(), 0.0

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        nonlocal next_time
        now = asyncio.get_running_loop().time()
        if now >= next_time:
            next_time = now + TELL_SECONDS
            far = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            context.run(run.progress, one_line(f"{far} {message or ''}".strip()))

    return tell
