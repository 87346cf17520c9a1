"""Responses of the Responses protocol, decoded from bytes to deltas. Pure: no I/O.

Unknown events and items are kept or ignored, never an error. An item's final form is trusted over its deltas.
Source of the event grammar: the types of the ``openai`` package 3.57.0 and the streaming guide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.protocol_reader import ProtocolReader, checked_string
from pure_agent_loop.llm.responses.request import ITEMS, text_of_item
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCallDelta, count_of, get
from pure_agent_loop.llm.wire import parse_json

_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter", "max_messages": "length"}
_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_PLAIN = {
    "message": {"type", "id", "role", "status", "content"},
    "function_call": {"type", "id", "call_id", "name", "arguments", "status"},
}


class ResponsesReader(ProtocolReader):
    """Reader of a response; see `ProtocolReader`."""

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[int, dict[str, Any]] = {}  # complete ones, by output index
        self._open: dict[int, dict[str, list[str]]] = {}  # what was streamed of the others
        self._calls: dict[int, int] = {}  # number of each call, by output index

    def _whole(self, response: Mapping[str, Any]) -> Iterator[Delta]:
        if not isinstance(response.get("output"), list):
            raise error_of(response.get("error") or response)
        yield from self._end(response)

    def _end_of_stream(self) -> Iterator[Delta]:
        raise LLMError("The model's response ended early: the server sent no final event.", kind="incomplete")

    def _event(self, event: Mapping[str, Any]) -> Iterator[Delta]:
        kind = event.get("type")
        if kind in _TEXTS:
            self._open[event["output_index"]]["text"].append(checked_string(event["delta"]))
            yield Delta(event["delta"])
        elif kind == "response.function_call_arguments.delta":
            yield self._arguments(event["output_index"], event["delta"])
        elif kind in _THOUGHTS:
            self._open[event["output_index"]]["thought"].append(checked_string(event["delta"]))
            yield Delta(reasoning=event["delta"])
        elif kind == "response.reasoning_summary_part.added" and event.get("summary_index"):
            yield Delta(reasoning="\n\n")
        elif kind == "response.output_item.added":
            yield from self._added(event["output_index"], event["item"])
        elif kind == "response.output_item.done":
            yield from self._complete(event["output_index"], event["item"])
        elif kind in _ENDS:
            yield from self._end(event["response"])
        elif kind == "error" or (kind is None and "error" in event):
            raise error_of(event.get("error") or event)

    def _added(self, index: int, item: Mapping[str, Any]) -> Iterator[Delta]:
        self._open[index] = {"text": [], "thought": [], "arguments": []}
        if item.get("type") == "function_call":
            self._calls[index] = number = len(self._calls)
            call_id, name = checked_string(item["call_id"]), checked_string(item["name"])
            yield Delta(tool_calls=(ToolCallDelta(number, call_id, name),))

    def _arguments(self, index: int, piece: str) -> Delta:
        self._open[index]["arguments"].append(checked_string(piece))
        return Delta(tool_calls=(ToolCallDelta(self._calls[index], arguments=piece),))

    def _complete(self, index: int, item: Mapping[str, Any]) -> Iterator[Delta]:
        """Keep an item; yield what its deltas lacked."""
        if index in self._items:  # repeated
            return
        if index not in self._open:
            yield from self._added(index, item)
        streamed = {name: "".join(pieces) for name, pieces in self._open.pop(index).items()}
        self._items[index] = dict(item)
        kind = item.get("type")
        if kind == "function_call" and streamed["arguments"] != (item.get("arguments") or "{}"):
            yield self._rest(index, streamed["arguments"], item.get("arguments") or "{}")
        elif kind == "message" and not streamed["text"] and (text := text_of_item(item)):
            yield Delta(text)
        elif kind == "reasoning" and not streamed["thought"]:
            parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
            if thought := "\n\n".join(part["text"] for part in parts):
                yield Delta(reasoning=thought)

    def _rest(self, index: int, streamed: str, final: str) -> Delta:
        """Return what the streamed arguments of a call lack; its final form is right."""
        if final.startswith(streamed):
            return Delta(tool_calls=(ToolCallDelta(self._calls[index], arguments=final[len(streamed) :]),))
        value = parse_json(final.encode())
        return Delta(tool_calls=(ToolCallDelta(self._calls[index], arguments=dict(value)),))

    def _end(self, response: Mapping[str, Any]) -> Iterator[Delta]:
        if response.get("status") == "failed" or response.get("error"):
            raise error_of(response.get("error") or {"message": "The response failed."})
        if response.get("status") in ("queued", "in_progress"):
            raise LLMError(
                "The server runs the response in the background. Stream it, or leave background=True out.",
                kind="bad_request",
            )
        for index, item in enumerate(response.get("output") or ()):
            yield from self._complete(index, item)  # those that no event has completed
        reason = "tool_calls" if self._calls else "stop"
        if response.get("status") == "incomplete":
            details = get(response.get("incomplete_details"), "reason")
            reason = _REASONS.get(str(details), "length")
        items = [self._items[index] for index in sorted(self._items)]
        self.is_done = True
        extra = None if all(map(_is_plain, items)) else {ITEMS: items}
        yield Delta(finish_reason=reason, usage=_usage(response.get("usage")), extra=extra)


def _is_plain(item: Mapping[str, Any]) -> bool:
    """Return True if text and calls say all that an item holds."""
    named = {name for name, value in item.items() if value is not None}
    if named - _PLAIN.get(str(item.get("type")), set()):
        return False
    return not any(part.get("annotations") for part in item.get("content") or ())


def _usage(usage: Any) -> TokenUsage | None:
    if not isinstance(usage, Mapping):
        return None
    prompt, written = count_of(usage, "input_tokens") or 0, count_of(usage, "output_tokens") or 0
    cached = count_of(usage.get("input_tokens_details"), "cached_tokens")
    thought = count_of(usage.get("output_tokens_details"), "reasoning_tokens")
    cached = None if cached is None else min(cached, prompt)
    return TokenUsage(prompt, written, count_of(usage, "total_tokens") or prompt + written, thought, cached)


def error_of(error: Any) -> LLMError:
    """Return the error that a server sent in place of a response."""
    from pure_agent_loop.llm.failures import error_from_body  # loaded only after a failure

    return error_from_body(error)
