"""Which clients want to hear of resources that change. Nobody waits for a client that does not read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

MOST_SUBSCRIBED = 1_000  # addresses of one connection
_KEY = "pure_agent_loop.subscribed"


class Changes:
    """Tells clients of changes, in the form that each version of the protocol has for it."""

    def __init__(self) -> None:
        self._listeners: dict[object, Callable[[Any], None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listen: Any = None

    def tell(self, uri: str) -> None:
        """There is something new at an address; from any thread."""
        if self._loop is not None and self._listeners:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is there any more
                self._loop.call_soon_threadsafe(self._deliver, uri)

    def _deliver(self, uri: str) -> None:
        from mcp.shared.subscriptions import ResourceUpdated

        for each in list(self._listeners.values()):
            each(ResourceUpdated(uri=uri))

    def subscribe(self, listener: Callable[[Any], None]) -> Callable[[], None]:
        """Have a function called with each change; call what comes back to end that."""
        self._loop, key = asyncio.get_running_loop(), object()
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None

    async def listen(self, context: Any, params: Any) -> Any:
        """Answer ``subscriptions/listen``, of the protocol of 2026: the answer is the stream."""
        if self._listen is None:
            from mcp.server.subscriptions import ListenHandler

            bus: Any = self  # it only subscribes
            self._listen = ListenHandler(bus)
        return await self._listen(context, params)

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
