"""Quirks as data: the answer of a server, what a right client makes of it, and what a client made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from llm_client_conformance.values import ErrorKind, TokenUsage

EVENT_STREAM = "text/event-stream"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected result of a body.

    Args:
        text: The answer; white space around it does not count.
        reasoning: The reasoning, compared in the same way.
        calls: The calls in order, as (name, arguments). None instead of arguments means that they are
            unusable: the call must be marked as such, and the tool must not run.
        finish_reason: ``stop``, ``tool_calls``, ``length`` or ``content_filter``, whichever word the server
            used.
        usage: The tokens that the server reported; None if it reported none, and a client may estimate them.
        error: Kind of the error that the client must raise; None for no error. The other fields are then
            ignored.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, Mapping[str, Any] | None], ...] = ()
    finish_reason: str = "stop"
    usage: TokenUsage | None = None
    error: ErrorKind | None = None


@dataclass(frozen=True, slots=True)
class Quirk:
    """Answer as a real server sends it.

    Args:
        name: Short and unique.
        why: Servers that send it, or the failure it causes.
        body: All bytes of the HTTP body.
        expected: The expected result.
        content_type: As the server labels it.
        status: The HTTP status.
        protocol: ``chat`` completions, ``messages``, ``responses`` or ``gemini``.
    """

    name: str
    why: str
    body: bytes
    expected: Expected
    content_type: str = EVENT_STREAM
    status: int = 200
    protocol: str = "chat"


class OutcomeCall(NamedTuple):
    """One call of an `Outcome`.

    Args:
        id: As the client will send it back with the result.
        name: The tool.
        arguments: The parsed arguments; None if the client marked them as unusable.
    """

    id: str | None
    name: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a client.

    Args:
        text: The answer.
        reasoning: The thinking.
        calls: The calls, in order.
        finish_reason: One of the values listed at `Expected`.
        usage: The tokens; None if they are not known.
    """

    text: str | None = None
    reasoning: str | None = None
    calls: tuple[OutcomeCall, ...] = ()
    finish_reason: str | None = None
    usage: TokenUsage | None = None
