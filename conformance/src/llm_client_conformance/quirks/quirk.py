"""Quirks as data: a server's answer, the expected result, and a client's result."""

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
        text: The answer; surrounding white space is ignored.
        reasoning: The reasoning; surrounding white space is ignored.
        calls: The calls in order, as (name, arguments). None as
            arguments means that the call must be marked as unusable, and that the tool must not run.
        finish_reason: ``stop``, ``tool_calls``, ``length`` or ``content_filter``, even if the server used
            another word.
        usage: The tokens that the server reported; None if it reported none, and a client may estimate them.
        error: Kind of the error that the client must raise; None for no error. With an error, the other
            fields are ignored.
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
        name: A short unique name.
        why: Servers that send this answer, or the failure that it causes.
        body: All bytes of the HTTP body.
        expected: The expected result.
        content_type: Content type that the server sends.
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
        id: Id that the client will return with the result.
        name: Name of the tool.
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
