"""Plain requests through aiohttp, the extra ``[fast]``."""

from __future__ import annotations

import asyncio
import io
import json
import weakref
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from pure_agent_loop.llm.http.plain import (
    CONNECTIONS,
    KEPT_SECONDS,
    REDIRECTS,
    Patience,
    PlainRequest,
    PlainTransport,
)

if TYPE_CHECKING:
    import ssl

    from pure_agent_loop.llm.http import Answer

LONGEST_HEADER = 65_536  # bytes
LARGE = 1_000_000  # bytes of a request that are sent piece by piece


class AioTransport(PlainTransport):
    """See `PlainTransport`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._address = URL(self.url)
        self._tls = _tls_context() if self._address.scheme == "https" else None
        self._session: aiohttp.ClientSession | None = None
        self._forgotten: weakref.finalize[..., Any] | None = None

    def _opened(self) -> aiohttp.ClientSession:
        """The session, made in the event loop that it belongs to."""
        if self._session is None:
            closes = self.headers.get("connection", "").lower() == "close"
            kept: dict[str, Any] = {"force_close": True} if closes else {"keepalive_timeout": KEPT_SECONDS}
            self._session = aiohttp.ClientSession(
                connector=_Connector(limit=CONNECTIONS, ssl=self._tls or True, **kept),
                headers=self.headers,
                max_line_size=LONGEST_HEADER,
                max_field_size=LONGEST_HEADER,
            )
            loop = asyncio.get_running_loop()
            self._forgotten = weakref.finalize(self, _forget, self._session, weakref.ref(self), loop)
        return self._session

    async def _send(self, request: PlainRequest) -> tuple[int, Answer]:
        body, query = request.body, request.query
        for goes_on in (True, False):
            try:
                response = await self._opened().post(
                    URL(f"{self.url}?{query}", encoded=True) if query else self._address,
                    data=body if len(body) < LARGE else io.BytesIO(body),
                    headers=request.headers,
                    timeout=_timeout(request.patience),
                    max_redirects=REDIRECTS,
                )
                break
            except aiohttp.ClientOSError as error:
                # A server may end a kept connection right behind an answer. This one was closing and took no
                # whole request; by now all that end so are known.
                if not (goes_on and isinstance(error.__cause__, aiohttp.ClientConnectionResetError)):
                    raise
        return response.status, _Answer(response)

    async def _read(self, answer: Answer) -> bytes:
        assert isinstance(answer, _Answer)
        return await answer.response.read()

    async def get(self, url: str, seconds: float) -> Any:
        """See `Transport`."""
        timeout = _timeout(Patience(seconds, seconds))
        async with self._opened().get(url, timeout=timeout, raise_for_status=True) as response:
            return json.loads(await response.read())

    async def _close(self) -> None:
        session, self._session = self._session, None
        if self._forgotten is not None:
            self._forgotten.detach()
        if session is not None:
            await session.close()


def _forget(
    session: aiohttp.ClientSession, user: weakref.ref[AioTransport], loop: asyncio.AbstractEventLoop
) -> None:
    """What nobody has closed would complain aloud; its sockets close all the same.

    At the end of the process, what a thread may still be at work with is left as it is.
    """
    if user() is None or not loop.is_running():
        session.detach()


class _Connector(aiohttp.TCPConnector):
    def __del__(self, _: Any = None) -> None:
        """Say nothing; see above."""


class _Answer:
    """See `Answer`."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response, self.headers = response, response.headers
        self.read = response.content.readany

    @property
    def at_end(self) -> bool:
        """See `Answer`."""
        return self.response.content.at_eof()

    async def aclose(self) -> None:
        """See `Answer`."""
        self.response.close()  # does nothing to a connection whose answer was read to its end


def _timeout(patience: Patience) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=patience.connecting, sock_read=patience.reading)


def _tls_context() -> ssl.SSLContext:
    from pure_agent_loop.llm.http.pool import tls_for

    return tls_for("https")
