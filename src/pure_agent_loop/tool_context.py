"""What a tool may know about the call it is in: a context variable, so that no signature has to carry it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.cancel import CancelToken


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The call a tool is in."""

    tool: str
    """The tool's name."""
    call_id: str
    """Its id in the history."""
    step: int
    """The step it belongs to."""
    session_id: str = ""
    """The session; empty for none."""
    agent: str = ""
    """The agent's name; empty for none."""
    task: str = ""
    """What the run was asked."""
    permission_mode: str = "auto"
    """``auto``, ``ask``, ``plan`` or ``bypass``."""
    cancel_token: CancelToken | None = None
    """Says whether the run was cancelled; None if it cannot be. A function that is not async should look
    at it now and then, because a thread cannot be stopped from outside."""
    background: Any = None
    """What goes on beside the run, for the tools that begin it; see `kit.Background`."""
    read_only: bool = False
    """Nobody has allowed this call to change anything; see `Permission`."""
    cwd: str = ""
    """The folder the work is in: that of ``Agent(cwd=)``, else the one the program is in."""
    tasks: Mapping[str, str] = field(default_factory=dict)
    """The state of each task that the run has given to a subagent, by the task's id."""
    on_piece: Callable[[str], Awaitable[None]] | None = None
    """Told of each piece of a result that comes in pieces; None if nobody is."""


_CURRENT: ContextVar[ToolContext | None] = ContextVar("pure_agent_loop_call", default=None)


def current_call() -> ToolContext | None:
    """The call this code runs in, also in the thread of a tool that is not async; None outside of a run."""
    return _CURRENT.get()


def enter_call(context: ToolContext) -> None:
    """Make a call the current one, for the rest of this task."""
    _CURRENT.set(context)
