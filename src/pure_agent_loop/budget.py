"""Prices, and limits that several runs share. Pure counting, without I/O."""

from __future__ import annotations

import fnmatch
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.support.checks import is_number, require, require_value

PER = 1_000_000  # number of tokens that a price applies to
TOOL_CALLS = "tool calls"
PRICE_KINDS = ("input", "output", "cached", "cache_write", "cache_write_1h")  # fields of a `Price`


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a model's tokens, per million, in any currency.

    Args:
        input: Price of input tokens.
        output: Price of output tokens, reasoning included.
        cached: Price of input tokens from the server's cache; `input` if None.
        cache_write: Price of input tokens written to the cache; `input` if None.
        tiers: Prices for long requests: (threshold, price) pairs in ascending order. A request with more
            input tokens than a threshold pays that price for all its tokens.
        cache_write_1h: Price of input tokens written to the cache for an hour; `cache_write` if None.

    Raises:
        ConfigError: A price is not a number, or is negative.
    """

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None
    tiers: tuple[tuple[int, Price], ...] = ()
    cache_write_1h: float | None = None

    def __post_init__(self) -> None:
        for name in PRICE_KINDS:
            value = getattr(self, name)
            if name.startswith("cache") and value is None:
                continue
            require_value(is_number(value), f"Price.{name}", value, "a number, 0 or more")

    def of(self, usage: TokenUsage) -> float:
        """Return the cost of the usage of one request."""
        for start, price in reversed(self.tiers):
            if usage.prompt_tokens > start:
                return price.of(usage)
        cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
        written = min(usage.cache_write_tokens or 0, usage.prompt_tokens - cached)
        for_hour = min(usage.cache_write_1h_tokens or 0, written)
        read_price = self.input if self.cached is None else self.cached
        write_price = self.input if self.cache_write is None else self.cache_write
        hour_price = write_price if self.cache_write_1h is None else self.cache_write_1h
        fresh = (usage.prompt_tokens - cached - written) * self.input
        stored = (written - for_hour) * write_price + for_hour * hour_price
        return (fresh + cached * read_price + stored + usage.completion_tokens * self.output) / PER

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Price:
        """Read the form that `dataclasses.asdict` returns, or its JSON form.

        Raises:
            TypeError: A field is unknown.
            ConfigError: A price is invalid.
        """
        tiers = tuple((start, cls.from_dict(price)) for start, price in data.get("tiers", ()))
        return cls(**{**data, "tiers": tiers})


Prices = Mapping[str, Price]


def price_for(prices: Prices, model: str) -> Price | None:
    """Return the price under the model's name, else under the first matching pattern (``gpt-5*``, ``*``)."""
    if not prices:
        return None
    return prices.get(model) or next(
        (price for pattern, price in prices.items() if fnmatch.fnmatchcase(model, pattern)), None
    )


def check_prices(owner: str, prices: object) -> None:
    """Reject an invalid price table.

    Raises:
        ConfigError: The table is invalid.
    """
    is_table = isinstance(prices, Mapping) and all(isinstance(price, Price) for price in prices.values())
    require(
        is_table,
        f"{owner}.prices",
        prices,
        "a dict such as {'gpt-4o-mini': Price(input=0.15, output=0.60)}, with prices per million tokens",
    )


class PortableLock:
    """Thread lock that may be copied or pickled; the copy is a new lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[PortableLock], tuple[()]]:
        return type(self), ()


@dataclass(slots=True)
class Budget:
    """Hard limits for all runs that share this object, subagents included. Thread-safe.

    Once the budget is used up, these runs make no further requests: each ends with ``stop_reason="budget"``.
    A run may still request a last answer if the budget covers it, or if only the limit on tool calls has been
    reached.

    Raises:
        ConfigError: A limit is not a positive number, or `prices` is not a table of prices.
    """

    max_tokens: int | None = None
    """Total tokens of all requests."""
    max_tool_calls: int | None = None
    """Total tool calls."""
    max_cost: float | None = None
    """Total cost, in the currency of `prices`: US dollars unless you set them."""
    max_seconds: float | None = None
    """Seconds since the budget was created."""
    prices: Prices = field(default_factory=dict)
    """Prices by model name or pattern; for other models those of `pure_agent_loop.llm.prices` are used."""
    tokens: int = field(default=0, init=False)
    """Tokens used so far."""
    tool_calls: int = field(default=0, init=False)
    """Tool calls made so far."""
    cost: float = field(default=0.0, init=False)
    """Cost so far."""
    _begun: float = field(default_factory=time.monotonic, init=False, repr=False)
    _lock: PortableLock = field(default_factory=PortableLock, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_tool_calls", "max_cost", "max_seconds"):
            check_limit(f"Budget.{name}", getattr(self, name))
        check_prices("Budget", self.prices)

    def add(self, *, tokens: int = 0, tool_calls: int = 0, cost: float = 0.0) -> None:
        """Add tokens, tool calls and cost to the totals."""
        with self._lock:
            self.tokens += tokens
            self.tool_calls += tool_calls
            self.cost += cost

    def take_calls(self, count: int) -> int:
        """Count upcoming tool calls, and return how many of them the budget allows."""
        with self._lock:
            maximum = self.max_tool_calls
            granted = count if maximum is None else max(0, min(count, maximum - self.tool_calls))
            self.tool_calls += granted
            return granted

    def passed_by(self, usage: TokenUsage, model: str) -> str:
        """Return the limit that has been reached or that a further request would exceed; empty if none.

        Args:
            usage: Expected usage of the request.
            model: Model of the request.
        """
        exhausted = self.used_up
        if exhausted and exhausted != TOOL_CALLS:
            return exhausted
        price = price_for(self.prices, model)
        cost = price.of(usage) if price else usage.cost or 0.0
        return too_much(self.tokens, usage.total_tokens, self.max_tokens, "tokens") or too_much(
            self.cost, cost, self.max_cost, "money"
        )

    @property
    def used_up(self) -> str:
        """Name of a limit that has been reached; empty if none. Other limits come before `TOOL_CALLS`."""
        limits = (
            ("tokens", self.tokens, self.max_tokens),
            ("money", self.cost, self.max_cost),
            ("seconds", time.monotonic() - self._begun, self.max_seconds),
            (TOOL_CALLS, self.tool_calls, self.max_tool_calls),
        )
        return next((name for name, used, most in limits if most is not None and used >= most), "")


def too_much(used: float, extra: float, most: float | None, what: str) -> str:
    """Return `what` if `used + extra` exceeds `most` or `used` has reached it; else an empty string."""
    return what if most is not None and (used >= most or used + extra > most) else ""


def check_limit(name: str, value: object) -> None:
    """Reject a limit that is not a positive number.

    Raises:
        ConfigError: The message names the limit.
    """
    is_limit = value is None or is_number(value, zero=False)
    require_value(is_limit, name, value, "a positive number, or None for no limit")
