"""What a model writes and what a run tells, without the secrets that are known."""

from __future__ import annotations

from dataclasses import replace

from pure_agent_loop.events import AnyEvent, Emit, EventType
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import Delta, ToolCall, ToolCallDelta
from pure_agent_loop.support.secrets.redaction import Redactor, StreamRedactor

_PIECES = frozenset({EventType.TEXT_DELTA, EventType.REASONING_DELTA, EventType.TOOL_CALL_DELTA})


class Veil:
    """For one answer.

    Args:
        redactor: Knows the secrets.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._text, self._reasoning = redactor.stream(), redactor.stream()
        self._calls: dict[int | None, StreamRedactor] = {}

    def over(self, delta: Delta) -> Delta:
        """A piece as it may be shown."""
        text = self._text.feed(delta.text) if delta.text else delta.text
        reasoning = self._reasoning.feed(delta.reasoning) if delta.reasoning else delta.reasoning
        calls = tuple(map(self._call, delta.tool_calls)) if delta.tool_calls else ()
        if text is delta.text and reasoning is delta.reasoning and not calls:
            return delta
        return delta._replace(text=text, reasoning=reasoning, tool_calls=calls)

    def rest(self) -> Delta:
        """What was held back: the answer is over."""
        calls = ((index, stream.flush()) for index, stream in self._calls.items())
        parts = tuple(ToolCallDelta(index=index, arguments=rest) for index, rest in calls if rest)
        return Delta(text=self._text.flush(), reasoning=self._reasoning.flush(), tool_calls=parts)

    def whole(self, response: LLMResponse) -> LLMResponse:
        """The answer as it may enter the history; the arguments of its calls stay as they are."""
        content = self._redactor.redact_value(response.content)
        reasoning = self._redactor.redact_value(response.reasoning_content)
        if content is response.content and reasoning is response.reasoning_content:
            return response
        return replace(response, content=content, reasoning_content=reasoning)

    def _call(self, part: ToolCallDelta) -> ToolCallDelta:
        if not isinstance(part.arguments, str):
            return part
        stream = self._calls.setdefault(part.index, self._redactor.stream())
        return replace(part, arguments=stream.feed(part.arguments))


def veil_of(redactor: Redactor | None) -> Veil | None:
    """What the next answer needs; None if nothing is known that could be in it."""
    return None if redactor is None or redactor.is_empty else Veil(redactor)


def as_recorded(call: ToolCall, redactor: Redactor | None) -> ToolCall:
    """A call as a session keeps it: what goes into a run's state is made of this, or a replay differs."""
    if redactor is None:
        return call
    args = redactor.redact_value(call.arguments)
    invalid = call.invalid and redactor.redact_value(call.invalid)
    if args is call.arguments and invalid is call.invalid:
        return call
    return replace(call, arguments=args, invalid=invalid)


def _cleaned(event: AnyEvent, redactor: Redactor) -> AnyEvent:
    """Without secrets; a tool's value is the program's own object, and goes into no text."""
    value = event.data.get("value") if event.type is EventType.OBSERVATION else None
    given = event.data if value is None else {k: v for k, v in event.data.items() if k != "value"}
    data = redactor.redact_value(given)
    if data is given:
        return event
    return replace(event, data=data if value is None else {**data, "value": value})


def veiled(emit: Emit, redactor: Redactor | None) -> Emit:
    """A way out for events whose data hold no known secret."""
    if redactor is None or redactor.is_empty:
        return emit

    async def veil(event: AnyEvent) -> None:
        if event.type not in _PIECES:  # those were cleaned as streams
            event = _cleaned(event, redactor)
        await emit(event)

    return veil
