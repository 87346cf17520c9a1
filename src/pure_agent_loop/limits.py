"""How far a run may go. Pure decisions over a ledger; nothing here waits or sends.

Soft limits (`max_steps`, `timeout`) are checkpoints: the model gets a notice, the period starts
again, the run goes on. Hard limits end the run with one last answer without tools, as long as that fits:
once tokens or money are used up, nothing more is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, Literal

from pure_agent_loop.budget import Budget, Prices, check_limit, check_prices, price_for, too_much
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.prompts import Prompts, prompts_for
from pure_agent_loop.support.clock import Clock, SystemClock
from pure_agent_loop.support.typed import dataclass

LimitAction = Literal["continue", "warn", "stop"]


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """The limits of a run. None switches one off.

    Raises:
        ConfigError: A limit is not a positive number, or there is a limit of money without prices.
    """

    max_steps: int | None = 10
    """Soft: every so many steps the model is asked to check its course."""
    timeout: float | None = 300.0
    """Soft: the same every so many seconds."""
    max_tokens: int | None = 100_000
    """Hard: tokens of all requests of the run together. Once reached, no further request is made."""
    step_limit_prompt: str | None = None
    """Words of the notice after `max_steps`; None for the standard ones. What stands in `PLACEHOLDERS` is
    filled in."""
    timeout_prompt: str | None = None
    """Words of the notice after `timeout`, with the same placeholders."""
    max_turns: int | None = None
    """Hard: steps in all."""
    max_tool_calls: int | None = None
    """Hard: tool calls in all. Of an answer with more calls only the first ones are made."""
    max_seconds: float | None = None
    """Hard: seconds in all. No tool may run longer than what is left of them; otherwise they are checked
    between steps."""
    max_cost: float | None = None
    """Hard: money in all, in the currency of `prices`. Once reached, no further request is made."""
    doom_loop_threshold: int | None = 3
    """How many equal calls in a row are too many; None allows any number."""
    prices: Prices = field(default_factory=dict)
    """Prices by model name, or by pattern such as ``gpt-5*``; see `Price`."""

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            check_limit(f"LoopLimits.{name}", getattr(self, name))
        for name in ("step_limit_prompt", "timeout_prompt"):
            _check_words(f"LoopLimits.{name}", getattr(self, name))
        check_prices("LoopLimits", self.prices)
        if self.max_cost is not None and not self.prices:
            raise ConfigError(
                "LoopLimits.max_cost needs prices={'the model': Price(input=..., output=...)}, "
                "or nothing can be counted."
            )


PLACEHOLDERS = {
    "steps": "steps so far",
    "current_steps": "the same",
    "max_steps": "the limit of steps",
    "seconds": "seconds so far",
    "elapsed": "the same",
    "timeout": "the limit of seconds",
    "tokens": "tokens so far",
    "total_tokens": "the same",
    "max_tokens": "the limit of tokens",
}
_PLACEHOLDER = re.compile(r"\{(\w+)\}")  # other braces stand for themselves


def _check_words(name: str, words: str | None) -> None:
    if words is not None and not isinstance(words, str):
        raise ConfigError(f"{name} must be text; it is {words!r:.80}.")
    unknown = [each for each in _PLACEHOLDER.findall(words or "") if each not in PLACEHOLDERS]
    if unknown:
        known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
        raise ConfigError(f"{name} holds {{{unknown[0]}}}, which nothing fills in. There are: {known}.")


_NUMBERS = (
    "max_steps",
    "timeout",
    "max_tokens",
    "max_turns",
    "max_tool_calls",
    "max_seconds",
    "max_cost",
    "doom_loop_threshold",
)


@dataclass(slots=True)
class LimitLedger:
    """What a run has used up so far. Part of the state, so that a resumed run forgets nothing.

    Args:
        steps: Steps begun.
        tokens: Tokens used.
        tool_calls: Tool calls made.
        seconds: Seconds worked, up to the last step boundary or the end.
        cost: Money spent, as far as there are prices.
        warned_at_step: Steps at the last soft notice.
        warned_at_second: Seconds at the last soft notice.
    """

    steps: int = 0
    tokens: int = 0
    tool_calls: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    warned_at_step: int = 0
    warned_at_second: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {name: getattr(self, name) for name in _LEDGER_FIELDS}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LimitLedger:
        """The reverse of :meth:`to_dict`."""
        return cls(**data)


_LEDGER_FIELDS = tuple(each.name for each in fields(LimitLedger))


@dataclass(frozen=True, slots=True)
class LimitResult:
    """The answer to "may the run go on?".

    Args:
        action: ``continue``, ``warn`` (go on, but tell the model) or ``stop``.
        reason: Which limit: ``step_limit``, ``timeout``, ``token_limit``, ``max_steps``, ``max_tool_calls``,
            ``budget``; empty when the run just goes on.
        prompt: The notice for the model, when `action` is ``warn``.
    """

    action: LimitAction
    reason: str = ""
    prompt: str = ""

    @classmethod
    def continue_running(cls) -> LimitResult:
        """No limit is near."""
        return _GO_ON

    @classmethod
    def warn(cls, reason: str, prompt: str) -> LimitResult:
        """A soft limit: go on with a notice."""
        return cls("warn", reason, prompt)

    @classmethod
    def stop(cls, reason: str) -> LimitResult:
        """A hard limit: end with a last answer."""
        return cls("stop", reason)


_GO_ON = LimitResult("continue")


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{name} must be a whole number, 0 or more; it is {value!r:.80}.")
    return value


class LimitChecker:
    """Asks one question of a ledger: may the run go on?

    Args:
        limits: What is allowed.
        ledger: What was used; a new one if None.
        prompts: The words of the notices; those of the default language if None.
        clock: Where time comes from.
        budget: Limits shared with other runs.
    """

    def __init__(
        self,
        limits: LoopLimits | None = None,
        ledger: LimitLedger | None = None,
        prompts: Prompts | None = None,
        clock: Clock | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.limits = limits or LoopLimits()
        self.ledger = ledger or LimitLedger()
        self._prompts = prompts or prompts_for()
        self._clock = clock or SystemClock()
        self._budget = budget
        self._started = self._clock.monotonic() - self.ledger.seconds
        given = self.limits
        self.counts = budget is not None or given.max_tokens is not None or given.max_cost is not None
        """True if there is a limit of tokens or of money: only then can a request pass one."""

    @property
    def current_step(self) -> int:
        """Steps begun so far."""
        return self.ledger.steps

    @current_step.setter
    def current_step(self, value: int) -> None:
        self.ledger.steps = _count("current_step", value)

    @property
    def total_tokens(self) -> int:
        """Tokens used so far."""
        return self.ledger.tokens

    @total_tokens.setter
    def total_tokens(self, value: int) -> None:
        self.ledger.tokens = _count("total_tokens", value)

    @property
    def deadline(self) -> float | None:
        """When the hard limit of seconds is reached, on the clock's monotonic time."""
        return None if self.limits.max_seconds is None else self._started + self.limits.max_seconds

    def add_tokens(self, n: int) -> None:
        """Count `n` more tokens."""
        self.ledger.tokens += _count("add_tokens: n", n)

    def add_tool_calls(self, n: int) -> None:
        """Count `n` more tool calls."""
        self.ledger.tool_calls += _count("add_tool_calls: n", n)

    def note_time(self) -> None:
        """Bring the seconds of the ledger up to date."""
        self.ledger.seconds = self._clock.monotonic() - self._started

    def check(self) -> LimitResult:
        """Judge the ledger now. A soft limit starts its next period."""
        self.note_time()
        reason = self._hard()
        return LimitResult.stop(reason) if reason else self._soft()

    def passed_by(self, usage: TokenUsage, model: str) -> str:
        """Which limit a further request of that size would pass, or has been reached, as a stop reason.

        Only of tokens, of money and of the shared budget; empty if it fits.

        Args:
            usage: What it is expected to take.
            model: Who would answer it.
        """
        if not self.counts:
            return ""
        limits, used = self.limits, self.ledger
        if too_much(used.tokens, usage.total_tokens, limits.max_tokens, "tokens"):
            return "token_limit"
        if limits.max_cost is not None:
            price = price_for(limits.prices, model)
            if too_much(used.cost, price.of(usage) if price else 0.0, limits.max_cost, "money"):
                return "budget"
        return "budget" if self._budget is not None and self._budget.passed_by(usage, model) else ""

    def _hard(self) -> str:
        limits, used = self.limits, self.ledger
        if limits.max_tokens is not None and used.tokens >= limits.max_tokens:
            return "token_limit"
        if limits.max_turns is not None and used.steps >= limits.max_turns:
            return "max_steps"
        if limits.max_tool_calls is not None and used.tool_calls >= limits.max_tool_calls:
            return "max_tool_calls"
        if limits.max_seconds is not None and used.seconds >= limits.max_seconds:
            return "budget"
        if limits.max_cost is not None and used.cost >= limits.max_cost:
            return "budget"
        return "budget" if self._budget is not None and self._budget.used_up else ""

    def _soft(self) -> LimitResult:
        limits, used = self.limits, self.ledger
        if limits.max_steps is not None and used.steps - used.warned_at_step >= limits.max_steps:
            used.warned_at_step = used.steps
            words = limits.step_limit_prompt or self._prompts.step_limit
            return LimitResult.warn("step_limit", self._filled(words))
        if limits.timeout is not None and used.seconds - used.warned_at_second >= limits.timeout:
            used.warned_at_second = used.seconds
            words = limits.timeout_prompt or self._prompts.timeout
            return LimitResult.warn("timeout", self._filled(words))
        return _GO_ON

    def _filled(self, words: str) -> str:
        limits, used = self.limits, self.ledger
        steps, seconds = str(used.steps), str(round(used.seconds))
        values = {
            "steps": steps,
            "current_steps": steps,
            "seconds": seconds,
            "elapsed": seconds,
            "tokens": str(used.tokens),
            "total_tokens": str(used.tokens),
            **{name: _shown(getattr(limits, name)) for name in ("max_steps", "timeout", "max_tokens")},
        }
        return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), words)


def _shown(limit: float | None) -> str:
    return "∞" if limit is None else str(limit).removesuffix(".0")
