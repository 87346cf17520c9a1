"""Counts of tokens that a server repeats as 0, reports below zero, or that cannot be right."""

import json
from http.server import BaseHTTPRequestHandler

import pytest

from pure_agent_loop import (
    Agent,
    AnthropicClient,
    Budget,
    EventType,
    Fallback,
    GeminiClient,
    LoopLimits,
    OpenAIClient,
    Price,
    ResponsesClient,
    RetryConfig,
)
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.response import Assembler
from pure_agent_loop.llm.values import Delta, TokenUsage
from pure_agent_loop.testing import ScriptedLLM, answer, call, deltas
from tests.serving import JsonAnswers, serving

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
        ([TokenUsage(900, 1, 901), TokenUsage(11, 7, 18)], (11, 7, 18)),
        ([TokenUsage(500, 7, 507), TokenUsage(-5, -5, -10)], (500, 7, 507)),
        ([TokenUsage(-5, -5, -10), TokenUsage(500, 7, 507)], (500, 7, 507)),
    ],
)
def test_newest_count_that_is_not_0_is_right(reports, wanted):
    assembler = Assembler()
    for usage in reports:
        assembler.feed(Delta(usage=usage))
    usage = assembler.partial().usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == wanted


def test_reported_usage_counts_when_an_answer_breaks_off():
    cut = deltas(
        "half " * 100, Delta(usage=TokenUsage(12_345, 1, 12_346)), LLMError("gone", kind="bad_request")
    )
    result = Agent(llm=ScriptedLLM([cut]), retry=RetryConfig(max_retries=0)).run("x")
    assert result.usage.prompt_tokens == 12_345
    assert result.usage.completion_tokens > 50


# -- reports of every protocol, and of a user's own client ----------------------------------------------

HUGE = 10**6
CLIENTS = {
    "chat": OpenAIClient,
    "messages": AnthropicClient,
    "responses": ResponsesClient,
    "gemini": GeminiClient,
}
REPORTS = {
    "chat": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    "messages": {"input_tokens": 10, "output_tokens": 5},
    "responses": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    "gemini": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
}
BELOW_ZERO = [
    ("chat", {"total_tokens": -1_000}),
    ("chat", {"completion_tokens": -1}),
    ("chat", {"prompt_tokens_details": {"cached_tokens": -1}}),
    ("chat", {"prompt_tokens_details": {"cache_write_tokens": -HUGE}}),
    ("chat", {"completion_tokens_details": {"reasoning_tokens": -HUGE}}),
    ("messages", {"output_tokens": -1}),
    ("messages", {"input_tokens": -5, "cache_read_input_tokens": 100}),
    ("messages", {"cache_read_input_tokens": -9}),
    ("messages", {"cache_creation_input_tokens": -HUGE}),
    ("messages", {"cache_creation": {"ephemeral_1h_input_tokens": -HUGE}}),
    ("responses", {"total_tokens": -1_000}),
    ("responses", {"input_tokens_details": {"cached_tokens": -HUGE}}),
    ("responses", {"output_tokens_details": {"reasoning_tokens": -HUGE}}),
    ("gemini", {"candidatesTokenCount": -1}),
    ("gemini", {"thoughtsTokenCount": -4}),
    ("gemini", {"toolUsePromptTokenCount": -9}),
    ("gemini", {"cachedContentTokenCount": -9}),
]
TOO_LARGE = [
    ("chat", {"completion_tokens_details": {"reasoning_tokens": HUGE}}),
    ("chat", {"prompt_tokens_details": {"cached_tokens": HUGE, "cache_write_tokens": HUGE}}),
    ("chat", {"total_tokens": 1}),
    ("responses", {"total_tokens": 1}),
    ("responses", {"output_tokens_details": {"reasoning_tokens": HUGE}}),
    ("gemini", {"cachedContentTokenCount": HUGE}),
]


def document(protocol, usage):
    if protocol == "chat":
        choice = {"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}
        return {"choices": [choice], "usage": usage}
    if protocol == "messages":
        text = {"type": "text", "text": "ok"}
        return {"type": "message", "content": [text], "stop_reason": "end_turn", "usage": usage}
    if protocol == "responses":
        text = {"type": "output_text", "text": "ok", "annotations": []}
        item = {"type": "message", "id": "m", "role": "assistant", "content": [text]}
        return {"object": "response", "status": "completed", "output": [item], "usage": usage}
    content = {"role": "model", "parts": [{"text": "ok"}]}
    return {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}


def run_with(protocol, changes, wrap=lambda client: client):
    body = json.dumps(document(protocol, {**REPORTS[protocol], **changes})).encode()

    class Answers(JsonAnswers, BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.answer(body)

    budget = Budget(max_tokens=100_000)
    price = Price(1.0, 1.0, cached=0.1, cache_write=2.0)
    with serving(Answers) as port:
        client = wrap(CLIENTS[protocol]("m", "a-key-of-a-test", f"http://127.0.0.1:{port}"))
        result = Agent(llm=client, budget=budget, limits=LoopLimits(prices={"m": price})).run("x")
    assert result.content == "ok"
    return result, budget


def check_bounded(usage):
    assert 0 < usage.prompt_tokens + usage.completion_tokens <= usage.total_tokens
    assert 0 <= (usage.reasoning_tokens or 0) <= usage.completion_tokens
    assert 0 <= (usage.cached_tokens or 0) <= usage.prompt_tokens
    assert 0 <= (usage.cache_write_1h_tokens or 0) <= (usage.cache_write_tokens or 0) <= usage.prompt_tokens
    assert 0 < usage.cost < 1


@pytest.mark.parametrize(("protocol", "changes"), BELOW_ZERO)
def test_a_count_below_zero_in_any_protocol_is_estimated_with_a_notice(protocol, changes):
    result, budget = run_with(protocol, changes)
    assert result.usage.estimated
    check_bounded(result.usage)
    assert budget.tokens == result.usage.total_tokens
    assert [event.type for event in result.events].count(EventType.NOTICE) == 1


@pytest.mark.parametrize(("protocol", "changes"), TOO_LARGE)
def test_a_part_larger_than_its_whole_in_any_protocol_is_bounded(protocol, changes):
    result, budget = run_with(protocol, changes)
    assert not result.usage.estimated
    check_bounded(result.usage)
    assert budget.tokens == result.usage.total_tokens >= 15


def test_a_count_below_zero_behind_a_group_is_estimated():
    result, budget = run_with("chat", {"total_tokens": -1_000}, lambda client: Fallback([client]))
    assert result.usage.estimated
    check_bounded(result.usage)
    assert budget.tokens == result.usage.total_tokens


@pytest.mark.parametrize(
    "usage",
    [
        TokenUsage(10, 5, -1_000),
        TokenUsage(10, 5, 15, cost=-3.0),
        TokenUsage(10, 5, 15, cost=float("nan")),
        TokenUsage(10, 5, 1),
        TokenUsage(10, 5, 15, by_model=(("m", TokenUsage(10, 5, -1_000)),)),
    ],
)
def test_no_report_of_an_own_client_refills_a_budget(usage):
    budget = Budget(max_tokens=1_000)
    result = Agent(llm=ScriptedLLM([answer("ok", usage=usage)]), budget=budget).run("x")
    assert budget.tokens == result.usage.total_tokens > 0
    assert budget.cost >= 0


def test_no_spent_tokens_of_an_own_client_refill_a_budget():
    budget = Budget(max_tokens=1_000)
    pieces = deltas(
        Delta(spent=TokenUsage(-1_000, 0, -1_000)),
        "ok",
        Delta(finish_reason="stop", usage=TokenUsage(10, 5, 15)),
    )
    Agent(llm=ScriptedLLM([pieces]), budget=budget).run("x")
    assert budget.tokens == 15
