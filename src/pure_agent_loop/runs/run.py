"""One run behind four ways to start it: awaited or streamed, from async code or from sync code."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Coroutine, Generator
from dataclasses import replace
from typing import Any, Generic

from pure_agent_loop.errors import ConfigError, RunInterrupted
from pure_agent_loop.event_data import set_number
from pure_agent_loop.events import AnyEvent, Emit
from pure_agent_loop.kernel.journal import MemoryJournal
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.redacting import veiled
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.result import AgentResult, Out_co, as_html
from pure_agent_loop.runs.handoff import Member, run_loops
from pure_agent_loop.runs.stream import EventStream
from pure_agent_loop.support.portal import get_portal, run_sync


class Run(Generic[Out_co]):
    """A prepared run. Start it once, in one of the four ways.

    Args:
        state: Where it starts.
        kit: What it works with; its `emit` is replaced.
        first: The agent that was asked; it may hand the run over to others.
    """

    def __init__(self, state: QueryState, kit: Kit, first: Member | None = None) -> None:
        self.state = state
        self.events: list[AnyEvent] = []
        self._number = 0  # of the newest one
        self._kit = kit
        self._first = first
        self._previous: AgentResult | None = None
        self._told = 0  # events of the loops before
        self._is_started = False
        if type(kit.journal) is not MemoryJournal:  # which holds nothing
            weakref.finalize(self, kit.journal.close)  # one that is never started holds no session for ever

    @property
    def prompts(self) -> Prompts:
        """The words that its model reads."""
        return self._kit.prompts

    def steer(self, text: str) -> None:
        """Say something to the agent while it works; from any thread. It reads it before its next step."""
        self._kit.inbox.steer(text)

    def follow_up(self, text: str) -> None:
        """Say something that the agent takes up when it would have stopped; from any thread."""
        self._kit.inbox.follow_up(text)

    async def wait(self) -> AgentResult[Out_co]:
        """Run to the end.

        Raises:
            ConfigError: It was started before, in whatever way.
        """
        self._begin()
        await self._run(self._keep)
        return self.result()

    def wait_sync(self) -> AgentResult[Out_co]:
        """Run to the end, from sync code.

        Raises:
            RunInterrupted: Ctrl-C; it holds the result so far.
        """
        try:
            return run_sync(self.wait())
        except KeyboardInterrupt:
            raise self._interrupted() from None

    def stream(self) -> AsyncGenerator[AnyEvent, None]:
        """Run while the events are read."""
        return EventStream(self._start).events()

    def stream_sync(self) -> Generator[AnyEvent, None, None]:
        """Run while the events are read, from sync code; raises what `wait_sync` does."""
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
        """The outcome, once the run has ended."""
        given = (self.state, self.events, self._kit.prompts, self._kit.output)
        result: AgentResult[Out_co] = AgentResult.from_state(*given)
        return result if self._previous is None else replace(result, previous=self._previous)

    def _hand_over(self, state: QueryState, kit: Kit) -> None:
        told, ours = self.events[self._told :], self._kit
        before = AgentResult.from_state(self.state, told, ours.prompts, ours.output)
        self._previous = replace(before, previous=self._previous)
        self._told, self.state, self._kit = len(self.events), state, kit

    def _repr_html_(self) -> str:
        """How it stands, for notebooks."""
        about = self.state.stop_reason or (f"step {self.state.step}" if self._is_started else "not started")
        return as_html(self.state.content, about, self.events)

    def history(self) -> list[Message]:
        """The messages so far, valid, with the thinking, which some servers want back."""
        return self.state.full_history(self._kit.prompts.tool_waiting)

    def _interrupted(self) -> RunInterrupted:
        self.state.stop("cancelled")  # it may not even have begun
        return RunInterrupted(self.result())

    def _begin(self) -> None:
        """A second start would go on in a state that has ended, or that another task is changing."""
        if self._is_started:
            raise ConfigError(
                "This run was started already, and a run can be started only once. "
                "Make another one: agent.prepare(task), or loop.run(task)."
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
        kit = self._kit.changed(emit=veiled(emit, self._kit.redactor))
        return run_loops(self.state, kit, self._first, self._hand_over)
