"""Subagents for an agent: which there are, and the tools that give them tasks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.prompts import ToolWords
from pure_agent_loop.subagents.child import Child, report_of
from pure_agent_loop.subagents.definitions import EXPLORE, VERIFY, AgentDefinition, in_language
from pure_agent_loop.subagents.places import check_workspace
from pure_agent_loop.subagents.root import Root
from pure_agent_loop.subagents.run_tasks import RunTasks
from pure_agent_loop.subagents.table import TaskTable
from pure_agent_loop.subagents.tasks import TaskNotFoundError, TaskRecord, TaskStore
from pure_agent_loop.subagents.words import SubagentWords, words_for
from pure_agent_loop.support.language import LANGUAGES, default_language
from pure_agent_loop.support.threads import Raised, run_in_thread
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
        self._table.tools = self._made_tools(float("inf") if timeout is None else timeout)

    @property
    def _words(self) -> SubagentWords:
        return self._table.words

    def tools(self) -> list[Tool]:
        """The tools that give tasks: ``task``, ``task_output``, ``task_list`` and ``task_kill``."""
        return list(self._table.tools)

    @property
    def definitions(self) -> list[AgentDefinition]:
        """The subagents there are."""
        return list(self._table.definitions.values())

    def lent_tools(self) -> list[Tool]:
        """Tools that only the subagents have. The rules of the agent above speak of them too."""
        definitions = self._table.definitions.values()
        return [tool for each in definitions for tool in each.tools if isinstance(tool, Tool)]

    def for_sessions(self, sessions: SessionStore | None) -> Root:
        """What `Agent` puts into its runs.

        Args:
            sessions: Where the agent keeps its sessions; None for the data folder.
        """
        return Root(self._table, 0, sessions)

    def background(self, task_id: str) -> TaskRecord:
        """Move a task that a run waits for to the background: the run goes on, and a message tells its end.

        May be called from any thread, while the run is at work.

        Args:
            task_id: The task, or the call that gave it; TASK events have both.

        Raises:
            TaskNotFoundError: No run of this manager waits for such a task now.
        """
        for run in list(self._table.runs):
            if run.waited_for(task_id) is None or not run.loop.is_running():
                continue
            found = run.move(task_id) if _is_running(run.loop) else _in_loop(run, task_id)
            if found is not None:
                return found
        raise TaskNotFoundError(f"No run waits for the task {task_id!r:.80} now, so it cannot be moved.")

    def _find(self, run: RunTasks, task_id: str) -> Child | None:
        """A task of this run, of its session, or of a run without one."""
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
        ours = record.parent == run.session_id and definition is not None
        return Child(record, definition) if ours and definition is not None else None

    def _records(self, run: RunTasks) -> list[TaskRecord]:
        kept = run.tasks.list(run.session_id) if run.tasks is not None else []
        found = {record.id: record for record in kept}
        found |= {child.record.id: child.record for child in run.children.values()}
        return sorted(found.values(), key=lambda record: record.created)

    # -- the tools -----------------------------------------------------------------------------------

    def _made_tools(self, timeout: float) -> Sequence[Tool]:
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
        languages = {each: self._table.language or each for each in LANGUAGES}
        words = {each: ToolWords(self._description(name, of)) for each, of in languages.items()}
        return {"description": words[default_language()].description, "words": words}

    def _description(self, name: str, language: str) -> str:
        words = words_for(language)
        text: str = getattr(words, name)
        if name != "task":
            return text
        agents = "\n".join(
            words.agent_line.format(name=each.name, description=in_language(each.description, language))
            for each in self._table.definitions.values()
        )
        return f"{text.format(agents=agents)}\n{words.background_line}"

    async def _task(self, agent: Any, prompt: Any, background: Any = None, resume: Any = "") -> ToolOutcome:
        run, words = _current_run(), self._words
        if run is None:
            return _error(words.not_here)
        definition = self._table.definitions.get(str(agent))
        if definition is None:
            return _error(words.no_agent.format(name=agent, names=", ".join(self._table.definitions)))
        if not str(prompt).strip():
            return _error(words.empty_prompt)
        refusal = run.refusal()
        if refusal:
            return _error(refusal)
        behind = definition.background if background is None else str(background).lower() == "true"
        call = current_call()
        assert call is not None  # there is a run
        given = {"background": behind, "step": call.step, "call_id": call.call_id}
        if not resume:
            made = run.make(definition.name, str(prompt), **given)
            return await self._begun(run, made)
        old = self._find(run, str(resume))
        problem = self._cannot_resume(old, str(resume), definition.name)
        if old is None or problem:
            return _error(problem)
        return await self._begun(run, run.again(old, str(prompt), **given))

    def _cannot_resume(self, old: Child | None, task_id: str, agent: str) -> str:
        if old is None:
            return self._words.no_task.format(id=task_id)
        if old.record.agent != agent:
            return self._words.another_agent.format(id=task_id, agent=old.record.agent)
        if not old.record.is_over and old.record.state != "waiting_permission":
            return self._words.still_at_work.format(id=task_id)
        return ""

    async def _begun(self, run: RunTasks, child: Child) -> ToolOutcome:
        await run.begin(child)
        record = child.record
        if record.background:
            text = self._words.queued if record.state == "pending" else self._words.started
            text = self._words.moved if child.moved.is_set() else text
            text = text.format(id=record.id, state="backgrounded", agent=record.agent)
            return ToolOutcome(text, is_background=True)
        head = self._words.headline.format(id=record.id, state=record.state)
        return ToolOutcome(
            f"{head}\n{report_of(record, self._words)}",
            is_error=record.state != "completed",
            spent=child.spent(),
        )

    async def _task_output(self, task_id: Any) -> ToolOutcome:
        run = _current_run()
        child = None if run is None else self._find(run, str(task_id))
        if run is None or child is None:
            return _error(self._words.no_task.format(id=task_id))
        record = child.record
        head = self._words.headline.format(id=record.id, state=record.state)
        if record.is_over or record.state == "waiting_permission":
            whole = child.text or ("" if run.tasks is None else run.tasks.output(record.id))
            cut = report_of(record, self._words)
            return ToolOutcome(f"{head}\n{cut.replace(record.result, whole) if record.result else cut}")
        tool = f", {record.last_tool}" if record.last_tool else ""
        return ToolOutcome(f"{head}\n{self._words.at_work.format(calls=record.calls, tool=tool)}")

    async def _task_list(self) -> ToolOutcome:
        run = _current_run()
        records = [] if run is None else self._records(run)
        lines = [f"{each.id} {each.state}: {each.prompt[:80]}" for each in records]
        return ToolOutcome("\n".join(lines) or self._words.no_tasks)

    async def _task_kill(self, task_id: Any) -> ToolOutcome:
        run = _current_run()
        child = None if run is None else self._find(run, str(task_id))
        if run is None or child is None:
            return _error(self._words.no_task.format(id=task_id))
        record = child.record
        if not record.is_over:
            record = await self._killed(run, child)
        return ToolOutcome(self._words.is_over.format(id=record.id, state=record.state))

    async def _killed(self, run: RunTasks, child: Child) -> TaskRecord:
        if child.job is not None and not child.job.done():
            await run.kill(child)
        elif child.record.state == "waiting_permission":
            child.record.to("killed")
            if run.tasks is not None:
                run.tasks.save(child.record)
        elif run.tasks is not None:
            tasks, task_id = run.tasks, child.record.id
            found = await run_in_thread(lambda: tasks.kill(task_id))
            if isinstance(found, Raised):
                raise found.error
            return tasks.get(task_id)
        else:
            child.token.cancel("killed")
        return child.record


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


def _current_run() -> RunTasks | None:
    call = current_call()
    return call.background if call is not None and isinstance(call.background, RunTasks) else None


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _in_loop(run: RunTasks, task_id: str) -> TaskRecord | None:
    async def move() -> TaskRecord | None:
        return run.move(task_id)

    return asyncio.run_coroutine_threadsafe(move(), run.loop).result()


def _error(text: str) -> ToolOutcome:
    return ToolOutcome(text, is_error=True)
