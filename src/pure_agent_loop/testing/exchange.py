"""One request and its answer on a real connection: HTTP/1.1 over asyncio streams."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from pure_agent_loop.llm.values import Delta
from pure_agent_loop.testing.gate import Gate, Signal
from pure_agent_loop.testing.history import loads_exactly
from pure_agent_loop.testing.payloads import Writing

_ABORT_ON_CLOSE = struct.pack("ii", 1, 0)


class ClientLeft(Exception):  # noqa: N818 - nothing is wrong: clients may leave
    """The client closed the connection before the answer was complete."""


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """What a server was asked.

    Args:
        method: ``POST`` or ``GET``.
        path: As sent, for instance ``/v1/chat/completions``.
        headers: With names in lower case.
        raw: The body's bytes.
        body: The body as parsed JSON; None if there is none or it is not JSON.
        left: Set when the client leaves before the answer is complete. It is noticed while the server
            waits (at a gate, in a silence) or at its next write.
        done: Set when the answer is over, in whatever way.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Any = None
    left: Signal = field(default_factory=lambda: Signal("the client's leaving"), compare=False)
    done: Signal = field(default_factory=lambda: Signal("the end of the answer"), compare=False)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The history."""
        found = self._get("messages")
        return found if isinstance(found, list) else []

    @property
    def tools(self) -> list[dict[str, Any]] | None:
        """The tool schemas, or None."""
        found = self._get("tools")
        return found if isinstance(found, list) else None

    @property
    def options(self) -> dict[str, Any]:
        """Everything else in the body, such as ``model`` and ``temperature``."""
        body = self.body if isinstance(self.body, dict) else {}
        return {key: value for key, value in body.items() if key not in ("messages", "tools")}

    @property
    def streamed(self) -> bool:
        """True if a stream was asked for."""
        return self._get("stream") is True

    @property
    def wants_usage(self) -> bool:
        """True if the tokens are to be sent: always for whole answers, on demand for streams."""
        options = self._get("stream_options")
        return not self.streamed or (isinstance(options, dict) and options.get("include_usage") is True)

    def _get(self, key: str) -> Any:
        return self.body.get(key) if isinstance(self.body, dict) else None


async def read_request(reader: asyncio.StreamReader) -> ServerRequest | None:
    """The next request of a connection, or None if the client has closed it or does not speak HTTP."""
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


class Exchange:
    """An answer on its way to the client. Faults write through it.

    Args:
        request: What is answered.
        reader: The connection.
        writer: The connection.
        writing: Makes the JSON.
        rechunk: Sizes in which the body is cut, again and again; None to send each event as one chunk.
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
        self.mid_answer = False  # the script says that an answer has begun: faults come in its middle
        self.keep_alive = request.headers.get("connection", "").lower() != "close"
        self._reader = reader
        self._writer = writer
        self._sizes: Iterator[int] | None = itertools.cycle(rechunk) if rechunk else None
        self._size = next(self._sizes) if self._sizes else 0
        self._buffer = b""
        self.begun = False  # the headers are out
        self._spilled = False

    async def respond(
        self,
        status: int,
        body: bytes,
        content_type: str = "application/json",
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Send a whole HTTP answer; only its body if the headers are out already."""
        if self.begun:
            await self.write(body)
            await self.end()
            return
        self.begun = True
        length = ("Content-Length", str(len(body)))
        await self._send(_head(status, [("Content-Type", content_type), length, *headers]) + body)

    async def begin(self) -> None:
        """Send status 200 and the headers, unless that was done; the body follows piece by piece."""
        if not self.begun:
            self.begun = True
            kind = "text/event-stream" if self.streamed else "application/json"
            await self._send(_head(200, [("Content-Type", kind), ("Transfer-Encoding", "chunked")]))

    async def write(self, data: bytes) -> None:
        """Send bytes of the body, cut as the server was told."""
        await self.begin()
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
        await self.write(b"data: " + payload + b"\n\n")

    async def delta(self, delta: Delta) -> None:
        """Send a delta, or keep it for the whole body if no stream was asked for."""
        if self.streamed:
            await self.event(self.writing.chunk(delta))
        else:
            self.writing.keep(delta)

    async def spill(self) -> None:
        """Make sure that part of the answer is sent, also where no stream was asked for."""
        if not self.streamed and not self._spilled:
            self._spilled = True
            await self.write(self.writing.prefix())
        await self.flush()

    async def finish(self, *, done: bool) -> None:
        """End the answer properly; with ``[DONE]`` if it is a stream and `done`."""
        if self.streamed:
            if done:
                await self.event(b"[DONE]")
        elif not self.begun:
            await self.respond(200, self.writing.body())
            return
        else:
            body = self.writing.body()
            await self.write(body[len(self.writing.prefix()) :] if self._spilled else body)
        await self.end()

    async def end(self) -> None:
        """End the body, whatever was in it."""
        await self.begin()
        await self.flush()
        await self._send(b"0\r\n\r\n")

    async def hang_up(self) -> None:
        """Close the connection, as a server does that has crashed."""
        await self.flush()
        self.keep_alive = False

    async def reset(self) -> None:
        """Break the connection off with a TCP reset."""
        await self.hang_up()
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT_ON_CLOSE)

    async def hold(self, gate: Gate) -> None:
        """Say nothing until the gate opens.

        Raises:
            ClientLeft: The client did not wait that long.
        """
        await self.flush()
        # No client sends anything before it has its answer, so whatever can be read is the end.
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
        """Send what was held back to cut it."""
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
