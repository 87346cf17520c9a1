"""Subagents for an agent: which there are, and the tools that give them tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.prompts import ToolWords
from pure_agent_loop.subagents.child import Child
from pure_agent_loop.subagents.definitions import EXPLORE, VERIFY, AgentDefinition, in_language
from pure_agent_loop.subagents.places import check_workspace
from pure_agent_loop.subagents.run_tasks import Desk
from pure_agent_loop.subagents.tasks import TaskNotFoundError, TaskRecord, TaskStore
from pure_agent_loop.subagents.words import SubagentWords, words_for
from pure_agent_loop.support.language import LANGUAGES, default_language
from pure_agent_loop.support.paths import data_folder
from pure_agent_loop.support.threads import Raised, run_in_thread
from pure_agent_loop.tool import Tool, ToolOutcome
from pure_agent_loop.tool_context import current_call
from pure_agent_loop.toolbox import workspace_tools

if TYPE_CHECKING:
    from pure_agent_loop.sessions.store import SessionStore

ToolsFor = Callable[[str], Iterable[Tool]]
MOST_REMEMBERED = 64  # tasks of runs without a session
_TASK_ID = {
    "type": "object",
    "properties": {"task_id": {"type": "string"}},
    "required": ["task_id"],
    "additionalProperties": False,
}
_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


class SubagentManager:
    """Lets an agent give tasks to others: ``Agent(subagents=SubagentManager())``.

    Args:
        definitions: The subagents there are.
        workspace: The folder of the agent; needed for subagents that work in a copy or a checkout of it.
        store: Where records of tasks are kept; beside the sessions of the agent if None. Tasks of a run
            without a session are kept in memory only.
        max_concurrent: How many of a run's tasks are worked on at once; the others wait.
        max_depth: How many levels of subagents there may be.
        wait: A run waits for its background tasks before it ends. If not, they go on while their event loop
            does, and the next run of the session is told.
        timeout: Seconds a task in the foreground may take; None for no limit of its own.
        tools_for: Makes the tools for a folder, for subagents that work in one of their own.
        language: ``en`` or ``zh`` for the words and the ready-made subagents; None for that of the agent.

    Raises:
        ConfigError: A value cannot be used.
    """

    def __init__(
        self,
        definitions: Iterable[AgentDefinition] = (EXPLORE, VERIFY),
        *,
        workspace: str | os.PathLike[str] | None = None,
        store: TaskStore | None = None,
        max_concurrent: int = 4,
        max_depth: int = 1,
        wait: bool = True,
        timeout: float | None = None,
        tools_for: ToolsFor = workspace_tools,
        language: str | None = None,
    ) -> None:
        numbers: dict[str, object] = {"max_concurrent": max_concurrent, "max_depth": max_depth}
        for name, number in numbers.items():
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise ConfigError(f"{name}={number!r} must be a whole number, 1 or more.")
        self.workspace = check_workspace(workspace)
        self.definitions = _by_name(definitions, self.workspace)
        self.max_concurrent, self.max_depth, self.wait = max_concurrent, max_depth, wait
        self.tools_for = tools_for
        self.language = language
        self.memory_ids = TaskStore()
        self._store = store
        self._desks: dict[str, Desk] = {}  # the newest of each session
        self._remembered: dict[str, Child] = {}
        self._tools = self._made_tools(float("inf") if timeout is None else timeout)

    @property
    def words(self) -> SubagentWords:
        """What is said to models: in its language, else in that of the run."""
        return words_for(self.language)

    def tools(self) -> list[Tool]:
        """The tools that give tasks: ``task``, ``task_output``, ``task_list`` and ``task_kill``."""
        return list(self._tools)

    def for_sessions(self, sessions: SessionStore | None) -> Root:
        """What `Agent` puts into its runs.

        Args:
            sessions: Where the agent keeps its sessions; None for the data folder.
        """
        return self.at_depth(0, sessions)

    def at_depth(self, depth: int, sessions: SessionStore | None) -> Root:
        """The same for the runs of a subagent."""
        return Root(self, depth, sessions)

    def worktrees(self) -> Path:
        """Where checkouts are made."""
        return data_folder() / "worktrees"

    # -- what desks ask ------------------------------------------------------------------------------

    def open_desk(self, state: QueryState, kit: Kit, sessions: SessionStore | None, depth: int) -> Desk:
        """A place for the tasks of a run that begins; it is told what it does not know of earlier ones."""
        session = state.session_id
        tasks = self._tasks(sessions) if session else None
        desk = Desk(self, state, kit, sessions, tasks, depth)
        if session:
            self._desks[session] = desk
            self._tell_old(desk, session)
        return desk

    def desk_of(self, child: Child, desk: Desk) -> Desk:
        """Where it is said what came of a task: in the newest run of its session."""
        return self._desks.get(child.record.parent, desk) if child.record.parent else desk

    def leave(self, desk: Desk, *, is_busy: bool) -> None:
        """The run of a desk is over: forget it, unless its tasks go on."""
        if not is_busy and self._desks.get(desk.session_id) is desk:
            del self._desks[desk.session_id]

    def settled(self, child: Child) -> None:
        """Remember a task, so that it can be taken up again."""
        self._remembered.pop(child.record.id, None)
        self._remembered[child.record.id] = child
        while len(self._remembered) > MOST_REMEMBERED:
            self._remembered.pop(next(iter(self._remembered)))

    def _tasks(self, sessions: SessionStore | None) -> TaskStore:
        folder = getattr(sessions, "folder", None)
        return self._store or TaskStore(None if folder is None else Path(folder) / "agents")

    def _tell_old(self, desk: Desk, session: str) -> None:
        assert desk.tasks is not None
        known_here = desk.tasks.list(session)
        told = desk.told()
        known_ids = {record.id for record in known_here}
        self._tell_gone(desk, session, [name for name in desk.left_open(told) if name not in known_ids])
        for record in reversed(known_here):
            if record.delivered or not (record.is_over or record.state == "waiting_permission"):
                continue
            known = self._remembered.get(record.id)
            child = known or Child(record, self.definitions.get(record.agent, EXPLORE))
            if (record.id, record.state) in told:
                record.delivered = True
            elif record.error == "its process ended":
                head = self.words.notice.format(id=record.id, state=record.state, agent=record.agent)
                lost = self.words.lost.format(agent=record.agent, id=record.id)
                desk.put(child, f"{head}\n{lost}")
            elif known is not None:
                desk.notify(known)
            else:
                desk.notify(child)
            with suppress(PureAgentLoopError):
                desk.tasks.save(record)

    def _tell_gone(self, desk: Desk, session: str, gone: Iterable[str]) -> None:
        """Tell about tasks that were begun where their records are, and that is not here."""
        for task_id in gone:
            name = task_id.rpartition("-")[0]
            if name not in self.definitions:
                continue
            record = TaskRecord(task_id, name, "", state="killed", parent=session, background=True)
            head = self.words.notice.format(id=task_id, state=record.state, agent=name)
            desk.put(Child(record, self.definitions[name]), f"{head}\n{self.words.gone}")

    def find(self, desk: Desk, task_id: str) -> Child | None:
        """A task of this run, of its session, or of a run without one."""
        child = desk.children.get(task_id) or self._remembered.get(task_id)
        if child is not None and child.record.parent == desk.session_id:
            return child
        if desk.tasks is None:
            return None
        try:
            record = desk.tasks.get(task_id)
        except TaskNotFoundError:
            return None
        definition = self.definitions.get(record.agent)
        ours = record.parent == desk.session_id and definition is not None
        return Child(record, definition) if ours and definition is not None else None

    def _records(self, desk: Desk) -> list[TaskRecord]:
        kept = desk.tasks.list(desk.session_id) if desk.tasks is not None else []
        found = {record.id: record for record in kept}
        found |= {child.record.id: child.record for child in desk.children.values()}
        return sorted(found.values(), key=lambda record: record.created)

    # -- the tools -----------------------------------------------------------------------------------

    def _made_tools(self, timeout: float) -> Sequence[Tool]:
        parameters = {
            "type": "object",
            "properties": {
                "agent": {"type": "string", "enum": list(self.definitions)},
                "prompt": {"type": "string"},
                "background": {"type": "boolean"},
                "resume": {"type": "string"},
            },
            "required": ["agent", "prompt"],
            "additionalProperties": False,
        }
        # They change nothing themselves: what a subagent does is judged by the rules and the mode above it.
        return (
            Tool(
                self._task,
                name="task",
                **self._described("task"),
                parameters=parameters,
                timeout=timeout,
                read_only=True,
            ),
            Tool(
                self._task_output,
                name="task_output",
                **self._described("task_output"),
                parameters=_TASK_ID,
                read_only=True,
                polls=True,
            ),
            Tool(
                self._task_list,
                name="task_list",
                **self._described("task_list"),
                parameters=_NOTHING,
                read_only=True,
                polls=True,
            ),
            Tool(
                self._task_kill,
                name="task_kill",
                **self._described("task_kill"),
                parameters=_TASK_ID,
                read_only=True,
            ),
        )

    def _described(self, name: str) -> dict[str, Any]:
        """What a tool is told to do, in each language it may be asked in."""
        languages = {each: self.language or each for each in LANGUAGES}
        words = {each: ToolWords(self._description(name, of)) for each, of in languages.items()}
        return {"description": words[default_language()].description, "words": words}

    def _description(self, name: str, language: str) -> str:
        words = words_for(language)
        text: str = getattr(words, name)
        if name != "task":
            return text
        agents = "\n".join(
            words.agent_line.format(name=each.name, description=in_language(each.description, language))
            for each in self.definitions.values()
        )
        return f"{text.format(agents=agents)}\n{words.background_line}"

    async def _task(self, agent: Any, prompt: Any, background: Any = None, resume: Any = "") -> ToolOutcome:
        desk, words = _desk(), self.words
        if desk is None:
            return _error(words.not_here)
        definition = self.definitions.get(str(agent))
        if definition is None:
            return _error(words.no_agent.format(name=agent, names=", ".join(self.definitions)))
        if not str(prompt).strip():
            return _error(words.empty_prompt)
        refusal = desk.refusal()
        if refusal:
            return _error(refusal)
        behind = definition.background if background is None else str(background).lower() == "true"
        call = current_call()
        step = call.step if call is not None else 0
        if not resume:
            made = desk.make(definition.name, str(prompt), background=behind, step=step)
            return await self._given(desk, made)
        old = self.find(desk, str(resume))
        problem = self._cannot_resume(old, str(resume), definition.name)
        if old is None or problem:
            return _error(problem)
        return await self._given(desk, desk.again(old, str(prompt), background=behind, step=step))

    def _cannot_resume(self, old: Child | None, task_id: str, agent: str) -> str:
        if old is None:
            return self.words.no_task.format(id=task_id)
        if old.record.agent != agent:
            return self.words.another_agent.format(id=task_id, agent=old.record.agent)
        if not old.record.is_over and old.record.state != "waiting_permission":
            return self.words.still_at_work.format(id=task_id)
        return ""

    async def _given(self, desk: Desk, child: Child) -> ToolOutcome:
        await desk.begin(child)
        record = child.record
        if record.background:
            text = self.words.queued if record.state == "pending" else self.words.started
            return ToolOutcome(text.format(id=record.id, state="backgrounded", agent=record.agent))
        head = self.words.headline.format(id=record.id, state=record.state)
        return ToolOutcome(
            f"{head}\n{desk.report(record)}", is_error=record.state != "completed", spent=child.spent()
        )

    async def _task_output(self, task_id: Any) -> ToolOutcome:
        desk = _desk()
        child = None if desk is None else self.find(desk, str(task_id))
        if desk is None or child is None:
            return _error(self.words.no_task.format(id=task_id))
        record = child.record
        head = self.words.headline.format(id=record.id, state=record.state)
        if record.is_over or record.state == "waiting_permission":
            whole = child.text or ("" if desk.tasks is None else desk.tasks.output(record.id))
            cut = desk.report(record)
            return ToolOutcome(f"{head}\n{cut.replace(record.result, whole) if record.result else cut}")
        tool = f", {record.last_tool}" if record.last_tool else ""
        return ToolOutcome(f"{head}\n{self.words.at_work.format(calls=record.calls, tool=tool)}")

    async def _task_list(self) -> ToolOutcome:
        desk = _desk()
        records = [] if desk is None else self._records(desk)
        lines = [f"{each.id} {each.state}: {each.prompt[:80]}" for each in records]
        return ToolOutcome("\n".join(lines) or self.words.no_tasks)

    async def _task_kill(self, task_id: Any) -> ToolOutcome:
        desk = _desk()
        child = None if desk is None else self.find(desk, str(task_id))
        if desk is None or child is None:
            return _error(self.words.no_task.format(id=task_id))
        record = child.record
        if not record.is_over:
            record = await self._killed(desk, child)
        return ToolOutcome(self.words.is_over.format(id=record.id, state=record.state))

    async def _killed(self, desk: Desk, child: Child) -> TaskRecord:
        if child.job is not None and not child.job.done():
            await desk.kill(child)
        elif child.record.state == "waiting_permission":
            child.record.to("killed")
            if desk.tasks is not None:
                desk.tasks.save(child.record)
        elif desk.tasks is not None:
            tasks, task_id = desk.tasks, child.record.id
            found = await run_in_thread(lambda: tasks.kill(task_id))
            if isinstance(found, Raised):
                raise found.error
            return tasks.get(task_id)
        else:
            child.token.cancel("killed")
        return child.record


class Root:
    """What stands in a kit until its run begins.

    Args:
        manager: What subagents there are.
        depth: How many agents stand above the run.
        sessions: Where sessions are kept.
    """

    def __init__(self, manager: SubagentManager, depth: int, sessions: SessionStore | None) -> None:
        self._manager, self._depth, self._sessions = manager, depth, sessions

    def with_run(self, state: QueryState, kit: Kit) -> Desk:
        """The tasks of a run that begins."""
        return self._manager.open_desk(state, kit, self._sessions, self._depth)

    async def wait(self) -> None:
        """There is nothing to wait for."""


def _by_name(definitions: Iterable[AgentDefinition], workspace: Path | None) -> dict[str, AgentDefinition]:
    found: dict[str, AgentDefinition] = {}
    for each in definitions:
        if not isinstance(each, AgentDefinition):
            raise ConfigError(f"definitions must be a list of AgentDefinition; one is {each!r:.80}.")
        if each.name in found:
            raise ConfigError(f"Two subagents have the name {each.name!r}. Rename one.")
        if each.needs_folder and workspace is None:
            raise ConfigError(
                f"The subagent {each.name!r} works in a folder of its own (workspace={each.workspace!r}), "
                "made from the agent's: SubagentManager(workspace=...) is missing."
            )
        found[each.name] = each
    if not found:
        raise ConfigError("definitions is empty: SubagentManager needs at least one AgentDefinition.")
    return found


def _desk() -> Desk | None:
    call = current_call()
    return call.background if call is not None and isinstance(call.background, Desk) else None


def _error(text: str) -> ToolOutcome:
    return ToolOutcome(text, is_error=True)
