"""Money, time, and limits that several runs share."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from tests.helpers import (
    E,
    add,
    check_result,
    drive,
    may_call,
    of_type,
    run_agent,
    run_kernel,
    start,
    tool_texts,
)

from pure_agent_loop import Agent, Budget, CancelToken, ConfigError, LoopLimits, Price, TokenUsage, tool
from pure_agent_loop.budget import price_for
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.runs.run import resumed_state
from pure_agent_loop.testing import FakeClock, Gate, ScriptedLLM, answer, call, deltas
from pure_agent_loop.tool import ToolOutcome

pytestmark = pytest.mark.anyio

M = 1_000_000
DIFFERENT = [call("add", a=n, b=n) for n in range(20)]


# -- prices -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("price", "usage", "cost"),
    [
        (Price(2, 10), TokenUsage(M, M, 2 * M), 12),
        (Price(2, 10), TokenUsage(0, 0, 0), 0),
        (Price(2, 10), TokenUsage(500_000, 100_000, 600_000), 2),
        (Price(2, 10), TokenUsage(M, 0, M, cached_tokens=M), 2),
        (Price(2, 10, cached=0.5), TokenUsage(M, 0, M, cached_tokens=M), 0.5),
        (Price(2, 10, cached=0.5), TokenUsage(M, 0, M, cached_tokens=M // 4), 1.625),
        (Price(2, 10, cached=0), TokenUsage(M, M, 2 * M, cached_tokens=M), 10),
        (Price(2, 10, cached=0.5), TokenUsage(M, 0, M, cached_tokens=5 * M), 0.5),
        (Price(2, 10), TokenUsage(0, M, M, reasoning_tokens=M // 2), 10),
        (Price(0, 0), TokenUsage(M, M, 2 * M), 0),
    ],
)
def test_token_costs(price, usage, cost):
    assert price.of(usage) == pytest.approx(cost)


TABLE = {"gpt-5*": Price(1, 1), "gpt-5-mini": Price(2, 2), "*": Price(3, 3)}


@pytest.mark.parametrize(
    ("model", "rate"), [("gpt-5-mini", 2), ("gpt-5-nano", 1), ("gpt-5", 1), ("GPT-5", 3), ("", 3), ("o9", 3)]
)
def test_the_price_of_a_model(model, rate):
    assert price_for(TABLE, model).input == rate


def test_a_model_without_a_price():
    assert price_for({"gpt-*": Price(1, 1)}, "llama") is None
    assert price_for({}, "x") is None


@pytest.mark.parametrize("wrong", [-1, "1", None, True, float("nan")])
@pytest.mark.parametrize("name", ["input", "output", "cached"])
def test_prices_are_numbers(name, wrong):
    if (name, wrong) == ("cached", None):
        return
    with pytest.raises(ConfigError, match=rf"Price\.{name}="):
        Price(**{"input": 1, "output": 1, name: wrong})


# -- what cannot work -------------------------------------------------------------------------------


NAMES = ["max_tokens", "max_tool_calls", "max_cost", "max_seconds"]


@pytest.mark.parametrize("kind", [Budget, LoopLimits])
@pytest.mark.parametrize("wrong", [0, -1, "5", True, float("nan")])
@pytest.mark.parametrize("name", NAMES)
def test_limits_are_positive_numbers(kind, name, wrong):
    with pytest.raises(ConfigError, match=rf"{kind.__name__}\.{name}="):
        kind(**{name: wrong, "prices": TABLE})


@pytest.mark.parametrize("kind", [Budget, LoopLimits])
@pytest.mark.parametrize("prices", [{"a": 1}, [Price(1, 1)], None, {"a": None}])
def test_a_limit_of_money_needs_prices(kind, prices):
    with pytest.raises(ConfigError, match="prices"):
        kind(max_cost=1, prices=prices)


@pytest.mark.parametrize("kind", [Budget, LoopLimits])
def test_a_limit_of_money_needs_the_price_of_the_model(kind):
    limit = kind(max_cost=1, prices={"gpt-5": Price(1, 1)})
    options = {"budget": limit} if kind is Budget else {"limits": limit}
    words = r"max_cost is set, but the price of the model 'scripted'.*prices=.*--price"
    with pytest.raises(ConfigError, match=words):
        Agent(llm=ScriptedLLM([]), **options)
    assert Agent(llm=ScriptedLLM([]), limits=LoopLimits(prices={"gpt-5": Price(1, 1)}))


# -- one run ----------------------------------------------------------------------------------------

ONE_EACH = {"scripted": Price(M, M)}  # a token costs one


def test_money_is_counted_and_ends_the_run():
    limits = LoopLimits(max_cost=110, prices=ONE_EACH, max_tokens=None)
    with ScriptedLLM([*DIFFERENT[:5], "so far"]) as llm:
        result = run_agent(llm, [add], limits=limits)
    assert (result.stop_reason, result.cost) == ("budget", 90)
    assert result.content == "so far\n\n[Stopped: The budget is used up.]"
    assert not may_call(llm.requests[-1])


def test_cached_tokens_are_cheaper_in_a_run():
    prices = {"*": Price(M, M, cached=0)}
    with ScriptedLLM([answer("hi", usage=TokenUsage(10, 5, 15, cached_tokens=8))]) as llm:
        assert run_agent(llm, limits=LoopLimits(prices=prices)).cost == 7


def test_money_survives_a_restart():
    limits = LoopLimits(max_cost=75, prices=ONE_EACH)
    with ScriptedLLM([DIFFERENT[0], "one"]) as llm:
        first = run_agent(llm, [add], limits=limits)
    assert (first.stop_reason, first.cost) == ("completed", 30)
    assert first.state.ledger.cost == 30
    saved = json.loads(json.dumps(first.state.to_dict()))
    with ScriptedLLM([DIFFERENT[1], "enough"]) as llm:
        second = Agent(llm=llm, tools=[add], limits=limits).run("more", state=saved)
    check_result(second, first_step=3)
    assert (second.stop_reason, second.cost) == ("budget", 60)


def test_time_bounds_a_tool():
    clock = FakeClock()

    @tool(timeout=50)
    async def hangs() -> str:
        """Hang."""
        await asyncio.Event().wait()

    def late(messages, tools, options):
        clock.advance(10)
        return call("hangs")

    with ScriptedLLM([late, "no more time"]) as llm:
        limits = LoopLimits(max_seconds=10, timeout=None)
        result = run_kernel(llm, [hangs], clock=clock, limits=limits)
    assert result.stop_reason == "budget"
    assert ENGLISH.tool_timed_out.format(seconds="0") in tool_texts(result.messages)[0]


@pytest.mark.parametrize(
    ("own", "left", "expected"), [(None, 0.02, "0.02"), (0.01, 5, "0.01"), (float("inf"), 0.02, "0.02")]
)
def test_the_shorter_of_the_two_times_counts(own, left, expected):
    @tool(timeout=own)
    async def hangs() -> str:
        """Hang."""
        await asyncio.Event().wait()

    with ScriptedLLM([call("hangs"), "no more time"]) as llm:
        limits = LoopLimits(max_seconds=left, timeout=None)
        result = run_kernel(llm, [hangs], clock=FakeClock(), limits=limits)
    assert ENGLISH.tool_timed_out.format(seconds=expected) in tool_texts(result.messages)[0]


def test_the_time_of_the_last_step_is_not_forgotten():
    clock = FakeClock()

    def slow(messages, tools, options):
        clock.advance(30)
        return "done"

    state = run_kernel(ScriptedLLM(slow), clock=clock).state
    assert state.ledger.seconds == 30
    resumed = resumed_state("again", json.loads(json.dumps(state.to_dict())), ENGLISH)[0]
    limits = LoopLimits(max_seconds=30, timeout=None)
    result = asyncio.run(drive(resumed, ScriptedLLM(["late"]), clock=FakeClock(), limits=limits))
    assert result.stop_reason == "budget"


# -- shared -----------------------------------------------------------------------------------------


def test_a_budget_counts():
    budget = Budget(max_tokens=10, max_tool_calls=2, max_cost=1.5, prices=TABLE)
    for used, reached in [
        ({"tokens": 9, "tool_calls": 1, "cost": 1.4}, ""),
        ({"tool_calls": 1}, "tool calls"),
        ({"cost": 0.1}, "money"),
        ({"tokens": 1}, "tokens"),
    ]:
        budget.add(**used)
        assert budget.used_up == reached
    assert (budget.tokens, budget.tool_calls, budget.cost) == (10, 2, pytest.approx(1.5))
    assert Budget().used_up == ""


def test_a_budget_of_time_begins_when_it_is_made():
    budget = Budget(max_seconds=60)
    assert budget.used_up == ""
    budget._begun -= 60
    assert budget.used_up == "seconds"
    with ScriptedLLM([]) as llm:
        result = run_agent(llm, budget=budget)
    assert (result.stop_reason, result.steps) == ("budget", 0)


def test_a_budget_is_used_by_one_run_after_another():
    budget = Budget(max_tokens=75)
    with ScriptedLLM([DIFFERENT[0], "one"]) as llm:
        assert run_agent(llm, [add], budget=budget).stop_reason == "completed"
    with ScriptedLLM([DIFFERENT[1], "enough"]) as llm:
        assert run_agent(llm, [add], budget=budget).stop_reason == "budget"
    assert (budget.tokens, budget.tool_calls) == (60, 2)


async def test_two_agents_at_once_share_one_budget():
    budget = Budget(max_tool_calls=6)
    started = [asyncio.Event(), asyncio.Event()]

    def agent(me):
        @tool
        async def work(n: int) -> str:
            """Work in step with the other agent."""
            started[me].set()
            await started[1 - me].wait()
            return f"worked {n}"

        def say(messages, tools, options):
            return call("work", n=len(messages)) if tools else "end"

        return Agent(llm=ScriptedLLM(say), tools=[work], budget=budget, limits=LoopLimits(max_turns=20))

    results = await asyncio.gather(*(agent(me).arun("go") for me in (0, 1)))
    assert [check_result(result).stop_reason for result in results] == ["budget"] * 2
    made = sum(result.state.ledger.tool_calls for result in results)
    assert budget.tool_calls == made
    assert made == 6
    assert budget.tokens == sum(result.usage.total_tokens for result in results)


def test_threads_share_one_budget():
    budget = Budget(max_tokens=10**9, prices=ONE_EACH)
    results = []

    def work():
        with ScriptedLLM([*DIFFERENT[:5], "done"]) as llm:
            results.append(run_agent(llm, [add], budget=budget))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.stop_reason for result in results] == ["completed"] * 4
    assert (budget.tokens, budget.tool_calls, budget.cost) == (4 * 6 * 15, 20, 4 * 6 * 15)


def test_a_budget_has_its_own_prices():
    budget = Budget(max_cost=100, prices={"*": Price(2 * M, 2 * M)})
    with ScriptedLLM(["hi"]) as llm:
        result = run_agent(llm, budget=budget, limits=LoopLimits(prices=ONE_EACH))
    assert (result.cost, budget.cost) == (15, 30)
    with ScriptedLLM(["hi"]) as llm:
        assert run_agent(llm, budget=budget).cost == 30  # the only price there is


async def test_a_cancelled_answer_is_paid_too():
    token, gate, budget = CancelToken(), Gate(), Budget(max_cost=100, prices=ONE_EACH)
    script = [deltas("Once ", Delta(usage=TokenUsage(10, 2, 12)), gate)]
    running = asyncio.create_task(
        drive(
            start(),
            ScriptedLLM(script),
            budget=budget,
            limits=LoopLimits(prices=ONE_EACH),
            cancel_token=token,
        )
    )
    await gate.reached.wait_async()
    token.cancel()
    result = check_result(await running)
    assert (result.cost, budget.cost, budget.tokens) == (12, 12, 12)


def test_nothing_is_asked_where_the_budget_was_used_up_before():
    budget = Budget(max_tokens=1)
    budget.add(tokens=5)
    with ScriptedLLM([]) as llm:
        result = run_agent(llm, [add], budget=budget)
    assert (result.stop_reason, result.content) == ("budget", f"[Stopped: {ENGLISH.stopped['budget']}]")
    assert of_type(result.events, E.ERROR) == []


MANY = [call("add", a=n, b=n) for n in range(200)]
LEFT_OUT = "The tool call limit is reached; this call was not made."


@pytest.mark.parametrize("of", ["the run", "all runs"])
def test_an_answer_of_200_calls_does_not_pass_the_limit(of):
    made = []

    @tool(name="add")
    def counted(a: int, b: int) -> int:
        """Add two numbers."""
        made.append(a)
        return a + b

    budget = Budget(max_tool_calls=25) if of == "all runs" else None
    limits = LoopLimits(max_tool_calls=25 if budget is None else None)
    asked = []
    with ScriptedLLM([MANY, "so far"]) as llm:
        result = run_agent(
            llm,
            [counted],
            limits=limits,
            budget=budget,
            permission_mode="ask",
            on_ask=lambda r: asked.append(r) or "allow",
        )
    check_result(result)
    assert sorted(made) == list(range(25))
    assert len(asked) == 25
    assert result.state.ledger.tool_calls == 25
    assert result.stop_reason == ("max_tool_calls" if budget is None else "budget")
    texts = tool_texts(result.messages)
    assert [LEFT_OUT in text for text in texts] == [False] * 25 + [True] * 175
    assert budget is None or budget.tool_calls == 25


@pytest.mark.parametrize("what", ["max_tokens", "max_cost"])
@pytest.mark.parametrize("of", [LoopLimits, Budget])
def test_cost_of_a_tool_can_exhaust_the_budget(of, what):
    spent = {"usage": TokenUsage(700, 300, 1000).to_dict(), "cost": 5.0, "tool_calls": 2}

    @tool
    def ask_another() -> str:
        """Ask."""
        return ToolOutcome("it says no", spent=spent)

    limit = of(**{what: {"max_tokens": 500, "max_cost": 4.0}[what]}, prices={"*": Price(0.001, 0.001)})
    given = {"limits" if of is LoopLimits else "budget": limit}
    with ScriptedLLM([call("ask_another")]) as llm:  # nothing more is asked
        result = run_agent(llm, [ask_another], **given)
    assert result.stop_reason == (
        "token_limit" if given == {"limits": limit} and what == "max_tokens" else "budget"
    )
    assert check_result(result).content.startswith("[Stopped")
    if of is Budget:
        assert (limit.tokens, limit.tool_calls) == (result.usage.total_tokens, 3)


def test_tool_calls_that_are_used_up_hide_no_other_limit():
    budget = Budget(max_tool_calls=1, max_seconds=60)
    budget.add(tool_calls=1)
    assert budget.used_up == "tool calls"
    budget._begun -= 60
    assert budget.used_up == "seconds"
    with ScriptedLLM([]) as llm:
        assert run_agent(llm, [add], budget=budget).stop_reason == "budget"
