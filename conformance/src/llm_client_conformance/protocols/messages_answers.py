"""Answers of the Messages protocol: events of a stream, or a whole message, with signed thinking."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from llm_client_conformance.scripted.completions import Writing, sse, to_json
from llm_client_conformance.scripted.exchange import Exchange
from llm_client_conformance.scripted.faults import ServerFault
from llm_client_conformance.values import Delta, TokenUsage

_STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_TOP_LEVEL = frozenset({
    "model", "max_tokens", "messages", "cache_control", "container", "diagnostics", "inference_geo",
    "metadata", "output_config", "service_tier", "speed", "stop_sequences", "stream", "system", "temperature",
    "thinking", "tool_choice", "tools", "top_k", "top_p",
})  # fmt: skip
_BETA_FIELDS = frozenset({
    "compaction", "context_management", "fallback_credit_token", "fallbacks", "mcp_servers", "thread",
})  # fmt: skip
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_BINDING_BETA = "thinking-binding-controls-2026-08-01"
_TOOLS_BETA = "inline-tools-2026-09-15"


@dataclass(slots=True)
class IssuedThinking:
    """Thinking that a server has sent: by signature, the text and the digest of the preceding request."""

    texts: dict[str, tuple[str, str]] = field(default_factory=dict)

    def sign(self, text: str, digest: str) -> str:
        """Return a new signature for a text that follows a request."""
        signature = hashlib.sha256(f"{len(self.texts)} {text}".encode("utf-8", "replace")).hexdigest()[:32]
        self.texts[signature] = (text, digest)
        return signature


@dataclass(slots=True)
class MessagesWriting(Writing):
    """Writer of one answer in the Messages protocol.

    Args:
        issued: Object that stores the sent signatures.
        digest: Digest of the request.
        summarizes: True if the request asks for a summary, which is then signed.
    """

    issued: IssuedThinking = field(default_factory=IssuedThinking)
    digest: str = ""
    summarizes: bool = False
    _index: int = -1
    _kind: str = ""  # kind of the open block: "text", "thinking" or the index of a call
    _thought: str = ""
    _has_begun: bool = False
    _reason: str | None = None
    _usage: TokenUsage | None = None

    def frames(self, delta: Delta) -> list[bytes]:
        """Return the events for a delta."""
        return [_frame(event) for event in self._events(delta)]

    def last_frames(self, *, done: bool) -> list[bytes]:
        """Return the events that end the message; without ``message_stop`` unless `done`."""
        events = [*self._begun(), *self._closed()]
        if self._reason is not None:
            delta = {"stop_reason": _STOP_REASONS.get(self._reason, self._reason), "stop_sequence": None}
            events.append({"type": "message_delta", "delta": delta, "usage": _usage(self._usage)})
            if done:
                events.append({"type": "message_stop"})
        return [_frame(event) for event in events]

    def error(self, body: bytes) -> bytes:
        """Return the error in this protocol's form."""
        try:
            error = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            return body
        kind = error.get("type") if error.get("type") in _ERROR_TYPES.values() else "api_error"
        if error.get("type") == "invalid_request_error":
            kind = "invalid_request_error"
        if error.get("code") == "insufficient_quota":
            kind = "billing_error"
        return to_json({"type": "error", "error": {"type": kind, "message": error.get("message", "")}})

    def prefix(self) -> bytes:
        """Return the start of a whole message."""
        return to_json(self._message())[:-1]

    def body(self) -> bytes:
        """Return the whole message."""
        content: list[dict[str, Any]] = []
        partial: list[str] = []
        for delta in self._deltas:
            for event in self._events(delta):
                _apply(event, content, partial)
        for event in self._closed():
            _apply(event, content, partial)
        reason = None if self._reason is None else _STOP_REASONS.get(self._reason, self._reason)
        usage = _usage(self._usage)
        return to_json({**self._message(), "content": content, "stop_reason": reason, "usage": usage})

    def _events(self, delta: Delta) -> Iterator[dict[str, Any]]:
        yield from self._begun()
        if delta.reasoning:
            yield from self._opened("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            self._thought += delta.reasoning
            yield self._delta({"type": "thinking_delta", "thinking": delta.reasoning})
        if delta.text:
            yield from self._opened("text", {"type": "text", "text": ""})
            yield self._delta({"type": "text_delta", "text": delta.text})
        for part in delta.tool_calls:
            call = {"type": "tool_use", "id": part.id or "", "name": part.name or "", "input": {}}
            yield from self._opened(f"call {part.index}", call)
            if isinstance(part.arguments, str) and part.arguments:
                yield self._delta({"type": "input_json_delta", "partial_json": part.arguments})
        self._reason = delta.finish_reason or self._reason
        self._usage = delta.usage or self._usage

    def _begun(self) -> Iterator[dict[str, Any]]:
        if not self._has_begun:
            self._has_begun = True
            yield {"type": "message_start", "message": self._message()}
            yield {"type": "ping"}

    def _opened(self, kind: str, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._kind != kind:
            yield from self._closed()
            self._index, self._kind = self._index + 1, kind
            yield {"type": "content_block_start", "index": self._index, "content_block": block}

    def _closed(self) -> Iterator[dict[str, Any]]:
        if not self._kind:
            return
        if self._kind == "thinking":
            signature, self._thought = self.issued.sign(self._thought, self.digest), ""
            half = len(signature) // 2
            yield self._delta({"type": "signature_delta", "signature": signature[:half]})
            yield self._delta({"type": "signature_delta", "signature": signature[half:]})
        yield {"type": "content_block_stop", "index": self._index}
        self._kind = ""

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _message(self) -> dict[str, Any]:
        return {
            "id": f"msg_{self.number}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }


def _frame(event: Mapping[str, Any]) -> bytes:
    return sse(to_json(event), event["type"])


def _usage(usage: TokenUsage | None) -> dict[str, Any]:
    if usage is None:
        return {"output_tokens": 1}
    cached, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    fresh = usage.prompt_tokens - cached - written
    data = {"input_tokens": fresh, "output_tokens": usage.completion_tokens}
    if usage.cached_tokens is not None:
        data["cache_read_input_tokens"] = cached
    if usage.cache_write_tokens is not None:
        data["cache_creation_input_tokens"] = written
    details = {"output_tokens_details": {"thinking_tokens": usage.reasoning_tokens}}
    return data if usage.reasoning_tokens is None else {**data, **details}


def _apply(event: Mapping[str, Any], content: list[dict[str, Any]], partial: list[str]) -> None:
    """Add an event of a stream to the content of a whole message."""
    if event["type"] == "content_block_start":
        content.append(dict(event["content_block"]))
        partial.clear()
    elif event["type"] == "content_block_delta":
        delta = dict(event["delta"])
        kind = delta.pop("type")
        if kind == "input_json_delta":
            partial.append(delta["partial_json"])
            return
        for name, value in delta.items():
            content[-1][name] = content[-1].get(name, "") + value
    elif event["type"] == "content_block_stop" and content[-1]["type"] == "tool_use" and partial:
        try:
            content[-1]["input"] = json.loads("".join(partial))
        except ValueError:
            content[-1]["input"] = {}


@dataclass(frozen=True, slots=True)
class MessageBlocks(ServerFault):
    """An answer made of blocks of the protocol; created by `message_blocks`."""

    blocks: tuple[Mapping[str, Any], ...]
    fields: Mapping[str, Any]

    async def play(self, out: Exchange) -> bool:
        """Send the answer."""
        writing = out.writing
        assert isinstance(writing, MessagesWriting)
        blocks = [_signed(block, writing) for block in self.blocks]
        usage = self.fields.get("usage") or {"input_tokens": 10, "output_tokens": 5}
        ending = {"stop_sequence": None, **{k: v for k, v in self.fields.items() if k != "usage"}}
        message = {**writing._message(), "usage": usage}
        if not out.streamed:
            await out.respond(200, to_json({**message, "content": blocks, **ending}))
            return False
        await out.write(_frame({"type": "message_start", "message": {**message, **_early(ending)}}))
        for index, block in enumerate(blocks):
            for event in _block_events(index, block):
                await out.write(_frame(event))
        delta = {"type": "message_delta", "delta": ending, "usage": usage, "unknown_field": 1}
        await out.write(_frame(delta))
        await out.write(_frame({"type": "message_stop"}))
        await out.end()
        return False


def message_blocks(
    *blocks: Mapping[str, Any],
    stop_reason: str = "end_turn",
    usage: Mapping[str, Any] | None = None,
    **fields: Any,
) -> MessageBlocks:
    """Return an answer made of these blocks, for `MessagesServer`.

    Args:
        blocks: Content blocks. Thinking without a signature gets one.
        stop_reason: Why the answer ended.
        usage: The ``usage`` object; None for small numbers.
        fields: Further fields of the message, such as ``stop_details`` or ``input_transformations``.
    """
    return MessageBlocks(blocks, {"stop_reason": stop_reason, "usage": usage, **fields})


def _signed(block: Mapping[str, Any], writing: MessagesWriting) -> dict[str, Any]:
    text = block.get({"thinking": "thinking", "compaction": "content"}.get(str(block.get("type")), ""))
    is_signed = block.get("type") == "thinking" or (block.get("type") == "compaction" and writing.summarizes)
    if is_signed and not block.get("signature"):
        return {**block, "signature": writing.issued.sign(text or "", writing.digest)}
    return dict(block)


def _early(ending: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are known when a message starts."""
    return {name: value for name, value in ending.items() if name == "input_transformations"}


def _block_events(index: int, block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a block as events, with text and input in pieces."""
    start, deltas = dict(block), list[dict[str, Any]]()
    if block["type"] == "text":
        start["text"] = ""
        deltas = [
            {"type": "text_delta", "text": piece} for piece in re.findall(r".{1,7}", block["text"], re.S)
        ]
        citations = start.pop("citations", ())
        deltas += [{"type": "citations_delta", "citation": citation} for citation in citations]
    elif block["type"] == "thinking":
        start |= {"thinking": "", "signature": ""}
        pieces = re.findall(r".{1,7}", block["thinking"], re.S)
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif block["type"] == "compaction":
        names = [name for name in ("content", "encrypted_content") if name in block]
        start |= dict.fromkeys(names)
        deltas = [{"type": "compaction_delta", **{name: block[name] for name in names}}]
    elif isinstance(block.get("input"), Mapping) and block["input"]:
        start["input"] = {}
        text = json.dumps(block["input"])
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", text[:5], text[5:])]
    yield {"type": "content_block_start", "index": index, "content_block": start}
    yield {"type": "an_event_of_the_future", "index": index}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}
