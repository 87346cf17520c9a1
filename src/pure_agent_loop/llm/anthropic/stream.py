"""Responses of the Messages protocol, decoded from bytes to deltas. Pure: no I/O.

Unknown events and deltas are ignored: new ones may appear within one version of the API. Source:
https://docs.anthropic.com/en/docs/build-with-claude/streaming.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.anthropic.request import BLOCKS, CHANGES, HANDLES
from pure_agent_loop.llm.protocol_reader import ProtocolReader, checked_string, is_error
from pure_agent_loop.llm.response import OUTPUT_LIMIT, REFUSED
from pure_agent_loop.llm.values import (
    Delta,
    JsonFields,
    JsonObject,
    TokenUsage,
    ToolCallDelta,
    count_of,
    sum_of,
)
from pure_agent_loop.support.parsing import parsed_object

# HTTP status for each error type that a stream may report.
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "compaction": "stop",
    "max_tokens": "length",
    "refusal": REFUSED,
    "model_context_window_exceeded": OUTPUT_LIMIT,
}
_OPENED_BY = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking"}
_PIECES = {"text": ("text",), "thinking": ("thinking", "signature")}
_PLAIN_KEYS = {"text": {"type", "text"}, "tool_use": {"type", "id", "name", "input"}}
_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


class MessagesReader(ProtocolReader):
    """Reader of a message; see `ProtocolReader`.

    Args:
        kept: Fields to store with the blocks of the response; see `MessagesRequest`.
        calls: Number of tool calls in earlier parts of the same response.
    """

    def __init__(self, kept: JsonFields | None = None, calls: int = 0) -> None:
        super().__init__()
        self.stop_reason = ""
        self.blocks: list[JsonObject] = []  # complete blocks, in order
        self.calls = calls
        self.usage: TokenUsage | None = None
        self.handles: dict[str, str] = {}  # ids of objects that the server holds, by field: see `HANDLES`
        self._kept = dict(kept or {})
        self._open: dict[int | None, _OpenBlock] = {}
        self._counts: JsonObject = {}
        self._details: Any = None

    def _whole(self, message: JsonFields) -> Iterator[Delta]:
        if message.get("type") == "error" or message.get("error"):
            raise error_of(message)
        content = message.get("content")
        if content is None and message.get("type") == "message":
            content = []
        if not isinstance(content, list):
            raise LLMError("The server's response is not a message of the Messages API.", kind="incomplete")
        for number, block in enumerate(content):
            yield from self._begin(number, block)
            yield from self._end(number)
        self._count(message.get("usage"))
        self._stop(message)
        self._take_handles(message)
        yield from _transformed(message)
        self._finish()

    def last(self, blocks: list[JsonObject], handles: JsonFields) -> Delta:
        """Return the delta that ends the response.

        Args:
            blocks: All blocks of the response, including its earlier parts.
            handles: `handles` of all parts.
        """
        extra: JsonObject | None = None
        if self.stop_reason == "max_tokens":  # the server would reject a server tool call without a result
            while blocks and blocks[-1]["type"] == "server_tool_use":
                blocks = blocks[:-1]
        is_plain = not any(set(block) - _PLAIN_KEYS.get(block["type"], set()) for block in blocks)
        if not is_plain or CHANGES in self._kept:
            extra = {BLOCKS: blocks, **self._kept}
        if handles:
            extra = {**(extra or {}), HANDLES: {**handles}}
        text = ""
        if self.stop_reason == "compaction":  # make the summary the text, so that any model can read it
            text = "".join(block.get("content") or "" for block in blocks if block["type"] == "compaction")
            if not text:
                raise LLMError("The server sent no summary of the history.", kind="incomplete")
        notice = ""
        if self.stop_reason == "refusal":
            details = self._details if isinstance(self._details, Mapping) else {}
            category = details.get("category")
            notice = f"The model refused to answer{f' (category: {category})' if category else ''}."
        reason = _REASONS.get(self.stop_reason, self.stop_reason or "stop")
        return Delta(text, finish_reason=reason, usage=self.usage, notice=notice, extra=extra)

    def _end_of_stream(self) -> Iterator[Delta]:
        self._finish()
        yield from ()

    def _event(self, event: JsonFields) -> Iterator[Delta]:
        kind = event.get("type")
        index = event.get("index")
        if index is None:
            index = next(reversed(self._open), None)
        if kind == "content_block_delta" and event.get("delta"):
            if index not in self._open:  # some gateways omit a block's start event
                yield from self._begin(index, {"type": _OPENED_BY[event["delta"].get("type")]})
            yield from self._open[index].add(event["delta"])
        elif kind == "content_block_start" and event.get("content_block"):
            yield from self._end(index)  # in case the server has not ended the previous block
            yield from self._begin(index, event["content_block"])
        elif kind == "content_block_stop":
            yield from self._end(index)
        elif kind == "message_start":
            message = event.get("message") or {}
            self._count(message.get("usage"))
            self._take_handles(message)
            yield Delta(usage=self.usage)  # yield early, so that tokens count even if the response breaks off
            yield from _transformed(message)
        elif kind == "message_delta":
            self._count(event.get("usage"))
            self._stop(event.get("delta") or {})
            self._take_handles(event.get("delta") or {})
            yield from _transformed(event)
        elif kind == "message_stop":
            self._finish()
        elif event.get("object") == "error" or is_error(event):
            raise error_of(event)

    def _begin(self, index: int | None, content: JsonFields) -> Iterator[Delta]:
        is_call = checked_string(content["type"]) == "tool_use"
        self._open[index] = block = _OpenBlock(dict(content), self.calls if is_call else None)
        self.calls += is_call
        yield from block.begin()

    def _end(self, index: int | None) -> Iterator[Delta]:
        block = self._open.pop(index, None)
        if block is not None:
            yield from block.end()
            if not block.is_broken:
                self.blocks.append(block.content)

    def _stop(self, delta: JsonFields) -> None:
        if isinstance(delta.get("stop_reason"), str):
            self.stop_reason = delta["stop_reason"]
        self._details = delta.get("stop_details") or self._details

    def _take_handles(self, message: JsonFields) -> None:
        held = {name: value for name, value in message.items() if type(value) is dict and "id" in value}
        self.handles |= {name: value["id"] for name, value in held.items() if isinstance(value["id"], str)}

    def _finish(self) -> None:
        for index in [n for n, block in self._open.items() if block.content["type"] == "text"]:
            list(self._end(index))  # some gateways omit a text's end event; ending a text yields nothing
        if not self.stop_reason or self._open:
            raise LLMError(
                "The model's response ended early: the server sent no stop reason.", kind="incomplete"
            )
        self.is_done = True

    def _count(self, usage: object) -> None:
        """Replace counts with newer ones, but not with zeros: some gateways repeat a count as 0."""
        if not isinstance(usage, Mapping):
            return
        self._counts = _newest(self._counts, usage) if self._counts else {**usage}
        *parts, written = [count_of(self._counts, name) or 0 for name in _COUNTS]
        prompt = sum_of(*parts)
        details = self._counts.get("output_tokens_details")
        thinking = count_of(details, "thinking_tokens")
        cached = count_of(self._counts, "cache_read_input_tokens")
        stored = count_of(self._counts, "cache_creation_input_tokens")
        self.usage = TokenUsage(
            prompt,
            written,
            prompt + written,
            thinking,
            cached,
            cache_write_tokens=stored,
            cache_write_1h_tokens=count_of(self._counts.get("cache_creation"), "ephemeral_1h_input_tokens"),
        )


def _newest(known: Any, new: Any) -> Any:
    """Return the newer of two counts, unless it is 0 or less; merge two objects count by count."""
    if isinstance(known, Mapping) and isinstance(new, Mapping):
        return {**known, **{name: _newest(known.get(name), value) for name, value in new.items()}}
    if new is None or (known and isinstance(new, (int, float)) and new <= 0):
        return known
    return new


class _OpenBlock:
    """A block that is being received.

    Args:
        content: The block in its initial form.
        call: Index of the call, if the block calls one of the agent's tools.
    """

    def __init__(self, content: JsonObject, call: int | None) -> None:
        self.content = content
        self._call = call
        self._input: list[str] = []
        # Fields that are streamed in pieces; some gateways omit empty ones.
        self._pieces: dict[str, list[str]] = {
            name: [checked_string(content.get(name) or "")] for name in _PIECES.get(content["type"], ())
        }

    @property
    def is_broken(self) -> bool:
        """Return True for thinking that cannot be sent back unchanged, because it holds a lone surrogate."""
        try:
            "".join(self._pieces.get("thinking", ())).encode()
        except UnicodeEncodeError:
            return True
        return False

    def begin(self) -> Iterator[Delta]:
        """Yield the delta for the start of the block."""
        content = self.content
        if self._call is not None:
            call_id, name = checked_string(content.get("id") or ""), checked_string(content.get("name") or "")
            yield Delta(tool_calls=(ToolCallDelta(self._call, call_id, name),))
        for name, pieces in self._pieces.items():
            if pieces[0] and name != "signature":
                yield Delta(pieces[0]) if name == "text" else Delta(reasoning=pieces[0])

    def add(self, delta: JsonFields) -> Iterator[Delta]:
        """Add a delta of the block; yield the delta to display."""
        kind, content = delta.get("type"), self.content
        if kind == "text_delta":
            text = checked_string(delta.get("text") or "")
            self._pieces["text"].append(text)
            yield Delta(text)
        elif kind == "thinking_delta":
            thinking = checked_string(delta.get("thinking") or "")
            self._pieces["thinking"].append(thinking)
            yield Delta(reasoning=thinking)
        elif kind == "signature_delta":
            self._pieces["signature"].append(checked_string(delta.get("signature") or ""))
        elif kind == "citations_delta":
            new = [delta["citation"]] if delta.get("citation") else []
            content["citations"] = [*(content.get("citations") or ()), *new] or None
        elif kind == "input_json_delta":
            piece = checked_string(delta.get("partial_json") or "")
            self._input.append(piece)
            if self._call is not None and piece:
                yield Delta(tool_calls=(ToolCallDelta(self._call, arguments=piece),))
        else:  # keep fields of other deltas, such as `compaction_delta`, to send them back unchanged
            content.update({name: value for name, value in delta.items() if name != "type"})

    def end(self) -> Iterator[Delta]:
        """Complete the block; yield the arguments of a call that had no deltas.

        An empty object is not yielded: if the response reached the output limit, the arguments were cut off.
        """
        content = self.content
        content.update({name: "".join(pieces) for name, pieces in self._pieces.items()})
        if content.get("citations") is None:
            content.pop("citations", None)
        if content.get("type") not in ("tool_use", "server_tool_use", "mcp_tool_use"):
            return
        if not "".join(self._input):
            if self._call is not None and content.get("input"):
                yield Delta(tool_calls=(ToolCallDelta(self._call, arguments=content["input"]),))
            return
        # If the arguments are not an object, the call is rejected later, when they are parsed.
        content["input"] = parsed_object("".join(self._input)) or {}


def _transformed(message: JsonFields) -> Iterator[Delta]:
    """Yield a notice if the server dropped thinking; ignore mismatches that the server allowed."""
    changes = message.get("input_transformations")
    listed = (
        [change for change in changes if isinstance(change, Mapping)] if isinstance(changes, list) else []
    )
    dropped = [change for change in listed if change.get("type") != "thinking_mismatch_allowed"]
    if dropped:
        named = ", ".join(dict.fromkeys(str(change.get("reason")) for change in dropped))
        responses = {str(change.get("path")).partition(".content")[0] for change in dropped}
        yield Delta(
            notice=f"The server dropped the thinking of {len(responses)} earlier responses ({named})."
        )


def error_of(event: JsonFields) -> LLMError:
    """Return the error that a server sent in place of a response."""
    from pure_agent_loop.llm.failures import error_from_body  # loaded only after a failure

    return error_from_body(event.get("error") or event, _STATUSES)
