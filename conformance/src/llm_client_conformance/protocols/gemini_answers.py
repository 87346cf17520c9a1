"""Answers of the Gemini API: events of a stream, or a whole response, with signed parts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_client_conformance.protocols.models import SIGNATURE, is_gemini_3
from llm_client_conformance.scripted.completions import Writing, sse, to_json
from llm_client_conformance.scripted.exchange import Exchange
from llm_client_conformance.scripted.faults import ServerFault
from llm_client_conformance.values import Delta, TokenUsage, ToolCallDelta

_REASONS = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
_STATUSES = {
    "authentication_error": "UNAUTHENTICATED",
    "not_found_error": "NOT_FOUND",
    "rate_limit_error": "RESOURCE_EXHAUSTED",
    "server_error": "UNAVAILABLE",
}
_MODEL = re.compile(r"/models/([^/:]+)")
_TOP_LEVEL = frozenset({
    "cachedContent", "contents", "generationConfig", "labels", "safetySettings", "serviceTier", "store",
    "systemInstruction", "toolConfig", "tools",
})  # fmt: skip
_DATA = frozenset({
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode",
    "codeExecutionResult", "toolCall", "toolResponse",
})  # fmt: skip


@dataclass(slots=True)
class IssuedSignatures:
    """Signed parts that a server has sent, by signature."""

    parts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def sign(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """Return a part with a new signature."""
        seed = f"{len(self.parts)} {part}"
        signature = hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()[:32]
        self.parts[signature] = signed = {**part, SIGNATURE: signature}
        return signed


@dataclass(slots=True)
class GeminiWriting(Writing):
    """Writer of one response.

    Args:
        issued: Object that stores the sent signatures.
    """

    issued: IssuedSignatures = field(default_factory=IssuedSignatures)
    _pieces: dict[int | None, list[ToolCallDelta]] = field(default_factory=dict)  # calls not yet sent
    _has_thought: bool = False
    _is_signed: bool = False
    _reason: str | None = None
    _usage: TokenUsage | None = None

    def frames(self, delta: Delta) -> list[bytes]:
        """Return the events for a delta."""
        return [self._frame([part]) for part in self._parts(delta)]

    def last_frames(self, *, done: bool) -> list[bytes]:
        """Return the events that end the response; without a finish reason unless `done`."""
        parts = self._rest()
        if self._reason is None or not done:
            return [self._frame([part]) for part in parts]
        return [self._frame([part]) for part in parts[:-1]] + [self._frame(parts[-1:], self._reason)]

    def error(self, body: bytes) -> bytes:
        """Return the error in this protocol's form."""
        try:
            error = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            return body
        status = _STATUSES.get(str(error.get("type")), "INVALID_ARGUMENT")
        code = {"code": error["code"]} if isinstance(error.get("code"), int) else {}
        return to_json({"error": {**code, "message": error.get("message", ""), "status": status}})

    def prefix(self) -> bytes:
        """Return the start of a whole response."""
        return to_json(self._start())[:-1]

    def body(self) -> bytes:
        """Return the whole response."""
        parts: list[dict[str, Any]] = []
        for part in [part for delta in self._deltas for part in self._parts(delta)] + self._rest():
            last = parts[-1] if parts else {}
            if "text" in part and {*part, *last} <= {"text", "thought"} and set(part) == set(last):
                last["text"] += part["text"]
            else:
                parts.append(dict(part))
        return to_json(self._response(parts, self._reason))

    def _parts(self, delta: Delta) -> Iterator[dict[str, Any]]:
        """Yield the parts of a delta; a call becomes one part, sent after the last piece of the call."""
        if delta.reasoning:
            self._has_thought = True
            yield {"text": delta.reasoning, "thought": True}
        if delta.text:
            yield from self._made()
            yield {"text": delta.text}
        for piece in delta.tool_calls:
            self._pieces.setdefault(piece.index, []).append(piece)
        self._reason = _REASONS.get(delta.finish_reason or "", delta.finish_reason) or self._reason
        self._usage = delta.usage or self._usage

    def _made(self) -> Iterator[dict[str, Any]]:
        """Yield the complete calls; the first call of a response is signed."""
        pieces, self._pieces = self._pieces, {}
        for call in pieces.values():
            part = {"functionCall": _call(call)}
            yield part if self._is_signed or not self._signs else self._signed(part)

    def _rest(self) -> list[dict[str, Any]]:
        """Return the last parts: calls, or an empty text with a signature."""
        parts = list(self._made())
        if not parts and self._signs and not self._is_signed:
            parts = [self._signed({"text": ""})]
        return parts

    @property
    def _signs(self) -> bool:
        return self._has_thought or is_gemini_3(self.model)

    def _signed(self, part: Mapping[str, Any]) -> dict[str, Any]:
        self._is_signed = True
        return self.issued.sign(part)

    def _start(self) -> dict[str, Any]:
        return {"modelVersion": self.model, "responseId": f"response-{self.number}"}

    def _response(self, parts: Sequence[Mapping[str, Any]], reason: str | None = None) -> dict[str, Any]:
        content = {"role": "model", **({"parts": list(parts)} if parts else {})}
        candidate = {"content": content, "index": 0, **({"finishReason": reason} if reason else {})}
        usage = {"usageMetadata": _usage(self._usage)} if self._usage else {}
        return {**self._start(), "candidates": [candidate], **usage, "aFieldOfTheFuture": 1}

    def _frame(self, parts: Sequence[Mapping[str, Any]], reason: str | None = None) -> bytes:
        return sse(to_json(self._response(parts, reason)))


def _call(pieces: Sequence[ToolCallDelta]) -> dict[str, Any]:
    """Return a call made from its pieces; arguments that are not a JSON object become an empty object."""
    whole = next((piece.arguments for piece in pieces if isinstance(piece.arguments, dict)), None)
    if whole is None:
        try:
            whole = json.loads("".join(str(piece.arguments or "") for piece in pieces) or "{}")
        except ValueError:
            whole = {}
    named: dict[str, Any] = {"name": next(piece.name for piece in pieces if piece.name)}
    named |= {"args": whole if isinstance(whole, dict) else {}}
    call_id = next((piece.id for piece in pieces if piece.id), None)
    return {"id": call_id, **named} if call_id else named


def _usage(usage: TokenUsage) -> dict[str, Any]:
    thought = usage.reasoning_tokens or 0
    counts = {
        "promptTokenCount": usage.prompt_tokens,
        "candidatesTokenCount": usage.completion_tokens - thought,
        "totalTokenCount": usage.total_tokens,
    }
    if usage.reasoning_tokens is not None:
        counts["thoughtsTokenCount"] = thought
    if usage.cached_tokens is not None:
        counts["cachedContentTokenCount"] = usage.cached_tokens
    return counts


@dataclass(frozen=True, slots=True)
class GeminiParts(ServerFault):
    """A response made of parts of the protocol; created by `model_parts`."""

    parts: tuple[Mapping[str, Any], ...]
    fields: Mapping[str, Any]
    response: Mapping[str, Any]

    async def play(self, out: Exchange) -> bool:
        """Send the response."""
        writing = out.writing
        assert isinstance(writing, GeminiWriting)
        parts = [
            writing.issued.sign(part) if part.get(SIGNATURE) == "" else dict(part) for part in self.parts
        ]
        if not out.streamed:
            await out.respond(200, to_json(self._message(writing, parts, last=True)))
            return False
        for part in parts:
            await out.write(sse(to_json(self._message(writing, [part], last=False))))
        await out.write(sse(to_json(self._message(writing, [], last=True))))
        await out.end()
        return False

    def _message(self, writing: GeminiWriting, parts: list[dict[str, Any]], *, last: bool) -> dict[str, Any]:
        response = writing._response(parts)
        if last:
            response["candidates"][0] |= self.fields
            response |= self.response
        return response


def model_parts(
    *parts: Mapping[str, Any],
    finish_reason: str = "STOP",
    finish_message: str = "",
    **response: Any,
) -> GeminiParts:
    """Return a response made of these parts, for `GeminiServer`.

    Args:
        parts: Parts. An empty ``thoughtSignature`` becomes a new one.
        finish_reason: Why the response ended.
        finish_message: Details of the finish reason.
        response: Fields of the response, such as ``usageMetadata`` or ``candidates``.
    """
    fields = {"finishReason": finish_reason, **({"finishMessage": finish_message} if finish_message else {})}
    return GeminiParts(parts, fields, response)
