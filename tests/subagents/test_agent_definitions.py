"""`AgentDefinition(agent=...)`: an agent as a subagent keeps its own options, or they are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.helpers import NO_WAIT, may_call

from pure_agent_loop import Agent, ConfigError, LoopLimits, Price, tool
from pure_agent_loop.subagents import AgentDefinition, SubagentManager
from pure_agent_loop.testing import ScriptedLLM, answer, call

ROUNDS = 12
PRICES = {"*": Price(input=100_000, output=100_000)}
INNER = "You are the inner one."


@tool
def look(n: int) -> str:
    """Look at a thing."""
    return f"thing {n}"


def looks():
    """A model that looks as long as it may, then answers."""

    def reply(messages, tools, options):
        count = sum(message["role"] == "tool" for message in messages)
        may_look = tools and options.get("tool_choice") != "none" and count < ROUNDS
        return answer("", call("look", n=count)) if may_look else "The end."

    return ScriptedLLM(reply)


def inner(llm, **options):
    return Agent(
        **{
            "llm": llm,
            "tools": [look],
            "name": "inner",
            "description": "Looks.",
            "system_prompt": INNER,
            **options,
        }
    )


def give(agent, above=None, **options):
    """The parent's result after the subagent's work."""
    definition = AgentDefinition(
        **{"name": "inner", "description": "Looks.", "prompt": "", "agent": agent, **options}
    )
    parent = ScriptedLLM([call("task", agent="inner", prompt="go"), "Done."])
    manager = SubagentManager([definition])
    return Agent(llm=parent, subagents=manager, retry=NO_WAIT, limits=above).run("q")


def requests_as_tool(own):
    with looks() as llm:
        parent = ScriptedLLM([call("inner", input="go"), "Done."])
        Agent(llm=parent, tools=[inner(llm, limits=own)]).run("q")
    return len(llm.requests)


def requests_as_definition(own, above=None, **options):
    with looks() as llm:
        give(inner(llm, limits=own), above, **options)
    return len(llm.requests)


LIMITS = {
    "turns": LoopLimits(max_turns=2),
    "calls": LoopLimits(max_tool_calls=3),
    "tokens": LoopLimits(max_tokens=50),
    "cost": LoopLimits(max_cost=3, prices=PRICES),
}


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_of_the_agent_holds(name):
    count = requests_as_tool(LIMITS[name])
    assert count < ROUNDS
    assert requests_as_definition(LIMITS[name]) == count
    # Limits of the definition for something else leave it in force.
    assert requests_as_definition(LIMITS[name], limits=LoopLimits(max_seconds=60)) == count


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_of_the_definition_holds(name):
    count = requests_as_tool(LIMITS[name])
    assert requests_as_definition(LoopLimits(max_turns=9), limits=LIMITS[name]) == count


@pytest.mark.parametrize("name", ["calls", "tokens", "cost"])
def test_each_limit_above_holds(name):
    unlimited = LoopLimits(max_tokens=None)
    assert requests_as_definition(unlimited) == ROUNDS + 1
    assert requests_as_definition(unlimited, replace(LIMITS[name], prices=PRICES)) < ROUNDS


def test_soft_limits_and_texts_of_both_hold():
    own = LoopLimits(max_steps=2, step_limit_prompt="Two steps!", max_turns=7)
    for given in (None, LoopLimits(max_steps=5)):
        with looks() as llm:
            give(inner(llm, limits=own), **({} if given is None else {"limits": given}))
        assert any("Two steps!" in str(message["content"]) for message in llm.requests[-1].messages)


def test_system_prompt_of_the_agent_is_kept_without_one_in_the_definition():
    for own in (INNER, lambda: INNER, ["You are", lambda: INNER]):
        for given, wanted in (("", INNER), ("You are lent.", "You are lent.")):
            with looks() as llm:
                give(inner(llm, system_prompt=own, limits=LoopLimits(max_turns=1)), prompt=given)
            first = llm.requests[0].messages[0]
            assert (first["role"], first["content"].endswith(wanted)) == ("system", True)
            assert may_call(llm.requests[0])


def test_another_client_keeps_the_tool_mode_of_the_agent():
    with looks() as llm, ScriptedLLM(["The end."]) as other:
        give(inner(llm, tool_mode="text"), llm=other)
    assert not llm.requests
    assert other.requests[0].tools is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tools": ["look"]}, ["tools", "agent.clone(tools=...)"]),
        ({"output_type": int}, ["output_type", "agent.clone(output_type=...)"]),
        ({"workspace": "scratch"}, ["workspace='scratch'", "read-only"]),
        ({"workspace": "worktree"}, ["workspace='worktree'"]),
        ({"prompt": " "}, ["prompt"]),
        ({"agent": "inner"}, ["agent", "an Agent"]),
    ],
)
def test_options_that_only_the_agent_can_decide_are_refused(options, words):
    with pytest.raises(ConfigError) as caught:
        AgentDefinition(**{"name": "a", "description": "d", "prompt": "", "agent": inner(looks()), **options})
    assert all(word in str(caught.value) for word in [*words, "'a'"])
