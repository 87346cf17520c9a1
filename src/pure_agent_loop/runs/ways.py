"""The ways to run an agent: awaited or streamed, from async code or from sync code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from pure_agent_loop.events import AnyEvent
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.result import AgentResult, Out
from pure_agent_loop.runs.run import Run
from pure_agent_loop.runs.settings import UNSET
from pure_agent_loop.tool_context import Deps

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pure_agent_loop.runs.options import RunOptions

T = TypeVar("T")
OutputType = type[T] | Callable[..., T] | Sequence[type[T] | Callable[..., T]]


class WaysToRun(Generic[Deps, Out]):
    """What prepares a run can run it."""

    prepare: Callable[..., Run[Out]]  # makes a run without starting it

    if not TYPE_CHECKING:

        def __class_getitem__(cls, parameters: Any) -> Any:
            """``Agent[Deps]`` is ``Agent[Deps, str]``; most versions of Python know no such defaults."""
            one = parameters if isinstance(parameters, tuple) else (parameters, str)
            return super().__class_getitem__(one)

    @overload
    def run(
        self,
        task: str | None,
        messages: list[Message] | None = None,
        *,
        output_type: OutputType[T],
        deps: Deps | None = None,
        **options: Unpack[RunOptions],
    ) -> AgentResult[T]: ...
    @overload
    def run(
        self,
        task: str | None,
        messages: list[Message] | None = None,
        *,
        deps: Deps | None = None,
        **options: Unpack[RunOptions],
    ) -> AgentResult[Out]: ...
    def run(
        self, task: str | None, messages: list[Message] | None = None, **options: Any
    ) -> AgentResult[Any]:
        """Do a task and wait for the result. Works in sync code, also inside a running event loop.

        Args:
            task: What to do; None, with `state`, to go on with what was being done.
            messages: A history to go on from, e.g. `AgentResult.messages`. A leading system message in it
                takes the place of `system_prompt`; what is not valid in it is repaired, with a notice.
            options: What `prepare` takes besides: `cancel_token`, `state`, `inbox`, `session_id`, `media`,
                `deps`, and other settings for this run: `model`, `limits`, `temperature`, `tools`,
                `system_prompt`, `output_type`, `model_settings`, `metadata`.

        Raises:
            ConfigError: `task` is no text, `state` is no state, or a setting cannot work.
            ImageError: One of `media` cannot be sent.
            HistoryError: `messages` is no list of messages.
            TypeError: There is no such option.
        """
        return self.prepare(task, messages, **options).wait_sync()

    @overload
    async def arun(
        self,
        task: str | None,
        messages: list[Message] | None = None,
        *,
        output_type: OutputType[T],
        deps: Deps | None = None,
        **options: Unpack[RunOptions],
    ) -> AgentResult[T]: ...
    @overload
    async def arun(
        self,
        task: str | None,
        messages: list[Message] | None = None,
        *,
        deps: Deps | None = None,
        **options: Unpack[RunOptions],
    ) -> AgentResult[Out]: ...
    async def arun(
        self, task: str | None, messages: list[Message] | None = None, **options: Any
    ) -> AgentResult[Any]:
        """Do a task and await the result; see `run`."""
        return await self.prepare(task, messages, **options).wait()

    def run_stream(
        self,
        task: str | None,
        messages: list[Message] | None = None,
        *,
        output_type: Any = UNSET,
        deps: Deps | None = None,
        **options: Unpack[RunOptions],
    ) -> Generator[AnyEvent, None, None]:
        """Do a task and yield the events while they happen; see `run`. Closing it cancels the run."""
        return self.prepare(task, messages, output_type=output_type, deps=deps, **options).stream_sync()

    def arun_stream(
        self,
        task: str | None,
        messages: list[Message] | None = None,
        *,
        output_type: Any = UNSET,
        deps: Deps | None = None,
        **options: Unpack[RunOptions],
    ) -> AsyncGenerator[AnyEvent, None]:
        """Do a task and yield the events while they happen; see `run`. Closing it cancels the run."""
        return self.prepare(task, messages, output_type=output_type, deps=deps, **options).stream()
