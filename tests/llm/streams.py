"""Short ways to write what servers send."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pure_agent_loop.llm.completions import BodyReader
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.llm.values import Delta, ToolCallDelta

DONE = b"data: [DONE]\n\n"


def event(payload: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def said(finish_reason: Any = None, **delta: Any) -> dict[str, Any]:
    """A chunk with one choice."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def part(name: str | None = None, arguments: Any = None, **other: Any) -> ToolCallDelta:
    """A fragment of a call; without an index unless one is given."""
    return ToolCallDelta(name=name, arguments=arguments, **other)


def fragment(name: Any = None, arguments: Any = None, **other: Any) -> dict[str, Any]:
    """A fragment of a call, as JSON; fields that are None are left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**other, "function": function}


def read(body: bytes, sizes: Iterable[int] = (), content_type: str = "text/event-stream") -> LLMResponse:
    """What comes out of the bytes of a body, cut into pieces of the given sizes and the rest."""
    reader, assembler = BodyReader(content_type), Assembler()
    for piece in cut(body, sizes):
        for delta in reader.feed(piece):
            assembler.feed(delta)
    for delta in reader.close():
        assembler.feed(delta)
    return assembler.finish()


def cut(body: bytes, sizes: Iterable[int]) -> list[bytes]:
    """`body` in pieces."""
    pieces, position = [], 0
    for size in sizes:
        pieces.append(body[position : position + size])
        position += size
    return [*pieces, body[position:]]


def stream(*payloads: Any, done: bool = True) -> bytes:
    """The bytes of a stream."""
    return b"".join(map(event, payloads)) + (DONE if done else b"")


def assemble(*parts: ToolCallDelta, finish: str | None = "tool_calls") -> LLMResponse:
    """What comes out of fragments of calls, each in a delta of its own."""
    assembler = Assembler()
    for each in parts:
        assembler.feed(Delta(tool_calls=(each,)))
    assembler.feed(Delta(finish_reason=finish))
    return assembler.finish()


def calls(response: LLMResponse) -> list[tuple[str, Any]]:
    """The calls as (name, arguments), with the reason in place of arguments that are invalid."""
    return [(call.name, call.invalid or call.arguments) for call in response.tool_calls]
