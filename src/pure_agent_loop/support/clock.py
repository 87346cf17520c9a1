"""Time, sleep and randomness in one place, so that a run can be replayed; also deadlines."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import Awaitable
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Clock(Protocol):
    """Source of time and randomness for a run."""

    def now(self) -> float:
        """Return the seconds since the epoch."""

    def monotonic(self) -> float:
        """Return the seconds since an arbitrary start; never decreases."""

    def random(self) -> float:
        """Return a number from 0 to 1, for jitter."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The system clock; binds Python's functions directly, as a run calls them several times per step."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    random = staticmethod(random.random)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


async def within(seconds: float | None, work: Awaitable[_T]) -> _T:
    """Await something for a limited time.

    Up to Python 3.11, `asyncio.wait_for` loses a cancellation that arrives together with the result: a task
    that waits in a loop then never ends.

    Args:
        seconds: Maximum seconds; None for no limit.

    Raises:
        TimeoutError: The time is up; the work was cancelled.
    """
    if sys.version_info >= (3, 11):
        async with asyncio.timeout(seconds):
            return await work
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if is_late := task.cancel():
            await asyncio.wait({task})
    if is_late and task.cancelled():
        raise TimeoutError
    return task.result()


async def set_within(seconds: float, event: asyncio.Event) -> bool:
    """Wait for an event for a limited number of seconds, and return whether it is set."""
    with contextlib.suppress(TimeoutError):
        await within(seconds, event.wait())
    return event.is_set()
