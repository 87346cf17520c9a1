"""Cancellation from outside: tokens for callers, a cancel scope for the cancelled code.

`Interrupt` is a cancel scope for exactly one block: it cancels the task inside the block and suppresses that
one cancellation on exit. Any other cancellation propagates.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


class CancelToken:
    """Cancel a run from any thread. The run ends at the next await with ``stop_reason="cancelled"``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next = 0
        self._cancelled = False
        self.reason = ""

    @property
    def is_cancelled(self) -> bool:
        """True once `cancel` has been called."""
        return self._cancelled

    def cancel(self, reason: str = "") -> None:
        """Request the cancellation; later calls have no effect.

        Args:
            reason: Text shown when the run ends.
        """
        with self._lock:
            if self._cancelled:
                return
            self._cancelled, self.reason = True, reason
            callbacks, self._callbacks = list(self._callbacks.values()), {}
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once on cancellation, from the cancelling thread; immediately if already cancelled.

        Returns:
            A function that removes the callback.
        """
        with self._lock:
            key, self._next = self._next, self._next + 1
            if not self._cancelled:
                self._callbacks[key] = callback
                return lambda: self._forget(key)
        callback()
        return lambda: None

    def _forget(self, key: int) -> None:
        with self._lock:
            self._callbacks.pop(key, None)


class Leave(CancelToken):
    """Request that a run end before its next request, so that another process can continue it.

    By contrast, a plain `CancelToken` ends the run at the next await, so that the outcome of the calls
    running at that moment is unknown.
    """

    hand_over: Callable[[Any, Any], Awaitable[None]] | None = None
    """Function that hands over the state and the kit of the ended run; None before the request."""


class Interrupt:
    """Block that can be interrupted from outside.

    with Interrupt() as block:
        block.after(10)          # or block.on(token)
        await something()
    if block.fired: ...          # interrupted

    Args:
        keeps_timer: True keeps the timer between entries, for a block entered repeatedly; call `close` after
            the last.
    """

    def __init__(self, *, keeps_timer: bool = False) -> None:
        self.fired = False
        self._keeps_timer = keeps_timer
        self._task: asyncio.Task[object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wakes = 0.0  # time at which the timer fires
        self.deadline = 0.0
        """Time of the interrupt, on the event loop's clock; 0 for never."""
        self._undo: tuple[Callable[[], None], ...] = ()
        self._cancelling = 0

    @property
    def is_free(self) -> bool:
        """True while no task is inside the block."""
        return self._task is None

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __enter__(self) -> Self:
        self.fired = False
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(self._loop)
        if sys.version_info >= (3, 11) and self._task is not None:
            self._cancelling = self._task.cancelling()
        return self

    def after(self, seconds: float | None) -> None:
        """Interrupt the block `seconds` from now; None removes the deadline. Cheap to call repeatedly."""
        assert self._loop is not None
        if seconds is None:
            self.deadline = 0.0
            return
        self.deadline = wakes = self._loop.time() + seconds
        if self._timer is None or self._wakes > wakes:
            if self._timer is not None:
                self._timer.cancel()
            self._wakes, self._timer = wakes, self._loop.call_at(wakes, self._on_timer)

    def on(self, token: CancelToken | None) -> None:
        """Interrupt the block when `token` is cancelled."""
        if token is not None:
            self._undo += (token.on_cancel(self.fire_from_anywhere),)

    def fire_from_anywhere(self) -> None:
        """Interrupt the block, from any thread or from inside the block."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._fire)
        except RuntimeError:  # the loop is closed: no task is left to cancel
            return

    def _on_timer(self) -> None:
        assert self._loop is not None
        self._timer = None
        if not self.deadline:
            return
        if self._loop.time() >= self.deadline:
            self._fire()
        else:  # the deadline was postponed
            self._wakes, self._timer = self.deadline, self._loop.call_at(self.deadline, self._on_timer)

    def _fire(self) -> None:
        if self._task is not None and not self.fired:
            self.fired = True
            self._task.cancel(msg=self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        task, self._task, self.deadline = self._task, None, 0.0
        if not self._keeps_timer:
            self.close()
        for undo in self._undo:
            undo()
        if not self.fired or task is None:
            return False
        if sys.version_info >= (3, 11):
            only_ours = task.uncancel() <= self._cancelling
        else:  # before 3.11, a task does not count its cancellations, so compare the newest error's message
            only_ours = error is not None and error.args[:1] == (self,)
        return only_ours and isinstance(error, asyncio.CancelledError)
