"""Readers of a stream: those that leave early cancel the run, slow ones slow it."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap

import pytest
from tests.helpers import (
    add,
    check_events,
    check_result,
    foreign_threads,
    nothing_left,
    tool_texts,
    types,
    until,
)

from pure_agent_loop import Agent, Event, EventType, tool
from pure_agent_loop.runs.stream import BUFFER_EVENTS, EventStream
from pure_agent_loop.testing import Gate, ScriptedLLM, Signal, call, check_history, deltas

pytestmark = pytest.mark.anyio


class Prepared:
    """A run that writes two words, and waits between them for ever."""

    def __init__(self):
        self.gate = Gate()
        llm = ScriptedLLM([[call("add", a=1, b=2)], deltas("first ", self.gate, "second")])
        self.run = Agent(llm=llm, tools=[add]).prepare("go")

    def check_left(self):
        check_result(self.run.result())
        assert self.run.state.stop_reason == "cancelled"
        assert self.run.state.content == "first "
        assert tool_texts(self.run.state.history()) == ["3"]
        assert not self.gate.is_open


class ReaderFailedError(Exception):
    pass


async def test_break():
    one = Prepared()
    async with nothing_left():
        async for event in one.run.stream():
            if event.type is EventType.TEXT_DELTA:
                break
        await until(lambda: one.run.state.stop_reason)
    one.check_left()


async def test_aclose():
    one = Prepared()
    async with nothing_left():
        events = one.run.stream()
        while (await anext(events)).type is not EventType.TEXT_DELTA:
            pass
        await events.aclose()
        one.check_left()
        assert [event async for event in events] == []


async def test_an_exception_in_the_reader():
    one = Prepared()
    events = one.run.stream()
    async with nothing_left():
        try:
            async for event in events:
                if event.type is EventType.TEXT_DELTA:
                    raise ReaderFailedError
        except ReaderFailedError:
            await events.aclose()
    one.check_left()


async def test_a_reader_task_that_is_cancelled():
    one = Prepared()

    async def read():
        async for _ in one.run.stream():
            pass

    async with nothing_left():
        reader = asyncio.create_task(read())
        await one.gate.reached.wait_async()
        await until(lambda: one.run.events[-1].type is EventType.TEXT_DELTA)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
    one.check_left()


async def test_an_unread_stream_starts_nothing():
    one = Prepared()
    async with nothing_left():
        await one.run.stream().aclose()
    assert one.run.events == []
    assert one.run.state.stop_reason is None


def leave_by_break(events):
    for event in events:
        if event.type is EventType.TEXT_DELTA:
            break


def leave_by_close(events):
    leave_by_break(events)
    events.close()
    events.close()


def leave_by_exception(events):
    try:
        for event in events:
            if event.type is EventType.TEXT_DELTA:
                raise ReaderFailedError
    except ReaderFailedError:
        pass


@pytest.mark.parametrize("leave", [leave_by_break, leave_by_close, leave_by_exception])
def test_a_sync_reader_that_leaves(leave):
    one = Prepared()
    threads = foreign_threads()
    events = one.run.stream_sync()
    leave(events)
    del events
    gc.collect()
    one.check_left()
    assert foreign_threads() == threads


def test_a_sync_stream_closed_before_its_first_event():
    one = Prepared()
    one.run.stream_sync().close()
    assert one.run.events == []


def test_a_stream_that_is_collected_in_the_loop_thread_blocks_nothing():
    one, collected = Prepared(), Signal("the collection")
    forgotten = [one.run.stream_sync()]
    leave_by_break(forgotten[0])

    @tool
    async def collect() -> str:
        """Drop the last reference on the event loop of the sync runs."""
        forgotten.clear()
        collected.set()
        return "done"

    agent = Agent(llm=ScriptedLLM([call("collect"), "ok"]), tools=[collect], tool_timeout=5)
    assert agent.run("go").content == "ok"
    collected.wait()
    assert Agent(llm=ScriptedLLM(["still works"])).run("go").content == "still works"
    one.check_left()


def test_a_forgotten_stream_lets_the_program_end():
    program = """
        from pure_agent_loop import Agent
        from pure_agent_loop.testing import Gate, ScriptedLLM, deltas
        events = Agent(llm=ScriptedLLM([deltas("a", Gate(), "b")])).run_stream("go")
        for event in events:
            if event.content == "a":
                break
        print("the end")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")


WORDS = 300


async def test_a_slow_reader_slows_the_loop():
    written = []

    def script(messages, tools, options):
        return deltas(*[f"{n} " for n in range(WORDS)])

    class Counting(ScriptedLLM):
        async def chat_stream(self, *args, **kwargs):
            async for delta in super().chat_stream(*args, **kwargs):
                written.append(delta)
                yield delta

    prepared = Agent(llm=Counting([script])).prepare("go")
    events = prepared.stream()
    seen = [await anext(events)]
    for _ in range(20 * WORDS):  # the loop has all the time of the world
        await asyncio.sleep(0)
    assert len(prepared.events) <= 2 * BUFFER_EVENTS + 2
    assert len(written) < WORDS
    seen += [event async for event in events]
    check_events(seen)
    assert seen == prepared.events
    assert prepared.state.content == "".join(f"{n} " for n in range(WORDS))


def test_a_slow_sync_reader_loses_nothing():
    prepared = Agent(llm=ScriptedLLM([deltas(*[f"{n} " for n in range(WORDS)])])).prepare("go")
    seen = list(prepared.stream_sync())
    check_events(seen)
    assert types(seen).count("text_delta") == WORDS


async def test_a_reader_that_leaves_while_the_loop_waits_for_it():
    prepared = Agent(llm=ScriptedLLM([deltas(*[f"{n} " for n in range(WORDS)])])).prepare("go")
    async with nothing_left():
        events = prepared.stream()
        await anext(events)
        for _ in range(WORDS):
            await asyncio.sleep(0)
        await events.aclose()
    check_events(prepared.events)
    assert prepared.state.stop_reason == "cancelled"
    assert check_history(prepared.state.history()) == []


async def test_exception_of_the_run_reaches_the_reader_after_the_last_event():
    async def start(emit):
        await emit("an event")
        raise ReaderFailedError

    events = EventStream(start).events()
    assert await anext(events) == "an event"
    with pytest.raises(ReaderFailedError):
        await anext(events)


async def test_a_run_that_ends_some_time_after_its_last_event_ends_the_stream():
    async def start(emit):
        await emit("an event")
        for _ in range(5):
            await asyncio.sleep(0)

    events = EventStream(start).events()
    assert [event async for event in events] == ["an event"]


async def test_leaving_twice_or_after_the_end_does_nothing():
    prepared = Agent(llm=ScriptedLLM(["hi"])).prepare("go")
    events = prepared.stream()
    seen = [event async for event in events]
    await events.aclose()
    await events.aclose()
    check_events(seen)
    assert prepared.state.stop_reason == "completed"


def test_several_writers_wait_for_one_reader():
    async def start(emit):
        async def tell(number):
            for _ in range(100):
                await emit(Event.progress(1, "t", str(number)))

        await asyncio.gather(*map(tell, range(3)))

    async def main():
        stream, count = EventStream(start), 0
        while batch := await asyncio.wait_for(stream.next_batch(), 10):
            count += len(batch)
        return count

    assert asyncio.run(main()) == 300
