"""What an agent may do that works for another one: whatever either of them forbids is forbidden."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pure_agent_loop.budget import Budget
from pure_agent_loop.hooks import Hooks
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.settings import Observers
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.permissions import (
    PermissionContext,
    PermissionPolicy,
    PermissionRules,
    as_permission,
)

if TYPE_CHECKING:
    from pure_agent_loop.kernel.tools.observers import Auditor, CallRecord, CallStatus

N = TypeVar("N", int, float)
_FROM_WIDE = ("bypass", "auto", "ask", "plan")
_SHARED_LIMITS = ("max_tokens", "max_turns", "max_tool_calls", "max_seconds", "max_cost")


def narrower(mode: str, wanted: str | None) -> str:
    """The narrower of two permission modes."""
    return mode if wanted is None else max(mode, wanted, key=_FROM_WIDE.index)


def beneath(own: Kit, above: Kit) -> Kit:
    """What an agent works with in the run of another one.

    It has its own model, tools, words and settings. Rules, functions, hooks, the audit log, the budget and
    the redaction of both hold; limits are the smaller ones; the run itself (its events, its session, how it
    is cancelled, who is asked) is that of the agent above.

    Args:
        above: That of the run it works in.
    """
    audits = list({id(each): each for each in (above.observers.audit, own.observers.audit) if each}.values())
    budgets = list({id(each): each for each in (above.budget, own.budget) if each}.values())
    return replace(
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
        limits=_limits(own.limits, above.limits),
        budget=SharedBudget(budgets) if len(budgets) > 1 else next(iter(budgets), None),
        observers=Observers(
            _Audits(audits) if len(audits) > 1 else next(iter(audits), None),
            own.observers.snapshots or above.observers.snapshots,
        ),
        redactor=own.redactor if above.redactor is None else above.redactor.joined(own.redactor),
        cancel_token=above.cancel_token,
        inbox=above.inbox,
        emit=above.emit,
        journal=above.journal,
        clock=above.clock,
        deps=above.deps if own.deps is None else own.deps,
        metadata=above.metadata,
    )


def _policy(own: PermissionPolicy, above: PermissionPolicy) -> PermissionPolicy:
    """Denied or asked by one is so by both. What needs no question is for the one with the narrower mode."""
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
        said = as_permission(await _settled(first(tool, args, context)))
        if said.behavior == "deny":
            return said
        args = args if said.updated_args is None else said.updated_args
        then = as_permission(await _settled(second(tool, args, context)))
        if then.behavior == "allow" and said.behavior == "ask":
            return replace(said, updated_args=then.updated_args or said.updated_args)
        return replace(then, updated_args=then.updated_args or said.updated_args)

    return both


async def _settled(found: Any) -> Any:
    return await found if inspect.isawaitable(found) else found


def _limits(own: LoopLimits, above: LoopLimits) -> LoopLimits:
    hard = {name: least(getattr(own, name), getattr(above, name)) for name in _SHARED_LIMITS}
    return replace(own, **hard, prices={**own.prices, **above.prices})


def least(one: N | None, other: N | None) -> N | None:
    """The smaller of two limits, either of which may be None for no limit."""
    return min((each for each in (one, other) if each is not None), default=None)


class _Audits:
    """Several audit logs: each must have a call before it is made."""

    def __init__(self, audits: list[Auditor]) -> None:
        self._audits = audits

    def begin(self, call: CallRecord) -> None:
        """See `Auditor.begin`."""
        for each in self._audits:
            each.begin(call)

    def end(self, call: CallRecord, text: str, status: CallStatus, seconds: float) -> None:
        """See `Auditor.end`."""
        for each in self._audits:
            each.end(call, text, status, seconds)


class SharedBudget(Budget):
    """Several budgets: all of them count, and any of them may be used up."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        self._budgets = list(budgets)
        prices = [each.prices for each in self._budgets]
        super().__init__(prices={name: price for each in prices for name, price in each.items()})

    def add(self, *, tokens: int = 0, tool_calls: int = 0, cost: float = 0.0) -> None:
        """Count what was used."""
        for each in self._budgets:
            each.add(tokens=tokens, tool_calls=tool_calls, cost=cost)

    def take_calls(self, wanted: int) -> int:
        """Count calls that are about to be made; see `Budget.take_calls`."""
        for each in self._budgets:
            wanted = each.take_calls(wanted)
        return wanted

    def passed_by(self, usage: TokenUsage, model: str) -> str:
        """Which limit a further request would pass; see `Budget.passed_by`."""
        return next(filter(None, (each.passed_by(usage, model) for each in self._budgets)), "")

    @property
    def used_up(self) -> str:
        """Which limit is reached, in words; empty if none is."""
        return next(filter(None, (each.used_up for each in self._budgets)), "")
