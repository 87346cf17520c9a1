"""Reject IDs still in use and lines that are not messages, before they reach the SDK.

In the SDK, a second request with the same ID replaces the first, which can then neither be answered nor
cancelled. The SDK does not answer lines that are not messages.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from typing_extensions import Self

from pure_agent_loop.support.parsing import parsed_object

NO_JSON, NO_REQUEST = -32700, -32600
_FIRST = "The first request must be 'initialize', or a request of the 2026 protocol with its _meta."


def _duplicate_id(number: Any) -> str:
    return f"The id {number!r:.80} is in use by an unanswered request."


@asynccontextmanager
async def checked_lines(reading: Any, writing: Any) -> AsyncIterator[tuple[Any, Any]]:
    """Yield SDK streams without the messages that are rejected here; their sender gets an error."""
    lines = _Lines(writing)
    forward, passed = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as group:
        group.start_soon(lines.pass_on, reading, forward)
        yield passed, lines
        group.cancel_scope.cancel()


class _Lines:
    """The writing stream, which tracks the open requests."""

    def __init__(self, writing: Any) -> None:
        self._writing = writing
        self._open: set[str] = set()
        self._has_begun = False

    async def pass_on(self, reading: Any, forward: Any) -> None:
        async with reading, forward:
            async for item in reading:
                refusal = self._refusal(item)
                await (forward.send(item) if refusal is None else self._writing.send(refusal))

    def _refusal(self, item: Any) -> Any:
        if isinstance(item, Exception):
            return _error(None, NO_JSON, "The line is not a JSON-RPC message.")
        message = item.message
        number, method = getattr(message, "id", None), getattr(message, "method", None)
        if method == "notifications/cancelled":  # a cancelled request gets no answer
            self._open.discard(str((message.params or {}).get("requestId")))
        if number is None or method is None:
            return None
        if str(number) in self._open:
            return _error(number, NO_REQUEST, _duplicate_id(number))
        if not self._has_begun and method not in ("initialize", "ping") and not _has_version(message):
            return _error(number, NO_REQUEST, _FIRST)
        self._has_begun = self._has_begun or method != "ping"
        self._open.add(str(number))
        return None

    async def send(self, item: Any) -> None:
        if getattr(item.message, "method", None) is None:
            self._open.discard(str(getattr(item.message, "id", None)))
        await self._writing.send(item)

    async def aclose(self) -> None:
        await self._writing.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


def _has_version(message: Any) -> bool:
    meta = (message.params or {}).get("_meta")
    return isinstance(meta, dict) and types.PROTOCOL_VERSION_META_KEY in meta


def _error(number: Any, code: int, text: str) -> Any:
    return SessionMessage(
        types.JSONRPCError(jsonrpc="2.0", id=number, error=types.ErrorData(code=code, message=text))
    )


class OpenIds:
    """The unanswered HTTP requests, by session and ID."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._open: set[tuple[bytes, str]] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Forward a request or reject it."""
        session = dict(scope["headers"]).get(b"mcp-session-id")
        if scope["method"] != "POST" or session is None:
            await self._app(scope, receive, send)
            return
        try:
            body = await Request(scope, receive).body()
        except ClientDisconnect:
            return
        number = _id_of(body)
        key = (session, str(number))
        if number is not None and key in self._open:
            error = {"code": NO_REQUEST, "message": _duplicate_id(number)}
            content = json.dumps({"jsonrpc": "2.0", "id": number, "error": error})
            await Response(content, 400, media_type="application/json")(scope, receive, send)
            return
        if number is not None:
            self._open.add(key)
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Any:
            return messages.pop() if messages else await receive()

        try:
            await self._app(scope, again, send)
        finally:
            self._open.discard(key)


def _id_of(body: bytes) -> Any:
    """Return the ID of a request; None for anything else, which the SDK rejects."""
    value = parsed_object(body) or {}
    return value.get("id") if "method" in value else None
