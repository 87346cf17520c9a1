"""Values that a model client returns and takes. Frozen: received data does not change."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from pure_agent_loop.support.text import present

JsonObject: TypeAlias = dict[str, Any]  # JSON object from a server, for a tool, or as a schema
JsonFields: TypeAlias = Mapping[str, Any]  # read-only fields of such an object
Options: TypeAlias = Mapping[str, Any]  # options of a request, by name
Message: TypeAlias = dict[str, Any]  # a message as a caller or a server writes it
Tools: TypeAlias = list[JsonObject]  # tool schemas in the chat-completions shape, or server tools

# Fields for cached tokens: those of DeepSeek, Kimi and Mistral, in this order.
_CACHED = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens")
_USAGE_FIELDS = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "reasoning_tokens",
    "cached_tokens",
    "estimated",
)
_COUNTS = (
    *("prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens"),
    *("cache_write_tokens", "cache_write_1h_tokens"),
)
_WHOLES = {  # counts that are part of another count, mapped to that other count
    "reasoning_tokens": "completion_tokens",
    "cached_tokens": "prompt_tokens",
    "cache_write_tokens": "prompt_tokens",
    "cache_write_1h_tokens": "cache_write_tokens",
    "cache_missed_tokens": "prompt_tokens",
}
CLOSED = "closed_without_reason"  # internal finish reason: the response is complete, but the server sent none


def _add(a: int | None, b: int | None) -> int | None:
    """Add two counts; None if neither was reported."""
    if a is None:
        return b
    return a if b is None else a + b


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one request, or of several added with ``+``.

    Args:
        prompt_tokens: Input tokens.
        completion_tokens: Output tokens, reasoning included.
        total_tokens: Sum of both.
        reasoning_tokens: Part of `completion_tokens` spent on reasoning; None if never reported.
        cached_tokens: Part of `prompt_tokens` served from a prompt cache; None if never reported.
        estimated: True if a server sent no usage and these numbers were estimated from the text.
        cache_write_tokens: Part of `prompt_tokens` written to a prompt cache; None if never reported.
        by_model: The tokens of each model, by name, if a client for several models named them.
        cost: Cost in US dollars, reported by the server or computed from the run's prices; None if unknown
            for any request.
        cache_missed_tokens: Part of `prompt_tokens` that a run's previous request could have left in a cache,
            but that was not read from a cache; computed by the run, see `with_missed`; None if unknown.
        cache_write_1h_tokens: Part of `cache_write_tokens` that the cache keeps for an hour instead of five
            minutes; None if never reported.
    """

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    estimated: bool = False
    cache_write_tokens: int | None = None
    cost: float | None = None
    by_model: tuple[tuple[str, TokenUsage], ...] = ()
    cache_missed_tokens: int | None = None
    cache_write_1h_tokens: int | None = None

    def __add__(self, other: TokenUsage) -> TokenUsage:
        written, missed, by_model = self.cache_write_tokens, self.cache_missed_tokens, self.by_model
        written_1h = self.cache_write_1h_tokens
        if other.by_model:
            sums = dict(by_model)
            for name, usage in other.by_model:
                sums[name] = sums[name] + usage if name in sums else usage
            by_model = tuple(sums.items())
        if other.cache_write_tokens is not None:  # rare: skip the sums, because this code runs often
            written = other.cache_write_tokens + (written or 0)
            written_1h = _add(written_1h, other.cache_write_1h_tokens)
        if other.cache_missed_tokens is not None:
            missed = other.cache_missed_tokens + (missed or 0)
        cost = self.cost
        if cost is None:
            cost = None if self.total_tokens else other.cost
        elif other.cost is not None:
            cost += other.cost
        elif other.total_tokens:
            cost = None
        return TokenUsage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.total_tokens + other.total_tokens,
            _add(self.reasoning_tokens, other.reasoning_tokens),
            _add(self.cached_tokens, other.cached_tokens),
            self.estimated or other.estimated,
            written,
            cost,
            by_model,
            missed,
            written_1h,
        )

    def with_missed(self, previous: int) -> TokenUsage:
        """Return the usage with `cache_missed_tokens`; unchanged if no cached tokens were reported.

        Args:
            previous: Prompt tokens of the run's previous request; 0 for the first request. The cache could
                hold all of these tokens.
        """
        if self.cached_tokens is None:
            return self
        held = previous if previous < self.prompt_tokens else self.prompt_tokens
        missed = held - self.cached_tokens if held > self.cached_tokens else 0
        return TokenUsage(
            self.prompt_tokens,
            self.completion_tokens,
            self.total_tokens,
            self.reasoning_tokens,
            self.cached_tokens,
            self.estimated,
            self.cache_write_tokens,
            self.cost,
            self.by_model,
            missed,
            self.cache_write_1h_tokens,
        )

    def after(self, other: TokenUsage | None) -> TokenUsage:
        """Merge this report with an older one about the same request.

        A newer count replaces an older one, unless the newer count is 0: some gateways repeat counts as 0.
        """
        if other is None or (
            self.prompt_tokens >= other.prompt_tokens >= 0
            and self.completion_tokens >= other.completion_tokens >= 0
            and (self.cached_tokens or 0) >= (other.cached_tokens or 0)
            and (self.reasoning_tokens or 0) >= (other.reasoning_tokens or 0)
            and self.cache_write_tokens == other.cache_write_tokens
            and other.cost is None
            and not other.by_model
        ):
            return self  # the usual case
        newest = {
            name: count or getattr(other, name) or 0
            for name in _COUNTS
            if (count := getattr(self, name)) is not None
        }
        parts = newest["prompt_tokens"] + newest["completion_tokens"]
        total = max(self.total_tokens, parts)
        reports = present(cost=self.cost or None, by_model=self.by_model or None)
        return dataclasses.replace(other, **{**reports, **newest, "total_tokens": total})

    def checked(self) -> TokenUsage | None:
        """Return a report with each part at most its whole, and the total at least its parts.

        Returns:
            None if a count is below zero, because such a report is invalid. A cost below zero becomes an
            unknown cost.
        """
        prompt, completion, total = self.prompt_tokens, self.completion_tokens, self.total_tokens
        written = self.cache_write_tokens or 0
        if (
            0 <= (self.cached_tokens or 0) <= prompt
            and 0 <= (self.reasoning_tokens or 0) <= completion
            and 0 <= (self.cache_write_1h_tokens or 0) <= written <= prompt
            and prompt + completion <= total
            and self.cost is None
            and self.cache_missed_tokens is None
            and not self.by_model
        ):
            return self  # the usual case
        by_model = tuple((name, part) for name, usage in self.by_model if (part := usage.checked()))
        counts = {name: getattr(self, name) for name in (*_WHOLES, *_COUNTS)}
        if min(count or 0 for count in (*counts.values(), total)) < 0 or len(by_model) < len(self.by_model):
            return None
        for name, whole in _WHOLES.items():
            counts[name] = None if counts[name] is None else min(counts[name], counts[whole] or 0)
        total = max(total, prompt + completion, sum(usage.total_tokens for _, usage in by_model))
        cost = self.cost if self.cost is not None and 0 <= self.cost < math.inf else None
        return dataclasses.replace(self, **counts, total_tokens=total, cost=cost, by_model=by_model)

    def of_model(self, name: str) -> TokenUsage:
        """Return the usage with its tokens assigned to a model; unchanged if it already names models."""
        return self if self.by_model else dataclasses.replace(self, by_model=((name, self),))

    @classmethod
    def zero(cls) -> TokenUsage:
        """Return a usage of zero tokens: the start of a sum."""
        return cls(0, 0, 0)

    @classmethod
    def from_openai(cls, usage: object) -> TokenUsage | None:
        """Read a `usage` object of the chat-completions protocol; None if it is missing."""
        if usage is None:
            return None
        prompt, completion = count_of(usage, "prompt_tokens"), count_of(usage, "completion_tokens")
        total = count_of(usage, "total_tokens")
        if prompt is None and completion is None and total is None:
            return None
        reasoning = count_of(get(usage, "completion_tokens_details"), "reasoning_tokens")
        details = get(usage, "prompt_tokens_details")
        cached = None if details is None else count_of(details, "cached_tokens")
        if cached is None:
            cached = next((n for name in _CACHED if (n := count_of(usage, name)) is not None), None)
        written = None if details is None else count_of(details, "cache_write_tokens")
        prompt, completion = prompt or 0, completion or 0
        return cls(
            prompt,
            completion,
            total or prompt + completion,
            reasoning,
            cached,
            False,
            written,
            _reported_cost(usage),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form."""
        data = dict(zip(_USAGE_FIELDS, _usage_of(self), strict=True))
        if self.cache_write_tokens is not None:  # omitted if None, as in records of older versions
            data["cache_write_tokens"] = self.cache_write_tokens
        if self.by_model:
            data["by_model"] = {name: usage.to_dict() for name, usage in self.by_model}
        if self.cost is not None:
            data["cost"] = self.cost
        if self.cache_missed_tokens is not None:
            data["cache_missed_tokens"] = self.cache_missed_tokens
        if self.cache_write_1h_tokens is not None:
            data["cache_write_1h_tokens"] = self.cache_write_1h_tokens
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TokenUsage:
        """Read the form that :meth:`to_dict` returns."""
        names = (*_USAGE_FIELDS, "cache_write_tokens", "cache_write_1h_tokens", "cache_missed_tokens", "cost")
        parts = (data.get("by_model") or {}).items()
        by_model = tuple((name, cls.from_dict(part)) for name, part in parts)
        return cls(**{name: data[name] for name in names if name in data}, by_model=by_model)


_usage_of = attrgetter(*_USAGE_FIELDS)  # reads all fields in one call, because each step records its usage


def _reported_cost(usage: object) -> float | None:
    """Return the cost in a usage report: a number (OpenRouter), or an object with the total (Perplexity).

    With the user's own provider key, OpenRouter's number is only its fee; the provider's price is a separate
    field.
    """
    cost = get(usage, "cost")
    if cost is None:
        return None
    parts: list[Any] = [cost if isinstance(cost, (int, float)) else get(cost, "total_cost")]
    if get(usage, "is_byok") is True:
        parts.append(get(get(usage, "cost_details"), "upstream_inference_cost"))
    total = 0.0
    for part in parts:
        if isinstance(part, bool) or not isinstance(part, (int, float)) or not 0 <= part < math.inf:
            return None
        total += part
    return total


def count_of(data: object, name: str) -> int | None:
    """Return a count in a usage report, which may be below zero; None if it is missing or not a count."""
    value = data.get(name) if type(data) is dict else get(data, name)
    if value is None or type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -math.inf < value < math.inf:
        return None
    return int(value)


def sum_of(*counts: int | None) -> int:
    """Return the sum of counts; if one is below zero, return the lowest, so that the sum does not hide it."""
    known = [count or 0 for count in counts]
    return min(*known, sum(known)) if min(known) < 0 else sum(known)


def mapping_of(value: object) -> JsonFields:
    """Return a value that is a mapping; an empty one for any other value."""
    return value if isinstance(value, Mapping) else {}


def get(value: object, name: str) -> Any:
    """Return a field of a dict or an attribute of an SDK object; None if missing."""
    if type(value) is dict:  # the usual case; the check of the abstract type costs ten times as much
        return value.get(name)
    if value is None:
        return None
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call by a model.

    Args:
        id: Unique within the history; generated if the server sent none.
        name: The tool's name, as the model wrote it.
        arguments: The parsed arguments, always a JSON object.
        invalid: Reason why the arguments cannot be used, or None. If set, `arguments` is empty, the tool does
            not run, and the model gets the reason.
        extra: Server-specific fields of the call, to be sent back, with those of its function under the key
            ``function``; None if there were none.
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


class ServedPart(NamedTuple):
    """The part of a response that one of several models wrote.

    Args:
        model: Name of the model.
        start: Index in the text at which the part begins; earlier models' text from there on is dropped.
        origin: The server and model, for the fields that they add; see `origin_of`.
    """

    model: str
    start: int = 0
    origin: str = ""


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
        served: Another model writes from here on; only the text before its part stays.
        spent: Tokens of the part so far, if its model failed.
        token_details: Piece of ``LLMResponse.token_details``.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    finish_reason: str | None = None
    usage: TokenUsage | None = None
    raw: Any = None
    notice: str = ""
    extra: dict[str, Any] | None = None
    served: ServedPart | None = None
    spent: TokenUsage | None = None
    token_details: dict[str, Any] | None = None


NOTHING = Delta()
