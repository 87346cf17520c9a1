"""Answers that were cut off or empty, and what they cost."""

from __future__ import annotations

import pytest
from tests.helpers import E, add, check_result, of_type, run_agent

from pure_agent_loop import Agent, BaseLLMClient, LLMResponse, TokenUsage, ToolCall
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.testing import ScriptedLLM, answer, call, deltas, raw_call


def cut(text):
    return answer(text, finish_reason="length")


def test_a_cut_answer_is_continued_and_joined():
    with ScriptedLLM([cut("One, two"), cut(", three"), ", four."]) as llm:
        result = run_agent(llm)
    assert (result.content, result.stop_reason, result.steps) == ("One, two, three, four.", "completed", 3)
    assert llm.requests[1].messages[-2:] == [
        {"role": "assistant", "content": "One, two"},
        {"role": "user", "content": ENGLISH.continue_answer},
    ]
    assert result.state.transition_reason == "continue_answer"


def test_continuing_has_an_end():
    with ScriptedLLM([cut(str(n)) for n in range(4)]) as llm:
        result = run_agent(llm)
    note = ENGLISH.final_note.format(why=ENGLISH.stopped["output_limit"])
    assert (result.content, result.stop_reason) == (f"0123\n\n{note}", "output_limit")


def test_a_continuation_that_does_not_come_leaves_the_answer_cut_off():
    with ScriptedLLM([cut("all there is"), answer("")]) as llm:
        result = run_agent(llm)
    note = ENGLISH.final_note.format(why=ENGLISH.stopped["output_limit"])
    assert (result.content, result.stop_reason) == (f"all there is\n\n{note}", "output_limit")


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_limit_that_cut_off_a_call_is_doubled_once(name):
    cut_off = answer(raw_call("add", '{"a": 1, '), finish_reason="length")
    with ScriptedLLM([cut_off, call("add", a=1, b=2), cut_off, "3"]) as llm:
        result = run_agent(llm, tools=[add], **{name: 20})
    assert [request.options[name] for request in llm.requests] == [20, 40, 40, 40]
    assert result.content == "3"


def test_a_limit_that_cut_off_everything_is_doubled():
    with ScriptedLLM([answer(reasoning="hm", finish_reason="length"), "3"]) as llm:
        run_agent(llm, max_tokens=20)
    assert [request.options["max_tokens"] for request in llm.requests] == [20, 40]


def test_without_a_limit_of_the_caller_none_is_sent():
    with ScriptedLLM([answer(raw_call("add", "{"), finish_reason="length"), "3"]) as llm:
        run_agent(llm, tools=[add])
    assert "max_tokens" not in llm.requests[1].options


@pytest.mark.parametrize("empty", [answer(""), answer(None), answer(None, reasoning="only thinking")])
def test_an_empty_answer_is_asked_for_once_more(empty):
    with ScriptedLLM([empty, "Here it is."]) as llm:
        result = run_agent(llm)
    assert (result.content, result.stop_reason, result.steps) == ("Here it is.", "completed", 2)
    assert llm.requests[1].messages[-1] == {"role": "user", "content": ENGLISH.empty_answer}
    assert result.state.answer.asked_again


def test_two_empty_answers_are_an_error():
    with ScriptedLLM([call("add", a=1, b=1), answer(""), answer("")]) as llm:
        result = run_agent(llm, [add])
    assert (result.stop_reason, result.steps) == ("error", 3)
    (error,) = of_type(result.events, E.ERROR)
    assert (error.content, error.data["kind"]) == ("The model returned an empty answer twice.", "incomplete")


def test_usage_is_summed():
    script = [
        answer(call("add", a=1, b=1), usage=TokenUsage(100, 10, 110, reasoning_tokens=4)),
        answer(call("add", a=1, b=2), usage=TokenUsage(120, 10, 130, cached_tokens=100)),
        answer("2 and 3", usage=TokenUsage(140, 20, 160, reasoning_tokens=6, cached_tokens=0)),
    ]
    with ScriptedLLM(script) as llm:
        result = run_agent(llm, [add])
    counts = {"reasoning_tokens": 10, "cached_tokens": 100, "cache_missed_tokens": 120}
    assert result.usage == TokenUsage(360, 40, 400, **counts)
    assert result.state.ledger.tokens == 400
    assert [e.data["usage"]["total_tokens"] for e in of_type(result.events, E.STEP_END)] == [110, 240, 400]


def test_unreported_usage_is_none():
    with ScriptedLLM(["hi"]) as llm:
        usage = run_agent(llm).usage
    assert (usage.reasoning_tokens, usage.cached_tokens, usage.estimated) == (None, None, False)


def test_missing_usage_is_estimated():
    with ScriptedLLM([call("add", a=1, b=1), "It is two."], usage=None) as llm:
        usage = run_agent(llm, [add]).usage
    assert usage.estimated
    assert usage.prompt_tokens > usage.completion_tokens > 3
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert (usage.reasoning_tokens, usage.cached_tokens) == (None, None)


def test_a_try_that_broke_off_counts_by_estimate_one_that_did_not_begin_does_not():
    whole = answer("whole", usage=TokenUsage(1, 2, 3))
    with ScriptedLLM([TimeoutError("slow"), whole]) as llm:
        assert run_agent(llm).usage == TokenUsage(1, 2, 3)
    with ScriptedLLM([deltas("half", TimeoutError("slow"), usage=None), whole]) as llm:
        result = run_agent(llm)
    assert result.usage.estimated
    assert result.usage.prompt_tokens > 1
    assert result.usage.completion_tokens > 2
    assert result.usage.total_tokens == result.state.ledger.tokens


class OnlyChat(BaseLLMClient):
    """The smallest client there can be."""

    def __init__(self):
        self.asked = 0

    async def chat(self, messages, tools=None, **kwargs):
        self.asked += 1
        if self.asked == 1:
            return LLMResponse(None, [call_of("add", a=1, b=2)], None, None)
        return LLMResponse("It is 3.", [], None, None)


def call_of(name, **arguments):
    return ToolCall("", name, arguments)


class Bare:
    """Not even a subclass, and no registered tools."""

    async def chat(self, messages, tools=None, **kwargs):
        return LLMResponse(f"{tools} {sorted(kwargs)}", [], None, None)


def test_a_minimal_client_can_do_everything():
    prepared = Agent(llm=OnlyChat(), tools=[add]).prepare("go")
    events = list(prepared.stream_sync())
    result = check_result(prepared.result())
    assert result.content == "It is 3."
    assert [e.content for e in of_type(events, E.TEXT_DELTA)] == ["It is 3."]
    assert result.messages[1]["tool_calls"][0]["id"]
    assert result.usage.estimated


def test_a_client_of_any_class_gets_no_empty_tool_list():
    assert run_agent(Bare()).content == "None ['temperature']"
    assert run_agent(Bare(), temperature=None, top_p=1).content == "None ['top_p']"


def test_reasoning_is_shown_on_request_and_never_sent_back():
    script = [answer(call("add", a=1, b=1), reasoning="adding"), answer("2", reasoning="done")]
    for shown in (True, False):
        with ScriptedLLM(script) as llm:
            result = run_agent(llm, [add], emit_reasoning_events=shown)
        assert [e.content for e in of_type(result.events, E.REASONING)] == (
            ["adding", "done"] if shown else []
        )
        deltas_of_it = "".join(e.content for e in of_type(result.events, E.REASONING_DELTA))
        assert deltas_of_it == ("addingdone" if shown else "")
        assert "adding" not in str(llm.requests[1].messages)
        assert "adding" not in str(result.messages)


def test_think_tags_are_reasoning():
    script = [deltas("<thi", "nk>hm</think>", "Yes", ".")]
    with ScriptedLLM(script) as llm:
        result = run_agent(llm, emit_reasoning_events=True)
    assert result.content == "Yes."
    assert of_type(result.events, E.REASONING)[0].content == "hm"


def test_options_reach_every_request():
    with ScriptedLLM([call("add", a=1, b=1), "2"]) as llm:
        run_agent(llm, [add], temperature=0.1, top_p=0.5, thinking_level="low", extra_body={"a": 1})
    wanted = {"temperature": 0.1, "top_p": 0.5, "thinking_level": "low", "extra_body": {"a": 1}}
    assert [request.options for request in llm.requests] == [wanted] * 2


def test_double_and_missing_call_ids_are_made_unique():
    script = [
        [ToolCall("x", "add", {"a": 1, "b": 1}), ToolCall("x", "add", {"a": 2, "b": 2})],
        [ToolCall("x", "add", {"a": 3, "b": 3}), ToolCall("", "add", {"a": 4, "b": 4})],
        "done",
    ]
    with ScriptedLLM(script) as llm:
        result = run_agent(llm, [add])
    ids = [call["id"] for m in result.messages for call in m.get("tool_calls", ())]
    assert len(set(ids)) == 4
    assert "" not in ids
    assert [m["content"] for m in result.messages if m["role"] == "tool"] == ["2", "4", "6", "8"]
