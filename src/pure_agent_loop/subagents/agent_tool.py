"""An agent as a tool of another one: a task in the foreground, for an agent of its own making."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.prompts import ToolWords
from pure_agent_loop.runs.handoff import Member, tool_name
from pure_agent_loop.runs.words import in_both
from pure_agent_loop.subagents.child import report_of
from pure_agent_loop.subagents.definitions import AgentDefinition
from pure_agent_loop.subagents.root import Root
from pure_agent_loop.subagents.run_tasks import RunTasks
from pure_agent_loop.subagents.table import TaskTable
from pure_agent_loop.subagents.words import words_for
from pure_agent_loop.support.language import default_language
from pure_agent_loop.support.text import to_jsonable
from pure_agent_loop.tool import Tool, ToolOutcome
from pure_agent_loop.tool_context import current_call

MOST_DEPTH = 8  # agents that ask agents that ask agents
MOST_AT_ONCE = 8
_WHOLE = 1_000_000


class AgentTool(Tool):
    """A tool whose work another agent does."""

    resumes = True  # called again after a crash, it goes on with what it had begun
    beside: Root  # what goes on beside the run for its sake


def agent_tool(agent: Member, name: str, description: str, input_type: Any) -> Tool:
    """An agent as a tool; see `Agent.as_tool`.

    Args:
        name: What it is called; empty for the name of the agent, as a tool may have it.

    Raises:
        ConfigError: There is no name, or the type has no JSON form.
    """
    called = name or agent._kit.name
    if not called:
        raise ConfigError("An agent as a tool needs a name: Agent(name='...') or agent.as_tool(name='...').")
    texts = {
        language: f"{text} {description}".strip()
        for language, text in in_both("ask_agent", agent=called).items()
    }
    definition = AgentDefinition(
        name=tool_name(called)[:32],
        description=texts,
        prompt=agent.system_prompt,
        limits=agent._kit.limits,
        max_result_chars=_WHOLE,  # the run above cuts it as it cuts any result
        agent=agent,
    )

    async def ask(input: Any) -> ToolOutcome:  # noqa: A002 - the name the model reads
        call, words = current_call(), words_for()
        run = call.background if call is not None else None
        if call is None or not isinstance(run, RunTasks):
            return ToolOutcome(words.not_here, is_error=True)
        prompt = input if isinstance(input, str) else json.dumps(_plain(input), ensure_ascii=False)
        refusal = words.empty_prompt if not prompt.strip() else run.refusal()
        if refusal:
            return ToolOutcome(refusal, is_error=True)
        child = run.for_call(definition, prompt, call)
        await run.begin(child)
        if child.record.background:  # it was moved there from outside
            about = {"id": child.record.id, "state": "backgrounded", "agent": child.record.agent}
            return ToolOutcome(words.moved.format(**about), is_background=True)
        text = child.text if child.record.state == "completed" and child.text else ""
        report = text or report_of(child.record, words)
        value = None if child.state is None else child.state.live_output
        is_error = child.record.state != "completed"
        return ToolOutcome(report, is_error=is_error, spent=child.spent(), value=value)

    ask.__annotations__["input"] = input_type
    ask.__doc__ = texts["en"]
    tool = AgentTool(
        ask,
        name=name or tool_name(called),
        description=texts[default_language()],
        timeout=float("inf"),  # its own limits hold, and those of the run above
        read_only=True,  # each of its calls is judged by the rules and the mode above it
        words={language: ToolWords(text) for language, text in texts.items()},
    )
    tool.beside = Root(_table(), 0, None)
    return tool


def _table() -> TaskTable:
    return TaskTable({}, None, None, MOST_AT_ONCE, MOST_DEPTH, True, lambda _: (), None)


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else to_jsonable(value)
