"""Money, and limits that several runs share. Pure counting; nothing here waits or sends."""

from __future__ import annotations

import fnmatch
import threading
import time
from collections.abc import Mapping
from dataclasses import field

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.support.typed import dataclass

PER = 1_000_000  # prices are for so many tokens
TOOL_CALLS = "tool calls"


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
    if not prices:
        return None
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

    Once it is used up, none of these runs makes a further request: each ends with ``stop_reason="budget"``,
    and with a last answer if that still fitted, or if only the tool calls are used up.

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

    def take_calls(self, wanted: int) -> int:
        """Count tool calls that are about to be made, and return how many of them still may be."""
        with self._lock:
            most = self.max_tool_calls
            granted = wanted if most is None else max(0, min(wanted, most - self.tool_calls))
            self.tool_calls += granted
            return granted

    def passed_by(self, usage: TokenUsage, model: str) -> str:
        """Which limit a further request of that size would pass, or has been reached; empty for none.

        Args:
            usage: What it is expected to take.
            model: Who would answer it.
        """
        reached = self.used_up
        if reached and reached != TOOL_CALLS:
            return reached
        price = price_for(self.prices, model)
        cost = price.of(usage) if price else 0.0
        return too_much(self.tokens, usage.total_tokens, self.max_tokens, "tokens") or too_much(
            self.cost, cost, self.max_cost, "money"
        )

    @property
    def used_up(self) -> str:
        """Which limit is reached, in words; empty if none is. `TOOL_CALLS` only if no other is."""
        limits = (
            ("tokens", self.tokens, self.max_tokens),
            ("money", self.cost, self.max_cost),
            ("seconds", time.monotonic() - self._begun, self.max_seconds),
            (TOOL_CALLS, self.tool_calls, self.max_tool_calls),
        )
        return next((name for name, used, most in limits if most is not None and used >= most), "")


def too_much(used: float, more: float, most: float | None, what: str) -> str:
    """`what`, if so much more would pass a limit, or if it is reached already; else an empty text."""
    return what if most is not None and (used >= most or used + more > most) else ""


def check_limit(name: str, value: object) -> None:
    """Refuse a limit that is no positive number.

    Raises:
        ConfigError: It names the limit.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ConfigError(f"{name}={value!r} must be a positive number, or None for no limit.")
