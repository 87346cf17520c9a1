"""Connect to a server over streamable HTTP, or over Server-Sent Events as in older versions."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import METHOD_NOT_FOUND

from pure_agent_loop.llm.addresses import is_loopback
from pure_agent_loop.mcp.lenient import repaired
from pure_agent_loop.mcp.pipes import CloseReason, TooLargeError
from pure_agent_loop.mcp.settings import MAX_BYTES, ServerSettings
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.parsing import read_json

CONNECT_SECONDS = 10.0
READ_SECONDS = 600.0  # maximum seconds without data; calls have their own deadlines


@asynccontextmanager
async def reached(settings: ServerSettings, auth: Any, close_reason: CloseReason) -> AsyncIterator[Any]:
    """Yield the two streams for an SDK session.

    Args:
        auth: Adds the login to each request; None for no login.
    """
    has_stream = False  # True if the server has a stream for messages that are not responses

    async def noted(response: Any) -> None:
        nonlocal has_stream
        status, is_machine = response.status_code, settings.oauth is not None and settings.oauth.is_machine
        wants_login = "" if is_machine or status != 401 else model_text("mcp_login", server=settings.name)
        close_reason.hint = wants_login or (model_text("mcp_status", status=status) if status >= 400 else "")
        if response.request.method == "GET":  # a server without this stream answers 404 or 405 from the start
            is_gone = status == 404 and has_stream
            has_stream = has_stream or status < 400
        else:
            is_gone = await _rejects_session(response, is_in_url=settings.transport == "sse")
        if is_gone:
            close_reason.is_session_gone = True
            close_reason.set(model_text("mcp_session_gone", hint=close_reason.hint))

    def client(headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        return httpx2.AsyncClient(
            headers=headers,
            timeout=timeout or httpx2.Timeout(CONNECT_SECONDS, read=READ_SECONDS),
            mounts=_past_proxies(settings.url),
            auth=auth,
            event_hooks={"response": [_readable, noted]},
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
        streamable_http_client(settings.url, http_client=http, max_sse_event_size=MAX_BYTES) as streams,
    ):
        yield streams


def _past_proxies(url: str) -> dict[str, None]:
    """Return the hosts that bypass proxies: this machine's names, and the URL's host if it is loopback."""
    host = urllib.parse.urlsplit(url).hostname or ""
    own = [f"[{host}]" if ":" in host else host] if is_loopback(url) else []
    return {f"all://{name}": None for name in ("localhost", "127.0.0.1", "[::1]", *own)}


async def _rejects_session(response: Any, is_in_url: bool) -> bool:
    """Return whether a POST failed because the server no longer has the session.

    The protocol requires the status 404 for that. Older servers answer 400 with a text about the session.

    Args:
        is_in_url: True if the session is a part of the URL, as in the older transport.
    """
    status, request, headers = response.status_code, response.request, response.headers
    has_session = request.method == "POST" and (is_in_url or "mcp-session-id" in request.headers)
    if not has_session or status not in (400, 404):
        return False
    # Not read, because an event stream may never end.
    if headers.get("content-type", "").startswith("text/event-stream"):
        return bool(status == 404)
    body = await response.aread()
    if status == 400:
        return b"session" in body.lower()
    try:
        code = read_json(body)["error"]["code"]
    except (ValueError, LookupError, TypeError):
        return True
    return bool(code != METHOD_NOT_FOUND)  # that code means that the method is missing, not the session


async def _readable(response: Any) -> None:
    """Limit the size of an answer, even a compressed one, and repair it so that the SDK can parse it."""
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    response.aiter_bytes = partial(_events if is_stream else _body, response.aiter_bytes)


async def _body(pieces: Callable[[], AsyncGenerator[bytes, None]]) -> AsyncGenerator[bytes, None]:
    data = bytearray()
    async with aclosing(pieces()) as chunks:
        async for piece in chunks:
            data += piece
            if len(data) > MAX_BYTES:
                raise TooLargeError(model_text("mcp_too_large", limit=MAX_BYTES))
    yield repaired(bytes(data))


async def _events(pieces: Callable[[], AsyncGenerator[bytes, None]]) -> AsyncGenerator[bytes, None]:
    line = bytearray()
    async with aclosing(pieces()) as chunks:
        async for piece in chunks:
            for part in piece.splitlines(keepends=True):
                line += part
                # Lines above the maximum are cut here; the SDK limits whole events.
                if part.endswith((b"\n", b"\r")) or len(line) > MAX_BYTES:
                    yield _event_line(bytes(line))
                    line.clear()
    yield bytes(line)


def _event_line(line: bytes) -> bytes:
    field, _, value = line.partition(b":")
    end = line[len(line.rstrip(b"\r\n")) :]
    return b"data: " + repaired(value.strip()) + end if field == b"data" else line
