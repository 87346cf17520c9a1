"""Script items: what a scripted model or server answers to one request.

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
