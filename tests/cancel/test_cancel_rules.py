"""Cancelling at the edges: before the start, at the end, twice, against a slow reader, in a scope."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.helpers import (
    E,
    add,
    check_events,
    check_result,
    drive,
    nothing_left,
    start,
    tool_texts,
    types,
    until,
)

from pure_agent_loop import Agent, CancelToken, tool
from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.testing import Gate, ScriptedLLM, call, check_history, deltas

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("way", ["run", "arun", "run_stream", "arun_stream"])
def test_run_with_a_cancelled_token_does_nothing(way):
    token, llm = CancelToken(), ScriptedLLM([])
    token.cancel("never")
    agent = Agent(llm=llm, tools=[add])

    async def collect():
        return [event async for event in agent.arun_stream("go", cancel_token=token)]

    if way == "run":
        events = check_result(agent.run("go", cancel_token=token)).events
    elif way == "arun":
        events = asyncio.run(agent.arun("go", cancel_token=token)).events
    elif way == "run_stream":
        events = list(agent.run_stream("go", cancel_token=token))
    else:
        events = asyncio.run(collect())
    check_events(events)
    assert types(events) == ["loop_start", "loop_end"]
    assert events[-1].data["stop_reason"] == "cancelled"
    assert llm.requests == []


async def test_a_task_that_is_cancelled_before_it_began():
    prepared = Agent(llm=ScriptedLLM([])).prepare("go")
    running = asyncio.create_task(prepared.wait())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert prepared.events == []
    assert check_history(prepared.state.history()) == []


async def test_before_a_step():
    token = CancelToken()

    async def emit(event):
        if event.type is E.STEP_END:
            token.cancel()

    llm = ScriptedLLM([call("add", a=1, b=1), "never asked"])
    state = start()
    await drive(state, llm, [add], emit=emit, cancel_token=token)
    assert (state.stop_reason, state.turn_count, len(llm.requests)) == ("cancelled", 1, 1)
    assert tool_texts(state.history()) == ["2"]


async def test_cancel_during_the_first_event():
    blocked = asyncio.Event()

    async def emit(event):
        if event.type is E.LOOP_START:
            blocked.set()
            await asyncio.Event().wait()
        seen.append(event)

    seen, state = [], start()
    running = asyncio.create_task(drive(state, ScriptedLLM([]), emit=emit))
    await blocked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert state.stop_reason == "cancelled"
    assert types(seen) == ["loop_end"]


@pytest.mark.parametrize("kind", [E.TEXT_DELTA, E.ACTION, E.OBSERVATION, E.STEP_END, E.THOUGHT])
@pytest.mark.parametrize("by_token", [False, True], ids=["by task", "by token"])
async def test_while_an_event_waits_for_a_slow_reader(kind, by_token):
    token, blocked, seen = CancelToken(), asyncio.Event(), []

    @tool(name="add")
    async def add_at_once(a: int, b: int) -> int:
        """Add, in the first turn of the loop."""
        return a + b

    async def emit(event):
        seen.append(event)
        if event.type is kind and not blocked.is_set():
            blocked.set()
            await asyncio.Event().wait()

    state = start()
    llm = ScriptedLLM([["I add. ", call("add", a=1, b=1), call("add", a=2, b=2)], "done"])
    async with nothing_left():
        running = asyncio.create_task(drive(state, llm, [add_at_once], emit=emit, cancel_token=token))
        await blocked.wait()
        if by_token:
            token.cancel()
            await running
        else:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
    assert state.stop_reason == "cancelled"
    check_events(seen)
    results = tool_texts(state.history())
    assert (
        results
        == {
            E.TEXT_DELTA: [],
            E.THOUGHT: [ENGLISH.tool_not_started] * 2,
            E.ACTION: [ENGLISH.tool_not_started] * 2,
            E.OBSERVATION: ["2", "4"],
            E.STEP_END: ["2", "4"],
        }[kind]
    )


async def test_a_second_cancellation_does_not_call_a_running_tool_unstarted():
    stopping = asyncio.Event()

    @tool
    async def slow_to_stop() -> str:
        """Take a moment to clean up."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopping.set()
            await asyncio.sleep(0.05)
            raise
        return "never"

    state, started = start(), asyncio.Event()

    async def permit(name, args, context):
        started.set()
        return "allow"

    running = asyncio.create_task(
        drive(state, ScriptedLLM([call("slow_to_stop")]), [slow_to_stop], can_use_tool=permit)
    )
    await started.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    running.cancel()
    await stopping.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert tool_texts(state.history()) == [ENGLISH.tool_cancelled]


async def test_a_tool_that_swallows_its_cancellation_does_not_hold_the_run():
    started, let_go = asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Ignore the cancellation."""
        started.set()
        try:
            await let_go.wait()
        except asyncio.CancelledError:
            await let_go.wait()
        return "too late"

    token = CancelToken()
    async with nothing_left():
        running = asyncio.create_task(
            drive(start(), ScriptedLLM([call("stubborn")]), [stubborn], cancel_token=token)
        )
        await started.wait()
        token.cancel()
        result = check_result(await running)
        let_go.set()
    assert (result.stop_reason, tool_texts(result.messages)) == ("cancelled", [ENGLISH.tool_cancelled])


async def test_a_token_after_the_end_changes_nothing():
    token = CancelToken()
    result = await Agent(llm=ScriptedLLM(["done"])).arun("go", cancel_token=token)
    token.cancel()
    await asyncio.sleep(0)
    assert (result.stop_reason, result.content) == ("completed", "done")


async def test_a_token_of_the_last_moment_leaves_the_answer():
    token = CancelToken()

    async def emit(event):
        if event.type is E.THOUGHT:
            token.cancel()

    result = await drive(start(), ScriptedLLM(["done"]), emit=emit, cancel_token=token)
    assert (result.content, result.stop_reason) == ("done", "completed")
    await asyncio.sleep(0)  # nothing is left over that hits the caller


async def test_a_token_forgets_the_runs_that_are_over():
    token = CancelToken()
    await Agent(llm=ScriptedLLM(["done"])).arun("go", cancel_token=token)
    assert token._callbacks == {}


async def test_one_token_stops_many_runs():
    token, gates = CancelToken(), [Gate() for _ in range(3)]
    agents = [Agent(llm=ScriptedLLM([deltas(f"{n}", gate)])) for n, gate in enumerate(gates)]
    runs = [asyncio.create_task(agent.arun("go", cancel_token=token)) for agent in agents]
    for gate in gates:
        await gate.reached.wait_async()
    token.cancel()
    results = [check_result(await run) for run in runs]
    assert [(r.content, r.stop_reason) for r in results] == [(f"{n}", "cancelled") for n in range(3)]
    assert token._callbacks == {}


async def test_a_timeout_around_a_run_is_the_callers():
    gate = Gate()
    prepared = Agent(llm=ScriptedLLM([deltas("half", gate)])).prepare("go")
    async with nothing_left():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(prepared.wait(), 0.05)
    assert (prepared.state.stop_reason, prepared.state.content) == ("cancelled", "half")


class TestToken:
    def test_it_cancels_once(self):
        token, called = CancelToken(), []
        token.on_cancel(lambda: called.append("a"))
        token.on_cancel(lambda: called.append("b"))()  # taken back
        assert (token.is_cancelled, token.reason) == (False, "")
        token.cancel("first")
        token.cancel("second")
        assert (token.is_cancelled, token.reason, called) == (True, "first", ["a"])

    def test_late_callbacks_are_called_at_once(self):
        token, called = CancelToken(), []
        token.cancel()
        token.on_cancel(lambda: called.append("late"))()
        assert called == ["late"]

    def test_many_threads_cancel_once(self):
        token, called = CancelToken(), []
        token.on_cancel(lambda: called.append(1))
        threads = [threading.Thread(target=token.cancel, args=(str(n),)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert called == [1]


class TestInterrupt:
    async def test_it_leaves_only_its_own_block(self):
        with Interrupt() as outer:
            with Interrupt() as inner:
                inner.after(0)
                await asyncio.Event().wait()
            assert (inner.fired, outer.fired) == (True, False)
            await asyncio.sleep(0)
        assert not outer.fired

    async def test_a_cancellation_from_outside_passes_through(self):
        inside, after = asyncio.Event(), []

        async def work():
            with Interrupt() as block:
                block.after(60)
                inside.set()
                await asyncio.Event().wait()
            after.append("never")

        task = asyncio.create_task(work())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert after == []

    async def test_a_deadline_can_be_moved_and_taken_back(self):
        with Interrupt() as block:
            block.after(0.001)
            block.after(None)
            await asyncio.sleep(0.01)
            block.after(60)
            block.after(0.001)
            await asyncio.Event().wait()
        assert block.fired

    async def test_a_deadline_that_was_moved_back_still_comes(self):
        with Interrupt() as block:
            block.after(0.001)
            block.after(0.02)
            await asyncio.Event().wait()
        assert block.fired

    async def test_an_error_of_the_block_passes(self):
        block = Interrupt()

        def fail():
            with block:
                block.after(60)
                raise KeyError("x")

        with pytest.raises(KeyError):
            fail()

    async def test_a_token_fired_after_the_block_does_nothing(self):
        token = CancelToken()
        with Interrupt() as block:
            block.on(token)
            block.on(None)
        token.cancel()
        await asyncio.sleep(0)
        assert not block.fired

    async def test_its_timer_does_not_outlive_it(self):
        with Interrupt() as block:
            block.after(0.001)
        await asyncio.sleep(0.01)
        assert not block.fired
        await until(lambda: True)

    async def test_reentered_interrupt_keeps_only_its_timer(self):
        block = Interrupt(keeps_timer=True)
        with block:
            block.after(0.001)
        assert block.is_free
        with block:
            assert not block.is_free
            await asyncio.sleep(0.01)  # the timer of before comes here, and is nobody's
        assert not block.fired
        for _ in range(2):  # a timer that wakes too early, and one that wakes in time
            with block:
                block.after(0.001)
                block.after(0.02)
                await asyncio.Event().wait()
            assert block.fired
            with block:
                assert not block.fired
                block.after(0.001)
        block.close()
