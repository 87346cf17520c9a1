from __future__ import annotations

import asyncio

import pytest

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.retry import is_transient
from pure_agent_loop.testing import ChaosLLM, ScriptedLLM, call
from pure_agent_loop.testing.chaos import CHAOS_KINDS

HELLO = [{"role": "user", "content": "hello"}]


def question(number):
    return [{"role": "user", "content": f"question {number}"}]


async def stream(llm, messages):
    assembler = Assembler()
    async for delta in llm.chat_stream(messages):
        assembler.feed(delta)
    return assembler.finish()


async def persist(llm, messages, ask=stream):
    """Ask until there is an answer, as a retry does."""
    while True:
        try:
            response = await ask(llm, messages)
        except (LLMError, ConnectionError) as error:
            if not is_transient(error):
                raise
            continue
        if response.content or response.tool_calls:
            return response


def run(seed, rate=0.6, ask=stream, questions=20):
    script = ["one two three four", call("f", a=1)] * (questions // 2)
    with ScriptedLLM(script) as inner:
        llm = ChaosLLM(inner, seed, rate)

        async def main():
            return [await persist(llm, question(n), ask) for n in range(questions)]

        return asyncio.run(main()), llm.faults


@pytest.mark.parametrize("ask", [stream, lambda llm, messages: llm.chat(messages)])
def test_every_answer_arrives_whole_and_the_script_stays_in_step(ask):
    answers, faults = run(seed=1, ask=ask)
    assert [a.content for a in answers[::2]] == ["one two three four"] * 10
    assert all(a.tool_calls[0].arguments == {"a": 1} for a in answers[1::2])
    assert faults


def test_a_seed_repeats_itself_and_seeds_differ():
    assert run(seed=3) == run(seed=3)
    assert run(seed=3)[1] != run(seed=4)[1]


def test_every_kind_of_fault_comes():
    seen = {kind for seed in range(10) for kind in run(seed)[1]}
    assert seen == set(CHAOS_KINDS)


def test_the_order_of_parallel_runs_changes_nothing():
    def faults(order):
        llm = ChaosLLM(ScriptedLLM(lambda *_: "yes"), seed=5, rate=0.5)
        found = {}
        for number in order:
            before = len(llm.faults)
            asyncio.run(persist(llm, question(number)))
            found[number] = llm.faults[before:]
        return found

    assert faults(range(10)) == faults(reversed(range(10)))


def test_no_rate_no_fault():
    assert run(seed=1, rate=0)[1] == []


def test_there_is_an_end_of_faults_unless_none_is_promised():
    llm = ChaosLLM(ScriptedLLM(["yes"]), rate=1, kinds=["connection"], max_in_a_row=3)
    assert asyncio.run(persist(llm, HELLO)).content == "yes"
    assert llm.faults == ["connection"] * 3
    endless = ChaosLLM(ScriptedLLM([]), rate=1, kinds=["empty"], max_in_a_row=None)
    for _ in range(20):
        assert asyncio.run(endless.chat(HELLO)).content is None


@pytest.mark.parametrize("kind", ["cut", "reset"])
def test_a_broken_stream_shows_some_pieces_and_no_finish_reason(kind):
    seen = []

    async def read():
        async for delta in llm.chat_stream(HELLO):
            seen.append(delta)  # noqa: PERF401 - kept when it breaks

    llm = ChaosLLM(ScriptedLLM(["one two three four"]), rate=1, kinds=[kind])
    try:
        asyncio.run(read())
    except ConnectionResetError:
        assert kind == "reset"
    else:
        assert kind == "cut"
    assert "".join(d.text for d in seen).startswith("one two")
    assert not any(d.finish_reason or d.usage for d in seen)


class Least:
    async def chat(self, messages, tools=None, **kwargs):
        return LLMResponse("yes", [], None)


def test_a_cut_answer_of_one_piece_loses_its_finish_reason():
    llm = ChaosLLM(Least(), rate=1, kinds=["cut"])
    with pytest.raises(LLMError, match="finish reason"):
        asyncio.run(stream(llm, HELLO))


def test_a_client_with_chat_alone_takes_part():
    llm = ChaosLLM(Least(), rate=1)
    assert asyncio.run(persist(llm, HELLO)).content == "yes"
    asyncio.run(llm.aclose())


def test_closing_reaches_the_inner_client():
    inner = ScriptedLLM([])
    asyncio.run(ChaosLLM(inner).aclose())
    assert inner.closed


@pytest.mark.parametrize("options", [{"rate": 2}, {"rate": -0.1}, {"kinds": []}, {"kinds": ["fire"]}])
def test_wrong_settings_are_refused(options):
    with pytest.raises(ConfigError):
        ChaosLLM(ScriptedLLM([]), **options)
