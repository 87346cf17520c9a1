"""What a subagent may do and use: never more than the agent that gave the task."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from pure_agent_loop.budget import TOOL_CALLS, Budget
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tools.observers import Snapshots, StepChanges
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.permissions import PermissionPolicy
from pure_agent_loop.runs.together import least, narrower
from pure_agent_loop.subagents.definitions import AgentDefinition
from pure_agent_loop.tool import Tool, ToolRegistry


class RightsError(Exception):
    """A definition asks for tools that there are not; `names` says which."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        super().__init__(", ".join(self.names))


def policy_of(definition: AgentDefinition, above: PermissionPolicy) -> PermissionPolicy:
    """The rules above, in a mode that is no wider."""
    mode = narrower(above.mode, definition.permission_mode)
    return replace(above, mode="plan" if definition.workspace == "read-only" else mode)


def tools_of(
    definition: AgentDefinition, above: Iterable[Tool], own: Iterable[Tool], bound: Iterable[Tool] | None
) -> list[Tool]:
    """The tools of a subagent.

    Args:
        above: What the agent has that gives the task. Those whose results are made elsewhere stay with it,
            because only who called that agent can bring them.
        own: Its tools for tasks, which a subagent does not inherit.
        bound: Tools for a folder of the subagent's own; None where it works in the shared one. Only those
            that the agent above has too are taken, and beside them only what changes nothing.

    Raises:
        RightsError: It asks for some that there are not.
    """
    not_ours = {tool.name for tool in own}
    found = {tool.name: tool for tool in above if tool.name not in not_ours and not tool.external}
    if bound is not None:
        here = {tool.name: tool for tool in bound if tool.name in found}
        found = {**{name: tool for name, tool in found.items() if tool.read_only}, **here}
    if definition.tools != "inherit":
        found = _chosen(definition, found)
    return [tool for tool in found.values() if tool.read_only or definition.workspace != "read-only"]


def _chosen(definition: AgentDefinition, found: dict[str, Tool]) -> dict[str, Tool]:
    missing = [each for each in definition.tools if isinstance(each, str) and each not in found]
    if missing:
        raise RightsError(missing)
    chosen = [found[each] if isinstance(each, str) else each for each in definition.tools]
    if external := [tool.name for tool in chosen if tool.external]:  # nobody would bring their results
        raise RightsError(external)
    return {tool.name: tool for tool in chosen}


def registry_of(tools: Iterable[Tool], more: Iterable[Tool]) -> ToolRegistry:
    """Tools by name, and more of them where the name is free."""
    registry = ToolRegistry(tools)
    registry.register_many(tool for tool in more if tool.name not in registry)
    return registry


def limits_of(definition: AgentDefinition, state: QueryState, kit: Kit) -> LoopLimits:
    """The limits of a subagent, cut to what is left of those above."""
    above, used = kit.limits, state.ledger
    made = used.tool_calls + len(state.pending)  # these count once all of them have their results
    wanted = definition.limits or above
    now = kit.clock.monotonic()
    return replace(
        wanted,
        max_tokens=least(wanted.max_tokens, _left(above.max_tokens, used.tokens)),
        max_tool_calls=least(wanted.max_tool_calls, _left(above.max_tool_calls, made)),
        max_cost=_cost(wanted, above, used.cost),
        max_seconds=_seconds(wanted.max_seconds, None if state.deadline is None else state.deadline - now),
        prices={**wanted.prices, **above.prices},
    )


def _left(most: int | None, used: int) -> int | None:
    return None if most is None else max(1, most - used)


def _cost(wanted: LoopLimits, above: LoopLimits, used: float) -> float | None:
    left = None if above.max_cost is None else max(1e-9, above.max_cost - used)
    return least(wanted.max_cost, left)


def _seconds(wanted: float | None, left: float | None) -> float | None:
    left = None if left is None else max(1e-3, left)
    return least(wanted, left)


class FamilyBudget(Budget):
    """The budget of a subagent: the shared one above, and what is left of the limits of the run above.

    Args:
        above: The budget that run shares with others.
        used_up_above: Which limit of that run is reached by it and all its subagents; empty for none.
    """

    def __init__(self, above: Budget | None, used_up_above: Callable[[], str]) -> None:
        super().__init__(prices={} if above is None else above.prices)
        self._above, self._used_up_above = above, used_up_above

    def add(self, *, tokens: int = 0, tool_calls: int = 0, cost: float = 0.0) -> None:
        """Count what was used, here and above."""
        super().add(tokens=tokens, tool_calls=tool_calls, cost=cost)
        if self._above is not None:
            self._above.add(tokens=tokens, tool_calls=tool_calls, cost=cost)

    def take_calls(self, wanted: int) -> int:
        """Count calls that are about to be made, here and above; see `Budget.take_calls`."""
        return super().take_calls(wanted if self._above is None else self._above.take_calls(wanted))

    def passed_by(self, usage: TokenUsage, model: str) -> str:
        """Which limit a further request would pass, above too; see `Budget.passed_by`."""
        found = super().passed_by(usage, model)
        return found or ("" if self._above is None else self._above.passed_by(usage, model))

    @property
    def used_up(self) -> str:
        """Which limit is reached, in words; empty if none is."""
        both = ("" if self._above is None else self._above.used_up, self._used_up_above())
        return min(filter(None, both), key=TOOL_CALLS.__eq__, default="")


class NamedSnapshots:
    """Snapshots of a subagent's steps, under the name of its task, beside those of the run above.

    Args:
        inner: The snapshots of the workspace.
        name: The task.
    """

    def __init__(self, inner: Snapshots, name: str) -> None:
        self._inner, self._name = inner, name

    async def before(self, session_id: str, step: int) -> None:  # noqa: ARG002 - the task names it
        """See `Snapshots.before`."""
        await self._inner.before(self._name, step)

    async def after(self, session_id: str, step: int) -> StepChanges:  # noqa: ARG002 - the task names it
        """See `Snapshots.after`."""
        return await self._inner.after(self._name, step)
