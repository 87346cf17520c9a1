"""Further faults of real servers: broken chunks, keep-alives, closed connections, pages of proxies."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import format_datetime
from typing import ClassVar

from llm_client_conformance.scripted.completions import to_json
from llm_client_conformance.scripted.exchange import Exchange
from llm_client_conformance.scripted.faults import ServerFault, Status, status
from llm_client_conformance.scripted.gate import Gate


@dataclass(frozen=True, slots=True)
class HangUp(ServerFault):
    """Closed connection: before any byte, or in the middle without the last HTTP chunk."""

    async def play(self, out: Exchange) -> bool:
        """Close."""
        if out.mid_answer:
            await out.spill()
        await out.hang_up()
        return False


@dataclass(frozen=True, slots=True)
class Drip(ServerFault):
    """Keep-alives without content: comments in a stream, empty lines otherwise.

    Args:
        count: Number of keep-alives; None for no limit, until the client disconnects or `gate` is open.
        interval: Seconds between two keep-alives.
        comment: Text of the comment line.
        gate: Gate that ends the keep-alives when opened; the answer then continues.
    """

    count: int | None = None
    interval: float = 0.01
    comment: bytes = b": keep-alive\n\n"
    gate: Gate = field(default_factory=lambda: Gate("the drip"))

    async def play(self, out: Exchange) -> bool:
        """Drip."""
        sent = 0
        while not self.gate.is_open and sent != self.count:
            await out.write(self.comment if out.streamed else b"\n")
            sent += 1
            self.gate.reached.set()
            await out.flush()
            await asyncio.sleep(self.interval)
        return True


@dataclass(frozen=True, slots=True)
class BrokenChunk(ServerFault):
    """Invalid JSON. A stream continues after the text; without a stream, the text is the whole body.

    Args:
        text: Text to send.
    """

    text: str = '{"choices": [{"index": 0, "delta": {"content": "bro'

    async def play(self, out: Exchange) -> bool:
        """Send it."""
        if out.streamed:
            await out.event(self.text.encode())
        else:
            await out.respond(200, self.text.encode())
        return out.streamed


@dataclass(frozen=True, slots=True)
class EmptyChoices(ServerFault):
    """A chunk, or a whole body, whose list of choices is empty."""

    async def play(self, out: Exchange) -> bool:
        """Send it."""
        kind = "chat.completion.chunk" if out.streamed else "chat.completion"
        body = to_json({"id": "chatcmpl-1", "object": kind, "created": 0, "model": "m", "choices": []})
        if out.streamed:
            await out.event(body)
        else:
            await out.respond(200, body)
        return out.streamed


@dataclass(frozen=True, slots=True)
class Raw(ServerFault):
    """Raw bytes as the body or as a part of it, for streams of unusual servers.

    Args:
        data: For a stream, complete events, such as ``b"data: {...}\\n\\n"``; the bytes are sent unchanged.
    """

    data: bytes
    ends_with_done: ClassVar[bool] = False

    async def play(self, out: Exchange) -> bool:
        """Send the bytes."""
        if out.streamed:
            await out.write(self.data)
        else:
            await out.respond(200, self.data)
        return out.streamed


def rate_limited(retry_after: float | str | datetime | None = None) -> Status:
    """Return status 429.

    Args:
        retry_after: Value of the header: seconds, a time (sent as an HTTP date), or a text (sent unchanged).
    """
    if isinstance(retry_after, datetime):
        retry_after = format_datetime(retry_after.astimezone(timezone.utc), usegmt=True)
    headers = None if retry_after is None else {"Retry-After": str(retry_after)}
    return status(
        429, "Rate limit reached.", error_code="rate_limit_exceeded", kind="requests", headers=headers
    )


def quota_exceeded() -> Status:
    """Return status 429 for a used-up quota: waiting does not help."""
    words = "You exceeded your current quota, please check your plan and billing details."
    return status(429, words, error_code="insufficient_quota", kind="insufficient_quota")


def unavailable() -> Status:
    """Return status 503 with a body of plain text, as proxies send it."""
    return status(503, text="upstream connect error or disconnect/reset before headers")


def html_page(code: int = 200, page: str = "<!doctype html><title>Sign in</title><h1>Sign in</h1>") -> Status:
    """Return a web page in place of an answer, as login portals send it.

    Args:
        code: The HTTP status.
        page: The HTML page.
    """
    return Status(code, page.encode(), "text/html; charset=utf-8")


@contextmanager
def refusing_url() -> Iterator[str]:
    """Yield a base URL on which every connection is refused while the block lasts."""
    with socket.socket() as sock:  # bound but not listening: connections fail, and the port is reserved
        sock.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/v1"
