"""One running task: the record, the cancel token, and the kit of the run."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pure_agent_loop.budget import TOOL_CALLS, Budget
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.events import Emit, Event, EventType, TaskState
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.guarding import delegate
from pure_agent_loop.kernel.journal import MemoryJournal
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.observers import Snapshots, StepChanges
from pure_agent_loop.kernel.redacting import redacting_emit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.limits import NUMBERS, LoopLimits
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.output.form import TypedOutput
from pure_agent_loop.permissions import AskFunction, PermissionPolicy, PermissionRequest
from pure_agent_loop.runs.settings import OUTPUT_RETRIES, form_of, kit_of
from pure_agent_loop.runs.together import N, day_limits, least, least_limits, narrower, restricted_kit
from pure_agent_loop.sessions.transcript import read_resume_point
from pure_agent_loop.stop_reasons import INVALID_OUTPUT, SUSPENDED
from pure_agent_loop.subagents.definitions import AgentDefinition
from pure_agent_loop.subagents.tasks import TaskRecord, TaskStore
from pure_agent_loop.subagents.words import Words
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import Tool, ToolRegistry
from pure_agent_loop.tool_context import ToolContext

if TYPE_CHECKING:
    from pure_agent_loop.llm.messages import Message
    from pure_agent_loop.sessions.store import SessionStore
    from pure_agent_loop.support.locking import SessionLock


# -- permissions, tools and limits of a subagent: never more than its parent has -------------------------


class RightsError(Exception):
    """A definition names tools that are not available; `names` lists them."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        super().__init__(", ".join(self.names))


def policy_of(definition: AgentDefinition, above: PermissionPolicy) -> PermissionPolicy:
    """Return the parent's policy, with a permission mode that is not wider than the parent's."""
    mode = narrower(above.mode, definition.permission_mode)
    return replace(above, mode="plan" if definition.workspace == "read-only" else mode)


def tools_of(
    definition: AgentDefinition, above: Iterable[Tool], own: Iterable[Tool], bound: Iterable[Tool] | None
) -> list[Tool]:
    """Return the tools of a subagent.

    Args:
        above: Tools of the parent. External tools are omitted, because only the parent's caller can supply
            their results.
        own: The parent's tools for tasks, which a subagent does not inherit.
        bound: Tools for the subagent's separate folder; None if it works in the shared one. They replace the
            parent's tools of the same name; of the parent's other tools, only the read-only ones are kept.

    Raises:
        RightsError: The definition names tools that are not available.
    """
    own_names = {tool.name for tool in own}
    tools = {tool.name: tool for tool in above if tool.name not in own_names and not tool.external}
    if bound is not None:
        rebound = {tool.name: tool for tool in bound if tool.name in tools}
        tools = {**{name: tool for name, tool in tools.items() if tool.read_only}, **rebound}
    if definition.tools != "inherit":
        tools = _chosen(definition, tools)
    return [tool for tool in tools.values() if tool.read_only or definition.workspace != "read-only"]


def _chosen(definition: AgentDefinition, tools: dict[str, Tool]) -> dict[str, Tool]:
    missing = [tool for tool in definition.tools if isinstance(tool, str) and tool not in tools]
    if missing:
        raise RightsError(missing)
    chosen = [tools[tool] if isinstance(tool, str) else tool for tool in definition.tools]
    # A subagent has no caller who could supply the results.
    if unavailable := [tool.name for tool in chosen if tool.external]:
        raise RightsError(unavailable)
    return {tool.name: tool for tool in chosen}


def registry_of(tools: Iterable[Tool], more: Iterable[Tool]) -> ToolRegistry:
    """Return a registry of `tools`, plus the tools in `more` whose names are not taken."""
    registry = ToolRegistry(tools)
    registry.register_many(tool for tool in more if tool.name not in registry)
    return registry


def limits_of(definition: AgentDefinition, state: QueryState, kit: Kit) -> LoopLimits:
    """Return a subagent's limits: its own or the parent's, capped at what the parent has left."""
    above, used = kit.limits, state.ledger
    made = used.tool_calls + len(state.pending)  # the ledger counts a step's calls only once all have results
    requested, own = definition.limits, None if definition.agent is None else kit_of(definition.agent).limits
    limits = requested or own or above
    if own is not None and requested is not None:
        limits = replace(
            least_limits(own, requested, NUMBERS),
            step_limit_prompt=requested.step_limit_prompt or own.step_limit_prompt,
            timeout_prompt=requested.timeout_prompt or own.timeout_prompt,
        )
    now = kit.clock.monotonic()
    return replace(
        limits,
        max_tokens=least(limits.max_tokens, _left(above.max_tokens, used.tokens, 1)),
        max_tool_calls=least(limits.max_tool_calls, _left(above.max_tool_calls, made, 1)),
        max_cost=least(limits.max_cost, _left(above.max_cost, used.cost, 1e-9)),
        **day_limits(limits, above),
        max_seconds=least(limits.max_seconds, _left(state.deadline, now, 1e-3)),
        prices={**limits.prices, **above.prices},
    )


def _left(limit: N | None, used: N, smallest: N) -> N | None:
    """Return what is left of a limit, at least `smallest`, because a limit must be above 0."""
    return None if limit is None else max(smallest, limit - used)


class ChildBudget(Budget):
    """The budget of a subagent, within the parent's shared budget and the rest of the parent's limits.

    Args:
        used_up_above: Function that returns the limit which the parent and its subagents have reached; empty
            if none.
    """

    def __init__(self, above: Budget | None, used_up_above: Callable[[], str]) -> None:
        super().__init__(prices={} if above is None else above.prices)
        self._above, self._used_up_above = above, used_up_above

    def add(self, *, tokens: int = 0, tool_calls: int = 0, cost: float = 0.0) -> None:
        """Count usage in this budget and the parent's."""
        super().add(tokens=tokens, tool_calls=tool_calls, cost=cost)
        if self._above is not None:
            self._above.add(tokens=tokens, tool_calls=tool_calls, cost=cost)

    def take_calls(self, wanted: int) -> int:
        """Reserve calls in this budget and the parent's; see `Budget.take_calls`."""
        return super().take_calls(wanted if self._above is None else self._above.take_calls(wanted))

    def passed_by(self, usage: TokenUsage, model: str) -> str:
        """Return the limit that a request would exceed, here or in the parent; see `Budget.passed_by`."""
        limit = super().passed_by(usage, model)
        return limit or ("" if self._above is None else self._above.passed_by(usage, model))

    @property
    def used_up(self) -> str:
        """Name of the limit that has been reached; empty if none."""
        both = ("" if self._above is None else self._above.used_up, self._used_up_above())
        return min(filter(None, both), key=TOOL_CALLS.__eq__, default="")


class NamedSnapshots:
    """Snapshots of a subagent's steps, stored under its task id instead of the session id.

    Args:
        name: The task id.
    """

    def __init__(self, inner: Snapshots, name: str) -> None:
        self._inner, self._name = inner, name

    async def before(self, session_id: str, step: int) -> None:  # noqa: ARG002 - the task id replaces it
        """See `Snapshots.before`."""
        await self._inner.before(self._name, step)

    async def after(self, session_id: str, step: int) -> StepChanges:  # noqa: ARG002 - the task id replaces it
        """See `Snapshots.after`."""
        return await self._inner.after(self._name, step)


@dataclass(eq=False)
class Child:
    """A subagent task of this process, running or ended.

    Args:
        history: Messages to resume from; None for a new task, or one with a session.
        state: State of the task's run; None before the run begins.
        text: The full answer; empty until the task has one.
        notice: The notice put into the parent's inbox; empty until there is one.
        moved: Set when a foreground task has moved to the background.
        sessions: Session store of the task; None for the parent's store.
    """

    record: TaskRecord
    definition: AgentDefinition
    token: CancelToken = field(default_factory=CancelToken)
    history: list[Message] | None = None
    state: QueryState | None = None
    text: str = ""
    notice: str = ""
    lock: SessionLock | None = None
    job: asyncio.Task[None] | None = None
    unlink: Callable[[], None] | None = None
    sessions: SessionStore | None = None
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_foreground(self) -> bool:
        """True while the task runs in the foreground."""
        is_running = self.job is not None and not self.job.done() and not self.record.is_over
        return is_running and not self.record.background

    @property
    def usage(self) -> TokenUsage:
        """Tokens that the task has used."""
        return TokenUsage.zero() if self.state is None else self.state.usage

    @property
    def cost(self) -> float:
        """Money that the task has spent, for requests with a known price."""
        return 0.0 if self.state is None else self.state.ledger.cost

    @property
    def calls(self) -> int:
        """Tool calls of the task's current run, including the calls of nested subagents."""
        return 0 if self.state is None else self.state.ledger.tool_calls

    def follow(self, state: QueryState) -> None:
        """Continue with the state of the next agent after a handoff."""
        self.state = state

    def spent(self) -> dict[str, Any]:
        """Return the task's usage as `ToolOutcome.spent`, for the totals of the parent run."""
        account = {"usage": self.usage.to_dict(), "cost": self.cost, "tool_calls": self.calls}
        is_unpriced = self.state is not None and self.state.cost is None
        return {**account, **({"unpriced": True} if is_unpriced else {}), "in_budget": True}

    def call_name(self, call_id: str) -> str:
        """Return the id of a call for parents: with a prefix, because several runs may use the same id."""
        return f"{self.record.id}:{call_id}"

    def label_question(self, request: PermissionRequest, words: Words) -> PermissionRequest:
        """Return a question from the task in the form that the person sees."""
        reason = words("asked_by", reason=request.reason, agent=self.record.agent)
        args = request.args if request.question is None else {"question": reason}
        return replace(request, args=args, reason=reason, call_id=self.call_name(request.call_id))

    def note(self, event: Event) -> dict[str, Any] | None:
        """Update the record from an event of the task's run.

        Returns:
            The message part to report for a call's new state; an empty dict to report only the task; None to
            report nothing.
        """
        record = self.record
        record.last_activity = event.timestamp
        if event.type is EventType.ACTION:
            record.calls, record.last_tool = record.calls + 1, str(event.data["tool"])
        elif event.type in (EventType.STEP_END, EventType.LOOP_END):
            record.tokens, record.cost = self.usage.total_tokens, self.cost
        part = event.data.get("part") or {}
        if part.get("type") == "tool" and part["state"] != "pending":
            return {**part, "call_id": self.call_name(part["call_id"])}
        return {} if event.type is EventType.STEP_END else None


def kit_for(
    child: Child,
    above: Kit,
    state_above: QueryState,
    tools: ToolRegistry,
    *,
    emit: Emit,
    on_ask: AskFunction | None,
    used_up: Callable[[], str],
    background: Any,
) -> Kit:
    """Return the kit of a subagent: the parent's kit, restricted.

    Args:
        used_up: Function that returns the limit which the parent run has reached.
        background: Background work that gives the subagent a task tool; None for no task tool.
    """
    definition, is_agent = child.definition, child.definition.agent is not None
    base = above if definition.agent is None else restricted_kit(kit_of(definition.agent), above)
    options = dict(base.options)
    if not is_agent:
        options.pop("server_tools", None)
    if definition.model is not None:
        options["model"] = definition.model
    client, window = base.client, base.context_window
    if definition.llm is not None:
        own = client if is_agent and isinstance(client, ToolModeClient) else None
        other = ToolModeClient(definition.llm, "auto", above.prompts, tools.examples_of)
        client, window = (other, None) if own is None else (own.around(definition.llm), window)
    form = form_of(definition.output_type)
    typed_output = None if form is None else TypedOutput(form, OUTPUT_RETRIES)
    snapshots = None if definition.needs_folder else base.observers.snapshots
    return replace(
        base,
        client=client,
        context_window=window,
        tools=tools,
        options=options,
        limits=limits_of(definition, state_above, above),
        permissions=policy_of(definition, base.permissions),
        on_ask=on_ask,
        # Stop hooks are called only at the end of the parent's run.
        hooks=base.hooks if is_agent else replace(base.hooks, on_stop=()),
        budget=ChildBudget(base.budget, used_up),
        name=f"{above.name}/{definition.name}" if above.name else definition.name,
        observers=base.observers._replace(
            snapshots=NamedSnapshots(snapshots, child.record.id) if snapshots else None
        ),
        cancel_token=child.token,
        inbox=Inbox(),
        emit=redacting_emit(emit, base.redactor),
        journal=MemoryJournal(),
        background=background,
        tool_rounds=base.tool_rounds if is_agent else None,
        after_tools=base.after_tools if is_agent else "",
        emit_reasoning=False,
        output=base.output if is_agent else typed_output,
        lead=base.lead if is_agent and not definition.prompt else None,
        facts=base.facts if is_agent else None,
        start_notices=(),
    )


def child_for_call(
    definition: AgentDefinition,
    prompt: str,
    call: ToolContext,
    state: QueryState,
    kit: Kit,
    tasks: TaskStore | None,
) -> Child:
    """Return the task for a tool call: a new task, or the one that an earlier attempt started in the session.

    Args:
        tasks: Store of task records; None for a run without a session.
    """
    parent, name = state.session_id, definition.name
    record = TaskRecord("", name, prompt, parent=parent, step=call.step, call_id=call.call_id)
    record.resumes = True
    if tasks is None:
        record.id = TaskStore().new_id(name)
        return Child(record, definition)
    key = f"{parent}:{state.answers}:{call.call_id}"  # the same key if the call is repeated
    record.id = f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
    record.session_id = f"{parent[: 63 - len(record.id)]}.{record.id}"
    return Child(record, definition, sessions=getattr(kit.journal, "store", None))


def has_begun(store: SessionStore, session_id: str) -> bool:
    """True if the session has a recorded run."""
    return store.exists(session_id) and read_resume_point(store.read(session_id).records).runs > 0


def inherit_answers(state: QueryState, above: QueryState, mode: str) -> None:
    """Copy the parent run's approvals and denials and, for the mode ``guard``, note what it has read.

    Args:
        mode: Permission mode of the child.
    """
    if above.permissions.is_guarded or mode == "guard":
        delegate(state, above)
    own, inherited = state.permissions, above.permissions
    own.always_allowed = list(dict.fromkeys([*own.always_allowed, *inherited.always_allowed]))
    own.denied = {**inherited.denied, **own.denied}


def pending_calls(state: QueryState) -> str:
    """Return the calls that need an approval, as text."""
    questions: Iterable[PermissionRequest] = state.questions
    return ", ".join(f"{question.tool}({', '.join(question.args)})" for question in questions)


def outcome_of(child: Child, state: QueryState, words: Words) -> tuple[TaskState, str]:
    """Return the state of a task after its run has ended, and its error."""
    if state.stop_reason == SUSPENDED:
        return "waiting_permission", words("waiting", calls=pending_calls(state))
    if state.stop_reason == "cancelled":
        return "killed" if child.token.reason == "killed" else "cancelled", ""
    if state.stop_reason in ("error", INVALID_OUTPUT):
        return "failed", safe_str(state.failure) or "error"
    return "completed", ""


def report_of(record: TaskRecord, words: Words) -> str:
    """Return the outcome of a task as text."""
    endings = {"failed": words("failed", error=record.error)}
    endings |= {"cancelled": words("stopped"), "killed": words("stopped")}
    ending = endings.get(record.state, record.error)
    text = "\n".join(part for part in (ending, record.result) if part)
    return text or words("no_answer")


def cut_result(child: Child, words: Words) -> str:
    """Return the answer of a task, truncated to `max_result_chars`."""
    text, limit = child.text, child.definition.max_result_chars
    if len(text) <= limit:
        return text
    file = f" {child.record.output}" if child.record.output else ""
    note = words("cut", count=len(text) - limit, id=child.record.id, file=file)
    return f"{text[: limit // 2]}\n{note}\n{text[len(text) - (limit - limit // 2) :]}"
