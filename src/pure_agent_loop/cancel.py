"""Stopping code from outside: a token for callers, a scope for the code that is stopped.

`Interrupt` is a cancel scope for exactly one block: it cancels the task that is inside the block and
swallows that one cancellation on the way out. A cancellation from anybody else passes through.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class CancelToken:
    """Ask a run to stop, from any thread. It ends at the next await with ``stop_reason="cancelled"``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next = 0
        self._cancelled = False
        self.reason = ""

    @property
    def is_cancelled(self) -> bool:
        """True once `cancel` was called."""
        return self._cancelled

    def cancel(self, reason: str = "") -> None:
        """Ask for the stop; later calls change nothing.

        Args:
            reason: Shown with the end of the run.
        """
        with self._lock:
            if self._cancelled:
                return
            self._cancelled, self.reason = True, reason
            callbacks, self._callbacks = list(self._callbacks.values()), {}
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once on cancellation, from the cancelling thread; at once if that is past.

        Returns:
            A function that takes the callback back.
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


class Interrupt:
    """A block that can be left from outside.

    with Interrupt() as block:
        block.after(10)          # or block.on(token)
        await something()
    if block.fired: ...          # it was left early

    Args:
        keeps_timer: It is entered again and again, so its timer goes on between; `close` it in the end.
    """

    def __init__(self, *, keeps_timer: bool = False) -> None:
        self.fired = False
        self._keeps_timer = keeps_timer
        self._task: asyncio.Task[object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wakes = 0.0  # when the timer does
        self.deadline = 0.0
        """When the block is left, on the event loop's clock; set to 0 for never."""
        self._undo: tuple[Callable[[], None], ...] = ()
        self._cancelling = 0

    @property
    def is_free(self) -> bool:
        """True while nobody is inside."""
        return self._task is None

    def close(self) -> None:
        """Let the timer go."""
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
        """Leave the block `seconds` from now; None takes a deadline back. Cheap to call again and again."""
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
        """Leave the block when `token` is cancelled."""
        if token is not None:
            self._undo += (token.on_cancel(self.fire_from_anywhere),)

    def fire_from_anywhere(self) -> None:
        """Leave the block; may be called from any thread, or from inside the block itself."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._fire)
        except RuntimeError:  # the loop is closed: nothing is left to stop
            return

    def _on_timer(self) -> None:
        assert self._loop is not None
        self._timer = None
        if not self.deadline:
            return
        if self._loop.time() >= self.deadline:
            self._fire()
        else:  # it was moved meanwhile
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
        else:  # no counting there: the newest cancellation names who asked for it
            only_ours = error is not None and error.args[:1] == (self,)
        return only_ours and isinstance(error, asyncio.CancelledError)
