"""A clock that stands still until it is told to move."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Sequence


class FakeClock:
    """Manual time for tests: waiting takes no time, and every wait is written down.

    Args:
        start: Seconds since the epoch at the beginning.
        chance: What `random` returns; a sequence is repeated again and again.

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
        """Seconds this clock has moved on so far."""
        return self._elapsed

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._start + self._elapsed

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return self._elapsed

    def random(self) -> float:
        """The next of the given chances."""
        with self._lock:
            return next(self._chances)

    def advance(self, seconds: float) -> None:
        """Move on.

        Args:
            seconds: By how much.

        Raises:
            ValueError: It is negative; time does not go back.
        """
        if seconds < 0:
            raise ValueError(f"advance({seconds!r}): a clock cannot go back.")
        with self._lock:
            self._elapsed += seconds

    async def sleep(self, seconds: float) -> None:
        """Write the wait down and move on by it; other tasks get one turn, so that it can be cancelled.

        Args:
            seconds: How long; nothing moves if it is zero or less.
        """
        self.waits.append(seconds)
        self.advance(max(seconds, 0.0))
        await asyncio.sleep(0)
