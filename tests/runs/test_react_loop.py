"""`ReactLoop`: the loop as an object, whose run can be awaited or iterated."""

from __future__ import annotations

import pytest
from tests.helpers import NO_WAIT, E, add, check_events, may_call, nothing_left, of_type, types, until

from pure_agent_loop import LLMError, LoopLimits, ReactLoop, RetryConfig, ToolRegistry
from pure_agent_loop.testing import Gate, ScriptedLLM, answer, call, deltas

pytestmark = pytest.mark.anyio


def adds(count):
    return [call("add", a=n, b=n) for n in range(count)]


async def test_awaiting_gives_the_answer():
    with ScriptedLLM([call("add", a=1, b=2), "3"]) as llm:
        assert await ReactLoop(llm, [add]).run("1 + 2?") == "3"
    assert llm.requests[0].messages[0] == {"role": "system", "content": "You are a helpful assistant."}


async def test_iterating_gives_the_events():
    with ScriptedLLM([call("add", a=1, b=2), "3"]) as llm:
        events = [event async for event in ReactLoop(llm, [add]).run("1 + 2?")]
    check_events(events)
    assert events[-1].data["content"] == "3"


async def test_both_take_the_same_path():
    seen = []
    for _ in range(2):
        with ScriptedLLM([call("add", a=1, b=2), "3"]) as llm:
            run = ReactLoop(client=llm, tool_registry=ToolRegistry([add])).run(
                "go", system_prompt="Be brief."
            )
            if seen:
                assert await run == "3"
            else:
                check_events([event async for event in run])
        seen.append([request.messages for request in llm.requests])
    assert seen[0] == seen[1]


async def test_a_reader_that_leaves_cancels():
    gate = Gate()
    run = ReactLoop(ScriptedLLM([deltas("a", gate)])).run("go")
    async with nothing_left():
        async for event in run:
            if event.type is E.TEXT_DELTA:
                break
        await until(lambda: run._run.state.stop_reason)
    assert run._run.state.stop_reason == "cancelled"


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({}, 15),
        ({"max_steps": 3}, 3),
        ({"limits": LoopLimits(max_steps=2)}, 15),
        ({"limits": LoopLimits(max_turns=4)}, 4),
    ],
)
async def test_steps_are_limited_hard(options, steps):
    with ScriptedLLM([*adds(steps), "that is all"]) as llm:
        answer_text = await ReactLoop(llm, [add], **options).run("go")
    assert answer_text == f"that is all\n\n[Stopped: The step limit is reached ({steps}).]"
    assert not may_call(llm.requests[-1])


async def test_without_a_limit_of_steps():
    with ScriptedLLM([*adds(20), "done"]) as llm:
        assert await ReactLoop(llm, [add], max_steps=None).run("go") == "done"


async def test_retry_can_be_switched_off():
    with ScriptedLLM([LLMError("busy", kind="overloaded")]) as llm:
        run = ReactLoop(llm, enable_retry=False).run("go")
        with pytest.raises(LLMError, match="busy"):
            await run
    with ScriptedLLM([LLMError("busy", kind="overloaded"), "ok"]) as llm:
        assert await ReactLoop(llm, retry=NO_WAIT).run("go") == "ok"


async def test_retry_settings_are_used():
    with ScriptedLLM([LLMError("busy", kind="overloaded")] * 3) as llm:
        run = ReactLoop(llm, retry=RetryConfig(max_retries=2, base_delay=0, jitter=0)).run("go")
        with pytest.raises(LLMError, match="busy"):
            await run


async def test_doom_detection_can_be_switched_off():
    same = [call("add", a=1, b=1)] * 5
    with ScriptedLLM([*same, "ok"]) as llm:
        assert await ReactLoop(llm, [add], enable_doom_detection=False).run("go") == "ok"
    with ScriptedLLM([*same[:4], "ok"]) as llm:
        assert "kept repeating the same calls" in await ReactLoop(llm, [add]).run("go")


async def test_a_failure_is_raised_when_awaited_and_an_event_when_iterated():
    error = LLMError("no such key", kind="auth", status=401)
    run = ReactLoop(ScriptedLLM([error])).run("go")
    with pytest.raises(LLMError) as caught:
        await run
    assert caught.value is error
    events = [event async for event in ReactLoop(ScriptedLLM([error])).run("go")]
    check_events(events)
    assert types(events) == ["loop_start", "error", "loop_end"]


async def test_options_reasoning_and_history():
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    with ScriptedLLM([answer("ok", reasoning="hm")]) as llm:
        loop = ReactLoop(llm, llm_kwargs={"temperature": 0}, emit_reasoning_events=True)
        events = [event async for event in loop.run("go", messages=history)]
    assert llm.requests[0].options == {"temperature": 0}
    assert [m["content"] for m in llm.requests[0].messages[1:]] == ["hi", "hello", "go"]
    assert of_type(events, E.REASONING)[0].content == "hm"


async def test_repaired_history_is_reported():
    with ScriptedLLM(["ok"]) as llm:
        events = [e async for e in ReactLoop(llm).run("go", messages=[{"role": "tool", "content": "x"}])]
    assert "became a user message" in of_type(events, E.NOTICE)[0].content


async def test_explain_when_a_loop_runs_then_shows_its_first_request():
    past = [{"role": "user", "content": "before"}, {"role": "assistant", "content": "yes"}]
    with ScriptedLLM(["done"]) as llm:
        loop = ReactLoop(llm, [add], max_steps=3)
        shown = loop.explain("go", system_prompt="Be brief.", messages=past)
        assert not llm.requests
        await loop.run("go", system_prompt="Be brief.", messages=past)
    assert shown.request["messages"] == llm.requests[0].messages
    assert (list(shown.permissions), shown.limits["max_turns"]) == (["add"], 3)
