"""Whether another answer fits is estimated from the requests of the run itself."""

from __future__ import annotations

import pytest

from pure_agent_loop import Agent, Budget, LoopLimits, Price, TokenUsage
from pure_agent_loop.testing import ScriptedLLM, answer, call


def look(word: str) -> str:
    """Look a word up."""
    return f"{word} is a fruit"


def run(usage: TokenUsage, limits: LoopLimits, budget: Budget | None = None) -> tuple[str, str, int]:
    llm = ScriptedLLM(
        [answer(call("look", word="fig"), usage=usage), answer("A fruit.", usage=usage)], strict=False
    )
    result = Agent(llm=llm, tools=[look], limits=limits, budget=budget).run("What is it?")
    return str(result.stop_reason), result.content, len(llm.requests)


@pytest.mark.parametrize("usage", [TokenUsage(90, 10, 100), TokenUsage(60, 40, 100)])
def test_two_requests_of_a_hundred_tokens_fit_into_250(usage):
    reason, content, requests = run(usage, LoopLimits(max_tokens=250))
    assert (reason, requests) == ("token_limit", 2)
    assert "A fruit." in content


def test_the_same_holds_for_budgets_and_for_money():
    usage = TokenUsage(90, 10, 100)
    assert run(usage, LoopLimits(max_tokens=None), Budget(max_tokens=250))[2] == 2
    money = LoopLimits(max_tokens=None, max_cost=0.000250, prices={"*": Price(input=1.0, output=1.0)})
    assert run(usage, money)[2] == 2


def test_oversized_request_is_not_sent():
    assert run(TokenUsage(90, 10, 100), LoopLimits(max_tokens=150))[2] == 1
