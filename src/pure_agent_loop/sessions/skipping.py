"""An event loop in which waiting takes no time: when nothing can go on, the next timer is due."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any


class _Selector(selectors.DefaultSelector):
    """Never waits; notes how long it would have."""

    skipped = 0.0

    def __init__(self, on_idle: Callable[[], None]) -> None:
        super().__init__()
        self._on_idle = on_idle

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now."""
        if timeout is None:
            self._on_idle()
        else:
            self.skipped += max(timeout, 0.0)
        return super().select(0)


class SkippingLoop(asyncio.SelectorEventLoop):
    """For code that waits for nothing outside of itself.

    Args:
        on_idle: Called when nothing will ever go on; it must change that.
    """

    def __init__(self, on_idle: Callable[[], None]) -> None:
        self._skipping = _Selector(on_idle)
        super().__init__(self._skipping)
        self.set_exception_handler(_ignore)

    def time(self) -> float:
        """The time, with what was skipped."""
        return super().time() + self._skipping.skipped


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What is left behind in tasks is told elsewhere."""
