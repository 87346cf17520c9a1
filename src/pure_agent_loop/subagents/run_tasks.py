"""The subagent tasks of one run: start and watch them, and deliver their outcomes to the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from pure_agent_loop.budget import TOOL_CALLS
from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.events import AnyEvent, Event, EventType, TaskState
from pure_agent_loop.kernel.bind import background_of
from pure_agent_loop.kernel.kit import Background, Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.permissions import PermissionRequest
from pure_agent_loop.runs.run import RunInput, drive, start_state
from pure_agent_loop.runs.settings import kit_of
from pure_agent_loop.schema.calling import call_user
from pure_agent_loop.sessions import default_store
from pure_agent_loop.sessions.resume import begin_in_session
from pure_agent_loop.stop_reasons import BACKGROUNDED, WAITING
from pure_agent_loop.subagents.child import (
    Child,
    RightsError,
    child_for_call,
    cut_result,
    has_begun,
    inherit_answers,
    kit_for,
    outcome_of,
    registry_of,
    report_of,
    tools_of,
)
from pure_agent_loop.subagents.definitions import EXPLORE, AgentDefinition, in_language
from pure_agent_loop.subagents.places import Scratch, Worktree, place_for
from pure_agent_loop.subagents.tasks import TaskRecord, TaskStore, task_states, unreported
from pure_agent_loop.subagents.words import Words, words_for
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.bounded import put_bounded
from pure_agent_loop.support.folders import data_folder
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import ToolRegistry
from pure_agent_loop.tool_context import ToolContext

if TYPE_CHECKING:
    from pure_agent_loop.sessions.store import SessionStore
    from pure_agent_loop.tool import Tool


# -- the task table: state shared by all runs of one `SubagentManager` -----------------------------------

MAX_REMEMBERED = 64  # maximum tasks to keep for runs without a session
Report = Callable[[Child], None]
POLL_SECONDS = 0.1  # seconds between checks for kill files and messages from other threads
STOP_SECONDS = 5.0  # seconds that a cancelled subagent has to end


class DepthAware(Protocol):
    """A `Background` that can be copied for a subagent at a greater depth."""

    def below(self, depth: int) -> Background:
        """Return a copy of this background-task manager for a subagent at this depth."""


@dataclass(eq=False)
class TaskTable:
    """The settings of a `SubagentManager`, and the tasks that outlive their run.

    Args:
        reports: Per session, the callback by which its newest run receives task outcomes.
        remembered: Resumable tasks kept in memory, by id.
        runs: Runs in progress, so that `SubagentManager.background` can find their tasks.
    """

    definitions: dict[str, AgentDefinition]
    workspace: Path | None
    store: TaskStore | None
    max_concurrent: int
    max_depth: int
    wait: bool
    tools_for: Callable[[str], Iterable[Tool]]
    language: str | None
    tools: Sequence[Tool] = ()
    reports: dict[str, Report] = field(default_factory=dict)
    remembered: dict[str, Child] = field(default_factory=dict)
    runs: WeakSet[Any] = field(default_factory=WeakSet)  # `RunTasks` objects

    @property
    def words(self) -> Words:
        """The texts for models, in the language of the manager."""
        return words_for(self.language)

    def store_for(self, sessions: SessionStore | None) -> TaskStore:
        """Return the store for the tasks of a run with a session."""
        return self.store or TaskStore.beside(sessions)

    def close(self, session: str, report: Report) -> None:
        """Stop reporting task outcomes to a run that has ended."""
        if self.reports.get(session) == report:
            del self.reports[session]

    def remember(self, child: Child) -> None:
        """Keep a task so that it can be resumed."""
        put_bounded(self.remembered, child.record.id, child, MAX_REMEMBERED)

    def worktrees(self) -> Path:
        """Return the folder for git worktrees."""
        return data_folder() / "worktrees"


# -- total usage of a run and all its subagents ----------------------------------------------------------


def used_up(state: QueryState, kit: Kit, children: Iterable[Child]) -> str:
    """Return the limit that the run and its subagents have reached together; empty if none."""
    limits, used = kit.limits, state.ledger
    uncounted = [child for child in children if not _is_counted(child, kit)]
    tokens = used.tokens + sum(child.usage.total_tokens for child in uncounted)
    cost = used.cost + sum(child.cost for child in uncounted)
    calls = used.tool_calls + sum(child.calls for child in uncounted)
    reached = (
        ("tokens", tokens, limits.max_tokens),
        ("money", cost, limits.max_cost),
        (TOOL_CALLS, calls, limits.max_tool_calls),
    )
    limit = next((name for name, number, top in reached if top is not None and number >= top), "")
    return limit or ("" if kit.budget is None else kit.budget.used_up)


def _is_counted(child: Child, kit: Kit) -> bool:
    """True if the parent run has already counted the usage of this task."""
    if not child.record.is_over and child.record.state != "waiting_permission":
        return False
    return not child.record.background or (bool(child.notice) and child.notice not in kit.inbox)


class RunTasks:
    """The tasks of one run.

    Args:
        table: State shared with the other runs of its `SubagentManager`.
        tasks: Store of task records; None for a run without a session.
        below: Function that returns the background work for a subagent at a given depth.
    """

    def __init__(
        self,
        table: TaskTable,
        state: QueryState,
        kit: Kit,
        sessions: SessionStore | None,
        tasks: TaskStore | None,
        depth: int,
        below: Callable[[int], Background],
    ) -> None:
        self._below = below
        self.table, self.words, self.tasks = table, table.words, tasks
        self._state, self._kit, self._sessions, self._depth = state, kit, sessions, depth
        self._slots = asyncio.Semaphore(table.max_concurrent)
        self._asking = asyncio.Lock()
        self._watcher: asyncio.Task[None] | None = None
        self._is_over = False
        self.children: dict[str, Child] = {}
        self.loop = asyncio.get_running_loop()
        table.runs.add(self)

    # -- what the run calls --------------------------------------------------------------------------

    async def wait(self) -> None:
        """Wait, before the run ends, until a message arrives or no task is running."""
        while self.table.wait and self._running() and self._kit.inbox.is_empty:
            jobs = [child.job for child in self._running() if child.job is not None]
            await asyncio.wait(jobs, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            deadline = self._state.deadline
            if deadline is not None and self._kit.clock.monotonic() >= deadline:
                await self._stop(self._running())

    async def end(self, state: QueryState) -> None:
        """Stop the tasks of an ended run; let them finish if the run will be resumed or `wait` is False."""
        if self.table.wait:
            if state.stop_reason in (*WAITING, BACKGROUNDED):  # the run will be resumed and needs the results
                while jobs := [child.job for child in self._running() if child.job is not None]:
                    await asyncio.wait(jobs)
            await self._stop(self._running())
        self._is_over = True
        for child in self.children.values():
            was_read = bool(child.notice) and child.notice not in self._kit.inbox
            if was_read or (child.record.is_over and not child.record.background):
                child.record.delivered = True
                self._save(child)
        if not self._running():
            self.table.close(self.session_id, self.notify)

    # -- beginning -----------------------------------------------------------------------------------

    def refusal(self) -> str:
        """Return why no task can be started now; empty if a task can be started."""
        if self._depth >= self.table.max_depth:
            return self.words("too_deep")
        reached = self.used_up()
        return self.words("nothing_left", what=reached) if reached else ""

    def create(self, name: str, prompt: str, **details: Any) -> Child:
        """Return a new task, with additional fields for the record."""
        definition, parent = self.table.definitions[name], self._state.session_id
        task_id = (self.tasks or TaskStore()).new_id(name)
        record = TaskRecord(task_id, name, self._clean(prompt), parent=parent, **details)
        if self.tasks is not None:
            record.session_id = f"{parent[: 63 - len(task_id)]}.{task_id}"
        return Child(record, definition)

    def for_call(self, agent: AgentDefinition, prompt: str, call: ToolContext) -> Child:
        """Return the task for a tool call; see `child_for_call`."""
        return child_for_call(agent, self._clean(prompt), call, self._state, self._kit, self.tasks)

    def resume(self, child: Child, prompt: str, **details: Any) -> Child:
        """Return a task resumed with a new prompt; see `create`."""
        record = replace(child.record, prompt=self._clean(prompt), **details)
        record.to("pending")
        record.result = record.error = record.stop_reason = ""
        record.delivered = False
        history = None if child.state is None else child.state.full_history()
        return Child(record, child.definition, history=history)

    async def begin(self, child: Child) -> None:
        """Start a task; wait for it if it is a foreground task."""
        self.children[child.record.id] = child
        if self.tasks is not None:
            child.lock = self.tasks.claim(child.record.id)
        self._save(child)
        if self._kit.cancel_token is not None:
            child.unlink = self._kit.cancel_token.on_cancel(lambda: child.token.cancel("cancelled"))
        if self._watcher is None and self.tasks is not None:
            self._watcher = asyncio.create_task(self._watch())
        child.job = asyncio.create_task(self._work(child))
        if child.record.background:
            await asyncio.sleep(0)  # let the new task take a free slot or enter the queue
        else:
            await self._until_done(child, child.job)

    async def _until_done(self, child: Child, job: asyncio.Task[None]) -> None:
        """Wait until a foreground task ends or moves to the background."""
        moved = asyncio.create_task(child.moved.wait())
        try:
            await asyncio.wait({job, moved}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            moved.cancel()
            if not (job.done() or child.record.background):  # the call was cancelled, so cancel its task too
                job.cancel()
                await asyncio.wait({job})
        if child.moved.is_set():
            await self._emit_task(child)

    def move(self, task_id: str) -> TaskRecord | None:
        """Move a foreground task to the background; return None if no task has that id or call id."""
        if (child := self.foreground_task(task_id)) is not None:
            child.record.background = True
            if child.record.state == "running":
                child.record.to("backgrounded")
            child.moved.set()
        return None if child is None else child.record

    def foreground_task(self, task_id: str) -> Child | None:
        """Return the running foreground task with that task or call id."""
        running = (child for child in list(self.children.values()) if child.is_foreground)
        return next((child for child in running if task_id in (child.record.id, child.record.call_id)), None)

    def states(self) -> dict[str, str]:
        """Return the state of each task, by id."""
        return {task_id: child.record.state for task_id, child in self.children.items()}

    async def _work(self, child: Child) -> None:
        """Run a task and record its outcome, whatever happens."""
        outcome: tuple[TaskState, str] = ("cancelled", "")
        try:
            with Interrupt() as block:
                block.on(child.token)
                async with self._slots:
                    outcome = await self._run(child)
            if block.fired and outcome[0] != "completed":
                outcome = ("killed" if child.token.reason == "killed" else "cancelled", "")
        except RightsError as error:
            names = ", ".join(error.names)
            outcome = "failed", self.words("no_tool", agent=child.record.agent, tools=names)
        except Exception as error:  # noqa: BLE001 - any failure is reported to the parent
            outcome = "failed", f"{type(error).__name__}: {safe_str(error)}"
        finally:
            await self._record_outcome(child, *outcome)

    async def _run(self, child: Child) -> tuple[TaskState, str]:
        table, mode = self.table, child.definition.workspace
        place = await place_for(mode, table.workspace, table.worktrees() / child.record.id, self.words)
        try:
            state, kit = self._begin_run(child, place)
            child.record.to("backgrounded" if child.record.background else "running")
            await self._emit_task(child)
            try:
                await drive(state, kit, child.definition.agent, lambda state, _: child.follow(state))
            finally:
                kit.journal.close()
            state = child.state or state  # a handoff replaces the state with that of another agent
            child.text, child.record.stop_reason = self._clean(state.content), str(state.stop_reason)
            task_state, problem = outcome_of(child, state, self.words)
            if place is not None and state.stop_reason != "cancelled":
                child.text = f"{child.text}\n\n{self._clean(await place.report())}"
            return task_state, self._clean(problem)
        finally:
            child.record.place = "" if place is None else place.close()

    def _begin_run(self, child: Child, place: Scratch | Worktree | None) -> tuple[QueryState, Kit]:
        table, definition, agent = self.table, child.definition, child.definition.agent
        bound = None if place is None else table.tools_for(str(place.root))
        tools = () if agent else tools_of(definition, self._kit.tools, table.tools, bound)
        deeper = self._depth + 1 < table.max_depth
        kit = kit_for(
            child,
            self._kit,
            self._state,
            ToolRegistry(kit_of(agent).tools) if agent else registry_of(tools, table.tools if deeper else ()),
            emit=lambda event: self._on_event(child, event),
            on_ask=self._permission_asker(child),
            used_up=self.used_up,
            background=self._background_for(definition, deeper=deeper),
        )
        system = in_language(definition.prompt, table.language) if definition.prompt else ""
        if agent is not None and not system:
            system = agent.system_prompt
        if place is not None:
            kit = replace(kit, cwd=str(place.root))
            system += f"\n\n{self.words('in_copy' if definition.workspace == 'scratch' else 'in_tree')}"
        prompt, session = child.record.prompt, child.record.session_id
        if session:
            store = child.sessions or self._sessions or default_store()
            task = None if agent is not None and has_begun(store, session) else prompt
            state, kit = begin_in_session(kit, RunInput(task, None, system, first=agent), store, session)
        else:
            state, _ = start_state(prompt, child.history, system, kit.prompts)
        inherit_answers(state, self._state, kit.permissions.mode)
        child.state = state
        return state, kit

    def _background_for(self, definition: AgentDefinition, *, deeper: bool) -> Background | None:
        """Return the background work for a subagent: from its own agent, or from this run."""
        if definition.agent is None:
            return self._below(self._depth + 1) if deeper else None
        own = as_protocol(background_of(kit_of(definition.agent)), DepthAware)
        return None if own is None else own.below(self._depth + 1)

    # -- while it works ------------------------------------------------------------------------------

    async def _on_event(self, child: Child, event: Event) -> None:
        if event.type is EventType.NOTICE:
            await self._emit(Event.notice(child.record.step, event.data["message"], task=child.record.id))
        elif (part := child.note(event)) is not None:
            await self._emit_task(child, part)

    async def _emit_task(self, child: Child, part: dict[str, Any] | None = None) -> None:
        if not part:
            self._save(child)
        await self._emit(Event.task(child.record.step, child.record.to_dict(), part))

    async def _emit(self, event: AnyEvent) -> None:
        if not self._is_over:
            with suppress(Exception):  # a failing listener ends the parent run, not the subagent
                await self._kit.emit(event)

    def _permission_asker(self, child: Child) -> Callable[[PermissionRequest], Any] | None:
        agent = child.definition.agent
        ask = self._kit.on_ask or (None if agent is None else kit_of(agent).on_ask)
        if ask is None:
            return None

        async def question(request: PermissionRequest) -> Any:
            labelled = child.label_question(request, self.words)
            async with self._asking:  # ask one question at a time
                child.record.to("waiting_permission")
                await self._emit_task(child)
                try:
                    return await call_user(ask, labelled)
                finally:
                    child.record.to("backgrounded" if child.record.background else "running")
                    self._save(child)

        return question

    def used_up(self) -> str:
        """Return the limit that this run and its subagents have reached together; empty if none."""
        return used_up(self._state, self._kit, self.children.values())

    async def _watch(self) -> None:
        """Poll for kill files, with which other processes request that a task stop."""
        while self.tasks is not None:
            for child in list(self.children.values()):
                if child.lock is not None and self.tasks.is_to_be_killed(child.record.id):
                    child.token.cancel("killed")
            await asyncio.sleep(POLL_SECONDS)

    # -- the end of a task ---------------------------------------------------------------------------

    async def _record_outcome(self, child: Child, state: TaskState, error: str) -> None:
        """Record the outcome and report it.

        Nothing is awaited before the record is complete, because this code also runs at interpreter exit.
        """
        record = child.record
        if record.state == "pending" and state in ("completed", "waiting_permission"):
            record.to("running")
        record.to(state)
        record.tokens, record.cost, record.error = child.usage.total_tokens, child.cost, error
        with suppress(PureAgentLoopError):
            if child.text and self.tasks is not None:
                record.output = str(self.tasks.keep_output(record.id, child.text))
        record.result = cut_result(child, self.words)
        if child.unlink is not None:
            child.unlink()
        self.table.remember(child)
        if record.background:
            self.table.reports.get(record.parent, self.notify)(child)
        self._release(child)
        if self._watcher is not None and not any(child.lock for child in self.children.values()):
            self._watcher.cancel()
            self._watcher = None
        if self._is_over and not any(child.lock for child in self.children.values()):
            self.table.close(self.session_id, self.notify)
        await self._emit_task(child)

    def _release(self, child: Child) -> None:
        self._save(child)
        lock, child.lock = child.lock, None
        if lock is not None and self.tasks is not None:
            lock.release()
            self.tasks.forget_kill(child.record.id)

    def notify(self, child: Child) -> None:
        """Put the outcome of a task into the run's inbox."""
        text = f"{self._headline(child.record)}\n{report_of(child.record, self.words)}"
        self._put_notice(child, text, child.spent())

    def _headline(self, record: TaskRecord) -> str:
        return self.words("notice", id=record.id, state=record.state, agent=record.agent)

    def _put_notice(self, child: Child, text: str, spent: dict[str, Any] | None = None) -> None:
        """Put a notice about a task into the run's inbox."""
        self.children[child.record.id] = child
        child.notice = text
        if text not in self._kit.inbox:
            self._kit.inbox.put(text, synthetic=True, spent=spent)

    async def kill(self, child: Child) -> None:
        """Stop a background task, and wait until it has stopped."""
        child.token.cancel("killed")
        await self._stop([child])

    # -- tasks of earlier runs -----------------------------------------------------------------------

    def catch_up(self, store: TaskStore) -> None:
        """Deliver outstanding notices about earlier tasks of the session."""
        records = store.list(self.session_id)
        texts = [str(message.get("content")) for message in self._state.messages]
        states = task_states([*texts, *(message.text for message in self._state.held)])
        known_ids = {record.id for record in records}
        unknown = (name for name in unreported(self._state.messages, states) if name not in known_ids)
        self._report_lost(unknown)
        for record in reversed(records):
            is_open = not record.is_over and record.state != "waiting_permission"
            if (record.resumes and not record.background) or record.delivered or is_open:
                continue
            remembered = self.table.remembered.get(record.id)
            child = remembered or Child(record, self.table.definitions.get(record.agent, EXPLORE))
            if (record.id, record.state) in states:
                record.delivered = True
            elif record.error == "its process ended":
                lost = self.words("lost", agent=record.agent, id=record.id)
                self._put_notice(child, f"{self._headline(record)}\n{lost}")
            else:
                self.notify(child)
            with suppress(PureAgentLoopError):
                store.save(record)

    def _report_lost(self, task_ids: Iterable[str]) -> None:
        """Report tasks whose records are missing or on another machine."""
        for task_id in task_ids:
            name = task_id.rpartition("-")[0]
            definition = self.table.definitions.get(name)
            if definition is not None:
                record = TaskRecord(task_id, name, "", "killed", self.session_id, background=True)
                self._put_notice(Child(record, definition), f"{self._headline(record)}\n{self.words('gone')}")

    def _running(self) -> list[Child]:
        return [child for child in self.children.values() if child.job is not None and not child.job.done()]

    async def _stop(self, children: list[Child]) -> None:
        jobs = [child.job for child in children if child.job is not None]
        for child in children:
            child.token.cancel("cancelled")
        if jobs:
            _, unfinished = await asyncio.wait(jobs, timeout=STOP_SECONDS)
            for job in unfinished:
                job.cancel()

    def _save(self, child: Child) -> None:
        if self.tasks is not None:
            with suppress(PureAgentLoopError):  # a full disk must not stop the work
                self.tasks.save(child.record)

    def _clean(self, text: str) -> str:
        return text if self._kit.redactor is None else self._kit.redactor.redact(text)

    @property
    def session_id(self) -> str:
        """Session id of the run; empty without a session."""
        return self._state.session_id
