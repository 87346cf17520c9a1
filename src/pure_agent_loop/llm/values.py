"""Values that a model client returns and takes. Frozen: received data does not change."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple


def _add(a: int | None, b: int | None) -> int | None:
    """Add two counts; None if neither was reported."""
    if a is None:
        return b
    return a if b is None else a + b


@dataclasses.dataclass(frozen=True, slots=True)  # compared in each step
class TokenUsage:
    """Tokens of one request, or of several added with ``+``.

    Args:
        prompt_tokens: Input tokens.
        completion_tokens: Output tokens, reasoning included.
        total_tokens: Sum of both.
        reasoning_tokens: Part of `completion_tokens` spent on reasoning; None if never reported.
        cached_tokens: Part of `prompt_tokens` served from a prompt cache; None if never reported.
        estimated: True if a server sent no usage and these numbers were estimated from the text.
    """

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    estimated: bool = False

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.total_tokens + other.total_tokens,
            _add(self.reasoning_tokens, other.reasoning_tokens),
            _add(self.cached_tokens, other.cached_tokens),
            self.estimated or other.estimated,
        )

    @classmethod
    def zero(cls) -> TokenUsage:
        """Return a usage of zero tokens: the start of a sum."""
        return cls(0, 0, 0)

    @classmethod
    def from_openai(cls, usage: Any) -> TokenUsage | None:
        """Read a `usage` object of the chat-completions protocol; None if it is missing."""
        if usage is None:
            return None
        prompt, completion = count_of(usage, "prompt_tokens"), count_of(usage, "completion_tokens")
        total = count_of(usage, "total_tokens")
        if prompt is None and completion is None and total is None:
            return None
        reasoning = count_of(get(usage, "completion_tokens_details"), "reasoning_tokens")
        cached = count_of(get(usage, "prompt_tokens_details"), "cached_tokens")
        if cached is None:
            cached = next((n for name in _CACHED if (n := count_of(usage, name)) is not None), None)
        if cached is not None and prompt is not None:
            cached = min(cached, prompt)  # some reports exceed the prompt
        prompt, completion = prompt or 0, completion or 0
        return cls(prompt, completion, total or prompt + completion, reasoning, cached)

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form."""
        return dict(zip(_USAGE_FIELDS, _usage_of(self), strict=True))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TokenUsage:
        """Read the form that :meth:`to_dict` returns."""
        return cls(**{name: data[name] for name in _USAGE_FIELDS if name in data})


_CACHED = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens")  # DeepSeek, Kimi, Mistral
_USAGE_FIELDS = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "reasoning_tokens",
    "cached_tokens",
    "estimated",
)
_usage_of = attrgetter(*_USAGE_FIELDS)  # one call: each step records its usage


def count_of(data: Any, name: str) -> int | None:
    """Return a count of a usage report; None if it is missing or not a count."""
    value = data.get(name) if type(data) is dict else get(data, name)
    if value is None or (type(value) is int and value >= 0):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        return None
    return int(value)


def get(value: Any, name: str) -> Any:
    """Return a field of a dict or an attribute of an SDK object; None if missing."""
    if type(value) is dict:  # the usual case; the check of the abstract type costs ten times as much
        return value.get(name)
    if value is None:
        return None
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of a model.

    Args:
        id: Unique within the history; generated if the server sent none.
        name: The tool's name, as the model wrote it.
        arguments: The parsed arguments, always a JSON object.
        invalid: Why the arguments cannot be used, or None. If set, `arguments` is empty, the tool does not
            run, and the model gets the reason.
        extra: Server-specific fields of the call, to be sent back, those of its ``function`` under that
            name; None if there were none.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    invalid: str | None = None
    extra: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form."""
        data: dict[str, Any] = {"id": self.id, "name": self.name, "arguments": self.arguments}
        if self.invalid is not None:
            data["invalid"] = self.invalid
        if self.extra:
            data["extra"] = self.extra
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolCall:
        """Read the form that :meth:`to_dict` returns."""
        return cls(data["id"], data["name"], dict(data["arguments"]), data.get("invalid"), data.get("extra"))


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A fragment of a call, as a server streams it. Every field may be missing.

    `arguments` is the next piece of JSON text, or a whole object if the server sends one; `extra` is as in
    `ToolCall`, or a piece of it.
    """

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: Any = None
    extra: dict[str, Any] | None = None


class Delta(NamedTuple):
    """The next piece of a streamed response.

    Args:
        text: Next piece of the text.
        reasoning: Next piece of the reasoning.
        tool_calls: Fragments of calls.
        finish_reason: Why the response ended, set once.
        usage: Set once, usually at the end.
        raw: The last one becomes ``LLMResponse.raw``.
        notice: A message for people, shown as a NOTICE event; not part of the response.
        extra: Server-specific fields of the message, to be sent back, or pieces of them.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    finish_reason: str | None = None
    usage: TokenUsage | None = None
    raw: Any = None
    notice: str = ""
    extra: dict[str, Any] | None = None


NOTHING = Delta()
CLOSED = "closed_without_reason"  # internal finish reason: the response is complete, but the server sent none
