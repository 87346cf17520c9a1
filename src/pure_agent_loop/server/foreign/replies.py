"""Responses of a run: complete, or as Server-Sent Events. A disconnect stops the run."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.server.api.streams import first_of, wait_disconnect
from pure_agent_loop.server.foreign.turn import Chunk, OutsideCall, RequestRun
from pure_agent_loop.server.problems import HttpProblem

STOP_SECONDS = 5.0  # time for a run to end after its client has disconnected
StreamEvent = dict[str, Any] | str
Frames = AsyncGenerator[StreamEvent, None]


def frame(content: Mapping[str, Any] | str, name: str = "") -> bytes:
    """Encode a Server-Sent Event."""
    text = content if isinstance(content, str) else json.dumps(content, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def error_stream(
    problem: HttpProblem, frames: Iterable[StreamEvent], headers: Mapping[str, str] | None = None
) -> Response:
    """Report an invalid request as a stream with an error event, as the protocol demands.

    Raises:
        HttpProblem: The problem has a status other than 400 or 422.
    """
    if problem.status not in (400, 422):
        raise problem
    body = b"".join(map(frame, frames))
    return Response(body, headers=dict(headers or {}), media_type="text/event-stream")


async def collect(turn: RequestRun, receive: Receive) -> list[Chunk]:
    """Execute a run and return its complete output.

    Raises:
        HttpProblem: The run failed, or its client disconnected.
    """
    output: list[Chunk] = []

    async def read() -> None:
        async with aclosing(turn.chunks()) as chunks:
            output.extend([chunk async for chunk in chunks])

    with turn.counted():
        await _until_disconnect(turn, receive, read())
    if turn.finish == "error":
        raise HttpProblem(turn.status, turn.error)
    return output


def join_text(chunks: list[Chunk], kind: str = "text") -> str:
    """Join the texts of all chunks of one kind."""
    return "".join(
        "\n\n" if chunk.kind == "break" else chunk.text for chunk in chunks if chunk.kind in (kind, "break")
    )


class StreamResponse(Response):
    """A Server-Sent Events response for a run.

    Args:
        frames: The events: objects, or raw text.
        named: Whether to send each event's type as its SSE event name.
    """

    def __init__(
        self,
        turn: RequestRun,
        frames: Frames,
        headers: Mapping[str, str] | None = None,
        *,
        named: bool = False,
    ) -> None:
        super().__init__(status_code=200)
        self._turn, self._frames, self._named = turn, frames, named
        self._head = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache",
                      "x-accel-buffering": "no", **(headers or {})}  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI signature
        """Execute the run and send its events."""
        with self._turn.counted():
            await _until_disconnect(self._turn, receive, self._stream(send))

    async def _stream(self, send: Send) -> None:
        headers = [(name.encode(), value.encode()) for name, value in self._head.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        limits = self._turn.service.settings
        async with aclosing(self._frames) as frames:
            upcoming = asyncio.ensure_future(anext(frames, None))
            try:
                while True:
                    done, _ = await asyncio.wait({upcoming}, timeout=limits.keep_alive_seconds)
                    content = upcoming.result() if done else ""
                    if content is None:
                        break
                    if done:
                        upcoming = asyncio.ensure_future(anext(frames, None))
                    if not await self._write(send, content):
                        return
            finally:
                upcoming.cancel()
                await asyncio.wait({upcoming})
        await send({"type": "http.response.body", "body": b""})

    async def _write(self, send: Send, content: StreamEvent) -> bool:
        name = content["type"] if self._named and isinstance(content, dict) else ""
        body = frame(content, name) if content else b": keep-alive\n\n"
        with Interrupt() as block:
            block.after(self._turn.service.settings.viewer_seconds)
            await send({"type": "http.response.body", "body": body, "more_body": True})
        return not block.fired


async def _until_disconnect(turn: RequestRun, receive: Receive, work: Awaitable[None]) -> None:
    """Await work; cancel the run if the client disconnects or the server stops."""
    async with first_of(work, wait_disconnect(receive), turn.service.closing.wait()) as tasks:
        working, _, closing = tasks
        if not working.done():
            turn.token.cancel("The server stops." if closing.done() else "The client disconnected.")
            await asyncio.wait({working}, timeout=STOP_SECONDS)
    if not working.cancelled():
        working.result()


class PartWriter(ABC):
    """Writes a run as events of a protocol, with at most one text or reasoning part open."""

    def __init__(self, turn: RequestRun) -> None:
        self.turn = turn
        self.open_kind = ""
        """``text``, ``thinking``, or empty while no part is open."""

    async def events(self) -> Frames:
        """Execute the run and yield its events."""
        for event in self.begin():
            yield event
        async with aclosing(self.turn.chunks()) as chunks:
            async for chunk in chunks:
                for event in self.add(chunk):
                    yield event
        for event in self.end():
            yield event

    def add(self, chunk: Chunk) -> list[StreamEvent]:
        """Write a chunk. A delta of another kind closes the open part and opens the next one."""
        if chunk.kind == "break":
            return self.close()
        if chunk.kind not in ("text", "thinking"):
            return self.other(chunk)
        start: list[StreamEvent] = []
        if chunk.kind != self.open_kind:
            start = self.close()
            self.open_kind = chunk.kind
            start += self.opened()
        return [*start, self.delta(chunk.text)]

    def close(self) -> list[StreamEvent]:
        """Close the open part, if any."""
        events = self.closed() if self.open_kind else []
        self.open_kind = ""
        return events

    def end(self) -> list[StreamEvent]:
        """Close the open part, write the calls to the caller's tools and finish."""
        events = self.close()
        for call in self.turn.calls:
            events += self.outside_call(call)
        return [*events, *self.finish()]

    @abstractmethod
    def begin(self) -> list[StreamEvent]:
        """Start the stream."""

    @abstractmethod
    def opened(self) -> list[StreamEvent]:
        """Open a part of `open_kind`."""

    @abstractmethod
    def delta(self, text: str) -> StreamEvent:
        """Add text to the open part."""

    @abstractmethod
    def closed(self) -> list[StreamEvent]:
        """Close the part of `open_kind`."""

    def other(self, chunk: Chunk) -> list[StreamEvent]:  # noqa: ARG002 - for protocols that show them
        """Write a call to, or a result from, the agent's own tools, or the end of a step."""
        return []

    @abstractmethod
    def outside_call(self, call: OutsideCall) -> list[StreamEvent]:
        """Write a call to one of the caller's tools."""

    @abstractmethod
    def finish(self) -> list[StreamEvent]:
        """Finish the stream."""
