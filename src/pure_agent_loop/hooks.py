"""Functions of the user at three points of a run: before a tool, after a tool, before the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.typed import dataclass
from pure_agent_loop.tool_context import RunContext


@dataclass(frozen=True, slots=True)
class HookContext:
    """What a hook is told besides the call.

    Args:
        step: The step the call belongs to, or the last one.
        call_id: The call's id in the history; empty for a stop hook.
    """

    step: int
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class BeforeTool:
    """What a hook before a tool may want. Nothing set changes nothing.

    Args:
        block: Why the call is not made; the model is told.
        args: Arguments to use instead. Permissions judge these.
        context: Something the model should know; it gets it as a notice with the next request.
    """

    block: str = ""
    args: dict[str, Any] | None = None
    context: str = ""


_Wish = BeforeTool | Awaitable[BeforeTool | None] | None
_Text = str | Awaitable[str | None] | None
# Each may take the run that it is called in first.
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
    """Functions that are called during a run; sync or async, several of a kind in order.

    A hook before a tool that fails blocks the call. Another one that fails changes nothing; a notice says so.

    Args:
        before_tool: ``(tool, args, context) -> BeforeTool | None``.
        after_tool: ``(tool, args, result, context) -> str | None``: another result, as the model reads it.
        on_stop: ``(answer, context) -> str | None``: what the agent still has to do; None lets it end.
        max_stops: How often the agent may be sent on in one run.

    Raises:
        ConfigError: One of them is no list of functions, or `max_stops` is no number.
    """

    before_tool: Sequence[BeforeToolHook] = ()
    after_tool: Sequence[AfterToolHook] = ()
    on_stop: Sequence[StopHook] = ()
    max_stops: int = 3

    def __post_init__(self) -> None:
        for name in ("before_tool", "after_tool", "on_stop"):
            given: Any = getattr(self, name)
            functions = (given,) if callable(given) or not hasattr(given, "__iter__") else tuple(given)
            if not all(map(callable, functions)):
                raise ConfigError(
                    f"Hooks.{name} must be a function or a list of functions; it is {given!r:.80}."
                )
            object.__setattr__(self, name, functions)
        most: object = self.max_stops
        if isinstance(most, bool) or not isinstance(most, int) or most < 0:
            raise ConfigError(f"Hooks.max_stops={most!r} must be a whole number, 0 or more.")
