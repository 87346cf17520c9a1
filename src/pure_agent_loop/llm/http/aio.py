"""Requests through aiohttp (extra ``[fast]``), for endpoints that need no more than that.

Options that only the SDK understands go through the SDK beside it. Certificates are checked by the same code.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from pure_agent_loop._version import __version__
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.http.errors import RefusedError, UnansweredError, UnsendableError

if TYPE_CHECKING:
    import ssl

    from pure_agent_loop.llm.http import Answer, Transport

# As the SDK has them, so that it makes no difference which of the two is at work.
SECONDS, CONNECT_SECONDS, KEPT_SECONDS = 600.0, 5.0, 5.0
CONNECTIONS, REDIRECTS = 1_000, 20
LONGEST_HEADER = 65_536  # bytes
LARGE = 1_000_000  # bytes of a request that are sent piece by piece


class AioTransport:
    """See `Transport`.

    Args:
        base_url: The address of the server.
        key: Its API key.
        settings: ``timeout`` and ``default_headers``, as the SDK takes them.
        beside: Makes what requests with options of the SDK go through; None to refuse them.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        settings: Mapping[str, Any],
        beside: Callable[[], Transport] | None,
    ) -> None:
        self._url = URL(f"{base_url.rstrip('/')}/chat/completions")
        self._headers = CIMultiDict(
            {
                "Authorization": f"Bearer {key}",
                "Accept": "application/json",
                "Content-Type": "application/json",
                "User-Agent": f"pure-agent-loop/{__version__}",
            }
        )
        self._headers.update(settings.get("default_headers") or {})
        seconds, connecting = SECONDS, CONNECT_SECONDS
        self._timeout = _timeout(settings.get("timeout", seconds), settings.get("timeout", connecting))
        self._tls = tls_context() if self._url.scheme == "https" else None
        self._session: aiohttp.ClientSession | None = None
        self._new_beside = beside
        self._beside: Transport | None = None

    def _opened(self) -> aiohttp.ClientSession:
        """The session, made in the event loop that it belongs to."""
        if self._session is None:
            closes = self._headers.get("Connection", "").lower() == "close"
            kept: dict[str, Any] = {"force_close": True} if closes else {"keepalive_timeout": KEPT_SECONDS}
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=self._tls or True, **kept),
                headers=self._headers,
                timeout=self._timeout,
                max_line_size=LONGEST_HEADER,
                max_field_size=LONGEST_HEADER,
            )
        return self._session

    async def post(self, body: bytes, options: Mapping[str, Any]) -> Answer:
        """See `Transport`."""
        more = _plain(options)
        if more is None:
            return await self._other().post(body, options)
        try:
            data = body if len(body) < LARGE else io.BytesIO(body)
            response = await self._opened().post(self._url, data=data, max_redirects=REDIRECTS, **more)
        except (TimeoutError, asyncio.TimeoutError):
            raise
        except Exception as error:
            if isinstance(error, ValueError) and not isinstance(error, OSError):  # as a bad certificate is
                raise UnsendableError(type(error).__name__) from None
            raise UnansweredError from error
        if response.status // 100 != 2:
            raise RefusedError(response.status, await response.read(), response.headers)
        return _Answer(response)

    def _other(self) -> Transport:
        if self._beside is None:
            if self._new_beside is None:
                raise ConfigError(
                    "PURE_AGENT_LOOP_HTTP=aiohttp can only send texts as extra_headers, texts and numbers as "
                    "extra_query, and a number of seconds as timeout. Unset it to use the SDK for others."
                )
            self._beside = self._new_beside()
        return self._beside

    async def get(self, url: str, seconds: float) -> Any:
        """See `Transport`."""
        async with self._opened().get(
            url, timeout=_timeout(seconds, seconds), raise_for_status=True
        ) as response:
            return json.loads(await response.read())

    async def close(self) -> None:
        """See `Transport`."""
        session, self._session = self._session, None
        beside, self._beside = self._beside, None
        if session is not None:
            await session.close()
        if beside is not None:
            await beside.close()


class _Answer:
    """See `Answer`."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.headers = response.headers

    async def aiter_bytes(self) -> AsyncGenerator[bytes, None]:
        """See `Answer`."""
        content = self._response.content
        while data := await content.readany():
            yield data

    async def aclose(self) -> None:
        """See `Answer`."""
        self._response.close()  # does nothing to a connection whose answer was read to its end


def _timeout(seconds: float | None, connecting: float | None) -> aiohttp.ClientTimeout:
    """Between two pieces of an answer, and for a new connection; no limit for the whole."""
    return aiohttp.ClientTimeout(total=None, sock_connect=connecting, sock_read=seconds)


def _plain(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a request has of its own, for aiohttp; None if only the SDK knows what it means."""
    more: dict[str, Any] = {}
    seconds, headers = options.get("timeout"), options.get("extra_headers")
    query = options.get("extra_query")
    if seconds is not None:
        if not isinstance(seconds, (int, float)):
            return None
        more["timeout"] = _timeout(seconds, seconds)
    if headers:
        if not all(isinstance(value, str) for value in headers.values()):
            return None
        more["headers"] = headers
    if query:
        if not all(isinstance(value, (str, int, float)) for value in query.values()):
            return None
        written = {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in query.items()
        }
        more["params"] = written
    return more


def tls_context() -> ssl.SSLContext:
    """Checks certificates as the SDK's HTTP library does, by its own code."""
    from pure_agent_loop.llm.http.pool import library

    context: ssl.SSLContext = library.create_ssl_context()
    return context
