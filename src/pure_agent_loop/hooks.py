"""User functions at three points of a run: before a tool, after a tool, before the end."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.checks import is_whole, require, require_value
from pure_agent_loop.support.language import model_text
from pure_agent_loop.tool_context import RunContext


@dataclass(frozen=True, slots=True)
class HookContext:
    """Context of a hook call.

    Args:
        step: Step of the tool call, or the last step.
        call_id: Id of the tool call in the history; empty for a stop hook.
    """

    step: int
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class BeforeTool:
    """Decision of a hook before a tool. The default decision changes nothing.

    Args:
        block: Reason to block the call, sent to the model.
        args: Replacement arguments. Permission checks apply to these.
        context: Information for the model, sent as a notice with the next request.
    """

    block: str = ""
    args: dict[str, Any] | None = None
    context: str = ""


_Wish = BeforeTool | Awaitable[BeforeTool | None] | None
_Text = str | Awaitable[str | None] | None
# Each hook may take a `RunContext` as its first parameter.
BeforeToolHook = (
    Callable[[str, dict[str, Any], HookContext], _Wish]
    | Callable[[RunContext[Any], str, dict[str, Any], HookContext], _Wish]
)
AfterToolHook = (
    Callable[[str, dict[str, Any], str, HookContext], _Text]
    | Callable[[RunContext[Any], str, dict[str, Any], str, HookContext], _Text]
)
StopHook = Callable[[str, HookContext], _Text] | Callable[[RunContext[Any], str, HookContext], _Text]


@dataclass(frozen=True, slots=True)
class Hooks:
    """Functions called during a run, sync or async, in order.

    A failing `before_tool` hook blocks the call. Any other failing hook has no effect except a notice.

    Args:
        before_tool: ``(tool, args, context) -> BeforeTool | None``.
        after_tool: ``(tool, args, result, context) -> str | None``: replacement result for the model.
        on_stop: ``(answer, context) -> str | None``: remaining work for the agent; None lets the run end.
        max_stops: Maximum number of times `on_stop` may continue a run.

    Raises:
        ConfigError: A field is not a list of functions, or `max_stops` is not a number.
    """

    before_tool: Sequence[BeforeToolHook] = ()
    after_tool: Sequence[AfterToolHook] = ()
    on_stop: Sequence[StopHook] = ()
    max_stops: int = 3

    def __post_init__(self) -> None:
        for name in ("before_tool", "after_tool", "on_stop"):
            value: Any = getattr(self, name)
            functions = (value,) if callable(value) or not hasattr(value, "__iter__") else tuple(value)
            require(
                all(map(callable, functions)), f"Hooks.{name}", value, "a function or a list of functions"
            )
            object.__setattr__(self, name, functions)
        require_value(
            is_whole(self.max_stops), "Hooks.max_stops", self.max_stops, "a whole number, 0 or more"
        )


async def call_hook(hook: Callable[..., Any], *arguments: Any) -> Any:
    """Call a hook, sync or async, and return its result."""
    result = hook(*arguments)
    return await result if inspect.isawaitable(result) else result


async def call_before_hook(hook: Callable[..., Any], *arguments: Any) -> BeforeTool:
    """Return the decision of a `before_tool` hook.

    Raises:
        ConfigError: The hook returned neither None nor a `BeforeTool`.
    """
    decision = await call_hook(hook, *arguments)
    if decision is None:
        return BeforeTool()
    if not isinstance(decision, BeforeTool):
        raise ConfigError(model_text("no_before_tool", value=f"{decision!r:.80}"))
    return decision
