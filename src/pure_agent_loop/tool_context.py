"""What a tool may know about the call it is in: a context variable, so that no signature has to carry it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.cancel import CancelToken


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The call a tool is in.

    Args:
        tool: The tool's name.
        call_id: Its id in the history.
        step: The step it belongs to.
        session_id: The session; empty for none.
        agent: The agent's name; empty for none.
        task: What the run was asked.
        permission_mode: ``auto``, ``ask``, ``plan`` or ``bypass``.
        cancel_token: Says whether the run was cancelled; None if it cannot be. A function that is not async
            should look at it now and then, because a thread cannot be stopped from outside.
        background: What goes on beside the run, for the tools that begin it; see `kit.Background`.
        read_only: Nobody has allowed this call to change anything; see `Permission`.
    """

    tool: str
    call_id: str
    step: int
    session_id: str = ""
    agent: str = ""
    task: str = ""
    permission_mode: str = "auto"
    cancel_token: CancelToken | None = None
    background: Any = None
    read_only: bool = False


_CURRENT: ContextVar[ToolContext | None] = ContextVar("pure_agent_loop_call", default=None)


def current_call() -> ToolContext | None:
    """The call this code runs in, also in the thread of a tool that is not async; None outside of a run."""
    return _CURRENT.get()


def enter_call(context: ToolContext) -> None:
    """Make a call the current one, for the rest of this task."""
    _CURRENT.set(context)
