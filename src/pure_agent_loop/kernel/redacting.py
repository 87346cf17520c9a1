"""Redaction of known secrets in responses, call results and events."""

from __future__ import annotations

from dataclasses import replace

from pure_agent_loop.events import AnyEvent, Emit, EventType
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import Delta, ToolCallDelta
from pure_agent_loop.schema.outcome import ToolOutcome, without_secrets
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.secrets.redaction import Redactor, StreamRedactor

_PIECES = frozenset({EventType.TEXT_DELTA, EventType.REASONING_DELTA, EventType.TOOL_CALL_DELTA})


class ResponseRedactor:
    """Redactor of one response, piece by piece."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._text, self._reasoning = redactor.stream(), redactor.stream()
        self._calls: dict[int | None, StreamRedactor] = {}

    def feed(self, delta: Delta) -> Delta:
        """Return the part of a piece that cannot be part of a secret; the rest is buffered."""
        text = self._text.feed(delta.text) if delta.text else delta.text
        reasoning = self._reasoning.feed(delta.reasoning) if delta.reasoning else delta.reasoning
        calls = tuple(map(self._call, delta.tool_calls)) if delta.tool_calls else ()
        if text is delta.text and reasoning is delta.reasoning and not calls:
            return delta
        return delta._replace(text=text, reasoning=reasoning, tool_calls=calls)

    def flush(self) -> Delta:
        """Return the buffered end of the response."""
        calls = ((index, stream.flush()) for index, stream in self._calls.items())
        parts = tuple(ToolCallDelta(index=index, arguments=rest) for index, rest in calls if rest)
        return Delta(text=self._text.flush(), reasoning=self._reasoning.flush(), tool_calls=parts)

    def redact(self, response: LLMResponse) -> LLMResponse:
        """Return the response without secrets; call arguments are unchanged.

        If the response contains a secret, all token details are left out, because they hold pieces of the
        secret.
        """
        if response.token_details:
            calls = [call.arguments for call in response.tool_calls]
            written = [response.content, response.reasoning_content, response.token_details, *calls]
            if self._redactor.redact_value(written) is not written:
                response = replace(response, token_details=None)
        content = self._redactor.redact_value(response.content)
        reasoning = self._redactor.redact_value(response.reasoning_content)
        extra = response.extra and self._redactor.redact_value(response.extra)
        same = content is response.content and reasoning is response.reasoning_content
        if same and extra is response.extra:
            return response
        return replace(response, content=content, reasoning_content=reasoning, extra=extra)

    def _call(self, part: ToolCallDelta) -> ToolCallDelta:
        if not isinstance(part.arguments, str):
            return part
        stream = self._calls.setdefault(part.index, self._redactor.stream())
        return replace(part, arguments=stream.feed(part.arguments))


def redacting_emit(emit: Emit, redactor: Redactor | None) -> Emit:
    """Return a sink that redacts events, except a tool's return value, which is a Python object."""
    if redactor is None or redactor.is_empty:
        return emit

    async def redact_event(event: AnyEvent) -> None:
        if event.type not in _PIECES:  # deltas were already redacted as a stream
            value = event.data.get("value") if event.type is EventType.OBSERVATION else None
            plain = event.data if value is None else {k: v for k, v in event.data.items() if k != "value"}
            data = redactor.redact_value(plain)
            if data is not plain:
                event = replace(event, data=data if value is None else {**data, "value": value})
        await emit(event)

    return redact_event


def redacted_outcome(outcome: ToolOutcome, redactor: Redactor | None) -> ToolOutcome:
    """Return the outcome of a call without secrets; media that contain a secret are omitted."""
    if redactor is None:
        return outcome
    text, parts, removed = redactor.redact(outcome.text), outcome.parts, False
    if parts:
        parts, removed = without_secrets(parts, redactor)
    text += f"\n{model_text('media_not_sent', why=model_text('media_secret'))}" if removed else ""
    if text == outcome.text and parts is outcome.parts:
        return outcome
    value = outcome.value if text == outcome.text else None
    command = outcome.command and {**outcome.command, "tail": redactor.redact(outcome.command["tail"])}
    return replace(outcome, text=text, parts=parts, value=value, command=command)
