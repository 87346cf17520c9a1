"""Whatever a tool does, the model gets a result and the host program lives."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest
from tests.helpers import E, add, check_result, drive, nothing_left, of_type, run_agent, start, tool_texts

from pure_agent_loop import Agent, tool
from pure_agent_loop.testing import ScriptedLLM, Signal, call, check_history, raw_call

pytestmark = pytest.mark.anyio


class Unprintable:
    def __str__(self):
        raise RuntimeError("no text")


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def inside_itself():
    value = [1]
    value += [value, {"me": value}]
    return value


RAISED = {
    "exception": (ValueError("no luck"), ["ValueError", "no luck"]),
    "system exit": (SystemExit(3), ["SystemExit", "3"]),
    "cancelled": (asyncio.CancelledError(), ["CancelledError"]),
    "generator exit": (GeneratorExit("gone"), ["GeneratorExit"]),
    "stop iteration": (StopIteration(5), ["StopIteration"]),
    "stop async iteration": (StopAsyncIteration(5), ["StopAsyncIteration"]),
    "lone surrogate": (ValueError("a\ud800b"), ["a\ufffdb"]),
    "no text": (UnprintableError(), ["UnprintableError", "its text form failed"]),
    "braces": (KeyError("{tool} {0}"), ["{tool} {0}"]),
    "os error": (FileNotFoundError(2, "No such file", "x.txt"), ["FileNotFoundError", "x.txt"]),
    "recursion": (RecursionError("too deep"), ["RecursionError"]),
    "memory": (MemoryError(), ["MemoryError"]),
    "timeout": (TimeoutError("slow"), ["TimeoutError", "slow"]),
}
RETURNED = {
    "surrogates": ("a\ud800b", "a\ufffdb"),
    "bytes": (b"\xff\x00", '"\ufffd\\u0000"'),
    "set": ({1}, "[1]"),
    "itself": (inside_itself(), '[1, "...", {"me": "..."}]'),
    "no text": (Unprintable(), '"<Unprintable: its text form failed with RuntimeError>"'),
    "none": (None, "null"),
    "empty": ("", ""),
    "nan": ([float("nan")], '["nan"]'),
    "huge integer": (1 << 20000, f'"{hex(1 << 20000)}"'),
    "a nested exception": ([ValueError("x")], '["x"]'),
}


def making(act, *, is_async):
    """A tool that does `act`, and another one that must not suffer from it."""
    if is_async:

        @tool
        async def odd() -> object:
            """Do something odd."""
            return act()
    else:

        @tool
        def odd() -> object:
            """Do something odd."""
            return act()

    return [odd, add]


def once(tools):
    """One answer with the odd call between two good ones, then the end."""
    calls = [call("add", a=1, b=1), call("odd"), call("add", a=2, b=2)]
    with ScriptedLLM([calls, "done"], tools_may_fail=True) as llm:
        result = run_agent(llm, tools)
    assert check_history(llm.requests[1].messages) == []
    return result


both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@both
@pytest.mark.parametrize("name", RAISED)
def test_error_of_a_tool_becomes_its_result(name, is_async):
    error, words = RAISED[name]

    def act():
        raise error

    result = once(making(act, is_async=is_async))
    assert result.stop_reason == "completed"
    first, odd, last = tool_texts(result.messages)
    assert (first, last) == ("2", "4")
    assert odd.startswith("Tool 'odd' failed.")
    for word in words:
        assert word in odd
    assert [event.data["is_error"] for event in of_type(result.events, E.OBSERVATION)] == [False, True, False]


@both
@pytest.mark.parametrize("name", RETURNED)
def test_return_value_of_a_tool_becomes_text(name, is_async):
    value, text = RETURNED[name]
    result = once(making(lambda: value, is_async=is_async))
    assert tool_texts(result.messages) == ["2", text, "4"]


@both
def test_ctrl_c_in_a_tool_ends_the_run_as_cancelled(is_async):
    def act():
        raise KeyboardInterrupt

    with ScriptedLLM([[call("odd"), call("add", a=1, b=1)]]) as llm:
        result = run_agent(llm, making(act, is_async=is_async))
    assert result.stop_reason == "cancelled"
    odd, good = tool_texts(result.messages)
    assert "KeyboardInterrupt" in odd
    assert good == "2"


@pytest.mark.parametrize("name", RAISED)
async def test_execute_never_raises_for_a_tools_own_error(name):
    error, words = RAISED[name]

    def act():
        raise error

    for is_async in (False, True):
        if name == "cancelled" and is_async and sys.version_info < (3, 11):
            continue  # there, nobody can tell it from a real cancellation
        text = await making(act, is_async=is_async)[0].execute({})
        assert all(word in text for word in words)


async def test_a_task_of_the_tool_that_was_cancelled_is_the_tools_own_error():
    @tool
    async def loses() -> str:
        """Lose a task."""
        inner = asyncio.create_task(asyncio.sleep(60))
        inner.cancel()
        await inner
        return "never"

    with ScriptedLLM([call("loses"), "ok"], tools_may_fail=True) as llm:
        result = check_result(await drive(start(), llm, [loses]))
    assert result.stop_reason == "completed"
    assert "the tool cancelled itself" in tool_texts(result.messages)[0]


async def test_a_tool_that_cancels_its_own_task_ends_only_itself():
    @tool
    async def suicidal() -> str:
        """Cancel the task it runs in."""
        asyncio.current_task().cancel()
        await asyncio.sleep(0)
        return "never"

    with ScriptedLLM([[call("suicidal"), call("add", a=1, b=1)], "ok"], tools_may_fail=True) as llm:
        result = check_result(await drive(start(), llm, [suicidal, add]))
    assert (result.stop_reason, tool_texts(result.messages)[1]) == ("completed", "2")
    assert "the tool cancelled itself" in tool_texts(result.messages)[0]


def test_a_call_that_cannot_be_made():
    calls = [
        call("nothing", a=1),
        call("add", a="x", b=1),
        raw_call("add", '{"a": 1,'),
        raw_call("add", '{"a": NaN, "b": 1}'),
        raw_call("add", "[1, 2]"),
        raw_call("", "{}"),
        raw_call("bad name\ud800", "{}"),
    ]
    with ScriptedLLM([calls, "done"], tools_may_fail=True) as llm:
        result = run_agent(llm, [add])
    assert check_history(llm.requests[1].messages) == []
    words = ["Available tools: add", "a: ", "JSON", "NaN", "list", "UnknownTool", "UnknownTool"]
    for text, word in zip(tool_texts(result.messages), words, strict=True):
        assert word in text
    stored = [c["function"] for c in result.messages[1]["tool_calls"]]
    assert [c["arguments"] for c in stored[2:]] == ["{}"] * 5
    assert [c["name"] for c in stored[5:]] == ["unknown", "bad_name_"]


# -- timeouts -------------------------------------------------------------------------------------


async def test_an_async_tool_that_takes_too_long():
    cleaned = []

    @tool(timeout=0.02)
    async def slow() -> str:
        """Take for ever."""
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("slow")

    async with nothing_left():
        with ScriptedLLM([[call("slow"), call("add", a=1, b=1)], "ok"]) as llm:
            result = check_result(await drive(start(), llm, [slow, add]))
    assert cleaned == ["slow"]
    late, good = tool_texts(result.messages)
    assert "no result after 0.02 seconds" in late
    assert "Error type: Timeout" in late
    assert (good, result.stop_reason) == ("2", "completed")
    assert of_type(result.events, E.OBSERVATION)[0].data["duration"] == 0.02


async def test_a_tool_that_swallows_its_cancellation_is_left_behind():
    swallowed, let_go = asyncio.Event(), asyncio.Event()

    @tool(timeout=0.02)
    async def stubborn() -> str:
        """Ignore every cancellation until it is let go."""
        try:
            await let_go.wait()
        except asyncio.CancelledError:
            swallowed.set()
        await let_go.wait()
        return "too late"

    async with nothing_left():
        with ScriptedLLM([call("stubborn"), "ok"]) as llm:
            result = check_result(await drive(start(), llm, [stubborn]))
        assert swallowed.is_set()
        assert "no result after 0.02 seconds" in tool_texts(result.messages)[0]
        assert result.stop_reason == "completed"
        let_go.set()


async def test_a_thread_that_never_returns_is_left_behind():
    held = Signal("the end of the thread")

    @tool(timeout=0.02)
    def hangs() -> str:
        """Hang."""
        held.wait()
        return "too late"

    async with nothing_left():
        with ScriptedLLM([call("hangs"), call("add", a=1, b=1), "ok"]) as llm:
            result = check_result(await drive(start(), llm, [hangs, add]))
    late, good = tool_texts(result.messages)
    assert "no result after 0.02 seconds" in late
    assert (good, result.stop_reason) == ("2", "completed")
    held.set()


async def test_the_default_timeout_is_the_agents_and_a_tool_may_lift_it():
    @tool
    async def slow() -> str:
        """Take for ever."""
        await asyncio.Event().wait()
        return "never"

    over = asyncio.Event()

    @tool(timeout=float("inf"))
    async def patient() -> str:
        """Outlive the other one."""
        await over.wait()
        return "done"

    def script(messages, tools, options):
        return "ok"

    async def both_calls(messages, tools, options):
        return [call("slow"), call("patient")]

    llm = ScriptedLLM([both_calls, script])
    seen = []
    async for event in Agent(llm=llm, tools=[slow, patient], tool_timeout=0.02).arun_stream("go"):
        seen.append(event)
        if event.type is E.OBSERVATION:
            over.set()
    late, patient_text = tool_texts(seen[-1].data["messages"])
    assert "no result after 0.02 seconds" in late
    assert patient_text == "done"


def test_a_hanging_tool_does_not_keep_threads_that_block_the_end_of_the_program():
    threads = [t for t in threading.enumerate() if t.name == "pal-tool"]
    assert all(thread.daemon for thread in threads)
