"""Plain requests through aiohttp, the extra ``[fast]``."""

from __future__ import annotations

import asyncio
import io
import json
import select
import weakref
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.llm.http.plain import (
    CONNECTIONS,
    KEPT_SECONDS,
    LARGE,
    REDIRECTS,
    Patience,
    PlainRequest,
    PlainTransport,
    is_unsendable,
)

if TYPE_CHECKING:
    import ssl

    from aiohttp.connector import Connection

    from pure_agent_loop.llm.http import Answer

LONGEST_HEADER = 65_536  # bytes
_POLL = getattr(select, "poll", None)  # Windows has none
_MOVED = (301, 302, 303, 307, 308)


class AioTransport(PlainTransport):
    """See `PlainTransport`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._address = URL(self.url)
        self._tls = _tls_context() if self._address.scheme == "https" else None
        self._line: _Line | None = None

    def _opened(self) -> _Line:
        """The session, made in the event loop that it belongs to."""
        if self._line is None:
            closes = self.headers.get("connection", "").lower() == "close"
            kept: dict[str, Any] = {"force_close": True} if closes else {"keepalive_timeout": KEPT_SECONDS}
            connector = _Connector(limit=CONNECTIONS, ssl=self._tls or True, **kept)
            session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self.headers,
                max_line_size=LONGEST_HEADER,
                max_field_size=LONGEST_HEADER,
            )
            self._line = _Line(session, connector)
        return self._line

    async def _send(self, request: PlainRequest) -> tuple[int, Answer]:
        query, line = request.query, self._opened()
        follows, answer = self._tls is not None, None
        post = partial(
            line.session.post,
            URL(f"{self._address}?{query}", encoded=True) if query else self._address,
            headers=request.headers,
            timeout=_timeout(request.patience, waits=line.users >= CONNECTIONS),
            allow_redirects=follows,
            max_redirects=REDIRECTS,
        )
        line.users += 1
        try:
            is_large = len(request.body) >= LARGE
            response = await (_in_pieces(request, post) if is_large else post(data=request.body))
            answer = _Answer(response, line)
        finally:
            if answer is None:
                await line.release()
        if follows or response.status not in _MOVED:
            return response.status, answer
        await answer.aclose()
        if self._tls is None:  # Perhaps it is to TLS. What it trusts takes long to read, so not before.
            self._tls = _tls_context()
            await self._close()
        return await self._send(request)

    def _is_beyond(self, error: Exception) -> bool:
        return isinstance(error, aiohttp.ClientResponseError) or is_unsendable(error)

    async def _read(self, answer: Answer) -> bytes:
        assert isinstance(answer, _Answer)
        return await answer.response.read()

    async def get(self, url: str, seconds: float) -> Any:
        """See `Transport`."""
        timeout = _timeout(Patience(seconds, seconds))
        line = self._opened()
        line.users += 1
        try:
            async with line.session.get(url, timeout=timeout, allow_redirects=False) as response:
                data = await response.read()
                if response.status != 200:
                    raise ValueError(f"status {response.status}")
                return json.loads(data)
        finally:
            await line.release()

    async def _close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.is_left = True
            await line.close()


async def _in_pieces(
    request: PlainRequest, post: Callable[..., Awaitable[aiohttp.ClientResponse]]
) -> aiohttp.ClientResponse:
    """Send a long request. aiohttp itself waits for ever until a server takes the next piece of one."""
    response = None
    with Interrupt() as block:
        response = await post(data=_Pieces(request.body, block, request.patience.reading))
    if not block.fired and response is not None:
        return response
    if response is not None:
        response.close()
    raise TimeoutError("The server takes no more of the request.")


class _Pieces(io.BytesIO):
    """A long request, whose sender has to ask for the next piece in time.

    Args:
        body: The whole of it.
        block: What is left when nobody does.
        seconds: How long each piece may take; None for any time.
    """

    def __init__(self, body: bytes, block: Interrupt, seconds: float | None) -> None:
        super().__init__(body)
        self._block, self._seconds = block, seconds

    def read(self, size: int | None = -1, /) -> bytes:
        """The next piece: the one before it is on its way."""
        self._block.after(self._seconds)
        return super().read(size)


class _Line:
    """A session, and how many use it: aiohttp never wakes a reader whose connection it closes.

    Args:
        session: Made in the running event loop.
        connector: Its own.
    """

    def __init__(self, session: aiohttp.ClientSession, connector: _Connector) -> None:
        self.session, self.connector, self.users, self.is_left = session, connector, 0, False
        loop = asyncio.get_running_loop()
        self._forgotten = weakref.finalize(self, _forget, session, weakref.ref(self), loop)

    async def release(self) -> None:
        """There is one user less."""
        self.connector.end_closed()
        self.users -= 1
        if self.is_left:
            await self.close()

    async def close(self) -> None:
        """Close it if nobody uses it."""
        if not self.users:
            self._forgotten.detach()
            await self.session.close()


def _forget(
    session: aiohttp.ClientSession, user: weakref.ref[_Line], loop: asyncio.AbstractEventLoop
) -> None:
    """What nobody has closed would complain aloud; its sockets close all the same.

    At the end of the process, what a thread may still be at work with is left as it is.
    """
    if user() is None or not loop.is_running():
        session.detach()


class _Connector(aiohttp.TCPConnector):
    """Hands out no kept connection to which something has come, and leaves none open that is closed.

    Nobody has asked for what comes to a kept connection. It is its end, of which the event loop may not know
    yet, or bytes that would be taken for the answer to the next request.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._handed_out: weakref.WeakSet[asyncio.BaseProtocol] = weakref.WeakSet()
        self._released: list[asyncio.WriteTransport] = []

    def end_closed(self) -> None:
        """Nobody waits until what was to be sent over a closed connection is sent, nor for the end of TLS."""
        while self._released:
            transport = self._released.pop()
            if transport.is_closing():
                transport.abort()

    async def connect(self, *given: Any, **named: Any) -> Connection:
        """A connection, new or kept."""
        while True:
            connection = await super().connect(*given, **named)
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

    def __del__(self, _: Any = None) -> None:
        """Say nothing; see above."""


def _is_readable(transport: asyncio.BaseTransport) -> bool:
    socket = transport.get_extra_info("socket")
    if _POLL is None:
        return bool(select.select([socket], [], [], 0)[0])
    poll = _POLL()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))


class _Answer:
    """See `Answer`."""

    def __init__(self, response: aiohttp.ClientResponse, line: _Line) -> None:
        self.response, self.headers = response, response.headers
        self.read = response.content.readany
        self._line: _Line | None = line

    @property
    def at_end(self) -> bool:
        """See `Answer`."""
        return self.response.content.at_eof()

    def left(self) -> bytes:
        """See `Answer`. What came together with the failure, aiohttp keeps but does not give."""
        kept = getattr(self.response.content, "_read_nowait", None)
        return b"" if kept is None else kept(-1)

    async def aclose(self) -> None:
        """See `Answer`."""
        self.response.close()  # does nothing to a connection whose answer was read to its end
        line, self._line = self._line, None
        if line is not None:
            line.connector.end_closed()
            line.users -= 1
            if line.is_left:
                await line.close()


@lru_cache(maxsize=8)  # nearly all requests have the same
def _timeout(patience: Patience, *, waits: bool = False) -> aiohttp.ClientTimeout:
    """The limits of a request, which has one more if it may have to wait for a place."""
    reading, connecting = patience
    place = reading if waits else None
    return aiohttp.ClientTimeout(total=None, connect=place, sock_connect=connecting, sock_read=reading)


def _tls_context() -> ssl.SSLContext:
    from pure_agent_loop.llm.http.pool import tls_for

    return tls_for("https")
