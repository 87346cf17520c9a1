"""Asking the questions, through a real client and a real server."""

from __future__ import annotations

import asyncio

import pytest
from benchmarks.bfcl.questions import GROUPS
from benchmarks.bfcl.runner import Setup, evaluate
from eval_answers import Oracle

from pure_agent_loop import LLMError, LLMResponse, OpenAIClient
from pure_agent_loop.evaluation.runner import LOST_AFTER
from pure_agent_loop.testing import FakeClock, ScriptedLLM, ScriptedServer, answer, call, raw_call

PATIENCE = 30
PYTHON = [name for name in GROUPS["all"] if name not in GROUPS["other_languages"]]


def ask(client, checker, questions, **options):
    records = []
    setup = Setup(client, checker, "run", **{"clock": FakeClock(), **options})

    async def work():
        try:
            await evaluate(setup, questions, records.append)
        finally:
            await client.aclose()

    asyncio.run(work())
    return records


def failing(error, questions, checker, **options):
    """The records until the run ended with an error."""
    records = []
    llm = ScriptedLLM(lambda *_: error)
    with pytest.raises(LLMError) as caught:
        asyncio.run(
            evaluate(Setup(llm, checker, "run", clock=FakeClock(), **options), questions, records.append)
        )
    assert caught.value is error
    return records


@pytest.mark.parametrize("name", PYTHON)
def test_right_and_wrong_answers_over_the_wire(name, questions, checker):
    asked = questions(name)[:6]
    wrong = call("made_up", x=1)
    special = {asked[1].id: "Sorry." if asked[1].set.wanted == "any_call" else wrong}
    special[asked[3].id] = answer() if asked[3].set.wanted != "no_call" else [wrong, wrong]
    oracle = Oracle(asked, special)
    with ScriptedServer(handler=oracle.serve) as server:
        client = OpenAIClient("m", api_key="k", base_url=server.base_url)
        records = ask(client, checker, asked)
        server.assert_clean()
    assert oracle.asked == [record.id for record in records] == [question.id for question in asked]
    assert [record.id for record in records if not record.right] == list(special)
    assert all(bool(record.error_type) != record.right for record in records)
    assert [record.messages for record in records] == [question.messages for question in asked]


def test_record_holds_the_answer(questions, checker):
    question = questions("simple_python")[0]
    broken = raw_call("calculate_triangle_area", '{"base": 10')
    llm = ScriptedLLM([answer("Let me see.", broken)])
    (record,) = ask(llm, checker, [question])
    assert record.text == "Let me see."
    assert (record.right, record.error_type, record.finish_reason) == (
        False,
        "invalid_arguments",
        "tool_calls",
    )
    assert record.calls[0]["arguments"] == {}
    assert '{"base": 10' in record.calls[0]["invalid"] == record.error
    assert record.usage is not None
    assert record.usage["completion_tokens"] == 5
    assert record.requests is None


@pytest.mark.parametrize(("raw", "known"), [({"requests": 3}, 3), ({"requests": True}, None), ("text", None)])
def test_a_client_may_say_how_many_requests_it_sent(raw, known, questions, checker):
    llm = ScriptedLLM([LLMResponse("No.", raw=raw)])
    (record,) = ask(llm, checker, questions("irrelevance")[:1])
    assert record.requests == known
    assert record.right


def test_a_question_without_tools_is_asked_without_tools(questions, checker):
    without = [question for question in questions("live_irrelevance") if not question.tools]
    llm = ScriptedLLM(lambda *_: "No.")
    assert all(record.right for record in ask(llm, checker, without))
    assert [request.tools for request in llm.requests] == [None] * len(without) != []


def test_all_questions_are_asked_once_whatever_the_width(questions, checker):
    asked = questions("simple_python")[:30]
    oracle = Oracle(asked)
    with ScriptedServer(handler=oracle.serve) as server:
        client = OpenAIClient("m", api_key="k", base_url=server.base_url)
        records = ask(client, checker, asked, concurrency=7)
    assert sorted(record.id for record in records) == sorted(oracle.asked) == sorted(q.id for q in asked)
    assert all(record.right for record in records)


@pytest.mark.parametrize("width", [1, 3])
def test_so_many_questions_are_open_at_a_time(width, questions, checker):
    now, most = 0, 0

    async def slow(messages, tools, options):
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(10):  # others get their turn
            await asyncio.sleep(0)
        now -= 1
        return "No."

    ask(ScriptedLLM(slow), checker, questions("irrelevance")[:12], concurrency=width)
    assert most == width


def test_only_the_time_of_the_last_try_counts(questions, checker):
    clock = FakeClock(chance=0)
    clock.advance(100)
    script = [LLMError("busy", kind="overloaded"), "No.", "No."]

    def play(messages, tools, options):
        clock.advance(7)
        return script.pop(0)

    records = ask(ScriptedLLM(play), checker, questions("irrelevance")[:2], clock=clock)
    assert [(record.seconds, record.right) for record in records] == [(7, True), (7, True)]
    assert clock.waits == [1]


def test_a_failed_request_is_not_an_answer(questions, checker):
    asked = questions("irrelevance")[:3]
    script = ["No.", LLMError("too long", kind="context_overflow"), "No."]
    records = ask(ScriptedLLM(script), checker, asked)
    assert [record.right for record in records] == [True, False, True]
    assert (records[1].error_type, records[1].error) == ("request:context_overflow", "too long")
    assert [record.answered for record in records] == [True, False, True]


@pytest.mark.parametrize("kind", ["auth", "not_found", "quota"])
def test_failure_common_to_all_questions_ends_the_run(kind, questions, checker):
    records = failing(LLMError("no", kind=kind), questions("irrelevance")[:9], checker)
    assert [record.error_type for record in records] == [f"request:{kind}"]


def test_lost_server_ends_the_evaluation(questions, checker):
    records = failing(LLMError("gone", kind="connection"), questions("irrelevance")[:9], checker)
    assert len(records) == LOST_AFTER


def test_returning_server_does_not_end_the_evaluation(questions, checker):
    gone = [LLMError("gone", kind="connection")] * 3  # the first try and two more
    asked = questions("irrelevance")[:7]
    records = ask(ScriptedLLM([*gone, *gone, "No.", *gone, *gone, "No.", "No."]), checker, asked)
    assert [record.right for record in records] == [False, False, True, False, False, True, True]


def test_an_end_in_one_place_ends_all_others(questions, checker):
    error = LLMError("no", kind="auth")
    left = []

    async def wait_or_fail(messages, tools, options):
        if messages != questions("irrelevance")[4].messages:
            try:
                await asyncio.Event().wait()
            finally:
                left.append(1)
        return error

    records = []
    setup = Setup(ScriptedLLM(wait_or_fail), checker, "run", concurrency=5, clock=FakeClock())
    with pytest.raises(LLMError):
        asyncio.run(asyncio.wait_for(evaluate(setup, questions("irrelevance")[:9], records.append), PATIENCE))
    assert (len(records), len(left)) == (1, 4)
