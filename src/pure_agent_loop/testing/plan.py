"""Convert a script item to the deltas, gates and faults that are played."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCall, ToolCallDelta
from pure_agent_loop.testing.script import Answer, Call, Fault, Part, Step, Stream, Usage, answer, check_item

_PIECES = re.compile(r"\S{1,12}\s*|\s+")
_OUR_ID = re.compile(r"call_(\d+)$")


@dataclass(frozen=True, slots=True)
class Plan:
    """A script item, ready to be played.

    Args:
        steps: The steps, in order.
        done: True to send ``[DONE]`` at the end.
        empty: Content of an answer without text: None or "".
        response: The answer, if the item is an `LLMResponse`.
        begun: False if the item is a lone fault or exception, which may come before any byte of an answer.
    """

    steps: tuple[Step, ...]
    done: bool = True
    empty: str | None = None
    response: LLMResponse | None = None
    begun: bool = True


def plan_item(item: Any, messages: Sequence[Any], usage: TokenUsage | None) -> Plan:
    """Convert an item to steps.

    Args:
        messages: The request's history; new call ids continue the ids in it.
        usage: Token usage of answers that have none.

    Raises:
        ConfigError: The value is not a script item.
    """
    check_item(item, "the item")
    if isinstance(item, (Exception, Fault)):
        return Plan((item,), done=getattr(item, "ends_with_done", True), begun=False)
    writer = _Writer(messages, usage)
    if isinstance(item, LLMResponse):
        scripted = Answer(
            item.content, tuple(item.tool_calls), item.reasoning_content, item.finish_reason, item.usage
        )
        return Plan(tuple(writer.answer(scripted)), empty=_empty(item.content), response=item)
    if isinstance(item, (Stream, Delta)) or _is_delta_list(item):
        stream = (
            item if isinstance(item, Stream) else Stream((item,) if isinstance(item, Delta) else tuple(item))
        )
        return Plan(tuple(writer.stream(stream)), done=stream.done)
    scripted = (
        item if isinstance(item, Answer) else answer(*(item if isinstance(item, (list, tuple)) else [item]))
    )
    return Plan(tuple(writer.answer(scripted)), empty=_empty(scripted.text))


def _empty(text: str | None) -> str | None:
    return None if text is None else ""


def _is_delta_list(item: Any) -> bool:
    return isinstance(item, (list, tuple)) and bool(item) and any(isinstance(part, Delta) for part in item)


class _Writer:
    """Writes one answer as deltas, with ids and indexes for the calls."""

    def __init__(self, messages: Sequence[Any], usage: TokenUsage | None) -> None:
        self._usage = usage
        self._next_id = _highest_id(messages) + 1
        self._index = 0

    def answer(self, scripted: Answer) -> Iterator[Step]:
        yield from (Delta(reasoning=piece) for piece in _PIECES.findall(scripted.reasoning or ""))
        yield from (Delta(text=piece) for piece in _PIECES.findall(scripted.text or ""))
        for one in scripted.calls:
            yield from self._call(one)
        yield from self._end(scripted.finish_reason or "auto", scripted.usage)

    def stream(self, scripted: Stream) -> Iterator[Step]:
        finished = any(isinstance(part, Delta) and part.finish_reason for part in scripted.parts)
        for part in scripted.parts:
            yield from self._part(part)
        if not finished and scripted.finish_reason is not None:
            yield from self._end(scripted.finish_reason, scripted.usage)

    def _part(self, part: Part) -> Iterator[Step]:
        if isinstance(part, str):
            yield Delta(text=part)
        elif isinstance(part, (Call, ToolCall)):
            yield from self._call(part)
        else:
            if isinstance(part, Delta) and part.tool_calls:
                self._index += 1
            yield part

    def _call(self, one: Call | ToolCall) -> Iterator[Delta]:
        text = one.arguments if isinstance(one, Call) else _text_of(one)
        call_id = one.id
        if call_id is None:
            call_id = f"call_{self._next_id}"
            self._next_id += 1
        index, self._index = self._index, self._index + 1
        yield Delta(tool_calls=(ToolCallDelta(index, call_id, one.name, ""),))
        half = len(text) // 2
        for piece in (text[:half], text[half:]):
            if piece:
                yield Delta(tool_calls=(ToolCallDelta(index, arguments=piece),))

    def _end(self, reason: str, usage: Usage) -> Iterator[Delta]:
        if reason == "auto":
            reason = "tool_calls" if self._index else "stop"
        yield Delta(finish_reason=reason)
        tokens = self._usage if usage == "default" else usage
        if tokens is not None:
            yield Delta(usage=tokens)


def _text_of(call: ToolCall) -> str:
    return json.dumps(call.arguments) if call.invalid is None else call.invalid


def _highest_id(messages: Sequence[Any]) -> int:
    """Return the highest generated id number in a history, so that new ids are unique."""
    highest = 0
    for message in messages:
        calls = message.get("tool_calls") if isinstance(message, Mapping) else None
        for call in calls if isinstance(calls, list) else ():
            match = _OUR_ID.match(str(call.get("id"))) if isinstance(call, Mapping) else None
            highest = max(highest, int(match[1]) if match else 0)
    return highest
