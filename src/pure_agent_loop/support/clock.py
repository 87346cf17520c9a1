"""Time, waiting and chance, in one place, so that a run can be replayed."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Protocol


class Clock(Protocol):
    """Where a run gets its time and its randomness from."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds from an unknown start; never goes back."""
        ...

    def random(self) -> float:
        """A number from 0 to 1, for jitter."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The real clock; its functions are those of Python, which a run asks several times a step."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    random = staticmethod(random.random)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
