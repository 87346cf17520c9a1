"""The kit of a run: everything except the state, such as the client, the policies and the event sink."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pure_agent_loop.budget import Budget, Price, check_limit, price_for
from pure_agent_loop.cancel import CancelToken, Interrupt, Leave
from pure_agent_loop.events import Emit, Event
from pure_agent_loop.hooks import Hooks
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.journal import Journal, MemoryJournal
from pure_agent_loop.kernel.prefix import PrefixWatch
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import ChatModel, model_of
from pure_agent_loop.llm.prices import price_of
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.output.wanted import OutputSpec
from pure_agent_loop.permissions import AskFunction, PermissionPolicy
from pure_agent_loop.prompts import Prompts, prompts_for
from pure_agent_loop.retry import RetryConfig
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.checks import is_number, require_value
from pure_agent_loop.support.clock import Clock, SystemClock
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.tool import Tool, ToolRegistry
from pure_agent_loop.tool_context import AtEnd

if TYPE_CHECKING:
    from pure_agent_loop.kernel.observers import Auditor, Snapshots

# -- groups of run settings, named as the options of `Agent`, so that an error names the option -------------

FIRST_BYTE = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Timeouts:
    """Timeouts of a run in seconds; None for no limit.

    Args:
        first_byte: Timeout until an answer begins. The default applies to remote servers only, because a
            local model may need minutes to read a long prompt.
        tool: Timeout for a tool that does not set one itself.
    """

    first_byte: float | None = FIRST_BYTE
    idle: float | None = 60.0
    tool: float | None = 120.0

    def __post_init__(self) -> None:
        for setting in fields(self):
            check_limit(f"{setting.name}_timeout", getattr(self, setting.name))


class ResultLimits(NamedTuple):
    """Limits on the part of a tool's result that enters the history; see `long_results`.

    Args:
        max_error_chars: Limit for the result of a failed call.
        folder: Folder for the full texts; None for a folder in the data folder.
    """

    max_chars: int = 30_000
    max_error_chars: int = 4_000
    folder: Path | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ToolRetries:
    """Retries of a tool marked ``idempotent`` before the model gets the tool's error.

    Args:
        attempts: Maximum number of attempts.
    """

    attempts: int = 1
    delay: float = 1.0

    def __post_init__(self) -> None:
        is_delay = is_number(self.delay) and self.delay < float("inf")
        require_value(is_delay, "tool_retry_delay", self.delay, "a number of seconds, 0 or more")


class Observers(NamedTuple):
    """Observers of a run's tools."""

    audit: Auditor | None = None
    snapshots: Snapshots | None = None


class Compactor(Protocol):
    """Shortens the history before each request. It may also be a `KitAware` or `Forces`."""

    async def compact(self, state: QueryState) -> None:
        """Shorten `state` if necessary."""


class KitAware(Protocol):
    """A compactor that sends requests or emits events."""

    def with_kit(self, kit: Kit) -> Compactor:
        """Return the compactor for one run; called once per run."""


class Forces(Protocol):
    """A compactor whose `force` shortens the history whatever its estimated length."""

    async def force(self, state: QueryState) -> None:
        """Shorten `state` after a server rejected a request as too long."""


class Background(Protocol):
    """Background work of a run: its results come through the inbox. See `RunAware`, `Ends`."""

    async def wait(self) -> None:
        """Wait, before the agent stops, until a message arrives or no further message can arrive."""


class RunAware(Protocol):
    """Background work that is bound to one run."""

    def with_run(self, state: QueryState, kit: Kit) -> Background:
        """Return the background work for a new run."""


class Ends(Protocol):
    """Background work that needs a cleanup at the end of the run."""

    async def end(self, state: QueryState) -> None:
        """Clean up after the run, for any stop reason."""


class ListsTasks(Protocol):
    """Background work that consists of tasks."""

    def states(self) -> Mapping[str, str]:
        """Return the state of each task, by its id."""


class Subagents(Protocol):
    """Source of the tools that delegate tasks to subagents, such as `SubagentManager`."""

    def tools(self) -> Sequence[Tool]:
        """Return the tools."""

    def for_sessions(self, sessions: Any) -> Background:
        """Return the background work for an agent with this session store."""


class ProvidesTools(Protocol):
    """Subagents with tools that the agent itself lacks."""

    def lent_tools(self) -> Sequence[Tool]:
        """Return the tools."""


class NoCompaction:
    """Compactor that leaves the history unchanged."""

    async def compact(self, state: QueryState) -> None:
        """Do nothing."""


async def emit_nothing(event: Event) -> None:
    """Discard an event."""


async def compact_now(compactor: Compactor, state: QueryState) -> None:
    """Shorten `state` after a rejected request; with the compactor's `force`, if it has this method."""
    forcing = as_protocol(compactor, Forces)
    await (compactor.compact(state) if forcing is None else forcing.force(state))


async def shorten(shortening: Awaitable[None], state: QueryState, kit: Kit) -> None:
    """Await a compactor; redact the new messages, and report changes that the compactor did not report."""
    before, unreported = state.messages, state.context.unreported
    await shortening
    state.redact_changed(before, kit.redactor)
    while unreported:
        change = unreported.pop(0)
        tokens = (change["tokens_before"], change["tokens_after"])
        messages = (change["messages_before"], change["messages_after"])
        await kit.emit(Event.compaction(state.step, change["rung"], tokens, messages))


def spend(spent: Mapping[str, Any] | None, state: QueryState, kit: Kit) -> None:
    """Add the usage of work outside the loop to the run and to its budget."""
    if not spent:
        return
    usage = TokenUsage.from_dict(spent["usage"]) if spent.get("usage") else TokenUsage.zero()
    cost, calls = float(spent.get("cost") or 0.0), int(spent.get("tool_calls") or 0)
    if spent.get("cost") is not None and not spent.get("unpriced"):
        usage = replace(usage, cost=cost)
    state.count(usage, cost)
    state.ledger.tool_calls += calls
    if kit.budget is not None and not spent.get("in_budget"):
        kit.budget.add(tokens=usage.total_tokens, tool_calls=calls, cost=cost)


@dataclass(frozen=True, eq=False, repr=False)
class Kit:
    """Everything that a run uses without changing it."""

    client: ChatModel
    """Client of the model."""
    tools: ToolRegistry = field(default_factory=ToolRegistry)
    """Tools that the model may call."""
    limits: LoopLimits = field(default_factory=LoopLimits)
    """Limits of the run."""
    retry: RetryConfig = field(default_factory=RetryConfig)
    """Retry settings for failed requests."""
    prompts: Prompts = field(default_factory=prompts_for)
    """Texts from the framework to the model."""
    emit: Emit = emit_nothing
    """Event sink."""
    options: dict[str, Any] = field(default_factory=dict)
    """Fields for every request, such as ``temperature``."""
    emit_reasoning: bool = False
    """True if the thinking is shown in events."""
    cancel_token: CancelToken | None = None
    """Stops the run from outside."""
    leave: Leave | None = None
    """Ends the run so that another process continues it; None for a run within a run."""
    permissions: PermissionPolicy = field(default_factory=PermissionPolicy)
    """Rules and mode for calls."""
    can_use_tool: Callable[..., Any] | None = None
    """The user's permission function; None if not set."""
    on_ask: AskFunction | None = None
    """Function that asks a person about a call; None if a question suspends the run."""
    hooks: Hooks = field(default_factory=Hooks)
    """User functions to call around tools and before the end."""
    budget: Budget | None = None
    """Limits shared with other runs."""
    tool_rounds: int | None = None
    """Rounds of calls after which no tools are offered; None for no such limit."""
    after_tools: str = ""
    """Synthetic message to the model after each round of calls; empty if none."""
    tool_retries: ToolRetries = field(default_factory=ToolRetries)
    """Retry settings for idempotent tools."""
    inbox: Inbox = field(default_factory=Inbox)
    """Messages that arrive during the run."""
    compactor: Compactor = field(default_factory=NoCompaction)
    """Shortens the history to fit."""
    journal: Journal = field(default_factory=MemoryJournal)
    """Executes model requests and tool calls."""
    clock: Clock = field(default_factory=SystemClock)
    """Time and randomness."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    """Timeouts of answers and tools."""
    client_options: Mapping[str, Any] = field(default_factory=dict)
    """Request options that the client itself uses."""
    context_window: int | None = None
    """Context window in tokens; None for the client's value."""
    results: ResultLimits = field(default_factory=ResultLimits)
    """Limits on a tool's result in the history, and the folder for the full text."""
    name: str = ""
    """The agent's name, for the audit log."""
    cwd: str = ""
    """Working folder, passed to tools and permission functions; empty for the current directory."""
    observers: Observers = field(default_factory=Observers)
    """Observers of the run's tools."""
    background: Background | None = None
    """Background work of the run; the run waits for it before it ends."""
    redactor: Redactor | None = None
    """Redacts secrets in results, answers, events and records; None to disable."""
    output: OutputSpec | None = None
    """Required type of the answer; None for text."""
    output_of_run: bool = False
    """True if the type was set for this run, and so applies to the agent that ends it."""
    deps: Any = None
    """Value for user functions in their `RunContext`. Never recorded."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of the run, which is recorded."""
    lead: Callable[[], Awaitable[str]] | None = None
    """Writes the system prompt; None if the prompt is a text."""
    lead_each_step: bool = False
    """True if the prompt is written per step, not only per run."""
    facts: Callable[[], Awaitable[str]] | None = None
    """Writes the facts of the run for the model; None if there are none."""
    silence: Interrupt | None = None
    """Watchdog for a silent model, one request at a time; None before the run begins."""
    at_end: list[AtEnd] = field(default_factory=list)
    """What calls have registered for the end of the run; see `ToolContext`."""
    prefix_watch: PrefixWatch | None = None
    """Names what changed the prompt prefix of the run; None before the run begins."""
    start_notices: tuple[str, ...] = ()
    """Notices for the beginning of the run: the model in use, a repaired history."""

    @property
    def model(self) -> str:
        """Name of the model in requests."""
        return str(self.options.get("model") or model_of(self.client))

    def priced(self, usage: TokenUsage, served_by: str = "") -> TokenUsage:
        """Return the usage of one request with its cost, if the cost is known.

        The cost comes from the caller's prices, else from the server's report, else from the price list.

        Args:
            served_by: Name of the model that served the request, for a client with several models. Such a
                client has already applied the price list.
        """
        if usage.by_model:
            parts = tuple((name, self.priced(part, name)) for name, part in usage.by_model)
            costs = [part.cost for _, part in parts if part.cost is not None]
            cost = sum(costs) if len(costs) == len(parts) else None
            return replace(usage, by_model=parts, cost=cost)
        price, own = None, self.limits.prices
        if own:
            price = price_for(own, served_by or self.model)
        if price is None and self.budget is not None:
            price = price_for(self.budget.prices, served_by or self.model)
        if price is None:
            if usage.cost is not None or served_by:
                return usage
            price = price_of(self.client, self.options)
        return usage if price is None else replace(usage, cost=price.of(usage))

    def charge(self, usage: TokenUsage) -> TokenUsage:
        """Charge usage to the shared budget, at the budget's prices if set; return the usage with cost."""
        if usage.cost is None and (self.limits.prices or self.budget is not None):
            usage = self.priced(usage)  # the usage may come from a record without a cost
        if self.budget is not None:
            parts = usage.by_model or ((self.model, usage),)
            prices = [(price_for(self.budget.prices, name), part) for name, part in parts]
            cost = sum(price.of(part) if price else part.cost or 0.0 for price, part in prices)
            self.budget.add(tokens=usage.total_tokens, cost=cost)
        return usage

    def price(self) -> Price | None:
        """Return the price of the model; None if unknown."""
        tables = [self.limits.prices, *(() if self.budget is None else (self.budget.prices,))]
        return next(filter(None, (price_for(table, model_of(self.client)) for table in tables)), None)

    def replace(self, **fields: Any) -> Kit:
        """Return a copy with these fields changed. `dataclasses.replace` is slower: it visits every field.

        Raises:
            TypeError: A field does not exist.
        """
        known = self.__dict__
        all_fields = {**known, **fields}  # copying the dict avoids building it field by field
        if len(all_fields) != len(known):
            raise TypeError(f"A kit has no {', '.join(fields.keys() - known.keys())}.")
        kit = object.__new__(Kit)
        object.__setattr__(kit, "__dict__", all_fields)
        return kit
