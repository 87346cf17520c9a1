"""A run without deps for functions that want some is refused before its first request; None may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Optional, TypeVar

import pytest

from pure_agent_loop import Agent, BeforeTool, ConfigError, Hooks, RunContext, tool
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.toolsets import combined

if TYPE_CHECKING:
    from decimal import Decimal as Elsewhere

T = TypeVar("T")


class Bank:
    """Something to depend on."""


def wants(ctx: RunContext[Bank]) -> str:
    """Want a bank."""
    return type(ctx.deps).__name__


def wants_elsewhere(ctx: RunContext[Elsewhere]) -> str:
    """Want what is imported for types only."""
    return ""


def before(ctx: RunContext[Bank], name: str, args: dict[str, Any], context: object) -> BeforeTool | None:
    return None


def may_use(ctx: RunContext[Bank], name: str, args: dict[str, Any], context: object) -> str:
    return "allow"


class Caller:
    """A callable object."""

    def __call__(self, ctx: RunContext[Bank]) -> str:
        """Write a prompt."""
        return ""


REFUSED = {
    "tool": {"tools": [wants]},
    "tool under TYPE_CHECKING": {"tools": [wants_elsewhere]},
    "hook": {"hooks": Hooks(before_tool=before)},
    "permission function": {"can_use_tool": may_use},
    "prompt function": {"system_prompt": Caller()},
    "one of several prompts": {"system_prompt": ["text", wants]},
    "output function": {"output_type": wants},
}


@pytest.mark.parametrize("options", REFUSED.values(), ids=REFUSED.keys())
def test_it_is_refused_before_the_first_request(options):
    llm = ScriptedLLM(["never"], strict=False)
    agent = Agent(llm=llm, **options)
    with pytest.raises(ConfigError, match=r"needs deps of type (\w+\.)*(Bank|Elsewhere)") as caught:
        agent.run("x")
    assert "Engine(..., deps=...)" in str(caught.value)
    with pytest.raises(ConfigError, match="needs deps"):
        list(agent.run_stream("x"))
    assert not llm.requests
    assert "x" in str(agent.explain("x"))  # nothing is sent, so nothing is wanted


def test_an_output_check_that_wants_deps_is_refused():
    agent = Agent(llm=ScriptedLLM(["never"], strict=False))

    @agent.output_check
    def check(ctx: RunContext[Bank], output: str) -> None:
        return None

    with pytest.raises(ConfigError, match="function 'check' needs deps"):
        agent.run("x")


def test_a_tool_of_a_toolset_that_wants_deps_ends_the_run_before_its_first_request():
    llm = ScriptedLLM(["never"], strict=False)
    result = Agent(llm=llm, tools=[combined(tool(wants))]).run("x")
    assert result.stop_reason == "error"
    assert "needs deps" in (result.error or "")
    assert not llm.requests


def optional(ctx: RunContext[Bank | None]) -> str:
    """May do without."""
    return str(ctx.deps)


def older(ctx: RunContext[Optional[Bank]]) -> str:  # noqa: UP045 - as others write it
    """May do without."""
    return str(ctx.deps)


def marked(ctx: RunContext[Annotated[Bank | None, "why"]]) -> str:
    """May do without."""
    return str(ctx.deps)


def bare(ctx: RunContext) -> str:
    """Only wants to know where it is."""
    return str(ctx.step)


def anything(ctx: RunContext[Any]) -> str:
    """Takes what there is."""
    return str(ctx.deps)


def generic(ctx: RunContext[T]) -> str:
    """Takes what there is."""
    return str(ctx.deps)


def elsewhere(ctx: RunContext[Elsewhere | None]) -> str:
    """May do without what is imported for types only."""
    return str(ctx.deps)


@pytest.mark.parametrize("function", [optional, older, marked, bare, anything, generic, elsewhere])
def test_a_function_that_can_do_without_runs(function):
    result = Agent(llm=ScriptedLLM([call(function.__name__), "ok"]), tools=[function]).run("x")
    assert result.content == "ok"
    assert not any(event.data.get("is_error") for event in result.events)


def test_deps_of_the_run_of_an_override_and_of_the_agent_above_count():
    agent = Agent(llm=ScriptedLLM([call("wants"), "ok"] * 2), tools=[wants])
    assert agent.run("x", deps=Bank()).content == "ok"
    with agent.override(deps=Bank()):
        assert agent.run("x").content == "ok"
    below = Agent(llm=ScriptedLLM([call("wants"), "ok"]), tools=[wants], name="below")
    above = Agent(llm=ScriptedLLM([call("below", input="x"), "done"]), tools=[below])
    assert above.run("x", deps=Bank()).content == "done"


def test_an_agent_below_that_lacks_them_asks_nothing():
    llm = ScriptedLLM(["never"], strict=False)
    below = Agent(llm=llm, tools=[wants], name="below")
    handing = Agent(llm=ScriptedLLM([call("transfer_to_below"), "x"], strict=False), handoffs=[below])
    result = handing.run("x")
    assert result.stop_reason == "error"
    assert "needs deps" in str(result.error)
    asking = Agent(llm=ScriptedLLM([call("below", input="x"), "done"]), tools=[below]).run("x")
    assert any("needs deps" in str(message["content"]) for message in asking.messages)
    assert not llm.requests
