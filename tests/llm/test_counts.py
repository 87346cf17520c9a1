"""Counts of tokens that a server repeats as 0, reports below zero, or that cannot be right."""

import pytest

from pure_agent_loop import Agent, Budget, EventType, RetryConfig
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.response import Assembler
from pure_agent_loop.llm.values import Delta, TokenUsage
from pure_agent_loop.testing import ScriptedLLM, answer, call, deltas

LONG = "word " * 2_000
WRONG = {
    "all below zero": TokenUsage(-1_000, -10, -1_010),
    "prompt below zero": TokenUsage(-1_000, 3_000, 2_000),
    "too few for the text": TokenUsage(2_000, 2, 2_002),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_report_that_cannot_be_right_is_estimated_with_a_notice(name):
    budget = Budget(max_tokens=100_000)
    result = Agent(llm=ScriptedLLM([answer(LONG, usage=WRONG[name])]), budget=budget).run("x")
    assert result.usage.estimated
    assert result.usage.completion_tokens > 1_000
    assert result.usage.prompt_tokens > 0
    assert budget.tokens >= result.usage.total_tokens
    notices = [event.data["message"] for event in result.events if event.type is EventType.NOTICE]
    assert any("estimated" in text for text in notices)


def test_a_report_too_small_for_the_arguments_of_a_call_is_estimated():
    def keep(text: str) -> str:
        return str(len(text))

    script = [answer(call("keep", text=LONG), usage=WRONG["too few for the text"]), "done"]
    result = Agent(llm=ScriptedLLM(script), tools=[keep]).run("x")
    assert result.usage.estimated
    assert result.usage.completion_tokens > 1_000


@pytest.mark.parametrize(
    ("reports", "wanted"),
    [
        ([TokenUsage(500, 1, 501), TokenUsage(0, 7, 7)], (500, 7, 507)),
        ([TokenUsage(0, 0, 0), TokenUsage(500, 7, 507)], (500, 7, 507)),
        ([TokenUsage(500, 7, 507), TokenUsage(-5, -5, -10)], (500, 7, 507)),
        ([TokenUsage(-5, -5, -10), TokenUsage(500, 7, 507)], (500, 7, 507)),
    ],
)
def test_the_largest_of_several_counts_is_right(reports, wanted):
    assembler = Assembler()
    for usage in reports:
        assembler.feed(Delta(usage=usage))
    usage = assembler.partial().usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == wanted


def test_what_is_known_is_counted_if_an_answer_breaks_off():
    cut = deltas(
        "half " * 100, Delta(usage=TokenUsage(12_345, 1, 12_346)), LLMError("gone", kind="bad_request")
    )
    result = Agent(llm=ScriptedLLM([cut]), retry=RetryConfig(max_retries=0)).run("x")
    assert result.usage.prompt_tokens == 12_345
    assert result.usage.completion_tokens > 50
