"""Plain requests through aiohttp, which the extra ``[fast]`` installs."""

from __future__ import annotations

import asyncio
import io
import select
import sys
import weakref
from collections.abc import Awaitable, Callable
from contextvars import Context
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.llm.http.bodies import packed_body
from pure_agent_loop.llm.http.plain import (
    CONNECTIONS,
    KEPT_SECONDS,
    LARGE,
    HttpResponse,
    HttpTimeouts,
    PlainRequest,
    PlainTransport,
    is_unsendable,
)
from pure_agent_loop.llm.values import JsonObject

if TYPE_CHECKING:
    import ssl

    from aiohttp.connector import Connection


MAX_HEADER_BYTES = 65_536
_POLL = getattr(select, "poll", None)  # `poll` is not available on Windows


class AioTransport(PlainTransport):
    """See `PlainTransport`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._address = URL(self.url)
        self._tls = _tls_context() if self._address.scheme == "https" else None
        self._shared: _SharedSession | None = None

    def _opened(self) -> _SharedSession:
        """Return the session; the first call creates it, in the event loop that uses it."""
        if self._shared is None:
            closes = self.headers.get("connection", "").lower() == "close"
            kept: JsonObject = {"force_close": True} if closes else {"keepalive_timeout": KEPT_SECONDS}
            connector = _Connector(limit=CONNECTIONS, ssl=self._tls or True, **kept)
            session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self.headers,
                auto_decompress=False,
                max_line_size=MAX_HEADER_BYTES,
                max_field_size=MAX_HEADER_BYTES,
            )
            self._shared = _SharedSession(session, connector)
        return self._shared

    async def _send(self, request: PlainRequest) -> tuple[int, HttpResponse]:
        # After a redirect to https, the TLS context is needed; it is built late, because certificates load
        # slowly.
        if self._tls is None and request.url.startswith("https:"):
            self._tls = _tls_context()
            await self._close()
        shared, answer = self._opened(), None
        post = partial(
            shared.session.request,
            request.method,
            self._quoted(request.url),
            headers=request.headers,
            timeout=_timeout(request.timeouts, waits=shared.users >= CONNECTIONS),
            allow_redirects=False,
        )
        shared.users += 1
        try:
            is_large = len(request.body) >= LARGE
            response = await (_post_in_pieces(request, post) if is_large else post(data=request.body or None))
            answer = _Response(response, shared)
        finally:
            if answer is None:
                await shared.release()
        return response.status, answer

    def _quoted(self, url: str) -> URL:
        """Return the URL of a request. Queries and redirect URLs are already quoted."""
        if url is self.url:
            return self._address
        is_own = url.startswith(f"{self.url}?")
        return URL(f"{self._address}{url[len(self.url) :]}" if is_own else url, encoded=True)

    def _needs_fallback(self, error: Exception) -> bool:
        return isinstance(error, aiohttp.ClientResponseError) or is_unsendable(error)

    async def _close(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.is_abandoned = True
            await shared.close()


async def _post_in_pieces(
    request: PlainRequest, post: Callable[..., Awaitable[aiohttp.ClientResponse]]
) -> aiohttp.ClientResponse:
    """Send a large request with a write timeout, which aiohttp lacks."""
    response = None
    with Interrupt() as block:
        response = await post(data=_Pieces(request.body, block, request.timeouts.reading))
    if not block.fired and response is not None:
        return response
    if response is not None:
        response.close()
    raise TimeoutError("The server stopped reading the request.")


class _Pieces(io.BytesIO):
    """A large body that interrupts the request if the sender does not read the next piece in time.

    Args:
        seconds: Time limit per piece; None for no limit.
    """

    def __init__(self, body: bytes, block: Interrupt, seconds: float | None) -> None:
        super().__init__(body)
        self._block, self._seconds = block, seconds

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next piece and restart the timer."""
        self._block.after(self._seconds)
        return super().read(size)


class _SharedSession:
    """A session that is not closed while it has users: aiohttp would never wake their pending reads."""

    def __init__(self, session: aiohttp.ClientSession, connector: _Connector) -> None:
        self.session, self.connector, self.users, self.is_abandoned = session, connector, 0, False
        loop = asyncio.get_running_loop()
        self._finalizer = weakref.finalize(self, _detach_unclosed, session, weakref.ref(self), loop)

    async def release(self) -> None:
        """Decrement the user count; close an abandoned session that has no users left."""
        self.connector.end_closed()
        self.users -= 1
        if self.is_abandoned:
            await self.close()

    async def close(self) -> None:
        """Close the session if it has no users."""
        if not self.users:
            self._finalizer.detach()
            await self.session.close()


def _detach_unclosed(
    session: aiohttp.ClientSession, user: weakref.ref[_SharedSession], loop: asyncio.AbstractEventLoop
) -> None:
    """Detach an unclosed session, so that aiohttp does not warn; its sockets close anyway.

    At the end of the process, a session that a thread may still be using is left alone.
    """
    if user() is None or not loop.is_running():
        session.detach()


class _Connector(aiohttp.TCPConnector):
    """A connector that never reuses connections with unread data, and aborts released ones that are closing.

    Unread data on a kept connection is either its end, which the event loop has not processed yet, or bytes
    that would be read as the response to the next request.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._handed_out: weakref.WeakSet[asyncio.BaseProtocol] = weakref.WeakSet()
        self._released: list[asyncio.WriteTransport] = []

    def end_closed(self) -> None:
        """Abort closing connections without waiting for unsent data or the end of TLS."""
        while self._released:
            transport = self._released.pop()
            if transport.is_closing():
                transport.abort()

    async def connect(self, *args: Any, **kwargs: Any) -> Connection:
        """Return a connection, new or kept."""
        while True:
            connection = await super().connect(*args, **kwargs)
            protocol, transport = connection.protocol, connection.transport
            if protocol is None or transport is None:
                return connection
            if protocol not in self._handed_out:  # a new one
                self._handed_out.add(protocol)
            elif protocol.should_close or _is_readable(transport):
                connection.close()
                continue
            connection.add_callback(partial(self._released.append, transport))
            return connection

    def _release(self, *args: Any, **kwargs: Any) -> None:
        """Release a connection outside its run's context, which the idle timer would keep alive."""
        Context().run(super()._release, *args, **kwargs)

    def __del__(self, _: object = None) -> None:
        """Suppress aiohttp's warning; see `_detach_unclosed`."""


def _is_readable(transport: asyncio.BaseTransport) -> bool:
    socket = transport.get_extra_info("socket")
    if sys.platform == "win32" or _POLL is None:
        return bool(select.select([socket], [], [], 0)[0])
    poll = _POLL()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))


class _Response:
    """See `HttpResponse`."""

    sent = None

    def __init__(self, response: aiohttp.ClientResponse, shared: _SharedSession) -> None:
        self.response, self.headers = response, response.headers
        self._packed = packed_body(response.headers, response.content.readany)
        self.read = response.content.readany if self._packed is None else self._packed.read
        self._shared: _SharedSession | None = shared

    @property
    def at_end(self) -> bool:
        """See `HttpResponse`."""
        return self.response.content.at_eof()

    def buffered(self) -> bytes:
        """See `HttpResponse`. aiohttp keeps bytes received before a failure, but not in its public API."""
        kept = getattr(self.response.content, "_read_nowait", None)
        data = b"" if kept is None else kept(-1)
        return data if self._packed is None else self._packed.unpack(data)

    async def aclose(self) -> None:
        """See `HttpResponse`."""
        self.response.close()  # has no effect if the body was read to its end
        shared, self._shared = self._shared, None
        if shared is not None:
            await shared.release()


@lru_cache(maxsize=8)  # cached, because nearly all requests have the same timeouts
def _timeout(timeouts: HttpTimeouts, *, waits: bool = False) -> aiohttp.ClientTimeout:
    """Return the timeouts of a request, including one for the pool if all connections may be in use."""
    reading, connecting = timeouts
    pool_seconds = reading if waits else None
    return aiohttp.ClientTimeout(total=None, connect=pool_seconds, sock_connect=connecting, sock_read=reading)


def _tls_context() -> ssl.SSLContext:
    from pure_agent_loop.llm.http.httpx import tls_for

    return tls_for("https")
