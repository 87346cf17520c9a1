"""Connections of a client: one transport per event loop, closed with the loop or the client."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pure_agent_loop.llm.http import Transport

    Transports = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Transport]
    Guards = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None, None]]


class Connections:
    """Transports of a client, by event loop: a connection pool belongs to one loop, a client to several.

    Args:
        new_transport: Builds a transport; may be called in any thread.
    """

    def __init__(self, new_transport: Callable[[], Transport]) -> None:
        self._new_transport = new_transport
        self._unused: list[Transport] = []
        self._building = threading.Lock()
        self._transports: Transports = weakref.WeakKeyDictionary()
        self._guards: Guards = weakref.WeakKeyDictionary()
        weakref.finalize(self, _close_left_open, self._transports).atexit = False

    def prepare(self) -> None:
        """Build a transport for the first request. Thread-safe; raises what `new_transport` raises."""
        with self._building:
            if not (self._unused or self._transports):
                self._unused.append(self._new_transport())

    async def transport(self) -> Transport:
        """Return the transport of the running event loop."""
        loop = asyncio.get_running_loop()
        transport = self._transports.get(loop)
        if transport is None:
            # Transports keep a reference to their loop, so closed loops have to be removed here.
            for ended in [known for known in list(self._transports) if known.is_closed()]:
                self._transports.pop(ended, None)
                self._guards.pop(ended, None)
            try:
                transport = self._unused.pop()  # atomic: loops of other threads may take it too
            except IndexError:
                transport = self._new_transport()
            self._transports[loop] = transport
            if loop not in self._guards:
                self._guards[loop] = guard = _close_with_loop(self._transports, self._guards)
                await guard.__anext__()
        return transport

    async def aclose(self) -> None:
        """Close the connections of the running event loop; one in use closes after its response."""
        transport = self._transports.pop(asyncio.get_running_loop(), None)
        if transport is not None:
            await transport.close()


async def _close_with_loop(transports: Transports, guards: Guards) -> AsyncGenerator[None, None]:
    """Close the connections of an event loop when it ends.

    ``asyncio.run`` closes open generators at its end: the only signal that a loop gives.
    """
    try:
        yield
    finally:
        loop = asyncio.get_running_loop()
        guards.pop(loop, None)
        transport = transports.pop(loop, None)
        if transport is not None:
            await transport.close()


def _close_left_open(transports: Mapping[asyncio.AbstractEventLoop, Transport]) -> None:
    """Close the connections of a garbage-collected client, each on its event loop."""
    for loop, transport in list(transports.items()):
        if loop.is_running():
            asyncio.run_coroutine_threadsafe(transport.close(), loop)
