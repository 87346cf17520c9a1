"""An agent that remembers: each message goes on from the history of the ones before."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator

from pure_agent_loop.events import Event
from pure_agent_loop.messages import Message, to_wire
from pure_agent_loop.result import AgentResult
from pure_agent_loop.runner import Run


class Conversation:
    """Keeps a history between runs. Make one with ``agent.conversation()``.

    A run that was cancelled or left early leaves its part of the history too, closed and valid.

    Args:
        prepare: Makes a run from a task and the history so far.
    """

    def __init__(self, prepare: Callable[[str, list[Message] | None], Run]) -> None:
        self._prepare = prepare
        self._history: list[Message] = []

    @property
    def messages(self) -> list[Message]:
        """Everything said so far, in wire form. May be set, to go on from elsewhere."""
        return to_wire(self._history)

    @messages.setter
    def messages(self, messages: list[Message]) -> None:
        self._history = messages

    async def send(self, task: str) -> AgentResult:
        """Say something and wait for the answer."""
        run = self._prepare(task, self._history)
        try:
            return await run.wait()
        finally:
            self._keep(run)

    def send_sync(self, task: str) -> AgentResult:
        """Say something and wait for the answer, from sync code."""
        run = self._prepare(task, self._history)
        try:
            return run.wait_sync()
        finally:
            self._keep(run)

    async def send_stream(self, task: str) -> AsyncGenerator[Event, None]:
        """Say something and read the events while they happen."""
        run = self._prepare(task, self._history)
        events = run.stream()
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()
            self._keep(run)

    def send_stream_sync(self, task: str) -> Generator[Event, None, None]:
        """Say something and read the events while they happen, from sync code."""
        run = self._prepare(task, self._history)
        try:
            yield from run.stream_sync()
        finally:
            self._keep(run)

    def reset(self) -> None:
        """Forget everything said so far."""
        self._history = []

    def _keep(self, run: Run) -> None:
        self._history = run.state.full_history()  # with the thinking, which some servers want back
