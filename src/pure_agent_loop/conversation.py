"""An agent that remembers: each message goes on from the history of the ones before."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING, Any, Generic, Protocol, overload

from pure_agent_loop.events import AnyEvent
from pure_agent_loop.llm.messages import Message, to_wire
from pure_agent_loop.result import AgentResult, Out_co
from pure_agent_loop.runs.run import Run
from pure_agent_loop.runs.settings import UNSET
from pure_agent_loop.runs.ways import OutputType, T
from pure_agent_loop.support.text import counted
from pure_agent_loop.tool_context import Deps

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pure_agent_loop.runs.options import SendOptions


class Prepare(Protocol[Out_co]):
    """Makes a run; `Agent.prepare` is one."""

    def __call__(
        self,
        task: str,
        messages: list[Message] | None = None,
        *,
        output_type: Any = ...,
        deps: Any = ...,
        **options: Unpack[SendOptions],
    ) -> Run[Out_co]:
        """A run of `task` that goes on from `messages`."""
        ...


class Conversation(Generic[Out_co, Deps]):
    """Keeps a history between runs. Make one with ``agent.conversation()``.

    A run that was cancelled or left early leaves its part of the history too, closed and valid.

    Args:
        prepare: Makes a run from a task and the history so far.
    """

    def __init__(self, prepare: Prepare[Out_co]) -> None:
        self._prepare = prepare
        self._history: list[Message] = []

    @property
    def messages(self) -> list[Message]:
        """Everything said so far, in wire form. May be set, to go on from elsewhere."""
        return to_wire(self._history)

    @messages.setter
    def messages(self, messages: list[Message]) -> None:
        self._history = messages

    def __repr__(self) -> str:
        return f"<Conversation: {counted(len(self._history), 'message')}>"

    @overload
    async def send(
        self,
        task: str,
        *,
        output_type: OutputType[T],
        deps: Deps | None = None,
        **options: Unpack[SendOptions],
    ) -> AgentResult[T]: ...
    @overload
    async def send(
        self, task: str, *, deps: Deps | None = None, **options: Unpack[SendOptions]
    ) -> AgentResult[Out_co]: ...
    async def send(self, task: str, **options: Any) -> AgentResult[Any]:
        """Say something and wait for the answer.

        Args:
            task: What to say.
            options: `cancel_token`, `inbox`, `media`, `deps`, and other settings for it; see `Agent.run`.

        Raises:
            ConfigError: `task` is no text.
            ImageError: An image cannot be sent.
            TypeError: There is no such option.
        """
        run = self._run(task, **options)
        try:
            return await run.wait()
        finally:
            self._keep(run)

    @overload
    def send_sync(
        self,
        task: str,
        *,
        output_type: OutputType[T],
        deps: Deps | None = None,
        **options: Unpack[SendOptions],
    ) -> AgentResult[T]: ...
    @overload
    def send_sync(
        self, task: str, *, deps: Deps | None = None, **options: Unpack[SendOptions]
    ) -> AgentResult[Out_co]: ...
    def send_sync(self, task: str, **options: Any) -> AgentResult[Any]:
        """Say something and wait for the answer, from sync code; see `send`."""
        run = self._run(task, **options)
        try:
            return run.wait_sync()
        finally:
            self._keep(run)

    async def send_stream(
        self,
        task: str,
        *,
        output_type: OutputType[Any] = UNSET,
        deps: Deps | None = None,
        **options: Unpack[SendOptions],
    ) -> AsyncGenerator[AnyEvent, None]:
        """Say something and read the events while they happen; see `send`."""
        run = self._run(task, output_type=output_type, deps=deps, **options)
        events = run.stream()
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()
            self._keep(run)

    def send_stream_sync(
        self,
        task: str,
        *,
        output_type: OutputType[Any] = UNSET,
        deps: Deps | None = None,
        **options: Unpack[SendOptions],
    ) -> Generator[AnyEvent, None, None]:
        """Say something and read the events while they happen, from sync code; see `send`."""
        run = self._run(task, output_type=output_type, deps=deps, **options)
        try:
            yield from run.stream_sync()
        finally:
            self._keep(run)

    def reset(self) -> None:
        """Forget everything said so far."""
        self._history = []

    def _run(self, task: str, **options: Any) -> Run[Out_co]:
        """Only these: a session or a state would bring a history of its own."""
        from pure_agent_loop.runs.options import SendOptions

        strange = options.keys() - SendOptions.__annotations__.keys() - {"deps", "output_type"}
        if strange:
            raise TypeError(f"A message got an unexpected keyword argument {min(strange)!r}.")
        return self._prepare(task, self._history, **options)

    def _keep(self, run: Run[Any]) -> None:
        self._history = run.history()
