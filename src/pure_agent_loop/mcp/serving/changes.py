"""Subscriptions of clients to resources. A client that does not read never blocks other clients."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ResourceUpdated, ServerEvent

MAX_SUBSCRIBED = 1_000  # maximum subscribed URIs per connection
_KEY = "pure_agent_loop.subscribed"


class Changes(InMemorySubscriptionBus):
    """Notifies clients of resource changes, in the form that each client's protocol version requires."""

    def __init__(self) -> None:
        super().__init__()
        self._loop: asyncio.AbstractEventLoop | None = None
        # For the 2026 protocol, where the response itself is the stream of changes.
        self.listen = ListenHandler(self)

    def tell(self, uri: str) -> None:
        """Notify subscribers that a resource has changed; callable from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no client is left
                self._loop.call_soon_threadsafe(self._publish, ResourceUpdated(uri=uri))

    def _publish(self, event: ServerEvent) -> None:
        asyncio.ensure_future(self.publish(event))  # noqa: RUF006 - it never awaits anything

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Register a function to call on each change; return a function that removes it."""
        self._loop = asyncio.get_running_loop()
        return super().subscribe(listener)

    def add(self, context: Any, uri: str) -> None:
        """Subscribe a connection to a URI, for ``resources/subscribe`` of protocol versions before 2026.

        Raises:
            ValueError: The connection has too many subscriptions.
        """
        connection = connection_of(context)
        subscribed = connection.state.get(_KEY)
        if subscribed is None:
            subscribed = connection.state[_KEY] = _Subscribed(self, context.session)
            connection.exit_stack.push_async_callback(subscribed.close)
        if len(subscribed.uris) >= MAX_SUBSCRIBED:
            raise ValueError(f"Too many subscriptions: at most {MAX_SUBSCRIBED} resources per connection.")
        subscribed.uris.add(uri)

    def remove(self, context: Any, uri: str) -> None:
        """Cancel a connection's subscription to a URI, for ``resources/unsubscribe``."""
        subscribed = connection_of(context).state.get(_KEY)
        if subscribed is not None:
            subscribed.uris.discard(uri)


def connection_of(context: Any) -> Any:
    """Return a request's connection, which holds the client's data between requests."""
    return context.session._connection  # the SDK offers no public access to the connection


class _Subscribed:
    """The subscriptions of one connection."""

    def __init__(self, changes: Changes, session: Any) -> None:
        self.uris: set[str] = set()
        self._session, self._changed, self._has_changes = session, dict[str, None](), asyncio.Event()
        self._end = changes.subscribe(self._note)
        self._task = asyncio.create_task(self._send())

    def _note(self, event: Any) -> None:
        uri = getattr(event, "uri", None)
        if uri in self.uris:
            self._changed[uri] = None  # several changes cause one notification
            self._has_changes.set()

    async def _send(self) -> None:
        while True:
            await self._has_changes.wait()
            self._has_changes.clear()
            while self._changed:
                uri = next(iter(self._changed))
                del self._changed[uri]
                await self._session.send_resource_updated(uri)

    async def close(self) -> None:
        self._end()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self._task
