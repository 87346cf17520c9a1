"""Limits of money per day and person: over all sessions of a store, whichever process wrote them."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing

import pytest
from tests.sessions.test_costs_of_sessions import costing, look

from pure_agent_loop import Agent, ConfigError, LoopLimits
from pure_agent_loop.budget import Price
from pure_agent_loop.errors import LimitExceededError
from pure_agent_loop.sessions import JsonlStore, PostgresStore
from pure_agent_loop.sessions.fork import fork_session
from pure_agent_loop.subagents import AgentDefinition, SubagentManager
from pure_agent_loop.testing import ScriptedLLM, assert_replays, call

PRICES = {"scripted": Price(1000, 2000)}  # a request of USAGE costs 2
DAY = 86_400
OTHER_PROCESS = """
import sys
from pure_agent_loop.sessions import JsonlStore
from tests.sessions.test_day_limits import agent_for, costing
agent_for(JsonlStore(sys.argv[1]), costing("done"), max_cost_per_day=100).run("x", session_id="other")
"""


@pytest.fixture
def store(new_store):
    return new_store()


def agent_for(store, items, **limits):
    options = {"tools": [look], "limits": LoopLimits(max_tokens=None, prices=PRICES, **limits)}
    return Agent(llm=ScriptedLLM(items), sessions=store, **options)


def test_the_day_is_summed_up_over_all_sessions_and_runs(store):
    agent = agent_for(store, costing("one", "two"), max_cost_per_day=3)
    assert agent.run("x", session_id="a").stop_reason == "completed"
    assert agent.run("x", session_id="b").stop_reason == "completed"  # 2 of 3 spent before it
    result = agent.run("x", session_id="c")
    assert (result.stop_reason, result.usage.total_tokens) == ("budget", 0)
    failure = result.state.failure
    assert isinstance(failure, LimitExceededError)
    assert (failure.limit_value, failure.current_value) == (3, 4)
    assert "limits.max_cost_per_day is reached; the next day (UTC) begins in " in result.error
    assert "4 of 3 is spent" in result.error
    assert "limits.max_cost_per_day is reached; the next day (UTC) begins in " in result.content
    assert "4 of 3" not in result.content  # which everybody sees
    assert agent.run("x", session_id="a").stop_reason == "budget"  # its own earlier runs count


def test_a_run_ends_between_two_of_its_steps(store):
    script = costing(call("look"), call("look"))
    result = agent_for(store, script, max_cost_per_day=4).run("x", session_id="a")
    assert (result.stop_reason, result.steps) == ("budget", 3)
    assert result.cost == 4
    assert [event.data["kind"] for event in result.events if event.type == "error"] == ["unknown"]


def test_a_person_has_a_limit_of_their_own(store):
    agent = agent_for(store, costing("1", "2", "3"), max_cost_per_person_per_day=2)
    reasons = [
        agent.run("x", session_id=f"s{number}", metadata={"person": name} if name else {}).stop_reason
        for number, name in enumerate(("ann", "ann", "bob", "", ""))
    ]
    assert reasons == ["completed", "budget", "completed", "completed", "budget"]


def test_tenant_has_a_limit_of_its_own(store):
    agent = agent_for(store, costing("1", "2", "3"), max_cost_per_day_by={"tenant": 2, "plan": 4})
    about = (
        {"tenant": "a", "plan": "x"},
        {"tenant": "a"},
        {"tenant": "b", "plan": "x"},
        {"tenant": "c", "plan": "x"},
    )
    results = [agent.run("x", session_id=f"s{n}", metadata=each) for n, each in enumerate(about)]
    assert [result.stop_reason for result in results] == ["completed", "budget", "completed", "budget"]
    assert "limits.max_cost_per_day_by['tenant'] is reached" in results[1].error
    assert "limits.max_cost_per_day_by['plan'] is reached" in results[3].error
    assert agent.run("x", session_id="none").stop_reason == "completed"  # no tenant, no plan
    assert agent.run("x", session_id="none2").stop_reason == "budget"


def test_yesterday_does_not_count(tmp_path):
    earlier = JsonlStore(tmp_path, now=lambda: time.time() - DAY)
    agent_for(earlier, costing("one")).run("x", session_id="a")
    store = JsonlStore(tmp_path)
    agent = agent_for(store, costing("two"), max_cost_per_day=1)
    assert agent.run("x", session_id="a").stop_reason == "completed"
    assert agent.run("x", session_id="b").stop_reason == "budget"


def test_another_process_counts(tmp_path):
    store = JsonlStore(tmp_path)
    agent = agent_for(store, costing("one"), max_cost_per_day=3)
    assert agent.run("x", session_id="a").stop_reason == "completed"
    subprocess.run([sys.executable, "-c", OTHER_PROCESS, str(tmp_path)], check=True)
    assert "4 of 3" in agent.run("x", session_id="b").error


def test_postgres_counts_too(postgres):
    url = postgres.new_database()
    first, second = (PostgresStore(url, connections=2) for _ in range(2))
    with closing(first), closing(second):
        agent_for(first, costing("one")).run("x", session_id="a")
        assert "2 of 1" in agent_for(second, [], max_cost_per_day=1).run("x", session_id="b").error


def test_a_fork_and_a_subagent_count_once(store):
    helper = AgentDefinition("helper", "Helps.", "You are helper.")
    script = costing(call("task", agent="helper", prompt="do"), "helped", "done")
    limits = LoopLimits(max_tokens=None, prices=PRICES, max_cost_per_day=7)
    agent = Agent(
        llm=ScriptedLLM([*script, *costing("again")]),
        sessions=store,
        limits=limits,
        subagents=SubagentManager([helper]),
    )
    assert agent.run("x", session_id="a").content == "done"  # 6
    fork_session(store, "a", new_id="b")
    assert agent.run("y", session_id="b").content == "again"  # 8
    assert "8 of 7" in agent.run("z", session_id="c").error


def test_a_subagent_is_bound_by_the_day_of_its_parent(store):
    helper = AgentDefinition("helper", "Helps.", "You are helper.", limits=LoopLimits(prices=PRICES))
    limits = LoopLimits(max_tokens=None, prices=PRICES, max_cost_per_day=2)
    llm = ScriptedLLM(costing(call("task", agent="helper", prompt="do")))
    agent = Agent(llm=llm, sessions=store, limits=limits, subagents=SubagentManager([helper]))
    assert agent.run("x", session_id="a").stop_reason == "budget"
    assert len(llm.requests) == 1


def test_unenforceable_limit_is_rejected():
    with pytest.raises(ConfigError, match=r"this run has no session\. Give it one"):
        Agent(llm=ScriptedLLM([]), limits=LoopLimits(max_cost_per_day=1, prices=PRICES)).run("x")
    with pytest.raises(ConfigError, match=r"limits\.max_cost_per_person_per_day is set, but the price"):
        Agent(llm=ScriptedLLM([]), limits=LoopLimits(max_cost_per_person_per_day=1))
    by_tenant = LoopLimits(max_cost_per_day_by={"tenant": 1}, prices=PRICES)
    with pytest.raises(ConfigError, match=r"this run has no session"):
        Agent(llm=ScriptedLLM([]), limits=by_tenant).run("x")
    with pytest.raises(ConfigError, match=r"limits\.max_cost_per_day_by\['tenant'\] is set, but the price"):
        Agent(llm=ScriptedLLM([]), limits=LoopLimits(max_cost_per_day_by={"tenant": 1}))
    for wrong in (5, ["tenant"], {"tenant": 0}, {1: 1}):
        with pytest.raises(ConfigError, match=r"max_cost_per_day_by"):
            LoopLimits(max_cost_per_day_by=wrong)
    with pytest.raises(ConfigError, match=r"max_cost_per_day=0 must be a positive number"):
        LoopLimits(max_cost_per_day=0)


def test_subagent_is_bound_by_the_tenant_of_its_parent(store):
    helper = AgentDefinition("helper", "Helps.", "You are helper.", limits=LoopLimits(prices=PRICES))
    limits = LoopLimits(max_tokens=None, prices=PRICES, max_cost_per_day_by={"tenant": 2})
    llm = ScriptedLLM(costing(call("task", agent="helper", prompt="do")))
    agent = Agent(llm=llm, sessions=store, limits=limits, subagents=SubagentManager([helper]))
    assert agent.run("x", session_id="a", metadata={"tenant": "a"}).stop_reason == "budget"
    assert len(llm.requests) == 1


def test_a_run_that_a_day_ended_replays(store):
    agent = agent_for(store, costing(call("look")), max_cost_per_day=2)
    agent.run("x", session_id="a")
    assert_replays(store.read("a").records)
