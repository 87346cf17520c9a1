"""Responses of the Responses protocol, decoded from bytes to deltas. Pure: no I/O.

Unknown events and items are kept or ignored, never an error. An item's final form is trusted over its deltas.
Source of the event grammar: the types of the ``openai`` package 3.57.0 and the streaming guide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.responses.request import ITEMS, text_of_item
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCallDelta, count_of, get
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
        self._has_begun = False
        self.is_done = False
        self._document: list[bytes] = []
        self._decoder = SSEDecoder()
        self._items: dict[int, dict[str, Any]] = {}  # complete ones, by output index
        self._open: dict[int, dict[str, list[str]]] = {}  # what was streamed of the others
        self._calls: dict[int, int] = {}  # number of each call, by output index

    def feed(self, data: bytes) -> Iterator[Delta]:
        """Add bytes; yield the deltas they complete.

        Raises:
            LLMError: The bytes cannot be read, or report a failed request.
        """
        if not self._has_begun and data.strip():
            self._has_begun = True
            self.is_document = self.is_document or data.lstrip()[:1] in (b"{", b"[")
        if self.is_document:
            self._document.append(data)
            return
        yield from self._read(self._decoder.feed(data))

    def close(self) -> Iterator[Delta]:
        """Yield the last deltas at the end of the body. Raises what `feed` raises."""
        try:
            yield from self._close()
        except _UNREADABLE as error:
            raise LLMError("The server sent an unreadable response.", kind="incomplete") from error

    def _close(self) -> Iterator[Delta]:
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
        yield from self._end(response)

    def _read(self, payloads: Iterable[bytes]) -> Iterator[Delta]:
        for payload in payloads:
            if self.is_done or not payload.strip() or payload.strip() == b"[DONE]":
                continue
            try:
                yield from self._event(parse_json(payload))
            except _UNREADABLE as error:
                text = shorten(payload.decode("utf-8", "replace"), 120)
                raise LLMError(f"The server sent an unreadable event: {text}", kind="incomplete") from error

    def _event(self, event: Mapping[str, Any]) -> Iterator[Delta]:
        kind = event.get("type")
        if kind in _TEXTS:
            self._open[event["output_index"]]["text"].append(_string(event["delta"]))
            yield Delta(event["delta"])
        elif kind == "response.function_call_arguments.delta":
            yield self._arguments(event["output_index"], event["delta"])
        elif kind in _THOUGHTS:
            self._open[event["output_index"]]["thought"].append(_string(event["delta"]))
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
        self._open[index] = {"text": [], "thought": [], "arguments": []}
        if item.get("type") == "function_call":
            self._calls[index] = number = len(self._calls)
            call_id, name = _string(item["call_id"]), _string(item["name"])
            yield Delta(tool_calls=(ToolCallDelta(number, call_id, name),))

    def _arguments(self, index: int, piece: str) -> Delta:
        self._open[index]["arguments"].append(_string(piece))
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
            raise _error(response.get("error") or {"message": "The response failed."})
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


_UNREADABLE = (KeyError, TypeError, AttributeError, ValueError)


def _string(value: Any) -> str:
    """Return a string, or raise: another type cannot be read."""
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def _usage(usage: Any) -> TokenUsage | None:
    if not isinstance(usage, Mapping):
        return None
    prompt, written = count_of(usage, "input_tokens") or 0, count_of(usage, "output_tokens") or 0
    cached = count_of(usage.get("input_tokens_details"), "cached_tokens")
    thought = count_of(usage.get("output_tokens_details"), "reasoning_tokens")
    cached = None if cached is None else min(cached, prompt)
    return TokenUsage(prompt, written, count_of(usage, "total_tokens") or prompt + written, thought, cached)


def _error(error: Any) -> LLMError:
    from pure_agent_loop.llm.failures import classify, read_error  # loaded only after a failure

    message, codes = read_error(error)
    kind = classify(None, message, " ".join(codes))
    return LLMError(f"The server reported an error: {message}", kind=kind, said=message)
