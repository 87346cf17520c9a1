"""A function of the wrong number of parameters is refused where it is passed in, not during a run."""

from __future__ import annotations

from typing import Any

import pytest

from pure_agent_loop import (
    Agent,
    ConfigError,
    EventType,
    Handoff,
    MemoryStore,
    Renderer,
    SkillsLoader,
    Tool,
    tool,
)
from pure_agent_loop.audit import AuditLog
from pure_agent_loop.compaction import Chain
from pure_agent_loop.evaluation import Case, Dataset
from pure_agent_loop.sessions import JsonlStore, SqliteStore
from pure_agent_loop.subagents import SubagentManager, load_definitions
from pure_agent_loop.testing import ScriptedLLM
from pure_agent_loop.toolbox import Fetch, ask_user_tool
from pure_agent_loop.toolsets import approval_required, filtered, prepared, wrapped


@tool
def add(a: int) -> int:
    """Add."""
    return a


def wrong(a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """Nothing here is called with five arguments."""


class Compactor:
    async def compact(self) -> None:
        """Do nothing."""


class Forcing:
    async def compact(self, state: Any) -> None:
        """Do nothing."""

    async def force(self) -> None:
        """Do nothing."""


class Client:
    async def chat(self, messages: Any) -> Any:
        """Answer nothing."""


def overridden(chat: Any) -> Any:
    """A client whose class was taken before, with a method of its own."""
    client: Any = ScriptedLLM([])
    Agent(llm=client)
    client.chat = chat
    return client


def agent() -> Agent:
    return Agent(llm=ScriptedLLM([]), name="other")


GIVEN = {
    "destructive": lambda _: Tool(add.function, destructive=wrong),
    "destructive of a copy": lambda _: add.changed(destructive=wrong),
    "judge": lambda _: tool(judge=wrong)(add.function),
    "filtered": lambda _: filtered([add], wrong),
    "approval_required": lambda _: approval_required([add], wrong),
    "wrapped": lambda _: wrapped([add], wrong),
    "prepared": lambda _: prepared([add], wrong),
    "Handoff.filter": lambda _: Handoff(agent(), filter=wrong),
    "compaction: its compact": lambda _: Agent(llm=ScriptedLLM([]), compaction=Compactor()),
    "compaction: its force": lambda _: Agent(llm=ScriptedLLM([]), compaction=Forcing()),
    "Chain": lambda _: Chain(Compactor()),
    "llm: its chat": lambda _: Agent(llm=Client()),
    "llm: its chat of one": lambda _: Agent(llm=overridden(lambda messages: None)),
    "llm: its chat of another": lambda _: Agent(llm=overridden(Client().chat)),
    "on_tool": lambda _: Renderer().on_tool("add")(wrong),
    "on_event": lambda _: Renderer().on_event(EventType.ACTION)(wrong),
    "ask_user_tool": lambda _: ask_user_tool(wrong),
    "resolver": lambda _: Fetch(resolver=wrong),
    "redact": lambda folder: AuditLog(folder, redact=wrong),
    "notes": lambda folder: AuditLog(folder, notes=wrong),
    "now of the log": lambda folder: AuditLog(folder, now=wrong),
    "now of files": lambda folder: JsonlStore(folder, now=wrong),
    "now of SQLite": lambda folder: SqliteStore(folder / "s.db", now=wrong),
    "now of memory": lambda folder: MemoryStore(folder, now=wrong),
    "tools_for": lambda folder: SubagentManager(workspace=folder, tools_for=wrong),
    "trusted": lambda folder: load_definitions(folder, trusted=wrong),
    "trust_project": lambda folder: SkillsLoader(workspace=folder, trust_project=wrong),
    "An evaluator": lambda _: Dataset([Case("x")], evaluators=[wrong]),
    "on_outcome": lambda _: Dataset([Case("x")]).run(agent(), on_outcome=wrong),
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_function_of_another_shape_is_refused_at_once(name, tmp_path):
    with pytest.raises(ConfigError, match=r"is called with \(.*does not accept that: ") as caught:
        GIVEN[name](tmp_path)
    assert name.partition(" of ")[0] in str(caught.value)


def test_functions_with_defaults_stars_or_no_signature_are_taken():
    Tool(add.function, destructive=lambda args, more=None: True, judge=lambda *args: None)
    filtered([add], lambda *args, **more: True)
    approval_required([add], max)
