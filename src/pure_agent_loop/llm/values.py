"""The values a model client gives and takes. Frozen: what was received does not change."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from pure_agent_loop.support.typed import dataclass


def _add(a: int | None, b: int | None) -> int | None:
    """Sum that stays None where neither side was ever reported."""
    if a is None:
        return b
    return a if b is None else a + b


@dataclasses.dataclass(frozen=True, slots=True)  # compared in each step
class TokenUsage:
    """Tokens of one request, or of several added up with ``+``.

    Args:
        prompt_tokens: Tokens read.
        completion_tokens: Tokens written, reasoning included.
        total_tokens: Both.
        reasoning_tokens: Part of `completion_tokens` spent on thinking; None where never reported.
        cached_tokens: Part of `prompt_tokens` served from a prompt cache; None where never reported.
        estimated: True if a server sent no usage and these numbers were guessed from the text.
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
        """No tokens at all: the start of a sum."""
        return cls(0, 0, 0)

    @classmethod
    def from_openai(cls, usage: Any) -> TokenUsage | None:
        """Read a `usage` object of the chat-completions protocol, or None if there is none."""
        if usage is None:
            return None
        prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
        total = _count(usage, "total_tokens")
        if prompt is None and completion is None and total is None:
            return None
        reasoning = _count(get(usage, "completion_tokens_details"), "reasoning_tokens")
        cached = _count(get(usage, "prompt_tokens_details"), "cached_tokens")
        if cached is None:  # DeepSeek's own name
            cached = _count(usage, "prompt_cache_hit_tokens")
        prompt, completion = prompt or 0, completion or 0
        return cls(prompt, completion, total or prompt + completion, reasoning, cached)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return dict(zip(_USAGE_FIELDS, _usage_of(self), strict=True))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TokenUsage:
        """The reverse of :meth:`to_dict`."""
        return cls(**{name: data[name] for name in _USAGE_FIELDS if name in data})


_USAGE_FIELDS = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "reasoning_tokens",
    "cached_tokens",
    "estimated",
)
_usage_of = attrgetter(*_USAGE_FIELDS)  # one call, and each step writes its usage


def _count(data: Any, name: str) -> int | None:
    value = data.get(name) if type(data) is dict else get(data, name)
    if value is None or (type(value) is int and value >= 0):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        return None
    return int(value)


def get(value: Any, name: str) -> Any:
    """A field of a dict, an attribute of an SDK object, None where there is neither."""
    if type(value) is dict:  # nearly always; the check of the abstract type costs ten times as much
        return value.get(name)
    if value is None:
        return None
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asked for.

    Args:
        id: Unique within the history; made up here where a server sent none.
        name: The tool, as the model wrote it.
        arguments: The parsed arguments, always a JSON object.
        invalid: Why the arguments could not be used (then `arguments` is empty and the tool is not
            called; the model is told), or None.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    invalid: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        data: dict[str, Any] = {"id": self.id, "name": self.name, "arguments": self.arguments}
        if self.invalid is not None:
            data["invalid"] = self.invalid
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolCall:
        """The reverse of :meth:`to_dict`."""
        return cls(data["id"], data["name"], dict(data["arguments"]), data.get("invalid"))


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A fragment of a call, as a server streams it. Every field may be missing.

    `arguments` is the next piece of JSON text, or a whole object where a server sends one.
    """

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: Any = None


class Delta(NamedTuple):
    """The next piece of a streamed answer.

    Args:
        text: More of the answer.
        reasoning: More of the thinking.
        tool_calls: Fragments of calls.
        finish_reason: Set once the server says why it ended.
        usage: Set once, usually at the end.
        raw: The last one is kept as ``LLMResponse.raw``.
        notice: Something people should know, shown as a NOTICE event; no part of the answer.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    finish_reason: str | None = None
    usage: TokenUsage | None = None
    raw: Any = None
    notice: str = ""


NOTHING = Delta()
