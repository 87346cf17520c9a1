"""Everything a run is given besides its state: the ports, the policies and the way out for events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from pure_agent_loop.budget import Budget
from pure_agent_loop.cancel import CancelToken, Interrupt
from pure_agent_loop.events import Emit, Event
from pure_agent_loop.hooks import Hooks
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.journal import Journal, MemoryJournal
from pure_agent_loop.kernel.settings import Observers, ResultLimits, Timeouts, ToolRetries
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.output.wanted import Output
from pure_agent_loop.permissions import AskFunction, PermissionPolicy
from pure_agent_loop.prompts import Prompts, prompts_for
from pure_agent_loop.retry import RetryConfig
from pure_agent_loop.support.abilities import able
from pure_agent_loop.support.clock import Clock, SystemClock
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.support.typed import dataclass
from pure_agent_loop.tool import Tool, ToolRegistry


class Compactor(Protocol):
    """Makes the history fit before each request. It may also be a `KnowsKit` or `Forces`."""

    async def compact(self, state: QueryState) -> None:
        """Shorten `state` if it has to be."""
        ...


class KnowsKit(Protocol):
    """A compactor that sends requests or tells events."""

    def with_kit(self, kit: Kit) -> Compactor:
        """The compactor for one run; asked once for each."""
        ...


class Forces(Protocol):
    """A compactor that can make room whatever was thought of the length; `compact` is asked of others."""

    async def force(self, state: QueryState) -> None:
        """A server refused a request as too long: shorten `state`."""
        ...


class Background(Protocol):
    """Work that goes on beside a run: its results come in through the inbox. See `KnowsRun`, `Ends`."""

    async def wait(self) -> None:
        """The agent would stop now: return when something came in, or when nothing more will."""
        ...


class KnowsRun(Protocol):
    """Work that is done for one run at a time."""

    def with_run(self, state: QueryState, kit: Kit) -> Background:
        """What stands in its place for a run that begins."""
        ...


class Ends(Protocol):
    """Work that has an end of its own."""

    async def end(self, state: QueryState) -> None:
        """The run has ended, however it did."""
        ...


class KnowsTasks(Protocol):
    """Work that is made of tasks."""

    def states(self) -> Mapping[str, str]:
        """The state of each task, by its id."""
        ...


class Subagents(Protocol):
    """What brings an agent the tools that give tasks to others; `SubagentManager` is one."""

    def tools(self) -> Sequence[Tool]:
        """These tools."""
        ...

    def for_sessions(self, sessions: Any) -> Background:
        """What goes on beside the runs of an agent that keeps its sessions there."""
        ...


class LendsTools(Protocol):
    """Subagents that have tools which the agent itself has not."""

    def lent_tools(self) -> Sequence[Tool]:
        """These tools."""
        ...


class NoCompaction:
    """Leaves the history as it is."""

    async def compact(self, state: QueryState) -> None:
        """Do nothing."""


async def force(compactor: Compactor, state: QueryState) -> None:
    """Have `state` shortened after a refusal, by force where the compactor can."""
    forcing = able(compactor, Forces)
    await (compactor.compact(state) if forcing is None else forcing.force(state))


async def emit_nothing(event: Event) -> None:
    """A sink for runs that nobody watches."""


def spend(spent: Mapping[str, Any] | None, state: QueryState, kit: Kit) -> None:
    """Take what work outside the loop used into the account of the run, and into its budget."""
    if not spent:
        return
    usage = TokenUsage.from_dict(spent["usage"]) if spent.get("usage") else TokenUsage.zero()
    cost, calls = float(spent.get("cost") or 0.0), int(spent.get("tool_calls") or 0)
    state.count(usage, cost)
    state.ledger.tool_calls += calls
    if kit.budget is not None and not spent.get("in_budget"):
        kit.budget.add(tokens=usage.total_tokens, tool_calls=calls, cost=cost)


@dataclass(frozen=True)
class Kit:
    """What a run works with."""

    client: ChatModel
    """The model."""
    tools: ToolRegistry = field(default_factory=ToolRegistry)
    """What it may call."""
    limits: LoopLimits = field(default_factory=LoopLimits)
    """How far the run may go."""
    retry: RetryConfig = field(default_factory=RetryConfig)
    """How failed requests are repeated."""
    prompts: Prompts = field(default_factory=prompts_for)
    """The words the framework says to the model."""
    emit: Emit = emit_nothing
    """Where events go."""
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of every request, such as ``temperature``."""
    emit_reasoning: bool = False
    """Whether the thinking is shown in events."""
    cancel_token: CancelToken | None = None
    """Stops the run from outside."""
    permissions: PermissionPolicy = field(default_factory=PermissionPolicy)
    """Rules and mode for calls."""
    can_use_tool: Callable[..., Any] | None = None
    """The user's function for the same; None for none."""
    on_ask: AskFunction | None = None
    """Asks a person about a call; without it the run is suspended at a question."""
    hooks: Hooks = field(default_factory=Hooks)
    """The user's functions around tools and before the end."""
    budget: Budget | None = None
    """Limits shared with other runs."""
    tool_rounds: int | None = None
    """After so many rounds of calls no tools are offered; None for no such limit."""
    after_tools: str = ""
    """Said to the model after each round of calls, as a synthetic message; empty for nothing."""
    tool_retries: ToolRetries = field(default_factory=ToolRetries)
    """How tools that may be repeated are."""
    inbox: Inbox = field(default_factory=Inbox)
    """Messages that come in while it runs."""
    compactor: Compactor = field(default_factory=NoCompaction)
    """Makes the history fit."""
    journal: Journal = field(default_factory=MemoryJournal)
    """Where model requests and tool calls happen."""
    clock: Clock = field(default_factory=SystemClock)
    """Time and chance."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    """How long answers and tools are waited for."""
    context_window: int | None = None
    """Tokens of the model's window; None for what the client knows."""
    results: ResultLimits = field(default_factory=ResultLimits)
    """How much of a tool's result enters the history, and where the rest is kept."""
    name: str = ""
    """The agent's name, for the audit log."""
    cwd: str = ""
    """The folder the work is in, told to tools and permission functions; empty for the program's."""
    observers: Observers = field(default_factory=Observers)
    """Who watches its tools."""
    background: Background | None = None
    """Work that goes on beside the run; the run waits for it before it ends."""
    redactor: Redactor | None = None
    """Takes secrets out of results, answers, events and records; None for nothing."""
    output: Output | None = None
    """What the answer has to be; None for text."""
    output_of_run: bool = False
    """Whether it was said for this run, and so holds for whoever ends it."""
    deps: Any = None
    """What functions of the user find in their `RunContext`. Never written down."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What came with the run; in its record."""
    lead: Callable[[], Awaitable[str]] | None = None
    """Writes the system prompt; None where it is a text."""
    lead_each_step: bool = False
    """Whether it does so for each step, not only for each run."""
    silence: Interrupt | None = None
    """Watches for silence of the model, one request after the other; None before the run has begun."""
    opening: tuple[str, ...] = ()
    """Notices for the beginning of the run: the model in use, a repaired history."""

    def changed(self, **fields: Any) -> Kit:
        """The same with other fields. Each run does so a few times, and `replace` looks at every field.

        Raises:
            TypeError: There is no such field.
        """
        known = self.__dict__
        all_fields = {**known, **fields}  # a dict that is copied whole is not built again
        if len(all_fields) != len(known):
            raise TypeError(f"A kit has no {', '.join(fields.keys() - known.keys())}.")
        kit = object.__new__(Kit)
        object.__setattr__(kit, "__dict__", all_fields)
        return kit
