"""The answer to one request, written to the request's connection by the script and by faults."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
from collections.abc import Iterator, Sequence
from http import HTTPStatus

from pure_agent_loop.llm.values import Delta
from pure_agent_loop.testing.completions import Writing, sse
from pure_agent_loop.testing.gate import Gate
from pure_agent_loop.testing.request import ServerRequest

_ABORT_ON_CLOSE = struct.pack("ii", 1, 0)


class ClientLeft(Exception):  # noqa: N818 - not an error: clients may disconnect
    """The client closed the connection before the answer was complete."""


class Exchange:
    """Connection on which the script and its faults send one answer.

    Args:
        request: The request.
        reader: Stream of bytes from the client.
        writer: Stream of bytes to the client.
        writing: Builds the JSON of the answer.
        rechunk: Sizes in bytes of the pieces of the body, cycled; None to send each event as one chunk.
    """

    def __init__(
        self,
        request: ServerRequest,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        writing: Writing,
        rechunk: Sequence[int] | None = None,
    ) -> None:
        self.request = request
        self.streamed = request.streamed
        self.writing = writing
        self.mid_answer = False  # True once the answer has begun; later faults happen in the middle of it
        self.keep_alive = request.headers.get("connection", "").lower() != "close"
        self._reader = reader
        self._writer = writer
        self._sizes: Iterator[int] | None = itertools.cycle(rechunk) if rechunk else None
        self._size = next(self._sizes) if self._sizes else 0
        self._buffer = b""
        self.begun = False  # True once the headers have been sent
        self._spilled = False

    async def respond(
        self,
        status: int,
        body: bytes,
        content_type: str = "application/json",
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Send a complete HTTP response, or only the body if the headers were already sent."""
        body = self.writing.error(body) if status >= 400 else body
        if self.begun:
            await self.write(body)
            await self.end()
            return
        self.begun = True
        length = ("Content-Length", str(len(body)))
        await self._send(_head(status, [("Content-Type", content_type), length, *headers]) + body)

    async def begin(self) -> None:
        """Send status 200 and the headers, unless they were already sent; the body follows in pieces."""
        if not self.begun:
            self.begun = True
            kind = self.writing.stream_type if self.streamed else "application/json"
            await self._send(_head(200, [("Content-Type", kind), ("Transfer-Encoding", "chunked")]))

    async def write(self, data: bytes) -> None:
        """Send bytes of the body, cut to the sizes of `rechunk`."""
        await self.begin()
        data = self.writing.framed(data) if self.streamed else data
        if self._sizes is None:
            await self._chunk(data)
            return
        self._buffer += data
        while len(self._buffer) >= self._size:
            piece, self._buffer = self._buffer[: self._size], self._buffer[self._size :]
            self._size = next(self._sizes)
            await self._chunk(piece)

    async def event(self, payload: bytes) -> None:
        """Send one server-sent event."""
        await self.write(sse(payload))

    async def delta(self, delta: Delta) -> None:
        """Send a delta; without a stream, keep it for the complete body."""
        if self.streamed:
            for frame in self.writing.frames(delta):
                await self.write(frame)
        else:
            self.writing.keep(delta)

    async def spill(self) -> None:
        """Send the first part of the answer, even if the request asks for no stream."""
        if not self.streamed and not self._spilled:
            self._spilled = True
            await self.write(self.writing.prefix())
        await self.flush()

    async def finish(self, *, done: bool) -> None:
        """End the answer, with ``[DONE]`` if it is streamed and `done` is true."""
        if self.streamed:
            for frame in self.writing.last_frames(done=done):
                await self.write(frame)
        elif not self.begun:
            await self.respond(200, self.writing.body())
            return
        else:
            body = self.writing.body()
            await self.write(body[len(self.writing.prefix()) :] if self._spilled else body)
        await self.end()

    async def end(self) -> None:
        """End the body, complete or not."""
        await self.begin()
        await self.flush()
        await self._send(b"0\r\n\r\n")

    async def hang_up(self) -> None:
        """Send the buffered bytes, and let the connection be closed as if the server had crashed."""
        await self.flush()
        self.keep_alive = False

    async def reset(self) -> None:
        """Let the connection be closed with a TCP reset."""
        await self.hang_up()
        sock: socket.socket = self._writer.get_extra_info("socket")
        with contextlib.suppress(OSError):  # the client may have closed the connection first
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT_ON_CLOSE)

    async def hold(self, gate: Gate) -> None:
        """Send nothing until the gate opens.

        Raises:
            ClientLeft: The client disconnected before the gate opened.
        """
        await self.flush()
        # A client sends no data before it has received the answer, so if a read returns, the client has
        # closed the connection.
        leaving = asyncio.ensure_future(self._reader.read(1))
        opening = asyncio.ensure_future(gate.pass_through())
        try:
            done, _ = await asyncio.wait({leaving, opening}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            opening.cancel()
            await asyncio.gather(leaving, opening, return_exceptions=True)
        if opening not in done:
            raise ClientLeft

    async def flush(self) -> None:
        """Send the bytes buffered for `rechunk`."""
        rest, self._buffer = self._buffer, b""
        if rest:
            await self._chunk(rest)

    async def _chunk(self, data: bytes) -> None:
        if data:  # an empty chunk would end the body
            await self._send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


def _head(status: int, headers: Sequence[tuple[str, str]]) -> bytes:
    known = {member.value: member.phrase for member in HTTPStatus}
    lines = [f"HTTP/1.1 {status} {known.get(status, 'Unknown')}", *(f"{k}: {v}" for k, v in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")
