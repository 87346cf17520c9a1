"""What a run and all its subagents have used together."""

from __future__ import annotations

from collections.abc import Iterable

from pure_agent_loop.budget import TOOL_CALLS
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.subagents.child import Child


def used_up(state: QueryState, kit: Kit, children: Iterable[Child]) -> str:
    """Which limit of a run is reached by it and all its subagents; empty for none."""
    limits, used = kit.limits, state.ledger
    open_ones = [child for child in children if not _is_counted(child, kit)]
    tokens = used.tokens + sum(child.usage.total_tokens for child in open_ones)
    cost = used.cost + sum(child.cost for child in open_ones)
    calls = used.tool_calls + sum(child.calls for child in open_ones)
    reached = (
        ("tokens", tokens, limits.max_tokens),
        ("money", cost, limits.max_cost),
        (TOOL_CALLS, calls, limits.max_tool_calls),
    )
    found = next((what for what, number, most in reached if most is not None and number >= most), "")
    return found or ("" if kit.budget is None else kit.budget.used_up)


def _is_counted(child: Child, kit: Kit) -> bool:
    """True if the run above has taken in what it used."""
    if not child.record.is_over and child.record.state != "waiting_permission":
        return False
    return not child.record.background or (bool(child.notice) and child.notice not in kit.inbox)
