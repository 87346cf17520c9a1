"""Deadlines: a cancellation is never lost, whenever it comes."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from pure_agent_loop.durable.listener import ChangeWatch
from pure_agent_loop.support.clock import within

SOON = range(8)  # turns of the event loop between what is awaited and the cancellation


async def turns(number):
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.mark.parametrize("number", SOON)
def test_cancellation_that_comes_with_the_result_ends_a_loop_of_waits(number):
    async def main():
        event = asyncio.Event()

        async def loop():
            while True:
                with contextlib.suppress(TimeoutError):
                    await within(60, event.wait())
                event.clear()

        task = asyncio.create_task(loop())
        await turns(4)
        event.set()
        await turns(number)
        task.cancel()
        await asyncio.wait({task}, timeout=5)
        assert task.cancelled()

    asyncio.run(main())


@pytest.mark.parametrize("number", SOON)
def test_cancellation_that_comes_with_a_change_ends_the_watch_of_a_task(number):
    async def main():
        watch = ChangeWatch(60)

        async def loop():
            while True:
                await watch.wait_in_loop()

        task = asyncio.create_task(loop())
        await turns(4)
        watch.wake()
        await turns(number)
        task.cancel()
        await asyncio.wait({task}, timeout=5)
        assert task.cancelled()

    asyncio.run(main())


def test_late_work_is_cancelled_and_cleans_up_first():
    ended = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    with pytest.raises(TimeoutError):
        asyncio.run(within(0.01, work()))
    assert ended == ["cleaned up"]


def test_result_and_error_of_the_work_are_passed_on():
    async def works():
        return "result"

    async def fails():
        raise KeyError("k")

    assert asyncio.run(within(60, works())) == "result"
    with pytest.raises(KeyError):
        asyncio.run(within(None, fails()))
