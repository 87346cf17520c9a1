"""Connections of the SDK's HTTP library, kept so that many requests at once do not slow each other down.

The library's own pool looks at each of its connections for each request. Here each connection has a pool of
its own, and those that are free are a stack.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator
from functools import partial
from types import AsyncGeneratorType
from typing import Protocol

from pure_agent_loop.llm.http.plain import CONNECTIONS, KEPT_SECONDS

try:
    import httpx2 as library
except ImportError:  # before the third generation of the SDK
    import httpx as library  # type: ignore[import-not-found, no-redef, unused-ignore] # one of both

__all__ = ["HttpxAnswer", "StackedTransport", "library", "tls_for"]

_ONE = library.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEPT_SECONDS)


def tls_for(scheme: str) -> ssl.SSLContext:
    """What checks certificates, as the SDK's HTTP library does, by its own code.

    To read those of the system takes a sixth of a first task. Where there is no TLS it knows none, and so
    would refuse every server.
    """
    return library.create_ssl_context() if scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class StackedTransport(library.AsyncBaseTransport):
    """Sends each request over a connection that is free, the one that was used last before others.

    Args:
        tls: See `tls_for`.
    """

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self._free: deque[tuple[float, library.AsyncHTTPTransport]] = deque()  # since when; the newest last
        self._spoiled: list[library.AsyncHTTPTransport] = []
        self._places = asyncio.Semaphore(CONNECTIONS)
        self._is_closed = False

    async def handle_async_request(self, request: library.Request) -> library.Response:
        """See the base class."""
        oldest = asyncio.get_running_loop().time() - KEPT_SECONDS
        while self._free and self._free[0][0] < oldest:
            await self._free.popleft()[1].aclose()
        while self._spoiled:
            await self._spoiled.pop().aclose()
        await self._wait_for_place(request)
        sender = self._free.pop()[1] if self._free else library.AsyncHTTPTransport(self._tls, limits=_ONE)
        give_back = partial(self._give_back, sender)
        try:
            response = await sender.handle_async_request(request)
        except BaseException:
            if (left := give_back(spoiled=True)) is not None:
                await left.aclose()
            raise
        assert isinstance(response.stream, library.AsyncByteStream)
        response.stream = _Body(response.stream, give_back)
        return response

    async def _wait_for_place(self, request: library.Request) -> None:
        if not self._places.locked():
            await self._places.acquire()  # at once
            return
        patience = request.extensions.get("timeout", {}).get("pool")
        try:
            await asyncio.wait_for(self._places.acquire(), patience)
        except (TimeoutError, asyncio.TimeoutError) as error:
            raise library.PoolTimeout("Every connection is in use.") from error

    def _give_back(
        self, sender: library.AsyncHTTPTransport, *, spoiled: bool
    ) -> library.AsyncHTTPTransport | None:
        self._places.release()
        if self._is_closed:
            return sender
        if spoiled or _has_more(sender):  # nobody knows what is left of its connection
            self._spoiled.append(sender)
        else:
            self._free.append((asyncio.get_running_loop().time(), sender))
        return None

    async def aclose(self) -> None:
        """See the base class. What is in use is closed when it is given back."""
        self._is_closed = True
        while self._free:
            await self._free.pop()[1].aclose()
        while self._spoiled:
            await self._spoiled.pop().aclose()


def _has_more(sender: library.AsyncHTTPTransport) -> bool:
    """Whether something came behind an answer, which would be taken for the answer to the next request.

    Nothing public of the library says so; where it is made otherwise, that is not found.
    """
    for each in getattr(getattr(sender, "_pool", None), "connections", ()):
        state = getattr(getattr(each, "_connection", None), "_h11_state", None)
        if state is not None and state.trailing_data[0]:
            return True
    return False


class HttpxAnswer:
    """See `Answer`.

    Args:
        response: Its body has not been read.
    """

    at_end = False  # nobody says

    def __init__(self, response: library.Response) -> None:
        self.response, self.headers = response, response.headers
        stream, is_packed = response.stream, "content-encoding" in response.headers
        # Where nothing has to be unpacked, each piece comes through two generators less.
        pieces = aiter(stream) if isinstance(stream, _Body) and not is_packed else response.aiter_bytes()
        assert isinstance(pieces, AsyncGeneratorType)  # so it can be closed
        self._pieces = pieces

    async def read(self) -> bytes:
        """See `Answer`."""
        return await anext(self._pieces, b"")

    def left(self) -> bytes:
        """See `Answer`. Nothing: it fails behind what has come."""
        return b""

    async def aclose(self) -> None:
        """See `Answer`."""
        await self._pieces.aclose()
        await self.response.aclose()


class _GivesBack(Protocol):
    def __call__(self, *, spoiled: bool) -> library.AsyncHTTPTransport | None:
        """What has to be closed now."""


class _Body(library.AsyncByteStream):
    """A body that says, once, that it was closed."""

    def __init__(self, stream: library.AsyncByteStream, give_back: _GivesBack) -> None:
        self._stream = stream
        self._give_back: _GivesBack | None = give_back

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def aclose(self) -> None:
        """See the base class."""
        give_back, self._give_back = self._give_back, None
        spoiled = True
        try:
            await self._stream.aclose()
            spoiled = False
        finally:
            if give_back is not None and (left := give_back(spoiled=spoiled)) is not None:
                await left.aclose()
