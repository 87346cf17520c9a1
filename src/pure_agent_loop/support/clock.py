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
    """The real clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds from an unknown start; never goes back."""
        return time.monotonic()

    def random(self) -> float:
        """A number from 0 to 1, for jitter."""
        return random.random()  # noqa: S311 - spreads retries; no secret depends on it

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
