"""Everything a run is given besides its state: the ports, the policies and the way out for events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pure_agent_loop.budget import Budget
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.events import Event
from pure_agent_loop.hooks import Hooks
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.journal import Journal, MemoryJournal
from pure_agent_loop.kernel.observers import Auditor, Snapshots
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.permissions import AskFunction, PermissionFunction, PermissionPolicy
from pure_agent_loop.prompts import Prompts, prompts_for
from pure_agent_loop.retry import RetryConfig
from pure_agent_loop.support.clock import Clock, SystemClock
from pure_agent_loop.support.redaction import Redactor
from pure_agent_loop.tool import Tool, ToolRegistry

Emit = Callable[[Event], Awaitable[None]]


class Compactor(Protocol):
    """Makes the history fit before each request.

    It may have two methods more. ``with_kit(kit)`` is asked once for each run and gives the compactor to
    use, so that one that sends requests or tells events gets the means. ``force(state)`` is asked when a
    server refused a request as too long, whatever was thought of its length; without it `compact` is.
    """

    async def compact(self, state: QueryState) -> None:
        """Shorten `state` if it has to be."""
        ...


class Background(Protocol):
    """Work that goes on beside a run: its results come in through the inbox.

    It may have two methods more. ``with_run(state, kit)`` is asked once for each run and gives what stands in
    its place for that run. ``end(state)`` is awaited when the run has ended, however it did.
    """

    async def wait(self) -> None:
        """The agent would stop now: return when something came in, or when nothing more will."""
        ...


class Subagents(Protocol):
    """What brings an agent the tools that give tasks to others; `SubagentManager` is one."""

    def tools(self) -> Sequence[Tool]:
        """These tools."""
        ...

    def for_sessions(self, sessions: Any) -> Background:
        """What goes on beside the runs of an agent that keeps its sessions there."""
        ...


class NoCompaction:
    """Leaves the history as it is."""

    async def compact(self, state: QueryState) -> None:
        """Do nothing."""


async def emit_nothing(event: Event) -> None:
    """A sink for runs that nobody watches."""


@dataclass(frozen=True, slots=True)
class Kit:
    """What a run works with.

    Args:
        client: The model.
        tools: What it may call.
        limits: How far the run may go.
        retry: How failed requests are repeated.
        prompts: The words the framework says to the model.
        emit: Where events go.
        options: Fields of every request, such as ``temperature``.
        emit_reasoning: Whether the thinking is shown in events.
        cancel_token: Stops the run from outside.
        permissions: Rules and mode for calls.
        can_use_tool: The user's function for the same; None for none.
        on_ask: Asks a person about a call; without it the run is suspended at a question.
        hooks: The user's functions around tools and before the end.
        budget: Limits shared with other runs.
        tool_rounds: After so many rounds of calls no tools are offered; None for no such limit.
        after_tools: Said to the model after each round of calls, as a synthetic message; empty for nothing.
        tool_attempts: How often a tool marked ``idempotent`` is tried before its error goes to the model.
        tool_retry_delay: Seconds between these tries.
        inbox: Messages that come in while it runs.
        compactor: Makes the history fit.
        journal: Where model requests and tool calls happen.
        clock: Time and chance.
        first_byte_timeout: Seconds to wait for an answer to begin; None for no limit.
        idle_timeout: Seconds an answer may pause; None for no limit.
        tool_timeout: Seconds a tool may take unless it says otherwise; None for no limit.
        context_window: Tokens of the model's window; None for what the client knows.
        max_result_chars: A longer result is cut before it enters the history, see `result_budget`.
        max_error_chars: The same for results of calls that failed.
        results_folder: Where the whole texts are kept; None for a folder in the data folder.
        name: The agent's name, for the audit log.
        audit: Writes down every call.
        snapshots: Knows what a step changed in the workspace.
        background: Work that goes on beside the run; the run waits for it before it ends.
        redactor: Takes secrets out of results, answers, events and records; None for nothing.
        opening: Notices for the beginning of the run: the model in use, a repaired history.
    """

    client: ChatModel
    tools: ToolRegistry = field(default_factory=ToolRegistry)
    limits: LoopLimits = field(default_factory=LoopLimits)
    retry: RetryConfig = field(default_factory=RetryConfig)
    prompts: Prompts = field(default_factory=prompts_for)
    emit: Emit = emit_nothing
    options: dict[str, Any] = field(default_factory=dict)
    emit_reasoning: bool = False
    cancel_token: CancelToken | None = None
    permissions: PermissionPolicy = field(default_factory=PermissionPolicy)
    can_use_tool: PermissionFunction | None = None
    on_ask: AskFunction | None = None
    hooks: Hooks = field(default_factory=Hooks)
    budget: Budget | None = None
    tool_rounds: int | None = None
    after_tools: str = ""
    tool_attempts: int = 1
    tool_retry_delay: float = 1.0
    inbox: Inbox = field(default_factory=Inbox)
    compactor: Compactor = field(default_factory=NoCompaction)
    journal: Journal = field(default_factory=MemoryJournal)
    clock: Clock = field(default_factory=SystemClock)
    first_byte_timeout: float | None = 60.0
    idle_timeout: float | None = 60.0
    tool_timeout: float | None = 120.0
    context_window: int | None = None
    max_result_chars: int = 30_000
    max_error_chars: int = 4_000
    results_folder: Path | None = None
    name: str = ""
    audit: Auditor | None = None
    snapshots: Snapshots | None = None
    background: Background | None = None
    redactor: Redactor | None = None
    opening: tuple[str, ...] = ()
