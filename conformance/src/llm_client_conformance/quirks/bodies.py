"""Bodies of chat completions, written byte by byte, and the expected results."""

from __future__ import annotations

import json
from typing import Any

from llm_client_conformance.quirks.quirk import Expected
from llm_client_conformance.values import TokenUsage

HEAD: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
WHOLE: dict[str, Any] = {**HEAD, "object": "chat.completion"}
DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
TOKENS = TokenUsage(11, 7, 18)
ROLE: dict[str, Any] = {"role": "assistant", "content": ""}
FIVE = '{"a": 2, "b": 3}'
NINE = '{"a": 4, "b": 5}'
ADD_FIVE = ("add", {"a": 2, "b": 3})
ADD_NINE = ("add", {"a": 4, "b": 5})
STOP: dict[str, Any] = {**HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
CALLS: dict[str, Any] = {**HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}


def event(payload: Any) -> bytes:
    """Return one server-sent event; bytes are unchanged."""
    return b"data: " + (payload if isinstance(payload, bytes) else json.dumps(payload).encode()) + b"\n\n"


def stream(*payloads: Any, done: bool = True) -> bytes:
    """Return a stream of events, with a final ``[DONE]`` if `done`."""
    return b"".join(map(event, payloads)) + (DONE if done else b"")


def called(*payloads: Any) -> bytes:
    """Return a stream with the finish reason of calls."""
    return stream(*payloads, CALLS)


def stopped(*payloads: Any) -> bytes:
    """Return a stream with the finish reason of a text answer."""
    return stream(*payloads, STOP)


def choose(finish: Any = None, **fields: Any) -> dict[str, Any]:
    """Return a chunk whose only choice has these fields."""
    return {**HEAD, "choices": [{"index": 0, "finish_reason": finish, **fields}]}


def say(text: Any, finish: Any = None, **delta: Any) -> dict[str, Any]:
    """Return a chunk with text and other delta fields."""
    return choose(finish, delta={"content": text, **delta})


def think(text: str, field: str = "reasoning_content") -> dict[str, Any]:
    """Return a chunk with reasoning."""
    return choose(delta={field: text})


def part(arguments: Any = None, name: Any = None, **fields: Any) -> dict[str, Any]:
    """Return a fragment of a call; None values are omitted, and the index unless passed."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    kind = {"type": "function"} if name else {}
    return {**fields, **kind, "function": function}


def calling(*parts: dict[str, Any], finish: Any = None) -> dict[str, Any]:
    """Return a chunk with fragments of calls."""
    return choose(finish, delta={"tool_calls": list(parts)})


def whole(message: dict[str, Any], finish: Any = "stop", **more: Any) -> bytes:
    """Return a whole answer that is not streamed."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return json.dumps({**WHOLE, "choices": [choice], **more}).encode()


def text(answer: str, reasoning: str = "", usage: TokenUsage | None = None) -> Expected:
    """Return an `Expected` with text."""
    return Expected(answer, reasoning, usage=usage)


def calls(*made: Any, said: str = "", reasoning: str = "", usage: TokenUsage | None = None) -> Expected:
    """Return an `Expected` with calls."""
    return Expected(said, reasoning, made, "tool_calls", usage)
