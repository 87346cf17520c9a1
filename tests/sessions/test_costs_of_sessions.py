"""What recorded runs cost: each request once, by all groups, in every store."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.helpers import NO_WAIT

from pure_agent_loop import Agent, Fallback, Hooks, LLMError, LoopLimits, RetryConfig, TokenUsage, tool
from pure_agent_loop.budget import Price
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.sessions.cost import GROUPS, Total, day_of, expenses_of, totals_by
from pure_agent_loop.sessions.fork import fork_session
from pure_agent_loop.subagents import AgentDefinition, SubagentManager
from pure_agent_loop.testing import FakeClock, ScriptedLLM, answer, call, deltas
from pure_agent_loop.tool import ToolOutcome

USAGE = TokenUsage(1000, 500, 1500)
LIMITS = LoopLimits(max_tokens=None, prices={"scripted": Price(1, 2)})
EACH = 0.002  # a request of USAGE


@pytest.fixture
def store(new_store):
    return new_store()


@tool
def look() -> str:
    """Look."""
    return "seen"


def costing(*items):
    return [answer(item, usage=USAGE) for item in items]


def agent_for(store, items, **options):
    options = {"tools": [look], "limits": LIMITS, "sessions": store, **options}
    return Agent(llm=ScriptedLLM(items), **options)


def total(store):
    found = Total()
    for expense in expenses_of(store):
        found.add(expense)
    return found


def test_each_request_is_counted_by_each_group(store):
    agent = agent_for(store, costing(call("look"), "done", "again"), name="ann's")
    first = agent.run("x", session_id="trip", metadata={"person": "ann", "schedule": "daily"})
    second = agent.run("y", session_id="trip")
    assert first.cost + second.cost == pytest.approx(3 * EACH)
    expenses = list(expenses_of(store))
    today = day_of(expenses[0].time)
    sums = {group: {name: t.requests for name, t in totals_by(group, expenses).items()} for group in GROUPS}
    assert sums == {
        "day": {today: 3},
        "model": {"scripted": 3},
        "session": {"trip": 3},
        "run": {"trip:1": 2, "trip:2": 1},
        "step": {"trip:1:1": 1, "trip:1:2": 1, "trip:2:1": 1},
        "agent": {"ann's": 3},
        "person": {"": 1, "ann": 2},
        "schedule": {"": 1, "daily": 2},
    }
    assert total(store) == Total(3, 4500, pytest.approx(3 * EACH), 0)
    assert not list(expenses_of(store, since=expenses[-1].time + 1))


def test_a_fork_is_not_counted_again(store):
    agent = agent_for(store, costing("one", "two"))
    agent.run("x", session_id="a")
    fork_session(store, "a", new_id="b")
    assert total(store).requests == 1
    agent.run("y", session_id="b")
    assert total(store).known_cost == pytest.approx(2 * EACH)


def test_failed_attempts_are_counted_with_the_response(store):
    half = answer("half of it", usage=USAGE, finish_reason="error")
    agent = agent_for(store, [half, *costing("whole")], retry=NO_WAIT)
    result = agent.run("x", session_id="a")
    assert total(store) == Total(1, result.usage.total_tokens, pytest.approx(result.cost), 0)
    assert result.usage.total_tokens > 1500


def test_an_attempt_that_ended_the_run_is_counted(store):
    half = answer("half of it", usage=USAGE, finish_reason="error")
    agent = agent_for(store, [half] * 4, retry=NO_WAIT)
    result = agent.run("x", session_id="a")
    assert result.stop_reason == "error"
    assert total(store).known_cost == pytest.approx(result.cost)
    assert result.cost > 0


def test_a_subagent_is_counted_once_and_under_its_name(store):
    helper = AgentDefinition("helper", "Helps.", "You are helper.")
    script = costing(call("task", agent="helper", prompt="do"), "helped", "done")
    agent = agent_for(store, script, name="boss", subagents=SubagentManager([helper]))
    result = agent.run("x", session_id="a")
    assert result.content == "done"
    assert total(store) == Total(3, 4500, pytest.approx(result.cost), 0)
    agents = totals_by("agent", expenses_of(store))
    assert {name: each.requests for name, each in agents.items()} == {"boss": 2, "boss/helper": 1}


def test_cost_of_a_tool_is_counted(store):
    @tool
    def buy() -> ToolOutcome:
        """Buy."""
        return ToolOutcome("bought", spent={"usage": replace(USAGE, cost=None).to_dict(), "cost": 0.5})

    result = agent_for(store, costing(call("buy"), "done"), tools=[buy]).run("x", session_id="a")
    assert result.cost == pytest.approx(0.5 + 2 * EACH)
    assert total(store) == Total(3, 4500, pytest.approx(result.cost), 0)


def test_unknown_price_is_shown_with_the_known_part(store):
    agent_for(store, costing("one")).run("x", session_id="a")
    result = agent_for(store, costing("two"), limits=LoopLimits()).run("x", session_id="b")
    assert result.cost is None
    found = total(store)
    assert (found.cost, found.known_cost, found.unpriced) == (None, pytest.approx(EACH), 1)


def test_the_price_of_the_time_of_the_request_stays(store):
    agent_for(store, costing("one")).run("x", session_id="a")
    dearer = LoopLimits(prices={"scripted": Price(100, 100)})
    result = agent_for(store, costing("two"), limits=dearer).run("y", session_id="a")
    assert result.cost == pytest.approx(0.15)
    assert total(store).known_cost == pytest.approx(EACH + 0.15)


def test_a_damaged_session_is_passed_over(tmp_path):
    store = JsonlStore(tmp_path)
    agent_for(store, costing("one")).run("x", session_id="a")
    (tmp_path / "b.jsonl").write_bytes(b"\xff\n")
    assert total(store).requests == 1


AWAY = LLMError("away", kind="overloaded", status=503)
CUT = deltas("half ", Delta(usage=TokenUsage(100, 10, 110)), LLMError("gone", kind="connection"))
SERVED = {
    "the second": ({"big": [AWAY], "small": costing("a")}, {"small": 1}),
    "two for one answer": ({"big": [CUT], "small": costing("a")}, {"big": 1, "small": 1}),
    "three": ({"big": [CUT], "mid": [CUT], "small": costing("a")}, {"big": 1, "mid": 1, "small": 1}),
    "back": (
        {"big": [CUT, *costing("b")], "small": costing(call("look"))},
        {"big": 2, "small": 1},
    ),
    "the first broke off and failed": ({"big": [CUT], "small": [AWAY]}, {"big": 1}),
}


@pytest.mark.parametrize("way", SERVED)
def test_a_cost_belongs_to_the_model_that_served(way, store):
    scripts, wanted = SERVED[way]
    prices = {"big": Price(100, 100), "mid": Price(10, 10), "small": Price(1, 1)}
    clients, clock = [], FakeClock()
    for name, script in scripts.items():
        clients.append(ScriptedLLM(script, strict=False))
        clients[-1].model = name
    limits = LoopLimits(max_tokens=None, prices=prices, max_cost_per_day=9)

    def later(tool, args, result, context):
        clock.advance(1)

    agent = Agent(
        llm=Fallback(clients, clock=clock, cooldown=0.001),
        tools=[look],
        limits=limits,
        sessions=store,
        retry=RetryConfig(max_retries=0),
        hooks=Hooks(after_tool=later),
    )
    result = agent.run("x", session_id="s")
    totals = totals_by("model", expenses_of(store))
    assert {name: sums.requests for name, sums in totals.items()} == wanted
    for name, sums in totals.items():
        assert sums.cost == pytest.approx(sums.tokens * prices[name].input / 1e6)
    assert sum(sums.cost for sums in totals.values()) == pytest.approx(result.cost)
    limits = replace(limits, max_cost_per_day=result.cost)
    assert agent.clone(limits=limits).run("y", session_id="s").stop_reason == "budget"
