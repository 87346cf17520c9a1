"""What a quirk is, and what a client makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pure_agent_loop.errors import ErrorKind
from pure_agent_loop.llm.values import TokenUsage

EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Expected:
    """What must come out of a body.

    Args:
        text: The answer; white space around it does not count.
        reasoning: The thinking, likewise.
        calls: The calls in order, as (name, arguments). None instead of arguments means that these
            cannot be used: the call must be marked as unusable, and the tool must not run.
        finish_reason: ``stop``, ``tool_calls``, ``length`` or ``content_filter``, whatever the server
            called it.
        usage: The tokens the server told, or None if it told none; a client may estimate them then.
        error: The only right outcome is an error of this kind. Nothing else counts then.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, Mapping[str, Any] | None], ...] = ()
    finish_reason: str = "stop"
    usage: TokenUsage | None = None
    error: ErrorKind | None = None


@dataclass(frozen=True, slots=True)
class Quirk:
    """One answer as some server really sends it.

    Args:
        name: Short and unique.
        why: Whose habit it is, or what breaks over it.
        body: All bytes of the HTTP body, which comes with status 200.
        expected: What must come out.
        content_type: As the server labels it.
    """

    name: str
    why: str
    body: bytes
    expected: Expected
    content_type: str = EVENT_STREAM


class OutcomeCall(NamedTuple):
    """One call of an `Outcome`.

    Args:
        id: As the client will send it back with the result.
        name: The tool.
        arguments: The parsed arguments; None if the client found that they cannot be used.
    """

    id: str | None
    name: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client made of a body, for clients that have other types than `LLMResponse`.

    Args:
        text: The answer.
        reasoning: The thinking.
        calls: The calls, in order.
        finish_reason: In the words of `Expected`.
        usage: The tokens; None if they are not known.
    """

    text: str | None = None
    reasoning: str | None = None
    calls: tuple[OutcomeCall, ...] = ()
    finish_reason: str | None = None
    usage: TokenUsage | None = None
