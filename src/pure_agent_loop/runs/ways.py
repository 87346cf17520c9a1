"""Ways to run an agent: awaited or streamed, from async or sync code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from pure_agent_loop.events import AnyEvent
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.llm.base import ChatModel, close_client, model_of
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.result import AgentResult, Out
from pure_agent_loop.runs.handoff import Handoff, HandoffTarget, checked_handoffs
from pure_agent_loop.runs.run import Run
from pure_agent_loop.runs.settings import UNSET, KitBuilder, overriding
from pure_agent_loop.schema.calling import checked_in_run
from pure_agent_loop.tool import ToolLike, ToolRegistry, Toolset
from pure_agent_loop.tool_context import Deps, RunContext

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from pure_agent_loop.runs.options import RunOptions

T = TypeVar("T")
OutputType = type[T] | Callable[..., T] | Sequence[type[T] | Callable[..., T]]


class WaysToRun(Generic[Deps, Out]):
    """Run methods, based on `prepare`."""

    prepare: Callable[..., Run[Out]]  # creates a run without starting it

    if not TYPE_CHECKING:

        def __class_getitem__(cls, parameters: Any) -> Any:
            """Expand ``Agent[Deps]`` to ``Agent[Deps, str]``: Python before 3.13 has no type defaults."""
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
        """Run a task and wait for the result. Works in sync code, also inside a running event loop.

        Args:
            task: Task text; None, with `state`, to resume.
            messages: History to continue, e.g. `AgentResult.messages`. A leading system message replaces
                `system_prompt`; an invalid history is repaired, with a notice.
            options: Further arguments of `prepare`: `cancel_token`, `state`, `inbox`, `session_id`, `media`,
                `deps`, and settings of this run: `model`, `limits`, `temperature`, `tools`,
                `system_prompt`, `output_type`, `model_settings`, `metadata`.

        Raises:
            ConfigError: `task` is not a string, `state` is not a state, or a setting is invalid.
            ImageError: One of `media` cannot be sent.
            HistoryError: `messages` is not a list of messages.
            TypeError: An option is unknown.
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
        """Run a task and await the result; see `run`."""
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
        """Run a task and yield the events as they occur; see `run`. Closing the iterator cancels the run."""
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
        """Run a task and yield the events as they occur; see `run`. Closing the iterator cancels the run."""
        return self.prepare(task, messages, output_type=output_type, deps=deps, **options).stream()


# -- variations of an agent: overrides, output checks and additional handoffs ----------------------------


class Variants(WaysToRun[Deps, Out]):
    """Methods of `Agent` that do not start runs."""

    llm: ChatModel
    handoffs: dict[str, Handoff]
    tools: ToolRegistry
    system_prompt: str
    _given: dict[str, Any]
    _kit: Kit
    _builder: KitBuilder
    _own_tools: ToolRegistry

    @overload
    def output_check(
        self, check: Callable[[Out], Out | Awaitable[Out | None] | None]
    ) -> Callable[[Out], Any]: ...
    @overload
    def output_check(
        self, check: Callable[[RunContext[Deps], Out], Out | Awaitable[Out | None] | None]
    ) -> Callable[[RunContext[Deps], Out], Any]: ...
    def output_check(self, check: Callable[..., Any]) -> Callable[..., Any]:
        """Register a function that checks each output; use it as a decorator.

        The function takes the output, optionally after a `RunContext`, and may be async. A return value other
        than None replaces the output. The function may raise `Retry` to make the model correct the answer.
        """
        self._builder.checks.append(checked_in_run("output_check", check, "output"))
        self._kit = replace(self._kit, output=self._builder.output())
        return check

    def override(
        self,
        *,
        llm: ChatModel = UNSET,
        tools: Iterable[ToolLike | Toolset] | ToolRegistry = UNSET,
        deps: Deps = UNSET,
    ) -> AbstractContextManager[None]:
        """Override the client, the tools or the deps of runs started in a ``with`` block.

        The override takes precedence over settings of the runs, in this task or thread and its children.
        """
        return overriding(self._builder, llm=llm, tools=tools, deps=deps)

    async def aclose(self) -> None:
        """Close the connections of the running event loop, and the embedded model if one was started.

        Optional in sync code: resources of `run` and `run_stream` are closed when the program ends.
        """
        await close_client(self.llm)
        await self._builder.aclose()

    def __repr__(self) -> str:
        """Return a representation without URLs and keys."""
        name = f"{self._kit.name!r}, " if self._kit.name else ""
        model = model_of(self.llm) or type(self.llm).__name__
        return f"<{type(self).__name__} {name}model={model!r}, tools={[tool.name for tool in self.tools]}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _cloned(self, changes: dict[str, Any]) -> Self:
        named = {"model", "api_key", "base_url", "profile"}
        dropped = named if "llm" in changes else {"llm"} if named & changes.keys() else set()
        arguments = {name: value for name, value in self._given.items() if name not in dropped}
        clone = type(self)(**{**arguments, **changes})
        if "output_type" not in changes:
            for check in self._builder.checks:
                clone.output_check(check)
        return clone

    def add_handoff(self, agent: HandoffTarget | Handoff) -> None:
        """Add a target agent for handoffs, such as one that can hand back to this one.

        Raises:
            ConfigError: The agent has no name, or the name is taken.
        """
        handoffs, self.tools = checked_handoffs(
            [*self.handoffs.values(), agent], self._kit.name, self._own_tools
        )
        self.handoffs.update(handoffs)
        self._kit = replace(self._kit, tools=self.tools)
