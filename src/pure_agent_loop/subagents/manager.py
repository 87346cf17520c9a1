"""Subagents of an agent, and the tools that start their tasks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.prompts import ToolWords
from pure_agent_loop.subagents.agent_tool import UnboundTasks
from pure_agent_loop.subagents.child import Child, report_of
from pure_agent_loop.subagents.definitions import EXPLORE, VERIFY, AgentDefinition, in_language
from pure_agent_loop.subagents.places import check_workspace
from pure_agent_loop.subagents.run_tasks import RunTasks, TaskTable
from pure_agent_loop.subagents.tasks import TaskNotFoundError, TaskRecord, TaskStore
from pure_agent_loop.subagents.words import Words, words_for
from pure_agent_loop.support.abilities import checked_function
from pure_agent_loop.support.language import LANGUAGES, default_language
from pure_agent_loop.support.threads import in_thread
from pure_agent_loop.tool import Tool, ToolOutcome
from pure_agent_loop.tool_context import current_call
from pure_agent_loop.toolbox import workspace_tools

if TYPE_CHECKING:
    from pure_agent_loop.sessions.store import SessionStore

ToolsFor = Callable[[str], Iterable[Tool]]
_TASK_ID = {
    "type": "object",
    "properties": {"task_id": {"type": "string"}},
    "required": ["task_id"],
    "additionalProperties": False,
}
_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


class SubagentManager:
    """Subagents for an agent: ``Agent(subagents=SubagentManager())``.

    Args:
        definitions: The available subagents.
        workspace: Folder of the agent; required by subagents that work in a copy or a worktree.
        store: Store of task records; None for a folder next to the agent's sessions. Tasks of a run without a
            session are kept only in memory.
        max_concurrent: Maximum tasks of a run that run at the same time; other tasks are queued.
        max_depth: Maximum depth of nested subagents.
        wait: True to wait for background tasks before a run ends. If False, background tasks continue while
            their event loop runs, and the next run of the session receives the outcomes.
        timeout: Maximum seconds for a foreground task; None for no limit.
        tools_for: Function that creates the tools for a folder, for subagents with a separate folder.
        language: ``en`` or ``zh`` for texts and built-in subagents; None for the agent's language.

    Raises:
        ConfigError: A value is invalid.
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
                raise ConfigError(f"{name}={number!r} must be an integer of 1 or more.")
        checked_function("tools_for", tools_for, "folder")
        folder = check_workspace(workspace)
        self._table = TaskTable(
            _by_name(definitions, folder),
            folder,
            store,
            max_concurrent,
            max_depth,
            wait,
            tools_for,
            language,
        )
        self._table.tools = self._create_tools(float("inf") if timeout is None else timeout)

    @property
    def _words(self) -> Words:
        return self._table.words

    def tools(self) -> list[Tool]:
        """Return the tools ``task``, ``task_output``, ``task_list`` and ``task_kill``."""
        return list(self._table.tools)

    @property
    def definitions(self) -> list[AgentDefinition]:
        """The available subagents."""
        return list(self._table.definitions.values())

    def lent_tools(self) -> list[Tool]:
        """Return the tools that only subagents have; the parent's rules also apply to these tools."""
        definitions = self._table.definitions.values()
        return [tool for agent in definitions for tool in agent.tools if isinstance(tool, Tool)]

    def for_sessions(self, sessions: SessionStore | None) -> UnboundTasks:
        """Return the background work that `Agent` adds to its runs.

        Args:
            sessions: Session store of the agent; None for the data folder.
        """
        return UnboundTasks(self._table, 0, sessions)

    def background(self, task_id: str) -> TaskRecord:
        """Move a foreground task to the background: the run continues, and a message reports the outcome.

        Thread-safe. The parent run must be in progress.

        Args:
            task_id: Id of the task or of its call; TASK events have both.

        Raises:
            TaskNotFoundError: No run of this manager is waiting for this task.
        """
        for run in list(self._table.runs):
            if run.foreground_task(task_id) is None or not run.loop.is_running():
                continue
            record = run.move(task_id) if _is_running(run.loop) else _move_in_loop(run, task_id)
            if record is not None:
                return record
        raise TaskNotFoundError(f"Task {task_id!r:.80} is not a running foreground task; it cannot be moved.")

    def _find(self, run: RunTasks, task_id: str) -> Child | None:
        """Return a task of this run or its session, or a task kept in memory; None if there is none."""
        child = run.children.get(task_id) or self._table.remembered.get(task_id)
        if child is not None and child.record.parent == run.session_id:
            return child
        if run.tasks is None:
            return None
        try:
            record = run.tasks.get(task_id)
        except TaskNotFoundError:
            return None
        definition = self._table.definitions.get(record.agent)
        is_own = record.parent == run.session_id and definition is not None
        return Child(record, definition) if is_own and definition is not None else None

    def _records(self, run: RunTasks) -> list[TaskRecord]:
        stored = run.tasks.list(run.session_id) if run.tasks is not None else []
        records = {record.id: record for record in stored}
        records |= {child.record.id: child.record for child in run.children.values()}
        return sorted(records.values(), key=lambda record: record.created)

    # -- the tools -----------------------------------------------------------------------------------

    def _create_tools(self, timeout: float) -> Sequence[Tool]:
        parameters = {
            "type": "object",
            "properties": {
                "agent": {"type": "string", "enum": list(self._table.definitions)},
                "prompt": {"type": "string"},
                "background": {"type": "boolean"},
                "resume": {"type": "string"},
            },
            "required": ["agent", "prompt"],
            "additionalProperties": False,
        }
        # Declared read-only, because the parent's policy decides each call that the subagent makes.
        return (
            Tool(
                self._task,
                name="task",
                **self._describe("task"),
                parameters=parameters,
                timeout=timeout,
                read_only=True,
            ),
            Tool(
                self._task_output,
                name="task_output",
                **self._describe("task_output"),
                parameters=_TASK_ID,
                read_only=True,
                polls=True,
            ),
            Tool(
                self._task_list,
                name="task_list",
                **self._describe("task_list"),
                parameters=_NOTHING,
                read_only=True,
                polls=True,
            ),
            Tool(
                self._task_kill,
                name="task_kill",
                **self._describe("task_kill"),
                parameters=_TASK_ID,
                read_only=True,
            ),
        )

    def _describe(self, name: str) -> dict[str, Any]:
        """Return the description of a tool, by language."""
        languages = {key: self._table.language or key for key in LANGUAGES}
        words = {key: ToolWords(self._description(name, language)) for key, language in languages.items()}
        return {"description": words[default_language()].description, "words": words}

    def _description(self, name: str, language: str) -> str:
        words = words_for(language)
        if name != "task":
            return words(name)
        agents = "\n".join(
            words("agent_line", name=agent.name, description=in_language(agent.description, language))
            for agent in self._table.definitions.values()
        )
        return f"{words(name, agents=agents)}\n{words('background_line')}"

    async def _task(self, agent: Any, prompt: Any, background: Any = None, resume: Any = "") -> ToolOutcome:
        run, words = _current_run(), self._words
        if run is None:
            return _error(words("not_here"))
        definition = self._table.definitions.get(str(agent))
        if definition is None:
            return _error(words("no_agent", name=agent, names=", ".join(self._table.definitions)))
        if not str(prompt).strip():
            return _error(words("empty_prompt"))
        refusal = run.refusal()
        if refusal:
            return _error(refusal)
        is_background = definition.background if background is None else str(background).lower() == "true"
        call = current_call()
        assert call is not None  # `run` was found, so this is a tool call
        details = {"background": is_background, "step": call.step, "call_id": call.call_id}
        if not resume:
            child = run.create(definition.name, str(prompt), **details)
            return await self._begin(run, child)
        old = self._find(run, str(resume))
        problem = self._resume_problem(old, str(resume), definition.name)
        if old is None or problem:
            return _error(problem)
        return await self._begin(run, run.resume(old, str(prompt), **details))

    def _resume_problem(self, old: Child | None, task_id: str, agent: str) -> str:
        if old is None:
            return self._words("no_task", id=task_id)
        if old.record.agent != agent:
            return self._words("another_agent", id=task_id, agent=old.record.agent)
        if not old.record.is_over and old.record.state != "waiting_permission":
            return self._words("still_at_work", id=task_id)
        return ""

    async def _begin(self, run: RunTasks, child: Child) -> ToolOutcome:
        await run.begin(child)
        record = child.record
        if record.background:
            name = "queued" if record.state == "pending" else "started"
            name = "moved" if child.moved.is_set() else name
            text = self._words(name, id=record.id, state="backgrounded", agent=record.agent)
            return ToolOutcome(text, is_background=True)
        head = self._words("headline", id=record.id, state=record.state)
        return ToolOutcome(
            f"{head}\n{report_of(record, self._words)}",
            is_error=record.state != "completed",
            spent=child.spent(),
        )

    async def _task_output(self, task_id: Any) -> ToolOutcome:
        run = _current_run()
        child = None if run is None else self._find(run, str(task_id))
        if run is None or child is None:
            return _error(self._words("no_task", id=task_id))
        record = child.record
        head = self._words("headline", id=record.id, state=record.state)
        if record.is_over or record.state == "waiting_permission":
            whole = child.text or ("" if run.tasks is None else run.tasks.output(record.id))
            cut = report_of(record, self._words)
            return ToolOutcome(f"{head}\n{cut.replace(record.result, whole) if record.result else cut}")
        tool = f", {record.last_tool}" if record.last_tool else ""
        return ToolOutcome(f"{head}\n{self._words('at_work', calls=record.calls, tool=tool)}")

    async def _task_list(self) -> ToolOutcome:
        run = _current_run()
        records = [] if run is None else self._records(run)
        lines = [f"{record.id} {record.state}: {record.prompt[:80]}" for record in records]
        return ToolOutcome("\n".join(lines) or self._words("no_tasks"))

    async def _task_kill(self, task_id: Any) -> ToolOutcome:
        run = _current_run()
        child = None if run is None else self._find(run, str(task_id))
        if run is None or child is None:
            return _error(self._words("no_task", id=task_id))
        record = child.record
        if not record.is_over:
            record = await self._kill(run, child)
        return ToolOutcome(self._words("is_over", id=record.id, state=record.state))

    async def _kill(self, run: RunTasks, child: Child) -> TaskRecord:
        if child.job is not None and not child.job.done():
            await run.kill(child)
        elif child.record.state == "waiting_permission":
            child.record.to("killed")
            if run.tasks is not None:
                run.tasks.save(child.record)
        elif run.tasks is not None:
            tasks, task_id = run.tasks, child.record.id
            await in_thread(lambda: tasks.kill(task_id))
            return tasks.get(task_id)
        else:
            child.token.cancel("killed")
        return child.record


def _by_name(definitions: Iterable[AgentDefinition], workspace: Path | None) -> dict[str, AgentDefinition]:
    by_name: dict[str, AgentDefinition] = {}
    for agent in definitions:
        if not isinstance(agent, AgentDefinition):
            raise ConfigError(f"definitions must be a list of AgentDefinition; got {agent!r:.80}.")
        if agent.name in by_name:
            raise ConfigError(f"definitions has two subagents named {agent.name!r}. Rename one.")
        if agent.needs_folder and workspace is None:
            raise ConfigError(
                f"The subagent {agent.name!r} (workspace={agent.workspace!r}) needs the agent's folder: "
                "set SubagentManager(workspace=...)."
            )
        by_name[agent.name] = agent
    if not by_name:
        raise ConfigError("definitions is empty: SubagentManager needs at least one AgentDefinition.")
    return by_name


def _current_run() -> RunTasks | None:
    call = current_call()
    return call.background if call is not None and isinstance(call.background, RunTasks) else None


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _move_in_loop(run: RunTasks, task_id: str) -> TaskRecord | None:
    async def move() -> TaskRecord | None:
        return run.move(task_id)

    return asyncio.run_coroutine_threadsafe(move(), run.loop).result()


def _error(text: str) -> ToolOutcome:
    return ToolOutcome(text, is_error=True)
