"""Answers in the JSON of a chat-completions server: chunks of a stream, or a complete body."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCallDelta


def to_json(value: Any) -> bytes:
    """Return JSON as servers write it: without escapes, unless the text has lone surrogates."""
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
    """Writer of one answer: makes the chunks of a stream, or collects the deltas of a complete body.

    Args:
        number: Number of the answer, which becomes part of the answer's id.
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
        """Return the events that end a stream, including ``[DONE]`` if `done`."""
        return [sse(b"[DONE]")] if done else []

    def stream_error(self, body: bytes) -> bytes:
        """Return an error as an event of a stream."""
        return self.error(body)

    def error(self, body: bytes) -> bytes:
        """Return the body of an error in the protocol's form."""
        return body

    def framed(self, events: bytes) -> bytes:
        """Return server-sent events framed as the protocol requires."""
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
        """Store a delta for `body`."""
        self._deltas.append(delta)

    def prefix(self) -> bytes:
        """Return the beginning of `body`, which does not depend on later deltas."""
        return to_json(self._head("chat.completion"))[:-1]

    def body(self) -> bytes:
        """Return the complete body."""
        text = "".join(delta.text for delta in self._deltas)
        reasoning = "".join(delta.reasoning for delta in self._deltas)
        calls = _joined_calls([part for delta in self._deltas for part in delta.tool_calls])
        message = {
            "role": "assistant",
            "content": text or self.empty,
            **_present(reasoning_content=reasoning or None, tool_calls=calls or None),
        }
        finish = next((delta.finish_reason for delta in reversed(self._deltas) if delta.finish_reason), None)
        usage = next((delta.usage for delta in reversed(self._deltas) if delta.usage), None)
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return to_json(self._head("chat.completion") | {"choices": [choice]} | _usage(usage))

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{self.number}", "object": kind, "created": 0, "model": self.model}


def _delta_fields(delta: Delta) -> dict[str, Any]:
    return _present(
        content=delta.text or None,
        reasoning_content=delta.reasoning or None,
        tool_calls=[_part(part) for part in delta.tool_calls] or None,
    )


def _part(part: ToolCallDelta) -> dict[str, Any]:
    begins = part.id is not None or part.name is not None
    head = _present(index=part.index, id=part.id, type="function" if begins else None)
    return {**head, "function": _present(name=part.name, arguments=part.arguments)}


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _joined_calls(parts: list[ToolCallDelta]) -> list[dict[str, Any]]:
    """Join fragments into calls; the arguments remain unparsed text."""
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
    completion = _present(reasoning_tokens=usage.reasoning_tokens)
    prompt = _present(cached_tokens=usage.cached_tokens, cache_write_tokens=usage.cache_write_tokens)
    details = _present(
        completion_tokens_details=completion or None,
        prompt_tokens_details=prompt or None,
        cost=usage.cost,
    )
    return {"usage": {**data, **details}}
