"""Stream of a run's events: the kernel pushes them, and a reader pulls them.

A slow reader slows the loop (the buffer is bounded); closing the stream cancels the run; an exception in the
kernel is raised in the reader. The run is a separate task, so no cancel scope spans a `yield`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable

from pure_agent_loop.events import AnyEvent, Emit

BUFFER_EVENTS = 64


class EventStream:
    """Run whose events are pulled in batches.

    Args:
        start: Function that runs the loop with the given sink.
    """

    def __init__(self, start: Callable[[Emit], Awaitable[None]]) -> None:
        self._start = start
        self._buffer: deque[AnyEvent] = deque()
        self._task: asyncio.Task[None] | None = None
        self._reader: asyncio.Future[None] | None = None
        # An Event, because several senders may be waiting: tools emit progress concurrently.
        self._room = asyncio.Event()
        self._left = False

    async def next_batch(self) -> list[AnyEvent]:
        """Return the events since the last call, waiting for at least one.

        Returns:
            The events, oldest first; an empty list after the run has ended.

        Raises:
            Exception: The exception of the run, after its last event.
        """
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        while not self._buffer and not self._task.done():
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        if not self._buffer:
            self._task.result()
            return []
        batch = list(self._buffer)
        self._buffer.clear()
        self._room.set()
        return batch

    async def aclose(self) -> None:
        """Cancel the run if it is still running, and wait until it has ended."""
        self._left = True
        self._room.set()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def events(self) -> AsyncGenerator[AnyEvent, None]:
        """Yield the events one by one. Closing the iterator cancels the run."""
        try:
            while batch := await self.next_batch():
                for event in batch:
                    yield event
        finally:
            await self.aclose()

    async def _run(self) -> None:
        try:
            await self._start(self._emit)
        finally:
            _wake(self._reader)

    async def _emit(self, event: AnyEvent) -> None:
        if not self._left:  # append before waiting, or a cancellation during the wait would lose the event
            self._buffer.append(event)
            _wake(self._reader)
        while len(self._buffer) >= BUFFER_EVENTS and not self._left:
            self._room.clear()
            await self._room.wait()


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
