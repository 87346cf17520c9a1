"""The tasks of one run: begins them, watches them, and brings what came of them back to the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.events import Event, TaskState
from pure_agent_loop.kernel.equip import background_of
from pure_agent_loop.kernel.kit import Background, Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.permissions import PermissionRequest
from pure_agent_loop.runs.handoff import run_loops
from pure_agent_loop.runs.settings import kit_of
from pure_agent_loop.runs.start import RunInput, start_state
from pure_agent_loop.sessions import default_store
from pure_agent_loop.sessions.resume import begin_in_session
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.subagents.account import used_up
from pure_agent_loop.subagents.child import (
    Child,
    ask_person,
    child_for_call,
    cut_result,
    has_begun,
    inherit_answers,
    kit_for,
    outcome_of,
    report_of,
)
from pure_agent_loop.subagents.definitions import EXPLORE, AgentDefinition, in_language
from pure_agent_loop.subagents.places import Place, place_for
from pure_agent_loop.subagents.rights import RightsError, registry_of, tools_of
from pure_agent_loop.subagents.table import GoesDown, TaskTable
from pure_agent_loop.subagents.tasks import TaskRecord, TaskStore, task_states, unreported
from pure_agent_loop.support.abilities import able
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import ToolRegistry
from pure_agent_loop.tool_context import ToolContext

if TYPE_CHECKING:
    from pure_agent_loop.sessions.store import SessionStore

LOOK_SECONDS = 0.1  # how often it is looked for messages of other threads, and wishes of other processes
PATIENCE = 5.0  # for a subagent to end after it was told to


class RunTasks:
    """The tasks of one run.

    Args:
        table: What it shares with the other runs of its `SubagentManager`.
        state: The run's state.
        kit: What it works with.
        sessions: Where its session is kept.
        tasks: Where records are kept; None for a run without a session.
        depth: How many agents stand above this one.
        below: What stands in the kits of its subagents, so many levels down.
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
        """The run would end now: return when something has come in, or nothing more will."""
        while self.table.wait and self._running() and self._kit.inbox.is_empty:
            jobs = [child.job for child in self._running() if child.job is not None]
            await asyncio.wait(jobs, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            deadline = self._state.deadline
            if deadline is not None and self._kit.clock.monotonic() >= deadline:
                await self._stop(self._running())

    async def end(self, state: QueryState) -> None:
        """The run has ended. Its subagents end with it, unless it was made not to wait for them."""
        if self.table.wait:
            if state.stop_reason in WAITING:  # it goes on later: what they find is kept for then
                while jobs := [child.job for child in self._running() if child.job is not None]:
                    await asyncio.wait(jobs)
            await self._stop(self._running())
        self._is_over = True
        for child in self.children.values():
            taken = bool(child.notice) and child.notice not in self._kit.inbox
            if taken or (child.record.is_over and not child.record.background):
                child.record.delivered = True
                self._save(child)
        if not self._running():
            self.table.close(self.session_id, self.notify)

    # -- beginning -----------------------------------------------------------------------------------

    def refusal(self) -> str:
        """Why no task can be given now; empty if one can."""
        if self._depth >= self.table.max_depth:
            return self.words.too_deep
        reached = self.used_up()
        return self.words.nothing_left.format(what=reached) if reached else ""

    def make(self, name: str, prompt: str, **given: Any) -> Child:
        """A new task, with further fields of its record."""
        definition, parent = self.table.definitions[name], self._state.session_id
        task_id = (self.tasks or TaskStore()).new_id(name)
        record = TaskRecord(task_id, name, self._clean(prompt), parent=parent, **given)
        if self.tasks is not None:
            record.session_id = f"{parent[: 63 - len(task_id)]}.{task_id}"
        return Child(record, definition)

    def for_call(self, agent: AgentDefinition, prompt: str, call: ToolContext) -> Child:
        """The task that is the work of a call; see `child_for_call`."""
        return child_for_call(agent, self._clean(prompt), call, self._state, self._kit, self.tasks)

    def again(self, child: Child, prompt: str, **given: Any) -> Child:
        """A task that goes on with something more to do; see `make`."""
        record = replace(child.record, prompt=self._clean(prompt), **given)
        record.to("pending")
        record.result = record.error = record.stop_reason = ""
        record.delivered = False
        history = None if child.state is None else child.state.history()
        return Child(record, child.definition, history=history)

    async def begin(self, child: Child) -> None:
        """Work on a task: in the foreground until it is done, in the background beside the run."""
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
            await asyncio.sleep(0)  # it has a slot now, or waits for one
        else:
            await self._until_done(child, child.job)

    async def _until_done(self, child: Child, job: asyncio.Task[None]) -> None:
        """Wait for a task of the foreground, or until it goes to the background."""
        moved = asyncio.create_task(child.moved.wait())
        try:
            await asyncio.wait({job, moved}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            moved.cancel()
            if not (job.done() or child.record.background):  # the call was given up, and this with it
                job.cancel()
                await asyncio.wait({job})
        if child.moved.is_set():
            await self._tell(child)

    def move(self, task_id: str) -> TaskRecord | None:
        """Let a task of the foreground go on in the background; None if there is none of that id or call."""
        if (child := self.waited_for(task_id)) is not None:
            child.record.background = True
            if child.record.state == "running":
                child.record.to("backgrounded")
            child.moved.set()
        return None if child is None else child.record

    def waited_for(self, task_id: str) -> Child | None:
        """The task of that id or call, if it is at work in the foreground."""
        found = (child for child in list(self.children.values()) if child.is_waited_for)
        return next((each for each in found if task_id in (each.record.id, each.record.call_id)), None)

    def states(self) -> dict[str, str]:
        """The state of each task, by its id."""
        return {each: child.record.state for each, child in self.children.items()}

    async def _work(self, child: Child) -> None:
        """From the first moment to the last, whatever happens in between."""
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
            outcome = "failed", self.words.no_tool.format(agent=child.record.agent, tools=names)
        except Exception as error:  # noqa: BLE001 - whatever it is, the agent above has to know
            outcome = "failed", f"{type(error).__name__}: {safe_str(error)}"
        finally:
            await self._settle(child, *outcome)

    async def _run(self, child: Child) -> tuple[TaskState, str]:
        table, mode = self.table, child.definition.workspace
        place = await place_for(mode, table.workspace, table.worktrees() / child.record.id, self.words)
        try:
            state, kit = self._begin_run(child, place)
            child.record.to("backgrounded" if child.record.background else "running")
            await self._tell(child)
            try:
                await run_loops(state, kit, child.definition.agent, lambda state, _: child.go_on(state))
            finally:
                kit.journal.close()
            state = child.state or state  # it may have been handed over
            child.text, child.record.stop_reason = self._clean(state.content), str(state.stop_reason)
            found, why = outcome_of(child, state, self.words)
            if place is not None and state.stop_reason != "cancelled":
                child.text = f"{child.text}\n\n{self._clean(await place.report())}"
            return found, self._clean(why)
        finally:
            child.record.place = "" if place is None else place.close()

    def _begin_run(self, child: Child, place: Place | None) -> tuple[QueryState, Kit]:
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
            on_ask=self._asks(child),
            used_up=self.used_up,
            background=self._beside(definition, deeper=deeper),
        )
        system = in_language(definition.prompt, table.language)
        if place is not None:
            kit = replace(kit, cwd=str(place.root))
            system += f"\n\n{self.words.in_copy if definition.workspace == 'scratch' else self.words.in_tree}"
        prompt, session = child.record.prompt, child.record.session_id
        if session:
            store = child.sessions or self._sessions or default_store()
            task = None if agent is not None and has_begun(store, session) else prompt
            state, kit = begin_in_session(kit, RunInput(task, None, system, first=agent), store, session)
        else:
            state, _ = start_state(prompt, child.history, system, kit.prompts)
        inherit_answers(state, self._state)
        child.state = state
        return state, kit

    def _beside(self, definition: AgentDefinition, *, deeper: bool) -> Background | None:
        """What gives tasks to further ones: that of an agent of its own making, or this one."""
        if definition.agent is None:
            return self._below(self._depth + 1) if deeper else None
        own = able(background_of(definition.agent._kit), GoesDown)
        return None if own is None else own.below(self._depth + 1)

    # -- while it works ------------------------------------------------------------------------------

    async def _on_event(self, child: Child, event: Event) -> None:
        if (told := child.note(event)) is not None:
            await self._tell(child, told)

    async def _tell(self, child: Child, part: dict[str, Any] | None = None) -> None:
        if not part:
            self._save(child)
        if not self._is_over:
            with suppress(Exception):  # a reader that fails ends the run above, not the subagent
                await self._kit.emit(Event.task(child.record.step, child.record.to_dict(), part))

    def _asks(self, child: Child) -> Callable[[PermissionRequest], Any] | None:
        ask = self._kit.on_ask
        if ask is None:
            return None

        async def question(request: PermissionRequest) -> Any:
            asked = child.asks(request, self.words)
            async with self._asking:  # one question at a time
                child.record.to("waiting_permission")
                await self._tell(child)
                try:
                    return await ask_person(ask, asked)
                finally:
                    child.record.to("backgrounded" if child.record.background else "running")
                    self._save(child)

        return question

    def used_up(self) -> str:
        """Which limit of this run is reached by it and all its subagents; empty for none."""
        return used_up(self._state, self._kit, self.children.values())

    async def _watch(self) -> None:
        """Other processes can only leave a file to say that they want a task stopped."""
        while self.tasks is not None:
            for child in list(self.children.values()):
                if child.lock is not None and self.tasks.is_to_be_killed(child.record.id):
                    child.token.cancel("killed")
            await asyncio.sleep(LOOK_SECONDS)

    # -- the end of a task ---------------------------------------------------------------------------

    async def _settle(self, child: Child, state: TaskState, error: str) -> None:
        """Nothing is awaited before the record is whole: this also runs when the program ends."""
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
        if self._watcher is not None and not any(each.lock for each in self.children.values()):
            self._watcher.cancel()
            self._watcher = None
        if self._is_over and not any(each.lock for each in self.children.values()):
            self.table.close(self.session_id, self.notify)
        await self._tell(child)

    def _release(self, child: Child) -> None:
        self._save(child)
        lock, child.lock = child.lock, None
        if lock is not None and self.tasks is not None:
            lock.release()
            self.tasks.forget_kill(child.record.id)

    def notify(self, child: Child) -> None:
        """Put what came of a task into the inbox of the run."""
        text = f"{self._headline(child.record)}\n{report_of(child.record, self.words)}"
        self._put(child, text, child.spent())

    def _headline(self, record: TaskRecord) -> str:
        return self.words.notice.format(id=record.id, state=record.state, agent=record.agent)

    def _put(self, child: Child, text: str, spent: dict[str, Any] | None = None) -> None:
        """Tell the run about a task."""
        self.children[child.record.id] = child
        child.notice = text
        if text not in self._kit.inbox:
            self._kit.inbox.put(text, synthetic=True, spent=spent)

    async def kill(self, child: Child) -> None:
        """Stop a task of the background, and wait until it has stopped."""
        child.token.cancel("killed")
        await self._stop([child])

    # -- tasks of earlier runs -----------------------------------------------------------------------

    def catch_up(self, store: TaskStore) -> None:
        """Tell the run what it does not know of earlier tasks of its session."""
        records = store.list(self.session_id)
        texts = [str(each.get("content")) for each in self._state.messages]
        states = task_states([*texts, *(each.text for each in self._state.held)])
        known_ids = {record.id for record in records}
        self._report_lost(each for each in unreported(self._state.messages, states) if each not in known_ids)
        for record in reversed(records):
            open_yet = not record.is_over and record.state != "waiting_permission"
            if (record.resumes and not record.background) or record.delivered or open_yet:
                continue
            known = self.table.remembered.get(record.id)
            child = known or Child(record, self.table.definitions.get(record.agent, EXPLORE))
            if (record.id, record.state) in states:
                record.delivered = True
            elif record.error == "its process ended":
                lost = self.words.lost.format(agent=record.agent, id=record.id)
                self._put(child, f"{self._headline(record)}\n{lost}")
            else:
                self.notify(child)
            with suppress(PureAgentLoopError):
                store.save(record)

    def _report_lost(self, task_ids: Iterable[str]) -> None:
        """Tell about tasks that were begun where their records are, and that is not here."""
        for task_id in task_ids:
            name = task_id.rpartition("-")[0]
            definition = self.table.definitions.get(name)
            if definition is not None:
                record = TaskRecord(task_id, name, "", "killed", self.session_id, background=True)
                self._put(Child(record, definition), f"{self._headline(record)}\n{self.words.gone}")

    def _running(self) -> list[Child]:
        return [child for child in self.children.values() if child.job is not None and not child.job.done()]

    async def _stop(self, children: list[Child]) -> None:
        jobs = [child.job for child in children if child.job is not None]
        for child in children:
            child.token.cancel("cancelled")
        if jobs:
            _, stubborn = await asyncio.wait(jobs, timeout=PATIENCE)
            for job in stubborn:
                job.cancel()

    def _save(self, child: Child) -> None:
        if self.tasks is not None:
            with suppress(PureAgentLoopError):  # a full disk must not stop the work
                self.tasks.save(child.record)

    def _clean(self, text: str) -> str:
        return text if self._kit.redactor is None else self._kit.redactor.redact(text)

    @property
    def session_id(self) -> str:
        """The session of the run; empty for none."""
        return self._state.session_id
