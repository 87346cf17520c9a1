"""Limits of a run. Pure decisions over a ledger, without I/O.

Soft limits (`max_steps`, `timeout`) are checkpoints: the model gets a notice, the period starts again, and
the run continues. Hard limits end the run with one last answer without tools if the limits allow another
request; once tokens or money are used up, no request is sent.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from pure_agent_loop.budget import Budget, Prices, check_limit, check_prices, price_for, too_much
from pure_agent_loop.errors import ConfigError, LimitExceededError
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.prompts import Prompts, prompts_for
from pure_agent_loop.support.checks import is_whole, require
from pure_agent_loop.support.clock import Clock, SystemClock
from pure_agent_loop.support.text import names_options

LimitAction = Literal["continue", "warn", "stop"]
PLACEHOLDERS = {
    "steps": "steps so far",
    "current_steps": "the same",
    "checkpoint_steps": "steps since the last notice",
    "max_steps": "the step limit",
    "seconds": "seconds so far",
    "elapsed": "the same",
    "timeout": "the time limit in seconds",
    "tokens": "tokens so far",
    "total_tokens": "the same",
    "max_tokens": "the token limit",
}
# A brace opens a placeholder unless a quote or another brace follows it: such a brace belongs to JSON.
_PLACEHOLDER = re.compile(r"""\{(?!\s*["'{])(?:[^{}]|\{[^{}]*\})*\}?""")
_FORMATTER = string.Formatter()
_ALIKE = {"current_steps": "steps", "elapsed": "seconds", "total_tokens": "tokens"}
SOFT = ("max_steps", "timeout")  # checkpoints, after which the run continues
NUMBERS = (
    "max_steps",
    "timeout",
    "max_tokens",
    "max_turns",
    "max_tool_calls",
    "max_seconds",
    "max_cost",
    "max_cost_per_day",
    "max_cost_per_person_per_day",
    "doom_loop_threshold",
)
PERSON = "person"  # metadata key of the person who started the run
_NO_NUMBER: float | None = None


@names_options()
@dataclass(frozen=True, slots=True)
class LoopLimits:
    """Limits of a run. None disables a limit.

    Raises:
        ConfigError: A limit is not a positive number, or `prices` is not a table of prices.
    """

    max_steps: int | None = 10
    """Soft: steps between notices that ask the model to check its course."""
    timeout: float | None = 300.0
    """Soft: seconds between such notices."""
    max_tokens: int | None = 100_000
    """Hard: total tokens of all requests of the run. Once reached, no further request is made."""
    step_limit_prompt: str | None = None
    """Text of the notice after `max_steps`; None for the default. It may contain the `PLACEHOLDERS`,
    also with a format such as ``{elapsed:.1f}``."""
    timeout_prompt: str | None = None
    """Text of the notice after `timeout`, with the same placeholders."""
    max_turns: int | None = None
    """Hard: total steps."""
    max_tool_calls: int | None = None
    """Hard: total tool calls. In a response with more calls, only the first ones are made."""
    max_seconds: float | None = None
    """Hard: total seconds. They also limit each tool call; otherwise they are checked between steps."""
    max_cost: float | None = None
    """Hard: total cost, in the currency of `prices`: US dollars unless you set them. Once reached, no further
    request is made. A model whose price is unknown is refused before the first request."""
    max_cost_per_day: float | None = None
    """Hard: cost of all requests that the sessions of this run's store recorded today, whoever sent them, in
    any process. Days are UTC days. It is checked before each request, and needs a run with a session."""
    max_cost_per_person_per_day: float | None = None
    """Hard: the same, for runs with the same ``metadata["person"]``; all runs without one share a limit."""
    max_cost_per_day_by: Mapping[str, float] = field(default_factory=dict)
    """Hard: the same for other metadata: ``{"tenant": 50}`` limits the runs with the same
    ``metadata["tenant"]``; all runs without one share a limit."""
    doom_loop_threshold: int | None = 3
    """Number of identical consecutive calls that is treated as a loop; None allows any number."""
    prices: Prices = field(default_factory=dict)
    """Prices by model name, or by pattern such as ``gpt-5*``; see `Price`. For other models the cost that the
    server reports is used, else the shipped prices (``pal cost prices``)."""

    def __post_init__(self) -> None:
        for name in NUMBERS:
            check_limit(f"LoopLimits.{name}", getattr(self, name))
        by: object = self.max_cost_per_day_by
        if not isinstance(by, Mapping) or not all(isinstance(key, str) for key in by):
            raise ConfigError(
                f"LoopLimits.max_cost_per_day_by={by!r:.80} must be a dict such as {{'tenant': 50}}."
            )
        for key, value in by.items():
            check_limit(f"LoopLimits.max_cost_per_day_by[{key!r}]", value)
        for name in ("step_limit_prompt", "timeout_prompt"):
            _check_words(f"LoopLimits.{name}", getattr(self, name))
        check_prices("LoopLimits", self.prices)

    @property
    def money(self) -> dict[str, float]:
        """Cost limits that are set, by name."""
        values = {"max_cost": self.max_cost, **{name: most for name, (_, most) in self.day_limits.items()}}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def day_limits(self) -> dict[str, tuple[str, float]]:
        """Daily cost limits that are set, by name.

        Each is a pair of the metadata key that groups the runs (empty for all runs) and the limit.
        """
        values = {
            "max_cost_per_day": ("", self.max_cost_per_day),
            "max_cost_per_person_per_day": (PERSON, self.max_cost_per_person_per_day),
            **{
                f"max_cost_per_day_by[{key!r}]": (key, most) for key, most in self.max_cost_per_day_by.items()
            },
        }
        return {name: (key, most) for name, (key, most) in values.items() if most is not None}


def number_of(limits: LoopLimits, reason: str) -> int | None:
    """Return the limit behind a stop reason; None if the reason stands for no single limit of the run."""
    names = {"max_steps": "max_turns", "max_tool_calls": "max_tool_calls", "token_limit": "max_tokens"}
    return getattr(limits, names[reason]) if reason in names else None


def group_name(value: object) -> str:
    """Return the name of the group of runs with this metadata value; empty if the value is None."""
    return "" if value is None else str(value)


def _check_words(name: str, words: str | None) -> None:
    require(words is None or isinstance(words, str), name, words, "text")
    known = dict.fromkeys(PLACEHOLDERS, 1.5)
    for match in _PLACEHOLDER.finditer(words or ""):
        try:
            _formatted(match[0], known)
        except KeyError:  # noqa: PERF203 - of each placeholder
            names = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            raise ConfigError(
                f"{name} contains {match[0]:.80}; unknown placeholder. Available: {names}."
            ) from None
        except ValueError as error:
            raise ConfigError(
                f"{name} contains {match[0]:.80}; invalid number format: {error}. "
                'A brace before a quote is literal, as in {"a": 1}.'
            ) from None


@dataclass(slots=True)
class LimitLedger:
    """Amounts used by a run so far. Part of the state, so that a resumed run keeps its counts.

    Args:
        seconds: Running time in seconds, up to the last step boundary or the end.
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
        """Return the plain JSON form."""
        return {name: getattr(self, name) for name in _LEDGER_FIELDS}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LimitLedger:
        """Build a ledger from the form of :meth:`to_dict`."""
        return cls(**data)


_LEDGER_FIELDS = tuple(field_.name for field_ in fields(LimitLedger))


@dataclass(frozen=True, slots=True)
class LimitResult:
    """Result of a limit check.

    Args:
        action: ``continue``, ``warn`` (continue with a notice to the model) or ``stop``.
        reason: Limit: ``step_limit``, ``timeout``, ``token_limit``, ``max_steps``, ``max_tool_calls``,
            ``budget``; empty for ``continue``.
        prompt: Notice for the model if `action` is ``warn``.
    """

    action: LimitAction
    reason: str = ""
    prompt: str = ""

    @classmethod
    def continue_running(cls) -> LimitResult:
        """Return the result for a run within its limits."""
        return _GO_ON

    @classmethod
    def warn(cls, reason: str, prompt: str) -> LimitResult:
        """Return the result for a soft limit: continue with a notice."""
        return cls("warn", reason, prompt)

    @classmethod
    def stop(cls, reason: str) -> LimitResult:
        """Return the result for a hard limit: end with a last answer."""
        return cls("stop", reason)


_GO_ON = LimitResult("continue")


def _count(name: str, value: int) -> int:
    require(is_whole(value), name, value, "a whole number, 0 or more")
    return value


class LimitChecker:
    """Checks a ledger against limits.

    Args:
        limits: Limits of the run.
        ledger: Amounts used; a new ledger if None.
        prompts: Texts of the notices; those of the default language if None.
        clock: Source of time.
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
        active = self.limits
        self.counts = budget is not None or active.max_tokens is not None or active.max_cost is not None
        """True if tokens or cost are limited: only then can a request exceed a limit."""

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
        """Monotonic time of the hard time limit; None for no limit."""
        return None if self.limits.max_seconds is None else self._started + self.limits.max_seconds

    def add_tokens(self, n: int) -> None:
        """Count `n` more tokens."""
        self.ledger.tokens += _count("add_tokens: n", n)

    def add_tool_calls(self, n: int) -> None:
        """Count `n` more tool calls."""
        self.ledger.tool_calls += _count("add_tool_calls: n", n)

    def note_time(self) -> None:
        """Update the seconds of the ledger."""
        self.ledger.seconds = self._clock.monotonic() - self._started

    def check(self) -> LimitResult:
        """Check the ledger now. A soft limit that has been reached starts its next period."""
        self.note_time()
        reason = self._hard()
        return LimitResult.stop(reason) if reason else self._soft()

    def passed_by(self, usage: TokenUsage, model: str) -> str:
        """Return the stop reason of the limit that has been reached or that a further request would exceed.

        Only tokens, money and the shared budget are checked. The result is empty if the request fits.

        Args:
            usage: Expected usage of the request.
            model: Model of the request.
        """
        if not self.counts:
            return ""
        limits, used = self.limits, self.ledger
        if too_much(used.tokens, usage.total_tokens, limits.max_tokens, "tokens"):
            return "token_limit"
        if limits.max_cost is not None:
            price = price_for(limits.prices, model)
            if too_much(used.cost, price.of(usage) if price else usage.cost or 0.0, limits.max_cost, "money"):
                return "budget"
        return "budget" if self._budget is not None and self._budget.passed_by(usage, model) else ""

    def exceeded_by(self, usage: TokenUsage, model: str) -> LimitExceededError | None:
        """Return the error for a further attempt that would exceed a limit; None if the attempt fits.

        Args:
            usage: Expected usage of the attempt.
            model: Model of the request.
        """
        reason = self.passed_by(usage, model)
        if not reason:
            return None
        limits, used = self.limits, self.ledger
        owner, maximum, now = "the shared Budget", _NO_NUMBER, _NO_NUMBER
        if reason == "token_limit":
            owner, maximum, now = "LoopLimits.max_tokens", limits.max_tokens, used.tokens
        elif self._budget is None or not self._budget.passed_by(usage, model):
            owner, maximum, now = "LoopLimits.max_cost", limits.max_cost, used.cost
        allowed = "" if maximum is None else f" ({now:g} of {maximum:g} used)"
        message = (
            f"The request was not retried: another attempt of about {usage.total_tokens} tokens would exceed "
            f"{owner}{allowed}. Raise the limit, or find out why responses break off."
        )
        return LimitExceededError(reason, maximum, now, message)

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
            words = self._filled(limits.step_limit_prompt or self._prompts.step_limit)
            used.warned_at_step = used.steps
            return LimitResult.warn("step_limit", words)
        if limits.timeout is not None and used.seconds - used.warned_at_second >= limits.timeout:
            used.warned_at_second = used.seconds
            words = limits.timeout_prompt or self._prompts.timeout
            return LimitResult.warn("timeout", self._filled(words))
        return _GO_ON

    def _filled(self, words: str) -> str:
        limits, used = self.limits, self.ledger
        values: dict[str, float | None] = {
            "steps": used.steps,
            "checkpoint_steps": used.steps - used.warned_at_step,
            "seconds": used.seconds,
            "tokens": used.tokens,
            **{name: getattr(limits, name) for name in ("max_steps", "timeout", "max_tokens")},
        }

        def fill(match: re.Match[str]) -> str:
            try:
                return _formatted(match[0], values)
            except (KeyError, ValueError):  # custom `Prompts` may contain unchecked text
                return match[0]

        return _PLACEHOLDER.sub(fill, words)


def _formatted(placeholder: str, values: Mapping[str, float | None]) -> str:
    """Format one placeholder.

    Raises:
        KeyError: The value does not exist.
        ValueError: The format or conversion is invalid for a number.
    """
    ((_, name, form, conversion),) = _FORMATTER.parse(placeholder)
    name, form = _ALIKE.get(name or "", name or ""), form or ""
    value = values[name]
    if "{" in form:
        raise ValueError("nested placeholders are not supported")
    if value is None:
        return "∞"
    if conversion:
        return format(_FORMATTER.convert_field(value, conversion), form)
    if not form:
        return str(round(value)) if name == "seconds" else str(value).removesuffix(".0")
    try:
        return format(value, form)
    except ValueError:  # the format is for integers only, or invalid
        return format(float(value) if isinstance(value, int) else round(value), form)
