"""An MCP server within an ASGI application, at ``/mcp``. The first request creates the server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pure_agent_loop.support.threads import in_thread

if TYPE_CHECKING:
    from pure_agent_loop.mcp.serving.server import AgentServer

MAX_CONNECTIONS = 1_000  # maximum protocol sessions; an idle session ends after half an hour


class Mounted:
    """An ASGI application. Authentication, host checks and limits must be applied before this application.

    Args:
        name_of: Returns the requester's name from the scope; a protocol session belongs to its creator.
        max_body: Maximum bytes per request.
    """

    def __init__(
        self, make_server: Callable[[], AgentServer], name_of: Callable[[Any], str], max_body: int
    ) -> None:
        self._make_server, self._name_of, self._max_body = make_server, name_of, max_body
        self._server: AgentServer | None = None
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
        manager = await in_thread(self._build)
        async with manager.run():
            self._ready.set()
            await self._stop.wait()

    def _build(self) -> Any:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from pure_agent_loop.mcp.serving.open_ids import OpenIds

        self._server = self._make_server()
        manager = StreamableHTTPSessionManager(
            self._server.server(), max_request_body_size=self._max_body, max_sessions=MAX_CONNECTIONS
        )
        self._checked = OpenIds(manager.handle_request)
        return manager

    def session_changed(self, session: str) -> None:
        """Notify subscribers that an agent's session has changed."""
        if self._server is not None:
            self._server.session_changed(session)

    async def close(self) -> None:
        """Close all protocol sessions."""
        self._stop.set()
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task
