"""Conversations: each message continues the history of the previous ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING, Any, Generic, Protocol, overload

from pure_agent_loop.events import AnyEvent
from pure_agent_loop.llm.messages import Message, to_keep
from pure_agent_loop.result import AgentResult, Out_co
from pure_agent_loop.runs.run import OutputType, Run, T
from pure_agent_loop.runs.settings import UNSET
from pure_agent_loop.support.text import counted, unexpected_option
from pure_agent_loop.tool_context import Deps

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pure_agent_loop.runs.options import SendOptions


class Prepare(Protocol[Out_co]):
    """Function that creates a run, such as `Agent.prepare`."""

    def __call__(
        self,
        task: str,
        messages: list[Message] | None = None,
        *,
        output_type: Any = ...,
        deps: Any = ...,
        **options: Unpack[SendOptions],
    ) -> Run[Out_co]:
        """Create a run for `task` that continues `messages`."""


class Conversation(Generic[Out_co, Deps]):
    """History kept between runs. Make one with ``agent.conversation()``.

    A cancelled or abandoned run also adds its messages, with a result for every call, so that the history
    stays valid.

    Args:
        prepare: Function that creates a run from a task and the history so far.
    """

    def __init__(self, prepare: Prepare[Out_co]) -> None:
        self._prepare = prepare
        self._history: list[Message] = []

    @property
    def messages(self) -> list[Message]:
        """History so far, in wire form. Set it to continue a different history."""
        return to_keep(self._history)

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
        """Send a message and await the answer.

        Args:
            task: Text of the message.
            options: `cancel_token`, `inbox`, `media`, `deps`, and other settings; see `Agent.run`.

        Raises:
            ConfigError: `task` is not a string.
            ImageError: An image cannot be sent.
            TypeError: An option is unknown.
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
        """Send a message and wait for the answer, from sync code; see `send`."""
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
        """Send a message and yield the events as they occur; see `send`."""
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
        """Send a message and yield the events as they occur, from sync code; see `send`."""
        run = self._run(task, output_type=output_type, deps=deps, **options)
        try:
            yield from run.stream_sync()
        finally:
            self._keep(run)

    def reset(self) -> None:
        """Clear the history."""
        self._history = []

    def _run(self, task: str, **options: Any) -> Run[Out_co]:
        """Create a run; a session or a state is rejected, because each has its own history."""
        from pure_agent_loop.runs.options import SendOptions

        known = {*SendOptions.__annotations__, "deps", "output_type"}
        if unknown := options.keys() - known:
            raise TypeError(unexpected_option("A message", min(unknown), known))
        return self._prepare(task, self._history, **options)

    def _keep(self, run: Run[Any]) -> None:
        self._history = run.history()
