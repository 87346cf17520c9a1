"""Signals that synchronise a test with a model in another thread or event loop, without sleeps."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

PATIENCE = 60.0  # seconds; on a busy machine, starting a process can take long


# -- the error of the test helpers -----------------------------------------------------------------------


class ScriptError(AssertionError):
    """A test does not match its script: too few items, unused items, or an invalid request.

    It is an `AssertionError`, so test runners show it as a failed test. A loop under test may turn any
    exception of a model into an ordinary end of the run. The helpers therefore store the error, and
    ``assert_done()`` or the end of the helper's ``with`` block raises it again.
    """


class Signal:
    """One-time event that any thread and any event loop can wait for.

    Args:
        name: Name to show in the error message after a timeout.
    """

    def __init__(self, name: str = "the signal") -> None:
        self._name = name
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}, {'set' if self.is_set else 'not set'}>"

    @property
    def is_set(self) -> bool:
        """True once it has been set."""
        return self._event.is_set()

    def set(self) -> None:
        """Set the signal and wake all waiters, in any thread or loop."""
        with self._lock:
            self._event.set()
            waiters, self._waiters = self._waiters, []
        for loop, waiter in waiters:
            with suppress(RuntimeError):  # a closed event loop has no waiters
                loop.call_soon_threadsafe(_wake, waiter)

    def wait(self, timeout: float | None = PATIENCE) -> None:
        """Block this thread until the signal is set.

        Do not call this method on the event loop that sets the signal.

        Args:
            timeout: Seconds after which the test fails instead of hanging; None waits for ever.

        Raises:
            ScriptError: The signal was not set in time.
        """
        if not self._event.wait(timeout):
            raise self._late(timeout)

    async def wait_async(self, timeout: float | None = PATIENCE) -> None:
        """Wait on the event loop until the signal is set.

        Args:
            timeout: Seconds after which the test fails instead of hanging; None waits for ever.

        Raises:
            ScriptError: The signal was not set in time.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._event.is_set():
                return
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiters.append((loop, waiter))
        done, _ = await asyncio.wait([waiter], timeout=timeout)
        if not done:
            raise self._late(timeout)

    def _late(self, timeout: float | None) -> ScriptError:
        return ScriptError(f"{self._name} did not happen within {timeout} s.")


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Gate:
    """A closed gate between two pieces of a scripted answer.

    Put a gate between deltas: the model stops there until the test opens the gate. A test can thus show,
    without a sleep, that the first piece arrived before the rest was written.

    Args:
        name: Name of the gate in error messages.

    Example:
        gate = Gate()
        script = [deltas("first ", gate, "second")]
        # read the first event, then:
        gate.open()
    """

    def __init__(self, name: str = "gate") -> None:
        self.reached = Signal(f"reaching {name}")
        self._opened = Signal(f"opening {name}")

    @property
    def is_open(self) -> bool:
        """True once it has been opened."""
        return self._opened.is_set

    def open(self) -> None:
        """Open the gate permanently; callable from any thread."""
        self._opened.set()

    async def pass_through(self) -> None:
        """Signal that the gate has been reached, and wait until it is open."""
        self.reached.set()
        await self._opened.wait_async(timeout=None)
