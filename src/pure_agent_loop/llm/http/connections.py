"""A client's connections: one transport per event loop, closed with the loop or the client."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from pure_agent_loop.cancel import Interrupt

if TYPE_CHECKING:
    from pure_agent_loop.llm.http.plain import HttpResponse, Transport

    Transports = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Transport]
    Guards = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None, None]]

DRAIN_SECONDS = 0.2


class Connections:
    """A client's transports, one per event loop, because a connection pool belongs to one loop.

    Args:
        new_transport: Method of the client that builds a transport; may be called in any thread. The
            reference to it is weak, so that the connections of an unused client are closed at once.
        current_key: Method of the client that returns its key. If the key changes, a new transport is built.
    """

    def __init__(self, new_transport: Callable[[], Transport], current_key: Callable[[], object]) -> None:
        self._builder, self._key = weakref.WeakMethod(new_transport), weakref.WeakMethod(current_key)
        self._keys: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, object] = weakref.WeakKeyDictionary()
        self._unused: list[tuple[object, Transport]] = []
        self._building = threading.Lock()
        self._transports: Transports = weakref.WeakKeyDictionary()
        self._guards: Guards = weakref.WeakKeyDictionary()
        weakref.finalize(self, _close_left_open, self._transports).atexit = False

    def prepare(self) -> None:
        """Build a transport for the first request. Thread-safe; raises the errors of `new_transport`."""
        with self._building:
            if not (self._unused or self._transports):
                self._unused.append((self._current_key(), self._new_transport()))

    def _new_transport(self) -> Transport:
        build = self._builder()
        assert build is not None  # the client is alive while it is sending a request
        return build()

    def _current_key(self) -> object:
        current_key = self._key()
        assert current_key is not None  # the client is alive while it is sending a request
        return current_key()

    async def transport(self) -> Transport:
        """Return the transport of the running event loop."""
        loop = asyncio.get_running_loop()
        while self._keys.get(loop, key := self._current_key()) != key:
            del self._keys[loop]  # other requests may build the new transport while the old one is closing
            await self.aclose()
        transport = self._transports.get(loop)
        if transport is None:
            # Transports keep a reference to their loop, so closed loops have to be removed here.
            for ended in [known for known in list(self._transports) if known.is_closed()]:
                self._transports.pop(ended, None)
                self._guards.pop(ended, None)
            try:
                # `pop` is atomic: event loops in other threads may also take the transport.
                made_for, transport = self._unused.pop()
            except IndexError:
                made_for = None
            if transport is None or made_for != key:
                transport = self._new_transport()
            self._transports[loop], self._keys[loop] = transport, key
            if loop not in self._guards:
                self._guards[loop] = guard = _close_with_loop(self._transports, self._guards)
                await guard.__anext__()
        return transport

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a connection in use closes after its response."""
        transport = self._transports.pop(asyncio.get_running_loop(), None)
        if transport is not None:
            await transport.close()


async def drain(response: HttpResponse) -> None:
    """Read the rest of the body, but not for long, so that the connection can be reused.

    Errors are ignored: the response is complete.
    """
    if response.at_end:
        return
    with Interrupt() as block, suppress(Exception):
        block.after(DRAIN_SECONDS)
        while await response.read():
            pass


async def _close_with_loop(transports: Transports, guards: Guards) -> AsyncGenerator[None, None]:
    """Close the connections of an event loop when it ends.

    ``asyncio.run`` closes open generators at its end, which is the only sign that a loop is ending.
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
