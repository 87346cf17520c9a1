"""Requests to a scripted server, read from a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.testing.gate import Signal
from pure_agent_loop.testing.history import loads_exactly

_STREAMS = (":streamGenerateContent", "/invoke-with-response-stream")  # path fragments that request a stream


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request to the server.

    Args:
        method: ``POST`` or ``GET``.
        path: Path as sent, for instance ``/v1/chat/completions``.
        headers: Headers with lower-case names.
        raw: Bytes of the body.
        body: The body as parsed JSON; None if there is none or it is not JSON.
        left: Signal that is set when the client disconnects before the answer is complete. The server detects
            this while it is waiting (at a gate, in a silence) or at its next write.
        done: Signal that is set when the answer has ended, complete or not.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Any = None
    left: Signal = field(default_factory=lambda: Signal("the client's disconnect"), compare=False)
    done: Signal = field(default_factory=lambda: Signal("the end of the answer"), compare=False)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The history."""
        value = self._get("messages")
        return value if isinstance(value, list) else []

    @property
    def tools(self) -> list[dict[str, Any]] | None:
        """The tool schemas, or None."""
        value = self._get("tools")
        return value if isinstance(value, list) else None

    @property
    def options(self) -> dict[str, Any]:
        """All other fields of the body, such as ``model`` and ``temperature``."""
        body = self.body if isinstance(self.body, dict) else {}
        return {key: value for key, value in body.items() if key not in ("messages", "tools")}

    @property
    def streamed(self) -> bool:
        """True if the request asks for a stream, in the body or by the URL."""
        return self._get("stream") is True or any(end in self.path for end in _STREAMS)

    @property
    def wants_usage(self) -> bool:
        """True if the usage is sent: always in a complete body, in a stream if the request asks for it."""
        options = self._get("stream_options")
        return not self.streamed or (isinstance(options, dict) and options.get("include_usage") is True)

    def _get(self, key: str) -> Any:
        return self.body.get(key) if isinstance(self.body, dict) else None


async def read_request(reader: asyncio.StreamReader) -> ServerRequest | None:
    """Read the next request of a connection; None if it is closed or not HTTP."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip().split("\r\n")
        method, path, *_ = first.split(" ")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        raw = await _read_body(reader, headers)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
        return None
    try:
        body = loads_exactly(raw) if raw else None
    except (ValueError, RecursionError):
        body = None
    return ServerRequest(method, path, headers, raw, body)


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = b""
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        body += (await reader.readexactly(size + 2))[:-2]
        if size == 0:
            return body
