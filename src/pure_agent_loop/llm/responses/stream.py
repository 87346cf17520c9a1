"""Responses of the Responses protocol, decoded from bytes to deltas. Pure: no I/O.

Unknown events and items are kept or ignored, never an error. An item's final form is trusted over its deltas.
Source of the event grammar: the types of the ``openai`` package 3.57.0 and the streaming guide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.responses.request import ITEMS, text_of_item
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCallDelta
from pure_agent_loop.llm.wire import SSEDecoder, parse_json
from pure_agent_loop.support.text import shorten

_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter", "max_messages": "length"}
_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_PLAIN = {
    "message": {"type", "id", "role", "status", "content"},
    "function_call": {"type", "id", "call_id", "name", "arguments", "status"},
}


class ResponsesReader:
    """Reads deltas from a response: a stream of events, or one JSON document.

    Set `is_document` before the first byte, by the response's content type.
    """

    def __init__(self) -> None:
        self.is_document = False
        self.is_done = False
        self._document: list[bytes] = []
        self._decoder = SSEDecoder()
        self._items: dict[int, dict[str, Any]] = {}  # complete ones, by output index
        self._open: dict[int, dict[str, Any]] = {}  # what was streamed of the others
        self._calls: dict[int, int] = {}  # number of each call, by output index

    def feed(self, data: bytes) -> Iterator[Delta]:
        """Add bytes; yield the deltas they complete.

        Raises:
            LLMError: The bytes cannot be read, or report a failed request.
        """
        if self.is_document:
            self._document.append(data)
            return
        yield from self._read(self._decoder.feed(data))

    def close(self) -> Iterator[Delta]:
        """Yield the last deltas at the end of the body. Raises what `feed` raises."""
        if not self.is_document:
            yield from self._read(self._decoder.flush())
            if not self.is_done:
                raise LLMError(
                    "The model's response ended early: the server sent no final event.", kind="incomplete"
                )
            return
        response = parse_json(b"".join(self._document))
        if not isinstance(response.get("output"), list):
            raise _error(response.get("error") or response)
        for index, item in enumerate(response["output"]):
            yield from self._added(index, item)
            yield from self._complete(index, item)
        yield from self._end(response)

    def _read(self, payloads: Iterable[bytes]) -> Iterator[Delta]:
        for payload in payloads:
            if self.is_done or not payload.strip() or payload.strip() == b"[DONE]":
                continue
            try:
                yield from self._event(parse_json(payload))
            except (KeyError, TypeError, AttributeError) as error:
                text = shorten(payload.decode("utf-8", "replace"), 120)
                raise LLMError(f"The server sent an unreadable event: {text}", kind="incomplete") from error

    def _event(self, event: Mapping[str, Any]) -> Iterator[Delta]:
        kind = event.get("type")
        if kind in _TEXTS:
            self._open[event["output_index"]]["text"] += event["delta"]
            yield Delta(event["delta"])
        elif kind == "response.function_call_arguments.delta":
            yield self._arguments(event["output_index"], event["delta"])
        elif kind in _THOUGHTS:
            self._open[event["output_index"]]["thought"] += event["delta"]
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
            raise _error(event.get("error") or event)

    def _added(self, index: int, item: Mapping[str, Any]) -> Iterator[Delta]:
        self._open[index] = {"text": "", "thought": "", "arguments": ""}
        if item.get("type") == "function_call":
            self._calls[index] = number = len(self._calls)
            yield Delta(tool_calls=(ToolCallDelta(number, item["call_id"], item["name"]),))

    def _arguments(self, index: int, piece: str) -> Delta:
        self._open[index]["arguments"] += piece
        return Delta(tool_calls=(ToolCallDelta(self._calls[index], arguments=piece),))

    def _complete(self, index: int, item: Mapping[str, Any]) -> Iterator[Delta]:
        """Keep an item; yield what its deltas lacked."""
        if index not in self._open:
            yield from self._added(index, item)
        streamed = self._open.pop(index)
        self._items[index] = dict(item)
        kind = item.get("type")
        if kind == "function_call" and not streamed["arguments"]:
            yield Delta(
                tool_calls=(ToolCallDelta(self._calls[index], arguments=item.get("arguments") or "{}"),)
            )
        elif kind == "message" and not streamed["text"] and (text := text_of_item(item)):
            yield Delta(text)
        elif kind == "reasoning" and not streamed["thought"]:
            parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
            if thought := "\n\n".join(part["text"] for part in parts):
                yield Delta(reasoning=thought)

    def _end(self, response: Mapping[str, Any]) -> Iterator[Delta]:
        if response.get("status") == "failed" or response.get("error"):
            raise _error(response.get("error") or {"message": "The response failed."})
        if response.get("status") in ("queued", "in_progress"):
            raise LLMError(
                "The server runs the response in the background. Stream it, or leave background=True out.",
                kind="bad_request",
            )
        reason = "tool_calls" if self._calls else "stop"
        if response.get("status") == "incomplete":
            details = response.get("incomplete_details") or {}
            reason = _REASONS.get(str(details.get("reason")), "length")
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
    prompt, written = usage.get("input_tokens") or 0, usage.get("output_tokens") or 0
    cached = (usage.get("input_tokens_details") or {}).get("cached_tokens")
    thought = (usage.get("output_tokens_details") or {}).get("reasoning_tokens")
    return TokenUsage(prompt, written, usage.get("total_tokens") or prompt + written, thought, cached)


def _error(error: Any) -> LLMError:
    from pure_agent_loop.llm.failures import classify, read_error  # loaded only after a failure

    message, codes = read_error(error)
    kind = classify(None, message, " ".join(codes))
    return LLMError(f"The server reported an error: {message}", kind=kind, said=message)
