"""Answers in a vendor's chat completions, with fields for reasoning, signatures and tokens."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from llm_client_conformance.protocols.chat_dialects import DIALECTS, ChatDialect
from llm_client_conformance.scripted.completions import Writing, to_json
from llm_client_conformance.values import Delta, TokenUsage


@dataclass(slots=True)
class ChatWriting(Writing):
    """Writer of one answer in a dialect.

    Args:
        dialect: Rules of the vendor.
        signed: Dict to which sent signatures are added, with the reasoning or the tool name that they belong
            to.
    """

    dialect: ChatDialect = field(default_factory=lambda: DIALECTS["deepseek"])
    signed: dict[str, str] = field(default_factory=dict)
    _has_signed: bool = False
    _thought: str = ""

    def error(self, body: bytes) -> bytes:
        """Return the error, in a list if the vendor sends errors in a list."""
        return b"[" + body + b"]" if self.dialect.errors_in_list and body[:1] == b"{" else body

    def chunk(self, delta: Delta) -> bytes:
        """Return the payload of one streamed chunk."""
        return self._translated(super(ChatWriting, self).chunk(delta), delta.usage)

    def body(self) -> bytes:
        """Return the whole answer."""
        usage = next((delta.usage for delta in reversed(self._deltas) if delta.usage), None)
        return self._translated(super(ChatWriting, self).body(), usage)

    def _translated(self, data: bytes, usage: TokenUsage | None) -> bytes:
        value = json.loads(data)
        for choice in value["choices"]:
            message = choice.get("delta") or choice.get("message") or {}
            if self.dialect.thinking_in_content and "reasoning_content" in message:
                thought = {"type": "text", "text": message.pop("reasoning_content")}
                chunks = [{"type": "thinking", "thinking": [thought], "closed": True}]
                text = message.get("content")
                message["content"] = [*chunks, *([{"type": "text", "text": text}] if text else [])]
            if self.dialect.signs_reasoning:
                self._detail(message, is_whole="message" in choice)
            if self.dialect.signs_calls and message.get("tool_calls") and not self._has_signed:
                self._has_signed = True
                call = message["tool_calls"][0]
                signature = self._signature(str(call["function"]["name"]))
                call["extra_content"] = {"google": {"thought_signature": signature}}
        if usage is not None:
            value["usage"] |= _usage(usage, self.dialect)
        return to_json(value)

    def _detail(self, message: dict[str, Any], *, is_whole: bool) -> None:
        """Send reasoning with its details; the signature comes after the last piece."""
        thought = message.pop("reasoning_content", "")
        self._thought += thought
        detail = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
        if thought:
            message["reasoning"], detail["text"] = thought, thought
        if self._thought and not self._has_signed and (is_whole or not thought):
            self._has_signed = True
            detail["signature"] = self._signature(self._thought)
        if thought or "signature" in detail:
            message["reasoning_details"] = [detail]

    def _signature(self, signed: str) -> str:
        signature = hashlib.sha256(f"{len(self.signed)} {signed}".encode("utf-8", "replace")).hexdigest()[:32]
        self.signed[signature] = signed
        return signature


def _usage(usage: TokenUsage, dialect: ChatDialect) -> dict[str, Any]:
    """Return the vendor's fields for cached tokens."""
    cached = usage.cached_tokens or 0
    if dialect.usage == "deepseek":
        missed = usage.prompt_tokens - cached
        return {"prompt_cache_hit_tokens": cached, "prompt_cache_miss_tokens": missed}
    return {"kimi": {"cached_tokens": cached}, "mistral": {"num_cached_tokens": cached}}.get(
        dialect.usage, {}
    )
