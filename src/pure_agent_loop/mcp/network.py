"""A server that is reached over HTTP: streamable, or with Server-Sent Events as before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from pure_agent_loop.mcp.pipes import Ending, TooLargeError
from pure_agent_loop.mcp.settings import MOST_BYTES, ServerSettings
from pure_agent_loop.mcp.words import say

CONNECT_SECONDS = 10.0
READ_SECONDS = 600.0  # of silence; calls have deadlines of their own


@asynccontextmanager
async def reached(settings: ServerSettings, auth: Any, ending: Ending) -> AsyncIterator[Any]:
    """Give the two streams that a session of the SDK works with.

    Args:
        auth: Puts the login into each request; None for none.
        ending: Told how the server answers.
    """

    async def noted(response: Any) -> None:
        status, is_machine = response.status_code, settings.oauth is not None and settings.oauth.is_machine
        wants_login = "" if is_machine or status != 401 else say("mcp_login", server=settings.name)
        ending.hint = wants_login or (say("mcp_status", status=status) if status >= 400 else "")

    def client(headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        return httpx2.AsyncClient(
            headers=headers,
            timeout=timeout or httpx2.Timeout(CONNECT_SECONDS, read=READ_SECONDS),
            auth=auth,
            event_hooks={"response": [noted, _bounded]},
        )

    headers = dict(settings.headers)
    if settings.transport == "sse":
        async with sse_client(
            settings.url,
            headers,
            CONNECT_SECONDS,
            READ_SECONDS,
            httpx_client_factory=client,
            auth=auth,
        ) as streams:
            yield streams
        return
    async with (
        client(headers, None, auth) as http,
        streamable_http_client(settings.url, http_client=http, max_sse_event_size=MOST_BYTES) as streams,
    ):
        yield streams


async def _bounded(response: Any) -> None:
    """Let an answer be no longer than may be; streams of events are bounded one by one."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._inner:
            size += len(piece)
            if size > MOST_BYTES:
                raise TooLargeError(say("mcp_too_large", limit=MOST_BYTES))
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
