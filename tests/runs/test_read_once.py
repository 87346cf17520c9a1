"""What can be read only once (an iterator, a generator) holds as a list does."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pure_agent_loop import (
    Agent,
    BaseLLMClient,
    BeforeTool,
    Hooks,
    LLMResponse,
    PermissionRules,
    TokenUsage,
    Tool,
    tool,
)
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.permissions import Rule
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.subagents import AgentDefinition
from pure_agent_loop.testing import ScriptedLLM, call

FORMS: dict[str, Callable[[list[Any]], Iterable[Any]]] = {
    "list": list,
    "iterator": iter,
    "generator": lambda items: (each for each in items),
    "map": lambda items: map(copy.copy, items),
}


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request: pytest.FixtureRequest) -> Callable[[list[Any]], Any]:
    """How something is given."""
    return request.param


@pytest.fixture
def wiped() -> list[str]:
    """What was wiped."""
    return []


@pytest.fixture
def wipe(wiped: list[str]) -> Tool:
    """A tool that must not be called."""

    @tool
    def wipe(what: str) -> str:
        """Wipe."""
        wiped.append(what)
        return "gone"

    return wipe


def test_a_hook(form, wipe, wiped):
    hooks = Hooks(before_tool=form([lambda *_: BeforeTool(block="no")]))
    agent = Agent(llm=ScriptedLLM([call("wipe", what="a"), "done"]), tools=[wipe], hooks=hooks)
    agent.run("x")
    assert wiped == []


def test_rules(form, wipe, wiped):
    """They hold in the agent, in its clone, and in one that it hands over to."""
    rules = PermissionRules(deny=form(["wipe"]), shared=True)

    def script() -> ScriptedLLM:
        return ScriptedLLM([call("wipe", what="a"), "done"])

    Agent(llm=script(), tools=[wipe], permission_rules=rules).run("x")
    Agent(llm=script(), tools=[wipe], permission_rules=rules).clone(llm=script()).run("x")
    other = Agent(llm=script(), tools=[wipe], name="other")
    first = ScriptedLLM([call("transfer_to_other")])
    Agent(llm=first, permission_rules=rules, handoffs=[other]).run("x")
    assert wiped == []


def test_tools_and_handoffs_of_a_clone(form, wipe):
    other = Agent(llm=ScriptedLLM([]), name="other")
    agent = Agent(llm=ScriptedLLM([]), tools=form([wipe]), handoffs=form([other]))
    for each in (agent, agent.clone(), agent.clone().clone()):
        assert sorted(tool.name for tool in each.tools) == ["transfer_to_other", "wipe"]


def test_tools_of_a_definition(form):
    definition = AgentDefinition("a", "Helps.", "Help.", tools=form(["read_file", "grep"]))
    assert list(definition.tools) == ["read_file", "grep"]


def test_rules_that_find_something_else_are_asked(wipe, wiped):
    class Careful(PermissionRules):
        """Forbids whatever it is asked about."""

        def find(self, behavior: str, tool: str, call: Any) -> Rule | None:
            return Rule.parse("wipe") if behavior == "deny" else None

    agent = Agent(llm=ScriptedLLM([call("wipe", what="a"), "done"]), tools=[wipe], permission_rules=Careful())
    agent.run("x")
    assert wiped == []


class Greeting(BaseLLMClient):
    """Says hello."""

    async def chat(self, messages: list[Any], tools: Any = None, **kwargs: Any) -> LLMResponse:
        return LLMResponse("hello", [], TokenUsage(1, 1, 2))


def test_an_agent_can_be_sent_to_another_process():
    agent = pickle.loads(pickle.dumps(Agent(llm=Greeting(), redact=False)))
    assert agent.run("x").content == "hello"


class Likely(Greeting):
    """Counts how often it is asked whether it says how likely its words are."""

    asked = 0

    async def gives_likelihoods(self) -> bool:
        """It does not."""
        self.asked += 1
        return False


def test_a_deep_copy_asks_its_own_client(wipe):
    def ask(client: ToolModeClient) -> None:
        asyncio.run(client.chat([{"role": "user", "content": "x"}], [wipe.to_openai_schema()]))

    first = ToolModeClient(Likely(), "json", ENGLISH)
    second = copy.deepcopy(first)
    ask(second)
    assert (first.inner.asked, second.inner.asked) == (0, 1)
    ask(copy.copy(second))  # which shares what was found out
    assert second.inner.asked == 1
