"""A manual clock for tests."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Sequence


class FakeClock:
    """Manual clock for tests: waiting takes no time, and every wait is recorded.

    Args:
        start: Seconds since the epoch at the beginning.
        chance: Values that `random` returns; a sequence is cycled.

    Example:
        clock = FakeClock()
        await clock.sleep(30)        # returns at once
        assert clock.waits == [30] and clock.elapsed == 30
    """

    def __init__(self, start: float = 1_700_000_000.0, *, chance: float | Sequence[float] = 0.5) -> None:
        self._start = start
        self._elapsed = 0.0
        self._lock = threading.Lock()
        self._chances = itertools.cycle([chance] if isinstance(chance, (int, float)) else list(chance))
        self.waits: list[float] = []

    @property
    def elapsed(self) -> float:
        """Seconds by which this clock has advanced."""
        return self._elapsed

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self._start + self._elapsed

    def monotonic(self) -> float:
        """Return the seconds since this clock was created."""
        return self._elapsed

    def random(self) -> float:
        """Return the next value of `chance`."""
        with self._lock:
            return next(self._chances)

    def advance(self, seconds: float) -> None:
        """Advance the clock.

        Args:
            seconds: Seconds to advance.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError(f"advance({seconds!r}): seconds must not be negative.")
        with self._lock:
            self._elapsed += seconds

    async def sleep(self, seconds: float) -> None:
        """Record the wait and advance by it; yield to other tasks once, so that the wait can be cancelled.

        Args:
            seconds: Length of the wait; zero or less does not advance.
        """
        self.waits.append(seconds)
        self.advance(max(seconds, 0.0))
        await asyncio.sleep(0)
