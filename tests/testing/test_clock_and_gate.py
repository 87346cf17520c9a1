from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from pure_agent_loop.retry import RetryConfig, RetryHandler
from pure_agent_loop.support.clock import Clock
from pure_agent_loop.testing import FakeClock, Gate, ScriptError, Signal


def test_waiting_moves_the_clock_and_is_written_down():
    clock: Clock = FakeClock(start=100.0)
    asyncio.run(clock.sleep(30))
    asyncio.run(clock.sleep(-1))
    assert (clock.now(), clock.monotonic(), clock.elapsed) == (130.0, 30.0, 30.0)
    assert clock.waits == [30, -1]


def test_fake_clock_moves_only_forward_on_request():
    clock = FakeClock()
    assert clock.now() == clock.now()
    clock.advance(1.5)
    assert clock.elapsed == 1.5
    with pytest.raises(ValueError, match="must not be negative"):
        clock.advance(-1)


def test_chance_is_given():
    assert FakeClock().random() == 0.5
    clock = FakeClock(chance=[0.1, 0.9])
    assert [clock.random() for _ in range(3)] == [0.1, 0.9, 0.1]


def test_a_wait_can_be_cancelled():
    async def main():
        task = asyncio.ensure_future(FakeClock().sleep(5))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_it_drives_the_retry_of_the_library():
    clock = FakeClock(chance=0.0)

    async def fail():
        raise ConnectionError

    with pytest.raises(ConnectionError):
        asyncio.run(RetryHandler(RetryConfig(max_retries=3), clock).execute(fail))
    assert clock.waits == [1.0, 2.0, 4.0]


def test_a_signal_crosses_threads_and_loops():
    signal, woken = Signal(), []

    def wait_in_a_loop():
        asyncio.run(signal.wait_async())
        woken.append("loop")

    def wait_in_a_thread():
        signal.wait()
        woken.append("thread")

    threads = [threading.Thread(target=wait_in_a_loop), threading.Thread(target=wait_in_a_thread)]
    for thread in threads:
        thread.start()
    assert not signal.is_set
    signal.set()
    for thread in threads:
        thread.join()
    assert sorted(woken) == ["loop", "thread"]
    signal.wait()
    asyncio.run(signal.wait_async())


def test_missing_event_fails_instead_of_hanging():
    with pytest.raises(ScriptError, match="the bus did not happen within 0 s"):
        Signal("the bus").wait(timeout=0)
    with pytest.raises(ScriptError, match="reaching the end did not happen"):
        asyncio.run(Gate("the end").reached.wait_async(timeout=0))


def test_a_signal_survives_a_waiter_whose_loop_is_gone():
    async def leave(signal):
        task = asyncio.ensure_future(signal.wait_async())
        await asyncio.sleep(0)
        task.cancel()

    signal = Signal()
    asyncio.run(leave(signal))
    signal.set()
    assert "set" in repr(signal)


def test_the_package_needs_no_test_framework_and_no_sdk():
    found = "[name for name in ('pytest', 'openai', 'pydantic') if name in sys.modules]"
    code = f"import sys, pure_agent_loop.testing; print({found})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
