"""Combine the restrictions of an agent and its calling agent: the stricter one applies."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pure_agent_loop.budget import Budget
from pure_agent_loop.hooks import Hooks
from pure_agent_loop.kernel.checks import check_deps
from pure_agent_loop.kernel.kit import Kit, Observers
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.permissions import (
    PermissionContext,
    PermissionPolicy,
    PermissionRules,
    as_permission,
)

if TYPE_CHECKING:
    from pure_agent_loop.kernel.observers import Auditor, CallRecord, CallStatus

N = TypeVar("N", int, float)
_FROM_WIDE = ("bypass", "auto", "guard", "ask", "plan")
_SHARED_LIMITS = ("max_tokens", "max_turns", "max_tool_calls", "max_seconds", "max_cost")


def narrower(mode: str, requested: str | None) -> str:
    """Return the stricter of two permission modes."""
    return mode if requested is None else max(mode, requested, key=_FROM_WIDE.index)


def restricted_kit(own: Kit, above: Kit) -> Kit:
    """Return the kit for an agent that is called from another agent's run.

    The agent keeps its model, tools, prompts and settings. Rules, functions, hooks, audit log, budget and
    redaction of both agents apply, and so does the smaller value of each limit. The run itself (events,
    session, cancellation) is that of the calling agent. Questions go to the calling agent's `on_ask`, or to
    the agent's if the calling agent has none.

    Raises:
        ConfigError: The agent requires deps, and neither agent has any.
    """
    audits = list(
        {id(entry): entry for entry in (above.observers.audit, own.observers.audit) if entry}.values()
    )
    budgets = list({id(entry): entry for entry in (above.budget, own.budget) if entry}.values())
    kit = replace(
        own,
        permissions=_policy(own.permissions, above.permissions),
        can_use_tool=_both_allow(above.can_use_tool, own.can_use_tool),
        on_ask=above.on_ask or own.on_ask,
        hooks=Hooks(
            before_tool=(*above.hooks.before_tool, *own.hooks.before_tool),
            after_tool=(*own.hooks.after_tool, *above.hooks.after_tool),
            on_stop=own.hooks.on_stop,
            max_stops=own.hooks.max_stops,
        ),
        limits=least_limits(own.limits, above.limits, _SHARED_LIMITS),
        budget=SharedBudget(budgets) if len(budgets) > 1 else next(iter(budgets), None),
        observers=Observers(
            _Audits(audits) if len(audits) > 1 else next(iter(audits), None),
            own.observers.snapshots or above.observers.snapshots,
        ),
        redactor=own.redactor if above.redactor is None else above.redactor.joined(own.redactor),  # shared
        cancel_token=above.cancel_token,
        inbox=above.inbox,
        emit=above.emit,
        journal=above.journal,
        clock=above.clock,
        deps=above.deps if own.deps is None else own.deps,
        metadata=above.metadata,
    )
    check_deps(kit)
    return kit


def _policy(own: PermissionPolicy, above: PermissionPolicy) -> PermissionPolicy:
    """Combine two policies: all deny and ask rules apply; allow rules come from the stricter one."""
    mode = narrower(own.mode, above.mode)
    allow = own.rules.allow if mode == own.mode else above.rules.allow
    return PermissionPolicy(
        mode,
        PermissionRules(
            deny=(*above.rules.deny, *own.rules.deny), ask=(*above.rules.ask, *own.rules.ask), allow=allow
        ),
    )


def _both_allow(first: Callable[..., Any] | None, second: Callable[..., Any] | None) -> Any:
    if first is None or second is None or first is second:
        return first or second

    async def both(tool: str, args: dict[str, Any], context: PermissionContext) -> Any:
        ruling = as_permission(await _await_if_needed(first(tool, args, context)))
        if ruling.behavior == "deny":
            return ruling
        args = args if ruling.updated_args is None else ruling.updated_args
        other = as_permission(await _await_if_needed(second(tool, args, context)))
        if other.behavior == "allow" and ruling.behavior == "ask":
            return replace(ruling, updated_args=other.updated_args or ruling.updated_args)
        return replace(other, updated_args=other.updated_args or ruling.updated_args)

    return both


async def _await_if_needed(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def least_limits(own: LoopLimits, other: LoopLimits, names: Iterable[str]) -> LoopLimits:
    """Return `own` with the smaller value of each named or daily limit, and with the prices of both."""
    changes: dict[str, Any] = {name: least(getattr(own, name), getattr(other, name)) for name in names}
    changes |= day_limits(own, other)
    return replace(own, **changes, prices={**own.prices, **other.prices})


def day_limits(own: LoopLimits, above: LoopLimits) -> dict[str, Any]:
    """Return the daily cost limits of both agents, and the smaller limit where both set one."""
    by: dict[str, float] = {}
    for key, maximum in (*own.max_cost_per_day_by.items(), *above.max_cost_per_day_by.items()):
        by[key] = min(maximum, by.get(key, maximum))
    return {
        "max_cost_per_day": least(own.max_cost_per_day, above.max_cost_per_day),
        "max_cost_per_person_per_day": least(
            own.max_cost_per_person_per_day, above.max_cost_per_person_per_day
        ),
        "max_cost_per_day_by": by,
    }


def least(one: N | None, other: N | None) -> N | None:
    """Return the smaller of two limits, where None means no limit."""
    return min((limit for limit in (one, other) if limit is not None), default=None)


class _Audits:
    """Group of audit logs: every log must record a call before the call is made."""

    def __init__(self, audits: list[Auditor]) -> None:
        self._audits = audits

    def begin(self, call: CallRecord) -> str:
        """See `Auditor.begin`."""
        return _joined([audit.begin(call) for audit in self._audits])

    def end(self, call: CallRecord, text: str, status: CallStatus, seconds: float) -> str:
        """See `Auditor.end`."""
        return _joined([audit.end(call, text, status, seconds) for audit in self._audits])


def _joined(notices: Iterable[str | None]) -> str:
    return " ".join(filter(None, notices))


class SharedBudget(Budget):
    """Group of budgets: each is charged, and the first exhausted budget ends the run."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        self._budgets = list(budgets)
        prices = [budget.prices for budget in self._budgets]
        super().__init__(prices={name: price for budget in prices for name, price in budget.items()})

    def add(self, *, tokens: int = 0, tool_calls: int = 0, cost: float = 0.0) -> None:
        """Add to the used amounts; see `Budget.add`."""
        for budget in self._budgets:
            budget.add(tokens=tokens, tool_calls=tool_calls, cost=cost)

    def take_calls(self, count: int) -> int:
        """Count upcoming calls; see `Budget.take_calls`."""
        for budget in self._budgets:
            count = budget.take_calls(count)
        return count

    def passed_by(self, usage: TokenUsage, model: str) -> str:
        """Return the limit that a further request would exceed; see `Budget.passed_by`."""
        return next(filter(None, (budget.passed_by(usage, model) for budget in self._budgets)), "")

    @property
    def used_up(self) -> str:
        """Text naming the reached limit; empty if none."""
        return next(filter(None, (budget.used_up for budget in self._budgets)), "")
