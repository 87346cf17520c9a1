"""Money, and limits that several runs share. Pure counting; nothing here waits or sends."""

from __future__ import annotations

import fnmatch
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.values import TokenUsage

PER = 1_000_000  # prices are for so many tokens


@dataclass(frozen=True, slots=True)
class Price:
    """What tokens of a model cost, in any currency, for a million of them.

    Args:
        input: Tokens sent.
        output: Tokens written, thinking included.
        cached: Tokens sent that the server had in its cache; as `input` if None.

    Raises:
        ConfigError: One of them is no number, or negative.
    """

    input: float
    output: float
    cached: float | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached"):
            value = getattr(self, name)
            if name == "cached" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                raise ConfigError(f"Price.{name}={value!r} must be a number, 0 or more.")

    def of(self, usage: TokenUsage) -> float:
        """What this usage costs."""
        cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
        rate = self.input if self.cached is None else self.cached
        fresh = (usage.prompt_tokens - cached) * self.input
        return (fresh + cached * rate + usage.completion_tokens * self.output) / PER


Prices = Mapping[str, Price]


def price_for(prices: Prices, model: str) -> Price | None:
    """The price of a model: of its own name, else of the first pattern (``gpt-5*``, ``*``) that fits it."""
    return prices.get(model) or next(
        (price for pattern, price in prices.items() if fnmatch.fnmatchcase(model, pattern)), None
    )


def check_prices(owner: str, prices: object) -> None:
    """Refuse a price table that is none.

    Raises:
        ConfigError: It says what is wrong.
    """
    if not isinstance(prices, Mapping) or not all(isinstance(p, Price) for p in prices.values()):
        raise ConfigError(
            f"{owner}.prices must be a dict such as {{'gpt-4o-mini': Price(input=0.15, output=0.60)}}, "
            f"with prices for a million tokens; it is {prices!r:.80}."
        )


@dataclass(slots=True)
class Budget:
    """Hard limits for all runs that are given the same one, subagents included. Threads may share it.

    Once it is used up, each of these runs ends with a last answer and ``stop_reason="budget"``.

    Raises:
        ConfigError: A limit is not a positive number, or there is a limit of money without prices.
    """

    max_tokens: int | None = None
    """Tokens of all requests together."""
    max_tool_calls: int | None = None
    """Tool calls together."""
    max_cost: float | None = None
    """Money together; needs `prices`."""
    max_seconds: float | None = None
    """Seconds since the budget was made."""
    prices: Prices = field(default_factory=dict)
    """Prices by model name or pattern."""
    tokens: int = field(default=0, init=False)
    """Used so far."""
    tool_calls: int = field(default=0, init=False)
    """Made so far."""
    cost: float = field(default=0.0, init=False)
    """Spent so far."""
    _begun: float = field(default_factory=time.monotonic, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_tool_calls", "max_cost", "max_seconds"):
            check_limit(f"Budget.{name}", getattr(self, name))
        check_prices("Budget", self.prices)
        if self.max_cost is not None and not self.prices:
            raise ConfigError("Budget.max_cost needs prices=, or nothing can be counted.")

    def add(self, *, tokens: int = 0, tool_calls: int = 0, cost: float = 0.0) -> None:
        """Count what was used."""
        with self._lock:
            self.tokens += tokens
            self.tool_calls += tool_calls
            self.cost += cost

    @property
    def used_up(self) -> str:
        """Which limit is reached, in words; empty if none is."""
        limits = (
            ("tokens", self.tokens, self.max_tokens),
            ("tool calls", self.tool_calls, self.max_tool_calls),
            ("money", self.cost, self.max_cost),
            ("seconds", time.monotonic() - self._begun, self.max_seconds),
        )
        return next((name for name, used, most in limits if most is not None and used >= most), "")


def check_limit(name: str, value: object) -> None:
    """Refuse a limit that is no positive number.

    Raises:
        ConfigError: It names the limit.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ConfigError(f"{name}={value!r} must be a positive number, or None for no limit.")
