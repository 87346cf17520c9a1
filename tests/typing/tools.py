"""Tools keep the signature of their function. Only type checkers read this file; it is never run.

A line with ``# type: ignore`` is wrong on purpose: where a checker does not complain, the comment is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import Self, assert_type

from pure_agent_loop import Agent, Retry, SessionManager, Tool, ToolRegistry, Toolset, tool
from pure_agent_loop.tool import ToolLike
from pure_agent_loop.toolsets import StepContext, filtered, prefixed, prepared, searchable


@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@tool(exclusive=True, retries=3, destructive=lambda args: bool(args["force"]))
async def deploy(target: str, *, force: bool = False) -> bytes:
    """Deploy."""
    if not target:
        raise Retry("Name a target.")
    return target.encode()


def sync_calls() -> None:
    assert_type(add(1), int)
    assert_type(add(a=1, b=2), int)
    add("x")  # type: ignore[arg-type]  # no number
    add()  # type: ignore[call-arg]  # one is missing
    add(1, 2, 3)  # type: ignore[call-arg]  # one too many
    add(1).upper()  # type: ignore[attr-defined]  # it is a number
    tool(exclusiv=True)  # type: ignore[call-overload]  # misspelt


async def async_calls() -> None:
    assert_type(await deploy("here", force=True), bytes)
    await deploy("here", force="no", more=1)  # type: ignore[call-arg, arg-type]  # no truth value, not known
    len(deploy("here"))  # type: ignore[arg-type]  # not awaited


class Lamps:
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        return None

    async def list(self, context: StepContext) -> Sequence[Tool]:
        return [Tool(None, name=f"switch_{context.step}", parameters={}, read_only=True)]

    async def call(self, name: str, args: dict[str, Any]) -> bool:
        return bool(args[name])


class NoSet:
    async def list(self) -> Sequence[Tool]:
        return []


def sets() -> Toolset:
    lamps = filtered(Lamps(), lambda context, each: each.read_only and context.step > 1)
    Agent(tools=[add, lamps, searchable([deploy, Lamps()], most=3)])
    Agent(tools=[NoSet()])  # type: ignore[list-item]  # it cannot call
    prepared(lamps, lambda context, tools: [each.changed(name="x") for each in tools])
    prefixed(5, "x")  # type: ignore[arg-type]  # no toolset
    return lamps


def results() -> list[str]:
    result = Agent(tools=[deploy]).run("go")
    for each in result.open_calls:
        result.state.give_result(each.id, {"x": 1}, is_error=False)
    for each in SessionManager().open_calls("s"):
        SessionManager().give_result("s", each.id, "x")
    return [each.name for each in result.open_calls]


def lists(names: Sequence[ToolLike]) -> list[Tool]:
    tools: list[Tool] = [add, deploy, Tool(None, name="far", parameters={}, external=True)]
    Agent(tools=[add, deploy, *names])
    registry: ToolRegistry = ToolRegistry(tools)
    changed: dict[str, Any] = registry.register(add.changed(name="plus")).parameters
    return [*tools, *registry] if changed else []
