"""Soft limits: a notice every so often, and the run goes on."""

from __future__ import annotations

import pytest
from tests.helpers import E, add, check_result, of_type, run_agent, run_kernel

from pure_agent_loop import Agent, LoopLimits, tool
from pure_agent_loop.prompts import CHINESE, ENGLISH
from pure_agent_loop.testing import FakeClock, ScriptedLLM, call


def adds(count):
    return [call("add", a=n, b=n) for n in range(count)]


def notices(requests):
    """The last message of each request, where it is a notice."""
    return [r.messages[-1]["content"] if r.messages[-1]["role"] == "user" else "" for r in requests[1:]]


def test_a_notice_comes_every_so_many_steps():
    with ScriptedLLM([*adds(5), "done"]) as llm:
        result = run_agent(llm, [add], limits=LoopLimits(max_steps=2))
    told = notices(llm.requests)
    assert [bool(text) for text in told] == [False, True, False, True, False]
    assert told[1].startswith("[Notice] You have taken 2 steps.")
    assert told[3].startswith("[Notice] You have taken 4 steps.")
    events = of_type(result.events, E.SOFT_LIMIT)
    assert [(e.step, e.data["reason"], e.content) for e in events] == [
        (3, "step_limit", told[1]),
        (5, "step_limit", told[3]),
    ]
    assert (result.stop_reason, result.steps, result.content) == ("completed", 6, "done")


def timed(clock, seconds):
    @tool
    def work(n: int) -> str:
        """Take a while."""
        clock.advance(seconds)
        return "done"

    return work


def test_a_notice_comes_every_so_many_seconds():
    clock = FakeClock()
    script = [call("work", n=n) for n in range(5)]
    with ScriptedLLM([*script, "done"]) as llm:
        limits = LoopLimits(max_steps=None, timeout=90)
        result = run_kernel(llm, [timed(clock, 60)], clock=clock, limits=limits)
    told = notices(llm.requests)
    assert [bool(text) for text in told] == [False, True, False, True, False]
    assert told[1].startswith("[Notice] You have been working for 120 seconds.")
    assert told[3].startswith("[Notice] You have been working for 240 seconds.")
    assert [e.data["reason"] for e in of_type(result.events, E.SOFT_LIMIT)] == ["timeout"] * 2


@pytest.mark.parametrize(
    ("language", "words"),
    [("en", ENGLISH.step_limit), ("zh", CHINESE.step_limit), (None, ENGLISH.step_limit)],
)
def test_the_words_are_those_of_the_language(language, words):
    with ScriptedLLM([*adds(1), "done"]) as llm:
        agent = Agent(llm=llm, tools=[add], limits=LoopLimits(max_steps=1), language=language)
        check_result(agent.run("go"))
    assert notices(llm.requests) == [words.replace("{steps}", "1")]


def test_the_language_of_the_environment(monkeypatch):
    monkeypatch.setenv("PAL_LANG", "zh_CN.UTF-8")
    with ScriptedLLM([*adds(1), "done"]) as llm:
        run_agent(llm, [add], limits=LoopLimits(max_steps=1))
    assert notices(llm.requests) == ["【提示】你已经执行了 1 步。" + CHINESE.step_limit.partition("。")[2]]


def test_words_of_your_own():
    words = 'Step {current_steps} of {max_steps}, {total_tokens}/{max_tokens}, {elapsed} s. {"json": 1} 100%'
    limits = LoopLimits(max_steps=1, step_limit_prompt=words, timeout_prompt="unused")
    with ScriptedLLM([*adds(2), "done"]) as llm:
        run_kernel(llm, [add], clock=FakeClock(), limits=limits)
    assert notices(llm.requests) == [
        'Step 1 of 1, 15/100000, 0 s. {"json": 1} 100%',
        'Step 2 of 1, 30/100000, 0 s. {"json": 1} 100%',
    ]


def test_words_of_your_own_for_time():
    clock = FakeClock()
    limits = LoopLimits(timeout=1, timeout_prompt="{seconds} s are gone")
    with ScriptedLLM([call("work", n=1), "done"]) as llm:
        run_kernel(llm, [timed(clock, 1.6)], clock=clock, limits=limits)
    assert notices(llm.requests) == ["2 s are gone"]


def test_formats_and_the_steps_since_the_last_notice_are_filled_in():
    words = (
        "{checkpoint_steps:02d} since, {current_steps:>3} in all, {elapsed:.1f}/{timeout:.0f} s, {tokens:,}"
    )
    with ScriptedLLM([*adds(4), "done"]) as llm:
        run_kernel(llm, [add], clock=FakeClock(), limits=LoopLimits(max_steps=2, step_limit_prompt=words))
    said = [text for text in notices(llm.requests) if text]
    assert [text.split(" s, ")[0] for text in said] == [
        "02 since,   2 in all, 0.0/300",
        "02 since,   4 in all, 0.0/300",
    ]
    clock = FakeClock()
    limits = LoopLimits(
        timeout=1, timeout_prompt="{elapsed:.1f} of {timeout}, {seconds:d}, {max_steps:.1f}", max_steps=None
    )
    with ScriptedLLM([call("work", n=1), "done"]) as llm:
        run_kernel(llm, [timed(clock, 1.62)], clock=clock, limits=limits)
    assert notices(llm.requests) == ["1.6 of 1, 2, ∞"]


def test_conversions_are_filled_in():
    words = '{max_steps!r}, {steps!s:>3}, {max_tokens!a:.2}, {steps:.2}, {max_steps:g} {"b": {"c": 1}}'
    with ScriptedLLM([*adds(1), "done"]) as llm:
        run_agent(llm, [add], limits=LoopLimits(max_steps=1, step_limit_prompt=words))
    assert notices(llm.requests) == ['1,   1, 10, 1.0, 1 {"b": {"c": 1}}']


def test_none_switches_a_soft_limit_off():
    with ScriptedLLM([*adds(30), "done"]) as llm:
        result = run_agent(llm, [add], limits=LoopLimits(max_steps=None, timeout=None))
    assert of_type(result.events, E.SOFT_LIMIT) == []
    assert result.steps == 31


def test_notices_stay_in_the_history_but_never_in_front_of_it():
    with ScriptedLLM([*adds(2), "done"]) as llm:
        result = run_agent(llm, [add], limits=LoopLimits(max_steps=1), system_prompt="Be brief.")
    for request in llm.requests:
        assert [m["role"] for m in request.messages].count("system") == 1
        assert request.messages[0] == {"role": "system", "content": "Be brief."}
        assert all("meta" not in message for message in request.messages)
    earlier, later = llm.requests[-2].messages, llm.requests[-1].messages
    assert later[: len(earlier)] == earlier  # nothing before the tail ever changes
    assert [m["role"] for m in result.messages] == [
        *("user", "assistant", "tool"),
        *("user", "assistant", "tool"),
        *("user", "assistant"),
    ]
    synthetic = [bool(m.get("meta")) for m in result.state.messages if m["role"] == "user"]
    assert synthetic == [False, True, True]


def test_a_hard_limit_wins_over_a_soft_one_at_the_same_step():
    with ScriptedLLM([*adds(2), "done"]) as llm:
        result = run_agent(llm, [add], limits=LoopLimits(max_steps=2, max_turns=2))
    assert of_type(result.events, E.SOFT_LIMIT) == []
    assert result.stop_reason == "max_steps"
