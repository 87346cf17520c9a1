"""Deltas as the JSON a chat-completions server sends. Pure: no I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCallDelta


def to_json(value: Any) -> bytes:
    """JSON as servers write it: real characters, but lone surrogates escaped, which UTF-8 cannot hold."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, default=str).encode("ascii")


def error_body(message: str, kind: str = "invalid_request_error", code: str | int | None = None) -> Any:
    """An error object of the protocol."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


@dataclass(slots=True)
class Writing:
    """One answer being written: makes the chunks of a stream, or keeps everything for a whole body.

    Args:
        number: Which answer of the server it is; goes into its id.
        model: The model's name, as the request gave it.
        empty: What the content is where there is no text: None or "".
    """

    number: int
    model: str
    empty: str | None = None
    _deltas: list[Delta] = field(default_factory=list)

    def chunk(self, delta: Delta) -> bytes:
        """The payload of one streamed chunk."""
        said = _delta_fields(delta)
        if not self._deltas:
            said = {"role": "assistant", "content": self.empty, **said}
        self._deltas.append(delta)
        choice = {"index": 0, "delta": said, "finish_reason": delta.finish_reason}
        only_usage = delta.usage is not None and not said and delta.finish_reason is None
        return to_json(
            self._head("chat.completion.chunk")
            | {"choices": [] if only_usage else [choice]}
            | _usage(delta.usage)
        )

    def keep(self, delta: Delta) -> None:
        """Keep a delta for `body`."""
        self._deltas.append(delta)

    def prefix(self) -> bytes:
        """The beginning of `body`, which is the same whatever will still be kept."""
        return to_json(self._head("chat.completion"))[:-1]

    def body(self) -> bytes:
        """The whole answer."""
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
    said: dict[str, Any] = {}
    if delta.text:
        said["content"] = delta.text
    if delta.reasoning:
        said["reasoning_content"] = delta.reasoning
    if delta.tool_calls:
        said["tool_calls"] = [_part(part) for part in delta.tool_calls]
    return said


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
    """Whole calls from their fragments, with the text of the arguments as it came."""
    calls: list[tuple[int | None, dict[str, Any]]] = []
    for part in parts:
        found = next((data for index, data in calls if index == part.index), None)
        if found is None or (part.index is None and part.name):
            found = {
                "id": part.id or "",
                "type": "function",
                "function": {"name": part.name, "arguments": ""},
            }
            calls.append((part.index, found))
        function = found["function"]
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
    if usage.cached_tokens is not None:
        data["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    return {"usage": data}
