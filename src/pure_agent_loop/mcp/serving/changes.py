"""Which clients want to hear of resources that change. Nobody waits for a client that does not read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ResourceUpdated, ServerEvent

MOST_SUBSCRIBED = 1_000  # addresses of one connection
_KEY = "pure_agent_loop.subscribed"


class Changes(InMemorySubscriptionBus):
    """Tells clients of changes, in the form that each version of the protocol has for it."""

    def __init__(self) -> None:
        super().__init__()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.listen = ListenHandler(self)  # of the protocol of 2026: its answer is the stream

    def tell(self, uri: str) -> None:
        """There is something new at an address; from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is there any more
                self._loop.call_soon_threadsafe(self._publish, ResourceUpdated(uri=uri))

    def _publish(self, event: ServerEvent) -> None:
        asyncio.ensure_future(self.publish(event))  # noqa: RUF006 - it never waits for anything

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Have a function called with each change; call what comes back to end that."""
        self._loop = asyncio.get_running_loop()
        return super().subscribe(listener)

    def add(self, context: Any, uri: str) -> None:
        """Answer ``resources/subscribe``, of the versions before.

        Raises:
            ValueError: The connection has subscribed to too many.
        """
        connection = connection_of(context)
        mine = connection.state.get(_KEY)
        if mine is None:
            mine = connection.state[_KEY] = _Subscribed(self, context.session)
            connection.exit_stack.push_async_callback(mine.close)
        if len(mine.uris) >= MOST_SUBSCRIBED:
            raise ValueError(f"At most {MOST_SUBSCRIBED} resources can be subscribed to.")
        mine.uris.add(uri)

    def remove(self, context: Any, uri: str) -> None:
        """Answer ``resources/unsubscribe``."""
        mine = connection_of(context).state.get(_KEY)
        if mine is not None:
            mine.uris.discard(uri)


def connection_of(context: Any) -> Any:
    """The connection a request came over, which keeps what belongs to a client for longer than that."""
    return context.session._connection  # the SDK has no other way to it


class _Subscribed:
    """What one connection has subscribed to."""

    def __init__(self, changes: Changes, session: Any) -> None:
        self.uris: set[str] = set()
        self._session, self._new, self._news = session, dict[str, None](), asyncio.Event()
        self._end = changes.subscribe(self._note)
        self._task = asyncio.create_task(self._tell())

    def _note(self, event: Any) -> None:
        uri = getattr(event, "uri", None)
        if uri in self.uris:
            self._new[uri] = None  # told once, however often it changes until then
            self._news.set()

    async def _tell(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._new:
                uri = next(iter(self._new))
                del self._new[uri]
                await self._session.send_resource_updated(uri)

    async def close(self) -> None:
        self._end()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self._task
