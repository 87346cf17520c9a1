"""Connection pool for the SDK's HTTP library, fast with many concurrent requests.

The library's own pool scans all its connections for each request. Here each connection has a separate pool,
and free connections are kept on a stack.
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
except ImportError:  # SDK before version 3
    import httpx as library  # type: ignore[import-not-found, no-redef, unused-ignore] # one of both

__all__ = ["HttpxResponse", "StackedTransport", "library", "tls_for"]

_ONE = library.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEPT_SECONDS)


def tls_for(scheme: str) -> ssl.SSLContext:
    """Return the TLS context of the SDK's HTTP library.

    Loading the system's certificates takes a sixth of a first task. Without TLS, the context has no
    certificates and rejects every server.
    """
    return library.create_ssl_context() if scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class StackedTransport(library.AsyncBaseTransport):
    """Sends each request over a free connection, the most recently used first.

    Args:
        tls: See `tls_for`.
    """

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self._free: deque[tuple[float, library.AsyncHTTPTransport]] = (
            deque()
        )  # (time released, connection), newest last
        self._broken: list[library.AsyncHTTPTransport] = []
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._is_closed = False

    async def handle_async_request(self, request: library.Request) -> library.Response:
        """See the base class."""
        oldest = asyncio.get_running_loop().time() - KEPT_SECONDS
        while self._free and self._free[0][0] < oldest:
            await self._free.popleft()[1].aclose()
        while self._broken:
            await self._broken.pop().aclose()
        await self._wait_for_slot(request)
        sender = self._free.pop()[1] if self._free else library.AsyncHTTPTransport(self._tls, limits=_ONE)
        release = partial(self._release, sender)
        try:
            response = await sender.handle_async_request(request)
        except BaseException:
            if (unused := release(is_broken=True)) is not None:
                await unused.aclose()
            raise
        assert isinstance(response.stream, library.AsyncByteStream)
        response.stream = _Body(response.stream, release)
        return response

    async def _wait_for_slot(self, request: library.Request) -> None:
        if not self._slots.locked():
            await self._slots.acquire()  # does not wait
            return
        seconds = request.extensions.get("timeout", {}).get("pool")
        try:
            await asyncio.wait_for(self._slots.acquire(), seconds)
        except (TimeoutError, asyncio.TimeoutError) as error:
            raise library.PoolTimeout("All connections are in use.") from error

    def _release(
        self, sender: library.AsyncHTTPTransport, *, is_broken: bool
    ) -> library.AsyncHTTPTransport | None:
        self._slots.release()
        if self._is_closed:
            return sender
        if is_broken or _has_more(sender):  # may hold unread bytes: do not reuse
            self._broken.append(sender)
        else:
            self._free.append((asyncio.get_running_loop().time(), sender))
        return None

    async def aclose(self) -> None:
        """See the base class. A connection in use closes when it is released."""
        self._is_closed = True
        while self._free:
            await self._free.pop()[1].aclose()
        while self._broken:
            await self._broken.pop().aclose()


def _has_more(sender: library.AsyncHTTPTransport) -> bool:
    """Return True if bytes follow a response: they would be read as the response to the next request.

    The library has no public API for this; with other internals, the result is False.
    """
    for connection in getattr(getattr(sender, "_pool", None), "connections", ()):
        state = getattr(getattr(connection, "_connection", None), "_h11_state", None)
        if state is not None and state.trailing_data[0]:
            return True
    return False


class HttpxResponse:
    """See `HttpResponse`.

    Args:
        response: A response whose body has not been read.
    """

    at_end = False  # unknown

    def __init__(self, response: library.Response) -> None:
        self.response, self.headers = response, response.headers
        stream, is_packed = response.stream, "content-encoding" in response.headers
        # Without compression, the raw stream saves two generators per piece.
        pieces = aiter(stream) if isinstance(stream, _Body) and not is_packed else response.aiter_bytes()
        assert isinstance(pieces, AsyncGeneratorType)  # for aclose()
        self._pieces = pieces

    async def read(self) -> bytes:
        """See `HttpResponse`."""
        return await anext(self._pieces, b"")

    def buffered(self) -> bytes:
        """See `HttpResponse`. Always empty: the library returns all bytes before it fails."""
        return b""

    async def aclose(self) -> None:
        """See `HttpResponse`."""
        await self._pieces.aclose()
        await self.response.aclose()


class _Release(Protocol):
    def __call__(self, *, is_broken: bool) -> library.AsyncHTTPTransport | None:
        """Release a connection; return it if the caller has to close it."""


class _Body(library.AsyncByteStream):
    """A body that releases its connection once, when closed."""

    def __init__(self, stream: library.AsyncByteStream, release: _Release) -> None:
        self._stream = stream
        self._release: _Release | None = release

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def aclose(self) -> None:
        """See the base class."""
        release, self._release = self._release, None
        is_broken = True
        try:
            await self._stream.aclose()
            is_broken = False
        finally:
            if release is not None and (unused := release(is_broken=is_broken)) is not None:
                await unused.aclose()
