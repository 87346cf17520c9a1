"""Values of scripts and answers: pieces of a streamed answer, calls, tokens, and the errors of a client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

ErrorKind = Literal[
    "connection",  # refused, reset or interrupted
    "timeout",  # no data for too long
    "rate_limit",  # 429: too many requests
    "overloaded",  # 5xx, 408, 409: a failure of the server
    "incomplete",  # the answer ended early or was unreadable
    "quota",  # no credit left; a retry cannot help
    "auth",  # 401, 403
    "not_found",  # 404: wrong URL or model name
    "context_overflow",  # the request exceeds the context window
    "bad_request",  # any other 4xx, or a web page in place of an answer
    "unknown",
]
ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)


class ConfigError(ValueError):
    """An argument is invalid. The message names the argument and the fix."""


class LLMError(Exception):
    """A failed request of a client: raised by an adapter, and played by a script as the matching fault.

    Args:
        message: Description of the failure.
        kind: One of `ERROR_KINDS`.
        status: HTTP status, if any.
        retry_after: Seconds to wait, if the server names them.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ErrorKind = "unknown",
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.message, self.kind, self.status, self.retry_after = message, kind, status, retry_after
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one answer.

    Args:
        prompt_tokens: Input tokens.
        completion_tokens: Output tokens, including reasoning.
        total_tokens: Sum of both.
        reasoning_tokens: Part of the output spent on reasoning; None if not reported.
        cached_tokens: Part of the input read from a cache; None if not reported.
        estimated: True if the client has estimated the numbers.
        cache_write_tokens: Part of the input written to a cache; None if not reported.
        cost: Cost in US dollars; None if not reported.
    """

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    estimated: bool = False
    cache_write_tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A complete call of a tool.

    Args:
        id: Unique within the history.
        name: The tool.
        arguments: The parsed arguments.
        invalid: The text of arguments that cannot be parsed; None if the arguments are valid.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    invalid: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A fragment of a call, as streamed by a server; every field may be missing."""

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: Any = None


class Delta(NamedTuple):
    """A piece of a streamed answer.

    Args:
        text: Piece of the text.
        reasoning: Piece of the reasoning.
        tool_calls: Fragments of calls.
        finish_reason: Why the answer ended; set in one delta only.
        usage: Token usage; set in one delta only, usually the last.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    finish_reason: str | None = None
    usage: TokenUsage | None = None


@dataclass(frozen=True, slots=True)
class LLMResponse:
    """A whole answer, as an item of a script.

    Args:
        content: The text.
        tool_calls: The calls.
        reasoning_content: The reasoning.
        finish_reason: Why the answer ended.
        usage: The tokens.
    """

    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning_content: str | None = None
    finish_reason: str | None = None
    usage: TokenUsage | None = None
