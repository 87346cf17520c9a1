"""An agent as a tool for another agent: each call runs the agent as a foreground task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.prompts import ToolWords
from pure_agent_loop.runs.handoff import HandoffTarget, tool_name
from pure_agent_loop.subagents.child import report_of
from pure_agent_loop.subagents.definitions import AgentDefinition
from pure_agent_loop.subagents.run_tasks import RunTasks, TaskTable
from pure_agent_loop.subagents.words import words_for
from pure_agent_loop.support.language import default_language, in_each_language
from pure_agent_loop.support.text import to_jsonable
from pure_agent_loop.tool import Tool, ToolOutcome
from pure_agent_loop.tool_context import current_call

if TYPE_CHECKING:
    from pure_agent_loop.sessions.store import SessionStore

MAX_DEPTH = 8  # maximum depth of nested agent tools
MAX_CONCURRENT = 8


# -- the kit's placeholder for subagent tasks, bound to a run when the run begins ------------------------


class UnboundTasks:
    """Placeholder that creates the `RunTasks` of a run when the run begins.

    Args:
        table: State shared by the runs of a `SubagentManager`.
    """

    def __init__(self, table: TaskTable, depth: int, sessions: SessionStore | None) -> None:
        self._table, self._depth, self._sessions = table, depth, sessions

    def with_run(self, state: QueryState, kit: Kit) -> RunTasks:
        """Bind the tasks to a starting run, and deliver outstanding notices about earlier tasks."""
        # Prefer the run's own store, such as a server's, to that of the agent.
        session, sessions = state.session_id, getattr(kit.journal, "store", None) or self._sessions
        store = self._table.store_for(getattr(sessions, "shared", sessions)) if session else None
        run = RunTasks(self._table, state, kit, sessions, store, self._depth, self.below)
        if store is not None:
            self._table.reports[session] = run.notify
            run.catch_up(store)
        return run

    def below(self, depth: int) -> UnboundTasks:
        """Return a copy of this placeholder for a subagent at this depth."""
        return UnboundTasks(self._table, depth, self._sessions)

    async def wait(self) -> None:
        """Return immediately, because no task exists before the run begins."""


class AgentTool(Tool):
    """A tool that runs another agent."""

    agent: HandoffTarget
    resumes = True  # a repeated call after a crash continues the interrupted task
    background_work: UnboundTasks  # background work that the tool adds to the run


def agent_tool(agent: HandoffTarget, name: str, description: str, input_type: Any) -> Tool:
    """Return a tool that runs an agent; see `Agent.as_tool`.

    Args:
        name: Name of the tool; empty for the agent's name, changed to a valid tool name.

    Raises:
        ConfigError: Neither the tool nor the agent has a name, or the input type cannot be expressed as JSON.
    """
    agent_name = name or agent.config.name
    if not agent_name:
        raise ConfigError("as_tool() needs a name: set Agent(name='...') or pass agent.as_tool(name='...').")
    texts = {
        language: f"{text} {description}".strip()
        for language, text in in_each_language("ask_agent", agent=agent_name).items()
    }
    definition = AgentDefinition(
        name=tool_name(agent_name)[:32],
        description=texts,
        prompt="",
        max_result_chars=1_000_000,  # not truncated here, because the parent run truncates long results
        agent=agent,
    )

    async def ask(input: Any) -> ToolOutcome:  # noqa: A002 - the name the model reads
        call, words = current_call(), words_for()
        run = call.background if call is not None else None
        if call is None or not isinstance(run, RunTasks):
            return ToolOutcome(words("not_here"), is_error=True)
        prompt = input if isinstance(input, str) else json.dumps(_to_plain(input), ensure_ascii=False)
        refusal = words("empty_prompt") if not prompt.strip() else run.refusal()
        if refusal:
            return ToolOutcome(refusal, is_error=True)
        child = run.for_call(definition, prompt, call)
        await run.begin(child)
        if child.record.background:  # `SubagentManager.background` has moved the task
            details = {"id": child.record.id, "state": "backgrounded", "agent": child.record.agent}
            return ToolOutcome(words("moved", **details), is_background=True)
        text = child.text if child.record.state == "completed" and child.text else ""
        report = text or report_of(child.record, words)
        value = None if child.state is None else child.state.live_output
        is_error = child.record.state != "completed"
        return ToolOutcome(report, is_error=is_error, spent=child.spent(), value=value)

    ask.__annotations__["input"] = input_type
    ask.__doc__ = texts["en"]
    tool = AgentTool(
        ask,
        name=name or tool_name(agent_name),
        description=texts[default_language()],
        timeout=float("inf"),  # no timeout, because the limits of the agent and the parent apply
        read_only=True,  # because the parent's policy decides each call that the agent makes
        words={language: ToolWords(text) for language, text in texts.items()},
    )
    tool.agent, tool.background_work = agent, UnboundTasks(_table(), 0, None)
    return tool


def _table() -> TaskTable:
    return TaskTable({}, None, None, MAX_CONCURRENT, MAX_DEPTH, True, lambda _: (), None)


def _to_plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if hasattr(value, "__dataclass_fields__"):
        return {name: _to_plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {name: _to_plain(item) for name, item in value.items()}
    return [_to_plain(item) for item in value] if isinstance(value, (list, tuple)) else to_jsonable(value)
