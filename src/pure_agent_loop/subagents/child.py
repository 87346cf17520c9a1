"""One task while it is worked on: its record, how to stop it, and the kit its run works with."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.events import Emit, Event, EventType, TaskState
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.journal import MemoryJournal
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.redacting import veiled
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.output.typed import TypedOutput
from pure_agent_loop.permissions import AskFunction, PermissionRequest
from pure_agent_loop.runs.settings import OUTPUT_RETRIES, form_of, kit_of
from pure_agent_loop.runs.together import beneath
from pure_agent_loop.sessions.transcript import read_past
from pure_agent_loop.stop_reasons import INVALID_OUTPUT, SUSPENDED
from pure_agent_loop.subagents.definitions import AgentDefinition
from pure_agent_loop.subagents.rights import FamilyBudget, NamedSnapshots, limits_of, policy_of
from pure_agent_loop.subagents.tasks import TaskRecord, TaskStore
from pure_agent_loop.subagents.words import SubagentWords
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import Raised, run_in_thread
from pure_agent_loop.tool import ToolRegistry
from pure_agent_loop.tool_context import ToolContext

if TYPE_CHECKING:
    from pure_agent_loop.llm.messages import Message
    from pure_agent_loop.sessions.store import SessionStore
    from pure_agent_loop.support.writer_lock import SessionLock


@dataclass(eq=False)
class Child:
    """A task at work, or one that was.

    Args:
        record: What is known about it, also by others.
        definition: The subagent.
        token: Stops it.
        history: Its messages, to go on from; None for a new one, or one that has a session.
        state: Where its run stands; None before it begins.
        text: Its whole answer, once it has one.
        notice: What was put into the inbox of the agent that gave the task; empty for nothing yet.
        lock: Held while it is at work.
        job: The work.
        moved: Set once a task of the foreground has gone to the background.
        unlink: Lets it no longer be stopped with the run that gave the task.
        sessions: Where its session is kept; where those of the agent above are if None.
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
    def is_waited_for(self) -> bool:
        """True while it is at work in the foreground."""
        is_at_work = self.job is not None and not self.job.done() and not self.record.is_over
        return is_at_work and not self.record.background

    @property
    def usage(self) -> TokenUsage:
        """Tokens it has used."""
        return TokenUsage.zero() if self.state is None else self.state.usage

    @property
    def cost(self) -> float:
        """Money it has spent."""
        return 0.0 if self.state is None else self.state.ledger.cost

    @property
    def calls(self) -> int:
        """Tool calls of this run of it, those of its own subagents among them."""
        return 0 if self.state is None else self.state.ledger.tool_calls

    def go_on(self, state: QueryState) -> None:
        """It was handed over, and goes on there."""
        self.state = state

    def spent(self) -> dict[str, Any]:
        """The same for the account of the run that gave the task; see `ToolOutcome`."""
        account = {"usage": self.usage.to_dict(), "cost": self.cost, "tool_calls": self.calls}
        return {**account, "in_budget": True}

    def names(self, call_id: str) -> str:
        """A call of it as those above know it: each run numbers its own."""
        return f"{self.record.id}:{call_id}"

    def asks(self, request: PermissionRequest, words: SubagentWords) -> PermissionRequest:
        """A question of it, as it is put to the person."""
        reason = words.asked_by.format(reason=request.reason, agent=self.record.agent)
        return replace(request, reason=reason, call_id=self.names(request.call_id))

    def note(self, event: Event) -> dict[str, Any] | None:
        """Take in what happened in its run.

        Returns:
            What is worth telling: a call that got on, an empty dict for the whole; None for nothing.
        """
        record = self.record
        record.last_activity = event.timestamp
        if event.type is EventType.ACTION:
            record.calls, record.last_tool = record.calls + 1, str(event.data["tool"])
        elif event.type in (EventType.STEP_END, EventType.LOOP_END):
            record.tokens, record.cost = self.usage.total_tokens, self.cost
        part = event.data.get("part") or {}
        if part.get("type") == "tool" and part["state"] != "pending":
            return {**part, "call_id": self.names(part["call_id"])}
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
    """What a subagent works with: what the agent above has, narrowed.

    Args:
        above: The kit of the run that gave it.
        used_up: Which limit of the run above is reached.
        background: What gives tasks to further ones; None for nothing.
    """
    definition, is_agent = child.definition, child.definition.agent is not None
    base = above if definition.agent is None else beneath(kit_of(definition.agent), above)
    options = dict(base.options)
    if definition.model is not None:
        options["model"] = definition.model
    client, window = base.client, base.context_window
    if definition.llm is not None:
        client, window = ToolModeClient(definition.llm, "auto", above.prompts, tools.examples_of), None
    form = form_of(definition.output_type)
    wanted = None if form is None else TypedOutput(form, OUTPUT_RETRIES)
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
        # Stop hooks speak of the end of the work of the agent they were given to.
        hooks=base.hooks if is_agent else replace(base.hooks, on_stop=()),
        budget=FamilyBudget(base.budget, used_up),
        name=f"{above.name}/{definition.name}" if above.name else definition.name,
        observers=base.observers._replace(
            snapshots=NamedSnapshots(snapshots, child.record.id) if snapshots else None
        ),
        cancel_token=child.token,
        inbox=Inbox(),
        emit=veiled(emit, base.redactor),
        journal=MemoryJournal(),
        background=background,
        tool_rounds=base.tool_rounds if is_agent else None,
        after_tools=base.after_tools if is_agent else "",
        emit_reasoning=False,
        output=base.output if is_agent else wanted,
        lead=base.lead if is_agent else None,
        opening=(),
    )


def child_for_call(
    definition: AgentDefinition,
    prompt: str,
    call: ToolContext,
    state: QueryState,
    kit: Kit,
    tasks: TaskStore | None,
) -> Child:
    """The task that is the work of a call: a new one, or in a session the one that the call had begun.

    Args:
        state: Where the run stands that makes it.
        tasks: Where records are kept; None for a run without a session.
    """
    parent, name = state.session_id, definition.name
    record = TaskRecord("", name, prompt, parent=parent, step=call.step, call_id=call.call_id)
    record.resumes = True
    if tasks is None:
        record.id = TaskStore().new_id(name)
        return Child(record, definition)
    number = f"{parent}:{state.answers}:{call.call_id}"  # the same when the call is made again
    record.id = f"{name}-{hashlib.sha256(number.encode()).hexdigest()[:8]}"
    record.session_id = f"{parent[: 63 - len(record.id)]}.{record.id}"
    return Child(record, definition, sessions=getattr(kit.journal, "store", None))


def has_begun(store: SessionStore, session_id: str) -> bool:
    """True if a task is written down in a session."""
    return store.exists(session_id) and read_past(store.read(session_id).records).runs > 0


def inherit_answers(state: QueryState, above: QueryState) -> None:
    """What a person allowed or refused for the run above holds here too."""
    own, given = state.permissions, above.permissions
    own.always_allowed = list(dict.fromkeys([*own.always_allowed, *given.always_allowed]))
    own.denied = {**given.denied, **own.denied}


async def ask_person(ask: AskFunction, request: PermissionRequest) -> Any:
    """Ask a person; a function that is not async runs in a thread, because it will block."""
    if inspect.iscoroutinefunction(ask):
        return await ask(request)
    found = await run_in_thread(lambda: ask(request))
    if isinstance(found, Raised):
        raise found.error
    return await found if inspect.isawaitable(found) else found


def names_of(state: QueryState) -> str:
    """The calls that wait for a permission."""
    waiting: Iterable[PermissionRequest] = state.questions
    return ", ".join(f"{each.tool}({', '.join(each.args)})" for each in waiting)


def outcome_of(child: Child, state: QueryState, words: SubagentWords) -> tuple[TaskState, str]:
    """In which state a task is after its run has ended, and what went wrong."""
    if state.stop_reason == SUSPENDED:
        return "waiting_permission", words.waiting.format(calls=names_of(state))
    if state.stop_reason == "cancelled":
        return "killed" if child.token.reason == "killed" else "cancelled", ""
    if state.stop_reason in ("error", INVALID_OUTPUT):
        return "failed", safe_str(state.failure) or "error"
    return "completed", ""


def report_of(record: TaskRecord, words: SubagentWords) -> str:
    """What came of a task, in words."""
    endings = {"failed": words.failed.format(error=record.error)}
    endings |= {"cancelled": words.stopped, "killed": words.stopped}
    ending = endings.get(record.state, record.error)
    text = "\n".join(part for part in (ending, record.result) if part)
    return text or words.no_answer


def cut_result(child: Child, words: SubagentWords) -> str:
    """The answer of a task, as much of it as the agent above is given."""
    text, most = child.text, child.definition.max_result_chars
    if len(text) <= most:
        return text
    file = f" {child.record.output}" if child.record.output else ""
    note = words.cut.format(count=len(text) - most, id=child.record.id, file=file)
    return f"{text[: most // 2]}\n{note}\n{text[len(text) - (most - most // 2) :]}"
