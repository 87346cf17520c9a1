"""Requests that were paid and gave no answer are counted, by estimate, wherever something is limited."""

from __future__ import annotations

import pytest
from tests.subagents.family import family, parent

from pure_agent_loop import (
    Agent,
    Budget,
    CancelToken,
    EventType,
    LimitExceededError,
    LLMError,
    LLMResponse,
    LoopLimits,
    Price,
    RetryConfig,
    TokenUsage,
)
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.testing import ScriptedLLM, answer, call, deltas

pytestmark = pytest.mark.anyio
QUICK = RetryConfig(max_retries=1, base_delay=0.0, jitter=0.0)
LONG = "word " * 400
BROKEN = deltas("half an answer", LLMError("reset", kind="connection"), usage=None)
WHOLE = answer("whole", usage=TokenUsage(10, 1, 11))
LIMITS = LoopLimits(prices={"*": Price(1, 1)})


def look(word: str) -> str:
    """Look a word up."""
    return "a fruit"


def test_a_try_that_broke_off_counts_in_all_that_is_limited():
    budget = Budget(max_tokens=100_000, prices={"*": Price(1, 1)})
    with ScriptedLLM([BROKEN, WHOLE]) as llm:
        result = Agent(llm=llm, retry=QUICK, limits=LIMITS, budget=budget).run(LONG)
    assert result.usage.estimated
    assert result.usage.prompt_tokens > 300
    assert budget.tokens == result.usage.total_tokens == result.state.ledger.tokens
    assert budget.cost == result.cost == pytest.approx(result.usage.total_tokens / 1e6)


def test_arguments_that_were_written_and_an_answer_without_its_calls_count():
    written = deltas(call("look", word=LONG), LLMError("reset", kind="connection"), usage=None)
    with ScriptedLLM([written, WHOLE]) as llm:
        assert Agent(llm=llm, tools=[look], retry=QUICK).run("x").usage.completion_tokens > 300
    lost = answer("Let me look.", finish_reason="tool_calls", usage=TokenUsage(70, 7, 77))
    with ScriptedLLM([lost, WHOLE]) as llm:
        assert Agent(llm=llm, tools=[look], retry=QUICK).run("x").usage == TokenUsage(80, 8, 88)


def test_rejected_or_unsent_request_does_not_count():
    for error in (
        LLMError("slow down", kind="rate_limit", status=429),
        LLMError("refused", kind="connection"),
    ):
        with ScriptedLLM([error, WHOLE]) as llm:
            assert Agent(llm=llm, retry=QUICK).run(LONG).usage == TokenUsage(10, 1, 11)


def test_a_run_that_fails_after_broken_answers_has_used_tokens():
    with ScriptedLLM([BROKEN, BROKEN]) as llm:
        result = Agent(llm=llm, retry=QUICK, limits=LIMITS).run(LONG)
    assert (result.stop_reason, result.usage.estimated) == ("error", True)
    assert result.usage.prompt_tokens > 600
    assert result.cost > 0


async def test_an_answer_that_was_cancelled_counts_and_its_text_stays():
    token = CancelToken()
    with ScriptedLLM([answer("word " * 200)]) as llm:
        run = Agent(llm=llm, limits=LIMITS).prepare(LONG, cancel_token=token)
        async for event in run.stream():
            if event.type is EventType.TEXT_DELTA:
                token.cancel()
        result = run.result()
    assert (result.stop_reason, result.usage.estimated) == ("cancelled", True)
    assert result.usage.prompt_tokens > 300
    assert result.usage.completion_tokens > 0
    assert result.cost > 0


def test_lost_attempts_of_a_subagent_count_for_its_parent():
    llm = family(parent=[call("task", agent="helper", prompt=LONG), WHOLE], helper=[BROKEN, WHOLE])
    budget = Budget(max_tokens=1_000_000)
    result = parent(llm, budget=budget).run("x")
    assert result.usage.estimated
    assert budget.tokens == result.usage.total_tokens > 300


def test_answer_record_includes_lost_attempts():
    response = LLMResponse("whole", spent=TokenUsage(300, 3, 303, estimated=True))
    assert LLMResponse.from_dict(response.to_dict()) == response
    assert "spent" not in LLMResponse("whole").to_dict()


THOUSAND = LoopLimits(max_tokens=1000)
MORE = RetryConfig(max_retries=5, base_delay=0.0, jitter=0.0)


@pytest.mark.parametrize(
    ("limits", "budget", "reason", "limit"),
    [
        (THOUSAND, None, "token_limit", 1000),
        (LoopLimits(max_cost=0.001, prices={"*": Price(1, 1)}), None, "budget", 0.001),
        (LoopLimits(), Budget(max_tokens=1000), "budget", None),
    ],
)
def test_a_further_try_has_to_fit_the_limits(limits, budget, reason, limit):
    with ScriptedLLM([BROKEN] * 6, strict=False) as llm:
        result = Agent(llm=llm, retry=MORE, limits=limits, budget=budget).run(LONG)
        assert len(llm.requests) == 2
    assert (result.stop_reason, result.usage.total_tokens < 1000) == (reason, True)
    assert result.content.startswith("[Stopped: ")
    failure = result.state.failure
    assert isinstance(failure, LimitExceededError)
    assert (failure.limit_type, failure.limit_value) == (reason, limit)
    assert isinstance(failure.__cause__, LLMError)
    assert [event.data["fatal"] for event in result.events if event.type is EventType.ERROR] == [False]
    assert "another attempt of about" in result.error


def test_a_refusal_that_cost_nothing_is_repeated_whatever_the_limit():
    slow_down = LLMError("slow down", kind="rate_limit", status=429)
    with ScriptedLLM([slow_down, slow_down, WHOLE]) as llm:
        assert Agent(llm=llm, retry=MORE, limits=LoopLimits(max_tokens=20)).run(LONG).content == "whole"


def test_a_shared_budget_sees_a_broken_try_before_the_next_one_begins():
    budget = Budget(max_tokens=100_000)
    seen: list[int] = []

    def note(*request: object) -> object:
        seen.append(budget.tokens)
        return BROKEN if len(seen) < 3 else WHOLE

    with ScriptedLLM([note, note, note]) as llm:
        result = Agent(llm=llm, retry=MORE, budget=budget).run(LONG)
    assert 0 == seen[0] < seen[1] < seen[2] < budget.tokens == result.usage.total_tokens


def test_a_last_answer_that_breaks_off_ends_with_the_limit_it_was_for():
    limits = LoopLimits(max_turns=1, max_tokens=1000)
    with ScriptedLLM([answer(call("look", word="fig"), usage=TokenUsage(90, 9, 99)), BROKEN, BROKEN]) as llm:
        result = Agent(llm=llm, tools=[look], retry=MORE, limits=limits).run(LONG)
    assert (result.stop_reason, len(llm.requests)) == ("max_steps", 3)


@pytest.mark.parametrize("limits", [LoopLimits(), THOUSAND])
def test_a_replay_counts_the_tries_of_a_request_without_an_answer(limits, tmp_path):
    sessions = JsonlStore(tmp_path)
    with ScriptedLLM([BROKEN, BROKEN, BROKEN], strict=False) as llm:
        agent = Agent(llm=llm, retry=RetryConfig(2, 0.0, 0.0, 0.0), limits=limits, sessions=sessions)
        result = agent.run(LONG, session_id="s")
    assert result.stop_reason == ("error" if limits.max_tokens == 100_000 else "token_limit")
    assert replay_session(sessions.read("s").records, agent=agent).difference is None
