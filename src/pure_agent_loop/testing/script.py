"""Script items: the answers of a scripted model or server, one for each request.

An item is one of:

- ``str``: the answer, streamed word by word;
- ``call("tool", arg=1)`` or a `ToolCall`: one tool call;
- a list of texts and calls: text and several calls in one answer;
- ``answer(...)``: texts and calls with reasoning, finish reason and usage;
- ``LLMResponse``: exactly this answer;
- ``deltas(...)``: exactly these pieces, with gates and errors between them; a list of `Delta` is the
  same as ``deltas(*list)``;
- an exception: raised instead of an answer;
- a callable ``(messages, tools, options) -> item``, sync or async;
- for `ScriptedServer` only: a fault (see `pure_agent_loop.testing.faults`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCall
from pure_agent_loop.testing.gate import Gate

DEFAULT_USAGE = TokenUsage(10, 5, 15)

Usage: TypeAlias = "TokenUsage | Literal['default'] | None"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as a model writes it; created by `call` or `raw_call`.

    Args:
        arguments: The text of the arguments, valid or not.
        id: None for the next free id in the history; an empty string for no id.
    """

    name: str
    arguments: str
    id: str | None = None


def call(name: str, /, **arguments: Any) -> Call:
    """Return a call to the tool `name` with these arguments.

    Args:
        name: The tool.
        arguments: Arguments of the call; any values that `json.dumps` accepts.
    """
    return Call(name, json.dumps(arguments))


def raw_call(name: str, arguments: str, call_id: str | None = None) -> Call:
    """Return a call with raw argument text, for broken JSON and other defects.

    Args:
        name: The tool.
        arguments: Text of the arguments, sent unchanged.
        call_id: Id of the call; None for the next free id.
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
    """One answer, streamed in small pieces; created by `answer`."""

    text: str | None = None
    calls: tuple[Call | ToolCall, ...] = ()
    reasoning: str | None = None
    finish_reason: str | None = None
    usage: Usage = "default"


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer in exactly these pieces; created by `deltas`."""

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
        parts: Text and calls; texts are joined. No parts, or only None, mean no content (``null`` in JSON);
            ``""`` means empty content.
        reasoning: The reasoning before the answer.
        finish_reason: Finish reason, such as ``"length"`` or ``"content_filter"``; None for the one that fits
            the parts.
        usage: Token usage; None for a server that does not report it.
    """
    texts = [part for part in parts if isinstance(part, str)]
    calls = tuple(part for part in parts if isinstance(part, (Call, ToolCall)))
    return Answer("".join(texts) if texts else None, calls, reasoning, finish_reason, usage)


def deltas(
    *parts: Part, finish_reason: str | None = "auto", usage: Usage = "default", done: bool = True
) -> Stream:
    """Return an answer in exactly these pieces.

    Args:
        parts: Parts in order: a `Delta`, a string (one delta), a call, a `Gate` to wait at, an exception to
            raise, or (server only) a fault.
        finish_reason: Finish reason to add at the end unless a delta has one; ``"auto"`` for the one that
            fits, None for an answer without a finish reason.
        usage: Token usage, added with the finish reason; None to send none.
        done: True to send the final ``[DONE]`` (server only).
    """
    return Stream(parts, finish_reason, usage, done)


Item: TypeAlias = (
    "str | Call | ToolCall | Sequence[str | Call | ToolCall | Delta] | Answer | LLMResponse | Stream"
    " | Delta | Exception | Fault | Callable[..., Any]"
)
_KINDS = (str, Call, ToolCall, Answer, LLMResponse, Stream, Delta, Exception, Fault)


def check_item(item: Any, where: str) -> None:
    """Reject an invalid item when the script is created.

    Raises:
        ConfigError: The value is not a script item.
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
