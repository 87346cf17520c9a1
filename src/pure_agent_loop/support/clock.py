"""Time, sleep and randomness in one place, so that a run can be replayed."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Protocol


class Clock(Protocol):
    """Source of time and randomness for a run."""

    def now(self) -> float:
        """Return the seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return the seconds since an arbitrary start; never decreases."""
        ...

    def random(self) -> float:
        """Return a number from 0 to 1, for jitter."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The system clock; binds Python's functions directly, as a run calls them several times per step."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    random = staticmethod(random.random)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
