"""An MCP server inside of an ASGI application, at ``/mcp``. It is made with the first request to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pure_agent_loop.support.threads import in_thread

if TYPE_CHECKING:
    from pure_agent_loop.mcp.serving.offer import Offer

MOST_CONNECTIONS = 1_000  # sessions of the protocol; one that is not used for half an hour ends


class Mounted:
    """An ASGI application. Who may ask, from where and how much is decided before it.

    Args:
        offer: Makes what is offered.
        name_of: The name of who makes a request, from its scope: a session belongs to who began it.
        max_body: Bytes of a request.
    """

    def __init__(self, offer: Callable[[], Offer], name_of: Callable[[Any], str], max_body: int) -> None:
        self._make, self._name_of, self._max_body = offer, name_of, max_body
        self._offer: Offer | None = None
        self._checked: Any = None
        self._task: asyncio.Task[None] | None = None
        self._ready, self._stop = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request."""
        if self._task is None:
            self._task = asyncio.create_task(self._own())
        ready = asyncio.ensure_future(self._ready.wait())
        await asyncio.wait({ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._task.done():
            self._task.result()
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
        from mcp.server.auth.provider import AccessToken

        user = AuthenticatedUser(AccessToken(token="", client_id=self._name_of(scope), scopes=[]))
        await self._checked({**scope, "user": user}, receive, send)

    async def _own(self) -> None:
        made = await in_thread(self._made)
        async with made.run():
            self._ready.set()
            await self._stop.wait()

    def _made(self) -> Any:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from pure_agent_loop.mcp.serving.open_ids import OpenIds

        self._offer = self._make()
        made = StreamableHTTPSessionManager(
            self._offer.server(), max_request_body_size=self._max_body, max_sessions=MOST_CONNECTIONS
        )
        self._checked = OpenIds(made.handle_request)
        return made

    def session_changed(self, session: str) -> None:
        """There is something new in a session of an agent."""
        if self._offer is not None:
            self._offer.session_changed(session)

    async def close(self) -> None:
        """End its sessions."""
        self._stop.set()
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task
