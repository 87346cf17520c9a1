"""A run with four ways to start it: awaited or streamed, from async or sync code."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from dataclasses import replace
from typing import Any, Generic

from pure_agent_loop.errors import ConfigError, RunInterrupted
from pure_agent_loop.events import AnyEvent, Emit, set_number
from pure_agent_loop.kernel.journal import MemoryJournal
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.redacting import redacting_emit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.result import AgentResult, Out_co, as_html
from pure_agent_loop.runs.handoff import HandoffTarget, run_loops
from pure_agent_loop.support.portal import get_portal, run_sync

# -- adapter from the kernel's push sink to a stream that a reader pulls from ----------------------------
# A slow reader slows the loop (the buffer is bounded); closing the stream cancels the run; an exception
# in the kernel is raised in the reader. The run is a separate task, so no cancel scope spans a `yield`.

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
        self._room = asyncio.Event()  # several may wait: tools emit progress concurrently
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
        if not self._left:  # append before waiting: cancellation during the wait would lose the event
            self._buffer.append(event)
            _wake(self._reader)
        while len(self._buffer) >= BUFFER_EVENTS and not self._left:
            self._room.clear()
            await self._room.wait()


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)


class Run(Generic[Out_co]):
    """Prepared run, to be started once, in one of four ways.

    Args:
        state: Initial state.
        kit: Kit of the run; its `emit` is replaced.
        first: Initial agent; it may hand the run over to others.
    """

    def __init__(self, state: QueryState, kit: Kit, first: HandoffTarget | None = None) -> None:
        self.state = state
        self.events: list[AnyEvent] = []
        self._number = 0  # number of the newest event
        self._kit = kit
        self._first = first
        self._previous: AgentResult | None = None
        self._told = 0  # events of the earlier loops
        self._is_started = False
        if type(kit.journal) is not MemoryJournal:  # a `MemoryJournal` holds no resources
            weakref.finalize(self, kit.journal.close)  # a run that is never started must release its session

    @property
    def prompts(self) -> Prompts:
        """Prompts for the model."""
        return self._kit.prompts

    def steer(self, text: str) -> None:
        """Add a message, from any thread, that the agent reads before its next step."""
        self._kit.inbox.steer(text)

    def follow_up(self, text: str) -> None:
        """Add a message, from any thread, that the agent reads when it would stop."""
        self._kit.inbox.follow_up(text)

    async def wait(self) -> AgentResult[Out_co]:
        """Run to the end.

        Raises:
            ConfigError: The run was already started.
        """
        self._begin()
        await self._run(self._keep)
        return self.result()

    def wait_sync(self) -> AgentResult[Out_co]:
        """Run to the end, from sync code.

        Raises:
            RunInterrupted: Ctrl-C was pressed; the error holds the result so far.
        """
        try:
            return run_sync(self.wait())
        except KeyboardInterrupt:
            raise self._interrupted() from None

    def stream(self) -> AsyncGenerator[AnyEvent, None]:
        """Run and yield the events."""
        return EventStream(self._start).events()

    def stream_sync(self) -> Generator[AnyEvent, None, None]:
        """Run and yield the events, from sync code; errors as for `wait_sync`."""
        portal = get_portal()
        stream = EventStream(self._start)
        try:
            while batch := portal.call(stream.next_batch()):
                yield from batch
        except KeyboardInterrupt:
            portal.leave(stream.aclose())
            raise self._interrupted() from None
        finally:
            portal.leave(stream.aclose())

    def result(self) -> AgentResult[Out_co]:
        """Return the result of the ended run."""
        arguments = (self.state, self.events, self._kit.prompts, self._kit.output)
        result: AgentResult[Out_co] = AgentResult.from_state(*arguments)
        return result if self._previous is None else replace(result, previous=self._previous)

    def _hand_over(self, state: QueryState, kit: Kit) -> None:
        events, old_kit = self.events[self._told :], self._kit
        result = AgentResult.from_state(self.state, events, old_kit.prompts, old_kit.output)
        self._previous = replace(result, previous=self._previous)
        self._told, self.state, self._kit = len(self.events), state, kit

    def _repr_html_(self) -> str:
        """Return the status as HTML for notebooks."""
        status = self.state.stop_reason or (f"step {self.state.step}" if self._is_started else "not started")
        return as_html(self.state.content, status, self.events)

    def history(self) -> list[Message]:
        """Return the valid messages so far, with the reasoning, which some servers require back."""
        return self.state.full_history(self._kit.prompts.tool_waiting)

    def _interrupted(self) -> RunInterrupted:
        self.state.stop("cancelled")  # the loop may not have begun
        return RunInterrupted(self.result())

    def _begin(self) -> None:
        """Reject a second start, whose state has ended or is in use by another task."""
        if self._is_started:
            raise ConfigError(
                "This run has already started, and a run can start only once. "
                "Create a new one: agent.prepare(task) or loop.run(task)."
            )
        self._is_started = True

    async def _keep(self, event: AnyEvent) -> None:
        self._number += 1
        set_number(event, self._number)
        self.events.append(event)

    async def _start(self, emit: Emit) -> None:
        self._begin()

        async def keep_and_emit(event: AnyEvent) -> None:
            await self._keep(event)
            await emit(event)

        await self._run(keep_and_emit)

    def _run(self, emit: Emit) -> Coroutine[Any, Any, None]:
        kit = self._kit.replace(emit=redacting_emit(emit, self._kit.redactor))
        return run_loops(self.state, kit, self._first, self._hand_over)
