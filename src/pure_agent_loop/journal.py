"""The one seam for effects: the two things that touch the world pass through here.

A model request and a tool call each have a key that names them within the run. In memory the journal
just awaits them. One that writes records each, and on resume returns what it recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Journal(Protocol):
    """Where effects happen."""

    async def effect(self, key: str, run: Callable[[], Awaitable[T]]) -> T:
        """Make an effect happen, or return what it gave when it already happened.

        Args:
            key: Names the effect: ``step:model`` or ``step:tool:call_id``.
            run: Makes it happen; called at most once.
        """
        ...


class MemoryJournal:
    """Keeps nothing: each effect simply happens."""

    async def effect(self, key: str, run: Callable[[], Awaitable[T]]) -> T:  # noqa: ARG002 - nothing is looked up here
        """Await `run`."""
        return await run()
