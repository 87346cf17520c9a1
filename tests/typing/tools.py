"""Tools keep the signature of their function. Only type checkers read this file; it is never run.

A line with ``# type: ignore`` is wrong on purpose: where a checker does not complain, the comment is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import assert_type

from pure_agent_loop import Agent, Retry, Tool, ToolRegistry, tool
from pure_agent_loop.tool import ToolLike


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
    add("x")  # type: ignore[arg-type]
    add()  # type: ignore[call-arg]
    add(1, 2, 3)  # type: ignore[call-arg]
    add(1).upper()  # type: ignore[attr-defined]
    tool(exclusiv=True)  # type: ignore[call-overload]


async def async_calls() -> None:
    assert_type(await deploy("here", force=True), bytes)
    await deploy("here", force="no", more=1)  # type: ignore[call-arg, arg-type]
    len(deploy("here"))  # type: ignore[arg-type]


def lists(names: Sequence[ToolLike]) -> list[Tool]:
    tools: list[Tool] = [add, deploy, Tool(None, name="far", parameters={}, external=True)]
    Agent(tools=[add, deploy, *names])
    registry: ToolRegistry = ToolRegistry(tools)
    changed: dict[str, Any] = registry.register(add.changed(name="plus")).parameters
    return [*tools, *registry] if changed else []
