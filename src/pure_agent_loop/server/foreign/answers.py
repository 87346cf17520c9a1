"""A run as an answer to a request: whole, or as Server-Sent Events. Who leaves stops it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.server.api.streams import left
from pure_agent_loop.server.foreign.turn import Piece, Turn
from pure_agent_loop.server.problems import Problem

STOP_SECONDS = 5.0  # that a run gets to end when its client has left
DONE = "[DONE]"
Frames = AsyncGenerator["dict[str, Any] | str", None]


def frame(content: Mapping[str, Any] | str, name: str = "") -> bytes:
    """An event of a stream."""
    text = content if isinstance(content, str) else json.dumps(content, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def refused_in_stream(
    problem: Problem, frames: Iterable[dict[str, Any] | str], headers: Mapping[str, str] | None = None
) -> Response:
    """What no schema can say of a request is wrong with it: its protocol tells that as the end of a run.

    Raises:
        Problem: It is not about the request.
    """
    if problem.status not in (400, 422):
        raise problem
    body = b"".join(map(frame, frames))
    return Response(body, headers=dict(headers or {}), media_type="text/event-stream")


async def whole(turn: Turn, receive: Receive) -> list[Piece]:
    """Everything that comes of a run.

    Raises:
        Problem: The run failed, or its client has left.
    """
    found: list[Piece] = []

    async def collect() -> None:
        async with aclosing(turn.pieces()) as pieces:
            found.extend([piece async for piece in pieces])

    with turn.at_work():
        await _until_left(turn, receive, collect())
    if turn.finish == "error":
        raise Problem(turn.status, turn.error)
    return found


def text_in(pieces: list[Piece], kind: str = "text") -> str:
    """The text of pieces."""
    return "".join(
        "\n\n" if each.kind == "break" else each.text for each in pieces if each.kind in (kind, "break")
    )


class StreamedAnswer(Response):
    """A run as a stream of events.

    Args:
        turn: The run.
        frames: What is sent: objects, or text as it is.
        headers: Further headers.
        named: Each event has its type as its name, too.
    """

    def __init__(
        self, turn: Turn, frames: Frames, headers: Mapping[str, str] | None = None, *, named: bool = False
    ) -> None:
        super().__init__(status_code=200)
        self._turn, self._frames, self._named = turn, frames, named
        self._head = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache",
                      "x-accel-buffering": "no", **(headers or {})}  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - of ASGI
        """Send it."""
        with self._turn.at_work():
            await _until_left(self._turn, receive, self._stream(send))

    async def _stream(self, send: Send) -> None:
        headers = [(name.encode(), value.encode()) for name, value in self._head.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        limits = self._turn.service.settings
        async with aclosing(self._frames) as frames:
            coming = asyncio.ensure_future(anext(frames, None))
            try:
                while True:
                    done, _ = await asyncio.wait({coming}, timeout=limits.keep_alive_seconds)
                    found = coming.result() if done else ""
                    if found is None:
                        break
                    if done:
                        coming = asyncio.ensure_future(anext(frames, None))
                    if not await self._write(send, found):
                        return
            finally:
                coming.cancel()
                await asyncio.wait({coming})
        await send({"type": "http.response.body", "body": b""})

    async def _write(self, send: Send, found: dict[str, Any] | str) -> bool:
        name = found["type"] if self._named and isinstance(found, dict) else ""
        body = frame(found, name) if found else b": still there\n\n"
        with Interrupt() as block:
            block.after(self._turn.service.settings.viewer_seconds)
            await send({"type": "http.response.body", "body": body, "more_body": True})
        return not block.fired


async def _until_left(turn: Turn, receive: Receive, work: Awaitable[None]) -> None:
    """Do something until it is done; stop the run when its client has left, or the server stops."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(left(receive))
    closing = asyncio.ensure_future(turn.service.closing.wait())
    try:
        await asyncio.wait({working, leaving, closing}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            turn.token.cancel("The server stops." if closing.done() else "The client has left.")
            await asyncio.wait({working}, timeout=STOP_SECONDS)
    finally:
        for task in (working, leaving, closing):
            task.cancel()
        await asyncio.gather(working, leaving, closing, return_exceptions=True)
    if not working.cancelled():
        working.result()


def json_answer(body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """An answer as a whole."""
    return JSONResponse(dict(body), headers=dict(headers or {}))
