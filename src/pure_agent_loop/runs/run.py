"""Runs for callers: the input and initial state of a run, and the four ways to start it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast, overload

from pure_agent_loop.cancel import Leave
from pure_agent_loop.errors import ConfigError, RunInterrupted
from pure_agent_loop.events import AnyEvent, Emit, set_number
from pure_agent_loop.kernel.journal import Journal, MemoryJournal
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.loop import run_loop
from pure_agent_loop.kernel.redacting import redacting_emit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.base import ChatModel, close_client, model_of
from pure_agent_loop.llm.messages import Message, repair_history, text_of
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.result import AgentResult, Out, Out_co, as_html
from pure_agent_loop.runs.current_run import CurrentRun
from pure_agent_loop.runs.handoff import (
    Handoff,
    HandoffTarget,
    checked_handoffs,
    end_with,
    following,
    resolve_handoff,
)
from pure_agent_loop.runs.settings import UNSET, DepsOfRun, KitBuilder, overriding
from pure_agent_loop.runs.stream import EventStream
from pure_agent_loop.runs.tracing import current_tracer
from pure_agent_loop.schema.calling import checked_in_run
from pure_agent_loop.stop_reasons import BACKGROUNDED
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.checks import is_number, require, require_value
from pure_agent_loop.support.failures import log_failure
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.portal import get_portal, run_sync
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.support.threads import Raised, in_thread
from pure_agent_loop.tool import ToolLike, ToolRegistry, Toolset
from pure_agent_loop.tool_context import Deps, RunContext, in_run

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from pure_agent_loop.runs.options import Given, RunOptions

T = TypeVar("T")
Target = TypeVar("Target")
Received = TypeVar("Received")
Target_contra = TypeVar("Target_contra", contravariant=True)
Received_co = TypeVar("Received_co", covariant=True)
OutputType = type[T] | Callable[..., T] | Sequence[type[T] | Callable[..., T]]


class Runnable(Generic[Deps, Out]):
    """Agent methods that start a run (all based on `prepare`) or return a modified copy."""

    prepare: Callable[..., Run[Out]]  # returns a new run that has not been started

    llm: ChatModel
    handoffs: dict[str, Handoff]
    tools: ToolRegistry
    system_prompt: str
    _given: dict[str, Any]
    _kit: Kit
    _builder: KitBuilder
    _own_tools: ToolRegistry

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
        """Run a task and wait for the result. Works in sync code, even inside a running event loop.

        Args:
            task: Task text; None, with `state`, to resume.
            messages: History to continue, e.g. `AgentResult.messages`. A leading system message replaces
                `system_prompt`, even one that is set for this run; a later system message is sent as a user
                message. An invalid history is repaired, with a notice.
            options: Further arguments of `prepare`: `cancel_token`, `state`, `inbox`, `session_id`,
                `journal`, `media`, `deps`, and settings of this run: `model`, `limits`, `temperature`,
                `tools`, `system_prompt`, `facts`, `output_type`, `model_settings`, `metadata`.

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
        """Return a representation without URLs or keys."""
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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RunInput:
    """Input of a run, without the kit.

    Args:
        task: Task text; None to resume.
        system_prompt: System message, unless the history has its own.
        media: Parts attached to the task; see `media_parts`.
        first: Initial agent; the state or the session may already have been handed over to another agent.

    Raises:
        ConfigError: `task` is not a string, or media are given without a task.
    """

    task: str | None
    messages: list[Message] | None = None
    system_prompt: str = ""
    state: Given = None
    media: Sequence[dict[str, Any]] = ()
    first: HandoffTarget | None = None

    def __post_init__(self) -> None:
        require(isinstance(self.task, (str, type(None))), "task", self.task, "text, or None to continue")
        if self.media and self.task is None:
            raise ConfigError("media needs a task. Pass both, or neither.")


class Binds(Protocol):
    """Journal that needs the prompts and the redactor of the run, such as one that writes records."""

    def bind(self, prompts: Prompts, redactor: Redactor | None) -> None:
        """Use these prompts and this redactor for everything that follows."""


def begin(kit: Kit, run_input: RunInput, journal: Journal | None = None) -> tuple[QueryState, Kit]:
    """Return the state and the kit of a run without a session.

    Args:
        journal: Journal of the run; None for a `MemoryJournal`.

    Raises:
        ConfigError: The inputs conflict, or the journal lacks a method.
        HistoryError: `messages` is not a list of messages.
    """
    if kit.limits.day_limits:
        raise ConfigError(notice("library.day_needs_session"))
    if journal is not None:
        if as_protocol(journal, Journal) is None:
            raise ConfigError(f"journal must have the methods of Journal; it is {journal!r:.80}.")
        if (bound := as_protocol(journal, Binds)) is not None:
            bound.bind(kit.prompts, kit.redactor)
        kit = kit.replace(journal=journal)
    if run_input.state is not None:
        if run_input.messages is not None:
            raise ConfigError(
                "messages and state were both given. Pass only state: it includes its messages."
            )
        start, notices = resumed_state(run_input.task, run_input.state, kit.prompts, run_input.media)
        kit, _ = resolve_handoff(run_input.first, kit, start, new_task=run_input.task is not None)
    elif run_input.task is None:
        raise ConfigError("task must be text; None needs a state to continue from: state=result.state.")
    else:
        start, notices = start_state(
            run_input.task, run_input.messages, run_input.system_prompt, kit.prompts, run_input.media
        )
    return start, kit.replace(start_notices=(*kit.start_notices, *notices)) if notices else kit


def start_state(
    task: str,
    messages: list[Message] | None,
    system_prompt: str,
    prompts: Prompts,
    media: Sequence[dict[str, Any]] = (),
) -> tuple[QueryState, list[str]]:
    """Return the initial state of a run, and notices about repairs of the history.

    Args:
        system_prompt: System message, unless the history has its own.
        media: Parts attached to the message; see `media_parts`.

    Raises:
        ConfigError: `system_prompt` is not a string.
        HistoryError: `messages` is not a list of messages.
    """
    require(isinstance(system_prompt, str), "system_prompt", system_prompt, "text")
    history, fixes = repair_history([] if messages is None else messages, prompts.tool_lost)
    own = None
    if history and history[0]["role"] in ("system", "developer"):
        system_prompt = own = clean_text(text_of(history.pop(0)["content"] or ""))
    state = QueryState(system_prompt=clean_text(system_prompt), own_prompt=own, messages=history, task=task)
    state.add_task(task, media)
    return state, [f"The history was repaired: {'; '.join(fixes)}."] if fixes else []


def brings_system(messages: object) -> bool:
    """Return True if a history begins with its own system message."""
    first = messages[0] if isinstance(messages, list) and messages else None
    return isinstance(first, Mapping) and first.get("role") in ("system", "developer")


def resumed_state(
    task: str | None,
    state: QueryState | Mapping[str, Any],
    prompts: Prompts,
    media: Sequence[dict[str, Any]] = (),
) -> tuple[QueryState, list[str]]:
    """Return a copy of a state, ready to resume, and notices about repairs.

    Args:
        task: Additional task, under the same limits; None to resume the current one.
        state: State or its plain form.
        media: Parts attached to the task; see `media_parts`.

    Raises:
        ConfigError: `state` is not a state.
        HistoryError: The messages of the state are invalid.
    """
    data = state.to_dict() if isinstance(state, QueryState) else state
    copy = QueryState.from_dict(data)
    last = copy.messages[-1:] if copy.pending else []  # pending calls are valid here and need no repair
    fixed, fixes = repair_history(copy.messages[: len(copy.messages) - len(last)], prompts.tool_lost)
    copy.messages = [*fixed, *last]
    copy.resume()
    if task is not None:
        copy.close(prompts.tool_not_started)
        copy.task, copy.tool_rounds = task, 0
        copy.must_close, copy.stop_hook_count = "", 0  # these fields belong to the old task
        copy.permissions.forget_refusals()
        copy.tools.retries = {}
        copy.go_on(task, "follow_up", media)
    return copy, [f"The history was repaired: {'; '.join(fixes)}."] if fixes else []


class Receives(Protocol[Target_contra, Received_co]):
    """Engine that continues a run after it has ended here: `Engine` of durable runs."""

    def receive(
        self, journal: Journal, options: Mapping[str, Any], agent: str, deliver: Target_contra | None
    ) -> Callable[[QueryState, Kit], Awaitable[Received_co]]:
        """Check that a run can be continued, and return the function that hands it over; see `Run.detach`."""


class Run(Generic[Out_co]):
    """Prepared run, to be started once, in one of four ways.

    Args:
        state: Initial state.
        kit: Kit of the run; its `emit` is replaced.
        first: Initial agent; it may hand the run over to others.
        given: Settings of this run, which replace the agent's.
    """

    def __init__(
        self,
        state: QueryState,
        kit: Kit,
        first: HandoffTarget | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self._given, self._leave = given or {}, Leave()
        self._received: Future[Any] = Future()  # the handle that `detach` returns
        self.state = state
        self.events: list[AnyEvent] = []
        self._number = 0  # number of the newest event
        self._kit = kit
        self._first = first
        self._previous: AgentResult | None = None
        self._told = 0  # number of the newest event from earlier loops
        self._is_started = False
        self.has_ended = False
        if type(kit.journal) is not MemoryJournal:  # a `MemoryJournal` holds no resources
            weakref.finalize(self, kit.journal.close)  # releases the session of a run that is never started

    @property
    def prompts(self) -> Prompts:
        """Prompts for the model."""
        return self._kit.prompts

    def steer(self, text: str) -> None:
        """Add a message, from any thread, that the agent reads before its next step."""
        self._kit.inbox.steer(text)

    def follow_up(self, text: str) -> None:
        """Add a message, from any thread, that the agent reads when it is about to stop."""
        self._kit.inbox.follow_up(text)

    async def detach(
        self,
        engine: Receives[Target, Received],
        agent: str,
        deliver: Target | None = None,
        *,
        grace: float | None = 20.0,
    ) -> Received:
        """Hand this run over to an engine for durable runs; here the run ends with ``backgrounded``.

        The run stops before its next request, and the engine continues the session, so nothing that has been
        recorded is repeated. If the process dies before the hand-over, the session holds an interrupted run.
        May be awaited in any event loop, even in another thread.

        Args:
            engine: Engine whose store holds the session: ``prepare(sessions=engine.sessions)``.
            agent: Name of the agent that continues, as registered by a worker. The run continues with that
                agent's functions, tools and deps; settings of this run that have a JSON form are kept.
            deliver: Target of the answer: `to_session`, `to_file` or `to_command`; None to only store it in
                the session.
            grace: Seconds for a running request or tool to finish before it is stopped. A stopped request
                is repeated; the outcome of a stopped tool is unknown. None for no limit.

        Returns:
            The handle of the durable run.

        Raises:
            ConfigError: The run is not running or ends before the hand-over, its session is not in the
                engine's store, the agent is unknown, or a setting of this run has no JSON form.
            DurableError: The database is unavailable. If the run was already being handed over, it has ended
                with this error, and its session can be resumed.
            SessionWriteError: The session cannot be written; the consequences are those of `DurableError`.
        """
        require(callable(getattr(engine, "receive", None)), "engine", engine, "an Engine of durable runs")
        require_value(grace is None or is_number(grace), "grace", grace, "seconds, 0 or more, or None")
        journal, given = self._kit.journal, self._given
        receive = await in_thread(lambda: engine.receive(journal, given, agent, deliver))
        if not self._is_started or self._leave.hand_over is not None:
            raise ConfigError(notice("library.not_detachable"))

        async def hand_over(state: QueryState, kit: Kit) -> None:
            try:
                self._received.set_result(await receive(state, kit))
            except Exception as error:  # noqa: BLE001 - raised by `detach`
                self._received.set_exception(error)
                await end_with(error, state, kit)

        self._leave.hand_over = hand_over
        received = asyncio.wrap_future(self._received)
        if not (await asyncio.wait({received}, timeout=grace))[0]:
            self._leave.cancel()
        return cast("Received", await asyncio.shield(received))

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
        """Run and yield the events, from sync code; raise the same errors as `wait_sync`."""
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
        """Return the valid messages so far, with their reasoning, because some servers require it later."""
        return self.state.full_history(self._kit.prompts.tool_waiting)

    def _interrupted(self) -> RunInterrupted:
        self.state.stop("cancelled")  # needed if the loop has not begun
        return RunInterrupted(self.result())

    def _begin(self) -> None:
        """Reject a second start, because the state has ended or another task is using it."""
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

    async def _run(self, emit: Emit) -> None:
        kit = self._kit.replace(emit=redacting_emit(emit, self._kit.redactor), leave=self._leave)
        try:
            await drive(self.state, kit, self._first, self._hand_over)
        finally:
            self.has_ended = True
            if not self._received.done():
                self._received.set_exception(ConfigError(notice("library.not_detachable")))


async def drive(
    state: QueryState,
    kit: Kit,
    first: HandoffTarget | None = None,
    on_state: Callable[[QueryState, Kit], None] | None = None,
) -> None:
    """Drive a run through all agents it is handed over to, and close its journal.

    Args:
        first: Initial agent; None if handoffs are impossible.
        on_state: Callback before each subsequent loop.

    Raises:
        asyncio.CancelledError: The task was cancelled from outside.
    """
    try:
        await _drive_loop(state, kit)
        while (handed := await following(first, state, kit)) is not None:
            state, kit = handed
            if on_state is not None:
                on_state(state, kit)
            await _drive_loop(state, kit)
        if state.stop_reason == BACKGROUNDED and kit.leave is not None and kit.leave.hand_over is not None:
            await kit.leave.hand_over(state, kit)
    finally:
        kit.journal.close()


async def _drive_loop(state: QueryState, kit: Kit) -> None:
    """Run the loop with the run as the current one for user functions."""
    run = CurrentRun(state, kit)
    deps = kit.deps
    if deps is not None and isinstance(deps, DepsOfRun):
        try:
            with in_run(RunContext(None, run)):
                deps = await deps.made()
        except Exception as error:  # noqa: BLE001 - a user function may raise anything
            log_failure("The deps function", error)
            deps = Raised(error)  # raised when the loop begins, and ends the run
        kit = kit.replace(deps=deps)
    with in_run(RunContext(deps, run)):
        try:
            tracer = current_tracer()
            await (run_loop(state, kit) if tracer is None else tracer.watch(run_loop, state, kit))
        finally:
            run.end()
