"""HTTP exchange on a real connection: one request and its answer over asyncio streams."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, ClassVar

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCallDelta
from pure_agent_loop.testing.gate import Gate, ScriptError, Signal
from pure_agent_loop.testing.history import loads_exactly
from pure_agent_loop.testing.script import Fault, Item, Stream, check_item

_STREAMS = (":streamGenerateContent", "/invoke-with-response-stream")  # parts of paths
_ABORT_ON_CLOSE = struct.pack("ii", 1, 0)


# -- deltas as the JSON a chat-completions server sends. Pure: no I/O ------------------------------------


def to_json(value: Any) -> bytes:
    """Return JSON as servers write it: unescaped characters, except lone surrogates."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, default=str).encode("ascii")


def error_body(message: str, kind: str = "invalid_request_error", code: str | int | None = None) -> Any:
    """Return an error object of the protocol."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def sse(payload: bytes, name: str = "") -> bytes:
    """Return one server-sent event."""
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + payload + b"\n\n"


@dataclass(slots=True)
class Writing:
    """Writer of one answer: makes the chunks of a stream, or collects a whole body.

    Args:
        number: Number of the answer; part of its id.
        model: The model's name, as the request gave it.
        empty: Content of an answer without text: None or "".
    """

    stream_type: ClassVar[str] = "text/event-stream"
    number: int
    model: str
    empty: str | None = None
    _deltas: list[Delta] = field(default_factory=list)

    def frames(self, delta: Delta) -> list[bytes]:
        """Return the server-sent events for a delta."""
        return [sse(self.chunk(delta))]

    def last_frames(self, *, done: bool) -> list[bytes]:
        """Return the events that end a stream; with ``[DONE]`` if `done`."""
        return [sse(b"[DONE]")] if done else []

    def stream_error(self, body: bytes) -> bytes:
        """Return an error as an event of a stream."""
        return self.error(body)

    def error(self, body: bytes) -> bytes:
        """Return the body of an error in the protocol's form."""
        return body

    def framed(self, events: bytes) -> bytes:
        """Return server-sent events in the protocol's frames."""
        return events

    def chunk(self, delta: Delta) -> bytes:
        """Return the payload of one streamed chunk."""
        fields = _delta_fields(delta)
        if not self._deltas:
            fields = {"role": "assistant", "content": self.empty, **fields}
        self._deltas.append(delta)
        choice = {"index": 0, "delta": fields, "finish_reason": delta.finish_reason}
        only_usage = delta.usage is not None and not fields and delta.finish_reason is None
        return to_json(
            self._head("chat.completion.chunk")
            | {"choices": [] if only_usage else [choice]}
            | _usage(delta.usage)
        )

    def keep(self, delta: Delta) -> None:
        """Keep a delta for `body`."""
        self._deltas.append(delta)

    def prefix(self) -> bytes:
        """Return the start of `body`, which later deltas do not change."""
        return to_json(self._head("chat.completion"))[:-1]

    def body(self) -> bytes:
        """Return the whole answer."""
        text = "".join(delta.text for delta in self._deltas)
        reasoning = "".join(delta.reasoning for delta in self._deltas)
        calls = _joined_calls([part for delta in self._deltas for part in delta.tool_calls])
        message: dict[str, Any] = {"role": "assistant", "content": text or self.empty}
        if reasoning:
            message["reasoning_content"] = reasoning
        if calls:
            message["tool_calls"] = calls
        finish = next((delta.finish_reason for delta in reversed(self._deltas) if delta.finish_reason), None)
        usage = next((delta.usage for delta in reversed(self._deltas) if delta.usage), None)
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return to_json(self._head("chat.completion") | {"choices": [choice]} | _usage(usage))

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{self.number}", "object": kind, "created": 0, "model": self.model}


def _delta_fields(delta: Delta) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if delta.text:
        fields["content"] = delta.text
    if delta.reasoning:
        fields["reasoning_content"] = delta.reasoning
    if delta.tool_calls:
        fields["tool_calls"] = [_part(part) for part in delta.tool_calls]
    return fields


def _part(part: ToolCallDelta) -> dict[str, Any]:
    data: dict[str, Any] = {} if part.index is None else {"index": part.index}
    if part.id is not None:
        data["id"] = part.id
    if part.id is not None or part.name is not None:
        data["type"] = "function"
    named = {} if part.name is None else {"name": part.name}
    data["function"] = named if part.arguments is None else {**named, "arguments": part.arguments}
    return data


def _joined_calls(parts: list[ToolCallDelta]) -> list[dict[str, Any]]:
    """Join fragments to calls; the arguments stay raw text."""
    calls: list[tuple[int | None, dict[str, Any]]] = []
    for part in parts:
        joined = next((data for index, data in calls if index == part.index), None)
        if joined is None or (part.index is None and part.name):
            joined = {
                "id": part.id or "",
                "type": "function",
                "function": {"name": part.name, "arguments": ""},
            }
            calls.append((part.index, joined))
        function = joined["function"]
        if isinstance(part.arguments, str):
            function["arguments"] += part.arguments
        elif part.arguments is not None:
            function["arguments"] = part.arguments
    return [data for _, data in calls]


def _usage(usage: TokenUsage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    data: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    if usage.reasoning_tokens is not None:
        data["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    details = {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens}
    if known := {name: count for name, count in details.items() if count is not None}:
        data["prompt_tokens_details"] = known
    if usage.cost is not None:
        data["cost"] = usage.cost
    return {"usage": data}


class ClientLeft(Exception):  # noqa: N818 - not an error: clients may disconnect
    """The client closed the connection before the answer was complete."""


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request to the server.

    Args:
        method: ``POST`` or ``GET``.
        path: As sent, for instance ``/v1/chat/completions``.
        headers: With names in lower case.
        raw: The body's bytes.
        body: The body as parsed JSON; None if there is none or it is not JSON.
        left: Set when the client leaves before the answer is complete. The server detects this while it waits
            (at a gate, in a silence) or at its next write.
        done: Set when the answer has ended, complete or not.
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
        """Everything else in the body, such as ``model`` and ``temperature``."""
        body = self.body if isinstance(self.body, dict) else {}
        return {key: value for key, value in body.items() if key not in ("messages", "tools")}

    @property
    def streamed(self) -> bool:
        """True if the request asks for a stream: in its body, or by its URL."""
        return self._get("stream") is True or any(end in self.path for end in _STREAMS)

    @property
    def wants_usage(self) -> bool:
        """True if the usage is sent: always for whole answers, on request for streams."""
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


class Exchange:
    """Connection on which one answer is sent; faults write to it too.

    Args:
        request: The request.
        reader: The client's side of the connection.
        writer: The server's side of the connection.
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
        self.mid_answer = False  # the answer has begun: a fault now happens in its middle
        self.keep_alive = request.headers.get("connection", "").lower() != "close"
        self._reader = reader
        self._writer = writer
        self._sizes: Iterator[int] | None = itertools.cycle(rechunk) if rechunk else None
        self._size = next(self._sizes) if self._sizes else 0
        self._buffer = b""
        self.begun = False  # the headers are sent
        self._spilled = False

    async def respond(
        self,
        status: int,
        body: bytes,
        content_type: str = "application/json",
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Send a complete HTTP response; only its body if the headers were already sent."""
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
        """Complete the answer, with ``[DONE]`` if it is streamed and `done` is true."""
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
        """Close the connection, as a crashed server does."""
        await self.flush()
        self.keep_alive = False

    async def reset(self) -> None:
        """Close the connection with a TCP reset."""
        await self.hang_up()
        sock: socket.socket = self._writer.get_extra_info("socket")
        with contextlib.suppress(OSError):  # the client was faster
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT_ON_CLOSE)

    async def hold(self, gate: Gate) -> None:
        """Send nothing until the gate opens.

        Raises:
            ClientLeft: The client disconnected before the gate opened.
        """
        await self.flush()
        # A client sends nothing before it has its answer: a read that returns means a closed connection.
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


# -- script player shared by scripted models: takes items in order and records problems ------------------


class Player:
    """Player of a script: returns the items in order, each once, to any number of threads.

    Args:
        script: The items, or one callable that answers every request.
        strict: Fail when the script runs out or is not used up. Otherwise the last item repeats.
    """

    def __init__(self, script: Iterable[Item] | Callable[..., Any], *, strict: bool, faults: bool) -> None:
        if isinstance(script, str):
            raise ConfigError(f"script={script!r:.60} must be a list of items; write [{script!r:.60}].")
        self._always = script if callable(script) else None
        self._items: list[Any] = [] if callable(script) else list(script)
        self._strict = strict
        self._taken = 0
        self._lock = threading.Lock()
        self._problems: list[str] = []
        for number, item in enumerate(self._items):
            check_item(item, f"script[{number}]")
            if not faults:
                _refuse_faults(item, f"script[{number}]")

    @property
    def remaining(self) -> int:
        """Number of items not yet used."""
        return len(self._items) - self._taken

    @property
    def problems(self) -> list[str]:
        """Problems so far, except unused items."""
        with self._lock:
            return list(self._problems)

    def note(self, problem: str) -> None:
        """Record a problem that must fail the test, unless it is already recorded."""
        with self._lock:
            if not any(problem in known for known in self._problems):
                self._problems.append(problem)

    async def next(self, *request: Any) -> Any:
        """Return the item for a request; callables are called.

        Raises:
            ScriptError: The script ran out.
            Exception: The exception of a callable.
        """
        item = self._take()
        try:
            while callable(item):
                item = item(*request)
                if inspect.isawaitable(item):
                    item = await item
        except AssertionError as error:  # a check inside a script must fail the test, not just the run
            self.note(f"a callable of the script failed: {error}")
            raise
        return item

    def _take(self) -> Any:
        if self._always is not None:
            return self._always
        with self._lock:
            self._taken += 1
            if self._taken <= len(self._items):
                return self._items[self._taken - 1]
            self._taken = len(self._items)
            if self._items and not self._strict:
                return self._items[-1]
            problem = f"The script ran out: it has {len(self._items)} item(s), but one more was requested."
            self._problems.append(problem)
        raise ScriptError(problem)

    def assert_done(self) -> None:
        """Fail on a recorded problem or, for a strict script, on unused items.

        Raises:
            ScriptError: The message lists all problems.
        """
        problems = self.problems
        if self._strict and self.remaining:
            rest = ", ".join(f"{item!r:.60}" for item in self._items[self._taken :][:3])
            problems.append(f"{self.remaining} of {len(self._items)} item(s) were never requested: {rest}")
        if problems:
            raise ScriptError("\n".join(problems))

    def leave(self, error: BaseException | None) -> None:
        """End a ``with`` block: fail as `assert_done` does, but never hide the error of the block.

        Raises:
            ScriptError: The block raised nothing, but the script did not match.
        """
        if error is None:
            self.assert_done()
        elif self.problems and hasattr(error, "add_note"):
            error.add_note("Script problems: " + "; ".join(self.problems))


def _refuse_faults(item: Any, where: str) -> None:
    parts = item.parts if isinstance(item, Stream) else (item,)
    for part in parts:
        if isinstance(part, Fault):
            raise ConfigError(
                f"{where} holds {part!r:.80}: only ScriptedServer supports it. Use an exception instead."
            )
