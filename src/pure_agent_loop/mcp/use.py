"""A server in use by runs: its connection, its tools and prompts, and the pages of its lists."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pure_agent_loop.mcp.asking import ServerRequests
from pure_agent_loop.mcp.connection import Connection, is_answered
from pure_agent_loop.mcp.lenient import left_out
from pure_agent_loop.mcp.settings import ServerSettings
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import Tool

MAX_PAGES = 100
Tools = list[Tool]
Prompts = Sequence[tuple[str, str, Sequence[str]]]  # name, description, argument names


class ServerUse:
    """A server in use by runs on one event loop."""

    def __init__(
        self, settings: ServerSettings, requests: ServerRequests, login: Callable[[], Awaitable[Any]]
    ) -> None:
        self.users = 0
        self.requests = requests
        self.tools: Tools | None = None
        self.is_stale = False
        # By name: the tool and the digest of its new description.
        self.changed_tools: dict[str, tuple[Tool, str]] = {}
        self.prompts: Prompts = ()
        self.has_prompts = False
        self.left_out: list[str] = []  # tools that cannot be used, with the reasons
        self.listing = asyncio.Lock()
        self.connection = Connection(settings, requests.callbacks, login, self._note_change, requests.log)

    def _note_change(self) -> None:
        self.is_stale = True


async def all_pages(what: str, maximum: int, notes: list[str], client: Any) -> list[Any]:
    """Return all pages of a list. Append left-out entries and their reasons to `notes`."""
    entries: list[Any] = []
    cursor: str | None = None
    seen: set[str | None] = set()
    while cursor not in seen and len(seen) < MAX_PAGES and len(entries) < maximum:
        seen.add(cursor)
        # Bypass the SDK's cache: this request follows a change.
        try:
            page = await getattr(client, f"list_{what}")(cursor=cursor, cache_mode="refresh")
        except Exception as error:
            if cursor is None or not is_answered(error):
                raise
            notes.append(
                model_text(
                    "mcp_left_out", what=what, name=model_text("mcp_rest"), why=one_line(safe_str(error))
                )
            )
            break
        entries += getattr(page, what)
        notes += left_out(page)
        cursor = page.next_cursor
        if cursor is None:
            break
    return entries[:maximum]
