"""Script items, and their conversion to a stream of deltas.

An item is one of:

- ``str``: the answer, streamed word by word;
- ``call("tool", arg=1)`` or a `ToolCall`: one tool call;
- a list of these: text and several calls in one answer;
- ``answer(...)``: the same with reasoning, finish reason and usage;
- ``LLMResponse``: exactly this answer;
- ``deltas(...)``: exactly these pieces, with gates and errors between them; a list of `Delta` is the
  same as ``deltas(*list)``;
- an exception: raised instead of an answer;
- a callable ``(messages, tools, options) -> item``, sync or async;
- for `ScriptedServer` only: a fault (see `pure_agent_loop.testing.faults`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCall, ToolCallDelta
from pure_agent_loop.testing.gate import Gate, ScriptError

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.sessions import Record
    from pure_agent_loop.sessions.replay import ReplayReport

DEFAULT_USAGE = TokenUsage(10, 5, 15)
_PIECES = re.compile(r"\S{1,12}\s*|\s+")
_OUR_ID = re.compile(r"call_(\d+)$")

Usage: TypeAlias = "TokenUsage | Literal['default'] | None"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as a model writes it; make one with `call` or `raw_call`.

    Args:
        arguments: The text of the arguments, valid or not.
        id: None for the next free id of the history; an empty string for no id.
    """

    name: str
    arguments: str
    id: str | None = None


def call(name: str, /, **arguments: Any) -> Call:
    """Return a call of the tool `name` with these arguments.

    Args:
        name: The tool.
        arguments: Its arguments; anything `json.dumps` takes.
    """
    return Call(name, json.dumps(arguments))


def raw_call(name: str, arguments: str, call_id: str | None = None) -> Call:
    """Return a call with raw argument text: for broken JSON and other defects.

    Args:
        name: The tool.
        arguments: The text, sent as it is.
        call_id: Its id; None for the next free one.
    """
    return Call(name, arguments, call_id)


class Fault:
    """Base of faults that need a real server; see `pure_agent_loop.testing.faults`."""

    __slots__ = ()
    ends_with_done: ClassVar[bool] = True


Step: TypeAlias = "Delta | Gate | Exception | Fault"
Part: TypeAlias = "Step | str | Call | ToolCall"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, streamed in small pieces; make one with `answer`."""

    text: str | None = None
    calls: tuple[Call | ToolCall, ...] = ()
    reasoning: str | None = None
    finish_reason: str | None = None
    usage: Usage = "default"


@dataclass(frozen=True, slots=True)
class Stream:
    """Exactly these pieces; make one with `deltas`."""

    parts: tuple[Part, ...]
    finish_reason: str | None = "auto"
    usage: Usage = "default"
    done: bool = True


def answer(
    *parts: str | Call | ToolCall | None,
    reasoning: str | None = None,
    finish_reason: str | None = None,
    usage: Usage = "default",
) -> Answer:
    """Return an answer with its optional fields.

    Args:
        parts: Text and calls; texts are joined. Nothing, or only None, for no content at all
            (``null`` on the wire), ``""`` for empty content.
        reasoning: The reasoning before the answer.
        finish_reason: None for the one that fits; ``"length"``, ``"content_filter"``, ...
        usage: The tokens; None for a server that does not report them.
    """
    texts = [part for part in parts if isinstance(part, str)]
    calls = tuple(part for part in parts if isinstance(part, (Call, ToolCall)))
    return Answer("".join(texts) if texts else None, calls, reasoning, finish_reason, usage)


def deltas(
    *parts: Part, finish_reason: str | None = "auto", usage: Usage = "default", done: bool = True
) -> Stream:
    """Return an answer in exactly these pieces.

    Args:
        parts: In order: a `Delta`, a string (one delta), a call, a `Gate` to wait at, an exception to
            raise there, or (server only) a fault to happen there.
        finish_reason: Added at the end unless a delta has one; ``"auto"`` for the one that fits,
            None for an answer that ends without any.
        usage: The tokens, added with the finish reason; None for none.
        done: Send the closing ``[DONE]`` (server only).
    """
    return Stream(parts, finish_reason, usage, done)


@dataclass(frozen=True, slots=True)
class Plan:
    """An item, ready to be played.

    Args:
        steps: The steps, in order.
        done: Send ``[DONE]`` at the end.
        empty: Content of an answer without text: None or "".
        response: The answer as it was given, if it was given as an `LLMResponse`.
        begun: False if the item is a lone fault or exception, which may come before any byte of an answer.
    """

    steps: tuple[Step, ...]
    done: bool = True
    empty: str | None = None
    response: LLMResponse | None = None
    begun: bool = True


Item: TypeAlias = (
    "str | Call | ToolCall | Sequence[str | Call | ToolCall | Delta] | Answer | LLMResponse | Stream"
    " | Delta | Exception | Fault | Callable[..., Any]"
)
_KINDS = (str, Call, ToolCall, Answer, LLMResponse, Stream, Delta, Exception, Fault)


def check_item(item: Any, where: str) -> None:
    """Reject an invalid item when the script is created.

    Raises:
        ConfigError: It is not an item.
    """
    if isinstance(item, type):
        raise ConfigError(f"{where} is the class {item.__name__}. Use an instance of it.")
    known = isinstance(item, _KINDS) or callable(item)
    if not known and isinstance(item, (list, tuple)):
        known = all(isinstance(part, (str, Call, ToolCall, Delta)) for part in item)
    if not known:
        raise ConfigError(
            f"{where} is {item!r:.100}, which is not a script item. Use a str, call(...), a list of these, "
            "answer(...), deltas(...), LLMResponse, an exception instance, or a callable."
        )


def plan_item(item: Any, messages: Sequence[Any], usage: TokenUsage | None) -> Plan:
    """Convert an item to steps.

    Args:
        messages: The request's history; new call ids continue its ids.
        usage: The tokens of answers without their own.

    Raises:
        ConfigError: It is not an item.
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
    """Writes one answer as deltas, giving ids and indexes to its calls."""

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


# -- replay of a recorded session as a test: the loop must behave as recorded ----------------------------


def assert_replays(
    recorded: Sequence[Record] | str | os.PathLike[str], agent: Agent | None = None
) -> ReplayReport:
    """Fail unless a replay equals the recorded session. No request is sent and no tool is called.

    Args:
        recorded: The records of a session, or the path of its ``.jsonl`` file.
        agent: Use its prompts, limits, permissions and tools' schemas instead of the recorded ones.

    Returns:
        The replay.

    Raises:
        ScriptError: The replay differs, or the file is damaged; the message shows where.
        ConfigError: The session has no run.
    """
    from pure_agent_loop.sessions import parse
    from pure_agent_loop.sessions.replay import replay_session

    if isinstance(recorded, (str, os.PathLike)):
        with Path(recorded).open("rb") as lines:
            parsed = parse(lines)
        if parsed.problems:
            raise ScriptError(f"{os.fspath(recorded)} is damaged: {'; '.join(parsed.problems)}")
        recorded = parsed.records
    report = replay_session(recorded, agent=agent)
    if report.difference is not None:
        raise ScriptError(str(report))
    return report
