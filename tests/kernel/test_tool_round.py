"""The calls of one answer: together, each on its own clock, results in call order."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.helpers import (
    E,
    add,
    check_result,
    drive,
    nothing_left,
    of_type,
    run_agent,
    run_kernel,
    start,
    tool_texts,
    types,
)

from pure_agent_loop import tool
from pure_agent_loop.permissions import Permission
from pure_agent_loop.testing import FakeClock, ScriptedLLM, Signal, call

pytestmark = pytest.mark.anyio
PATIENCE = 10


def test_sync_tools_run_together():
    together = threading.Barrier(3, timeout=PATIENCE)

    @tool
    def meet(name: str) -> str:
        """Return once all are here."""
        together.wait()
        return name

    with ScriptedLLM([[call("meet", name=n) for n in "abc"], "ok"]) as llm:
        result = run_agent(llm, [meet])
    assert tool_texts(result.messages) == ["a", "b", "c"]


def test_sync_and_async_tools_run_together():
    first, second = Signal("the sync tool"), Signal("the async tool")

    @tool
    def sync_one() -> str:
        """Wait for the other."""
        first.set()
        second.wait()
        return "sync"

    @tool
    async def async_one() -> str:
        """Wait for the other."""
        second.set()
        await first.wait_async()
        return "async"

    with ScriptedLLM([[call("sync_one"), call("async_one")], "ok"]) as llm:
        result = run_agent(llm, [sync_one, async_one])
    assert tool_texts(result.messages) == ["sync", "async"]


async def test_results_are_in_call_order_although_they_came_in_another():
    finished, done = [], {name: asyncio.Event() for name in "abcd"}

    @tool
    async def after(name: str, other: str) -> str:
        """Finish after another one."""
        if other:
            await done[other].wait()
        finished.append(name)
        done[name].set()
        return f"result {name}"

    order = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "")]
    with ScriptedLLM([[call("after", name=n, other=o) for n, o in order], "ok"]) as llm:
        result = check_result(await drive(start(), llm, [after]))
    assert finished == ["d", "c", "b", "a"]
    assert tool_texts(result.messages) == [f"result {name}" for name in "abcd"]
    told = [event.data["call_id"] for event in of_type(result.events, E.OBSERVATION)]
    assert told == ["call_1", "call_2", "call_3", "call_4"]


async def test_observation_is_emitted_in_call_order_without_delay():
    gates = {name: asyncio.Event() for name in "abc"}

    @tool
    async def wait(name: str) -> str:
        """Wait for a gate."""
        await gates[name].wait()
        return name

    seen = []

    async def emit(event):
        seen.append(event)
        if event.type is E.ACTION and event.data["args"]["name"] == "c":
            gates["b"].set()
            gates["a"].set()
        if event.type is E.OBSERVATION and event.content == "b":
            gates["c"].set()  # the third is still running while the second is told

    with ScriptedLLM([[call("wait", name=n) for n in "abc"], "ok"]) as llm:
        await drive(start(), llm, [wait], emit=emit)
    assert [event.content for event in seen if event.type is E.OBSERVATION] == ["a", "b", "c"]


async def test_all_actions_are_told_before_anything_starts():
    seen = []

    @tool
    async def look() -> str:
        """What was told so far."""
        return ",".join(types(seen))

    async def emit(event):
        seen.append(event)

    with ScriptedLLM([[call("look"), call("look")], "ok"]) as llm:
        result = await drive(start(), llm, [look], emit=emit)
    for text in tool_texts(result.messages):
        assert text.count("action") == 2
        assert "observation" not in text


async def test_fifty_calls_at_once():
    async with nothing_left():
        with ScriptedLLM([[call("add", a=n, b=1) for n in range(50)], "ok"]) as llm:
            result = check_result(await drive(start(), llm, [add]))
    assert tool_texts(result.messages) == [str(n + 1) for n in range(50)]


def test_one_failure_does_not_hurt_the_others():
    @tool
    def fails() -> str:
        """Fail."""
        raise ValueError("no luck")

    calls = [call("fails"), call("add", a=1, b=1), call("nothing"), call("add", a=2, b=2)]
    with ScriptedLLM([calls, "ok"], tools_may_fail=True) as llm:
        result = run_agent(llm, [fails, add])
    texts = tool_texts(result.messages)
    assert (texts[1], texts[3]) == ("2", "4")
    assert [e.data["is_error"] for e in of_type(result.events, E.OBSERVATION)] == [True, False, True, False]


def test_the_duration_is_that_of_the_clock():
    clock = FakeClock()

    @tool
    def work() -> str:
        """Take a while."""
        clock.advance(2.5)
        return "done"

    with ScriptedLLM([call("work"), "ok"]) as llm:
        result = run_kernel(llm, [work], clock=clock)
    assert of_type(result.events, E.OBSERVATION)[0].data["duration"] == 2.5


async def test_deadlines_run_from_the_start_of_the_round():
    """A call that waits behind a slow one is not given more time than its own."""
    let_go = asyncio.Event()

    @tool(timeout=0.05)
    async def hangs(name: str) -> str:
        """Hang."""
        await let_go.wait()
        return name

    with ScriptedLLM([[call("hangs", name=n) for n in "ab"], "ok"]) as llm:
        result = check_result(await drive(start(), llm, [hangs]))
    assert all("no result after 0.05 seconds" in text for text in tool_texts(result.messages))


async def test_permission_is_asked_for_one_call_after_the_other():
    asking, most = 0, 0

    async def permit(name, args, context):
        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        await asyncio.sleep(0)
        asking -= 1
        return Permission("allow")

    with ScriptedLLM([[call("add", a=n, b=1) for n in range(3)], "ok"]) as llm:
        result = check_result(await drive(start(), llm, [add], can_use_tool=permit))
    assert (most, tool_texts(result.messages)) == (1, ["1", "2", "3"])


async def test_a_tool_can_influence_the_next_round():
    def double(messages, tools, options):
        return call("add", a=int(messages[-1]["content"]), b=int(messages[-1]["content"]))

    with ScriptedLLM([call("add", a=1, b=1), double, double, lambda m, *_: m[-1]["content"]]) as llm:
        result = check_result(await drive(start(), llm, [add]))
    assert result.content == "8"
