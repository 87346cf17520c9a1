"""Responses of the Gemini API, decoded from bytes to deltas. Pure: no I/O.

Unknown parts are kept and unknown fields ignored; neither is an error. Source of the grammar: the types of
the ``google-genai`` package 3.6.1 and https://ai.google.dev/api/generate-content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pure_agent_loop.errors import ErrorKind, LLMError
from pure_agent_loop.llm.calls import RejectedArguments
from pure_agent_loop.llm.gemini.request import PARTS
from pure_agent_loop.llm.protocol_reader import ProtocolReader
from pure_agent_loop.llm.values import (
    Delta,
    JsonFields,
    JsonObject,
    TokenUsage,
    ToolCallDelta,
    count_of,
    get,
    sum_of,
)
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import shorten

_REASONS = {"STOP": "stop", "MAX_TOKENS": "length", "CONTINUATION": "length"}
_BLOCKED = frozenset({
    "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR", "ESCALATION",
})  # fmt: skip
# Finish reasons of malformed responses. A repeated request that tells the model about the mistake may
# succeed.
_MALFORMED = frozenset({
    "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE",
})  # fmt: skip
# Other finish reasons of failed responses, each with a message and an error kind.
_FAILED: dict[str, tuple[str, ErrorKind]] = {
    **dict.fromkeys(("OTHER", "IMAGE_OTHER", "NO_IMAGE"), ("The model's response failed", "incomplete")),
    "MISSING_THOUGHT_SIGNATURE": ("The server rejected the history", "bad_request"),
    "PUP_LIMITED_DISABLED": ("The account is limited or disabled", "auth"),
}
_PLAIN = ({"text"}, {"text", "thought"}, {"functionCall"})


class GeminiReader(ProtocolReader):
    """Reader of a response; see `ProtocolReader`. The end of a stream is the end of the response."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[JsonObject] = []
        self._calls = 0
        self._reason = ""
        self._details: Any = None
        self.malformed = ""  # reason why the model has to repeat its response
        self._blocked: JsonFields | None = None
        self._usage: TokenUsage | None = None

    def _whole(self, document: JsonFields) -> Iterator[Delta]:
        yield from self._event(document)
        yield from self._end_of_stream()

    def _end_of_stream(self) -> Iterator[Delta]:
        self.is_done = True
        yield self._last()

    def _event(self, chunk: JsonFields) -> Iterator[Delta]:
        if chunk.get("error"):
            from pure_agent_loop.llm.failures import error_from_body  # loaded only after a failure

            raise error_from_body(chunk["error"])
        if (usage := _usage(chunk.get("usageMetadata"))) is not None:
            if self._usage is None:
                yield Delta(usage=usage)  # yield early, so that tokens count even if the response breaks off
            self._usage = usage.after(self._usage)
        feedback = chunk.get("promptFeedback") or {}
        if feedback.get("blockReason"):
            self._blocked = feedback
        for candidate in list(filter(None, chunk.get("candidates") or ()))[:1]:
            for part in filter(None, (candidate.get("content") or {}).get("parts") or ()):
                yield from self._part({name: value for name, value in part.items() if value is not None})
            if candidate.get("finishReason") not in ("FINISH_REASON_UNSPECIFIED", "", None):
                self._reason = candidate["finishReason"]
                self._details = candidate.get("finishMessage") or _blocked_categories(candidate)

    def _part(self, part: JsonFields) -> Iterator[Delta]:
        """Keep a part; yield what it adds to the text, the reasoning or the calls."""
        self._keep(part)
        if part.get("text"):
            yield Delta(reasoning=part["text"]) if part.get("thought") else Delta(part["text"])
        elif "functionCall" in part:
            call = part["functionCall"]
            number, self._calls = self._calls, self._calls + 1
            arguments = call.get("args") or {}
            # The rest would follow in pieces, although this client does not request arguments in pieces.
            if call.get("willContinue"):
                arguments = RejectedArguments(model_text("cut_off", reason="willContinue", written=arguments))
            yield Delta(tool_calls=(ToolCallDelta(number, call.get("id"), call["name"], arguments),))

    def _keep(self, part: JsonFields) -> None:
        """Keep a part. Text pieces are joined into one part, but a signed part stays separate."""
        kind = set(part)
        last = self._parts[-1] if self._parts else {}
        if "text" in kind and kind in _PLAIN and set(last) == kind:
            self._parts[-1] = {**last, "text": last["text"] + part["text"]}
        else:
            self._parts.append(dict(part))

    def _last(self) -> Delta:
        """Return the delta that ends the response."""
        reason, notice = self._reason, ""
        if self._blocked is not None and not reason:
            reason = str(self._blocked["blockReason"])
            details = self._blocked.get("blockReasonMessage") or _blocked_categories(self._blocked)
            notice = _with_details("The prompt was blocked", reason, details)
            return Delta(finish_reason="content_filter", usage=self._usage, notice=notice)
        if reason in _MALFORMED:
            self.malformed = _with_details("", reason, self._details).strip()
            raise LLMError(
                _with_details("The model's response failed", reason, self._details), kind="incomplete"
            )
        if reason in _FAILED:
            what, kind = _FAILED[reason]
            raise LLMError(_with_details(what, reason, self._details), kind=kind)
        if reason in _BLOCKED:
            notice = _with_details("The response was blocked", reason, self._details)
        finish = "content_filter" if notice else _REASONS.get(reason, reason.lower())
        if finish == "stop" and self._calls:
            finish = "tool_calls"
        extra = None if all(set(part) in _PLAIN for part in self._parts) else {PARTS: self._parts}
        return Delta(finish_reason=finish or None, usage=self._usage, notice=notice, extra=extra)


def _with_details(what: str, reason: str, details: object) -> str:
    return f"{what} ({reason}){f': {shorten(str(details), 200)}' if details else '.'}"


def _blocked_categories(rated: JsonFields) -> str:
    """Return the categories of harm that blocked a prompt or a response."""
    ratings = rated.get("safetyRatings") or ()
    return ", ".join(str(rating.get("category")) for rating in ratings if get(rating, "blocked"))


def _usage(usage: object) -> TokenUsage | None:
    """Read token counts: thoughts are added to the output, but the prompt already includes cached tokens."""
    if not isinstance(usage, Mapping):
        return None
    of = partial(count_of, usage)
    prompt = sum_of(of("promptTokenCount"), of("toolUsePromptTokenCount"))
    thought = of("thoughtsTokenCount")
    written = sum_of(of("candidatesTokenCount"), thought)
    return TokenUsage(prompt, written, prompt + written, thought, of("cachedContentTokenCount"))
