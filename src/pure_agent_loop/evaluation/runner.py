"""Process many items concurrently, and stop when further requests would fail too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from pure_agent_loop.errors import ErrorKind, LLMError

T = TypeVar("T")

# Kinds of errors after which further requests would fail too.
HOPELESS: frozenset[ErrorKind] = frozenset({"auth", "not_found", "quota"})
LOST_AFTER = 3


class FailureStreak:
    """Stops an evaluation when further requests would fail like the last one."""

    def __init__(self) -> None:
        self._lost = 0

    def note(self, error: LLMError | None) -> None:
        """Note the error of a request; None if it succeeded.

        Raises:
            LLMError: Further requests would fail too.
        """
        self._lost = self._lost + 1 if error is not None and error.kind == "connection" else 0
        if error is not None and (error.kind in HOPELESS or self._lost >= LOST_AFTER):
            raise error


async def in_parallel(items: Iterable[T], work: Callable[[T], Awaitable[None]], width: int) -> None:
    """Process all items in order, `width` at a time. The first failure stops the processing."""
    left = iter(items)

    async def worker() -> None:
        for item in left:  # all workers share this iterator
            await work(item)

    tasks = [asyncio.ensure_future(worker()) for _ in range(width)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
