"""Run in progress as seen by user functions; see `tool_context.RunContext`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.errors import ToolExecutionError
from pure_agent_loop.events import AnyEvent, Event
from pure_agent_loop.kernel.gate import ask_person
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.loop import run_loop
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.permissions import PermissionRequest
from pure_agent_loop.runs.settings import DepsOfRun
from pure_agent_loop.support.failures import log_failure
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.threads import Raised
from pure_agent_loop.tool_context import Remaining, RunContext, current_call, in_run

_TRACERS: list[Tracer] = []  # at most one


# -- registration of a tracer; empty until `pure_agent_loop.otel.instrument` sets one --------------------


class Tracer(Protocol):
    """Observer of runs."""

    async def watch(self, drive: Callable[[Any, Any], Awaitable[None]], state: Any, kit: Any) -> None:
        """Drive a run and trace it."""
        ...

    def carrier(self) -> Mapping[str, str]:
        """Return the trace context for work in another process; empty outside a trace."""
        ...


def set_tracer(tracer: Tracer | None) -> None:
    """Set the tracer of all runs; None disables tracing."""
    _TRACERS[:] = [] if tracer is None else [tracer]


def current_tracer() -> Tracer | None:
    """Return the tracer, or None."""
    return _TRACERS[0] if _TRACERS else None


def carrier() -> dict[str, str]:
    """Return the trace context for work in another process; empty without a tracer."""
    return dict(_TRACERS[0].carrier()) if _TRACERS else {}


@dataclass(eq=False, repr=False)
class CurrentRun:
    """Run in progress."""

    state: QueryState
    kit: Kit
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _telling: set[asyncio.Task[None]] = field(default_factory=set)
    _is_over: bool = False

    @property
    def session_id(self) -> str:
        """Session id; empty for none."""
        return self.state.session_id

    @property
    def step(self) -> int:
        """Current step."""
        return self.state.step

    @property
    def usage(self) -> TokenUsage:
        """Tokens of the run so far."""
        return self.state.usage

    @property
    def remaining(self) -> Remaining:
        """Remainder of the limits."""
        limits, used = self.kit.limits, self.state.ledger
        deadline = self.state.deadline
        return Remaining(
            _left(limits.max_turns, used.steps),
            _left(limits.max_tool_calls, used.tool_calls),
            _left(limits.max_tokens, used.tokens),
            None if deadline is None else max(0.0, deadline - self.kit.clock.monotonic()),
            _left(limits.max_cost, used.cost),
        )

    @property
    def messages(self) -> list[dict[str, Any]]:
        """History so far."""
        return self.state.history(self.kit.prompts.tool_waiting)

    def has_tool(self, name: str) -> bool:
        """Return True if the model is offered the tool."""
        return name in self.kit.tools

    @property
    def cancel_token(self) -> CancelToken | None:
        """Cancel token of the run, or None."""
        return self.kit.cancel_token

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the run."""
        return self.kit.metadata

    def progress(self, text: str, **details: str) -> None:
        """Emit a PROGRESS event; a thread blocks until it is emitted, so that it precedes the result."""
        call = current_call()
        name, call_id = ("", "") if call is None else (call.tool, call.call_id)
        event = Event.progress(self.step, name, str(text), call_id, **details)
        try:
            inside = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            inside = False
        if inside:
            task = self._loop.create_task(self._tell(event))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)
        elif not self._is_over:
            asyncio.run_coroutine_threadsafe(self._tell(event), self._loop).result()

    async def told(self) -> None:
        """Wait until all progress has been emitted."""
        while self._telling:
            await asyncio.wait(set(self._telling))

    def end(self) -> None:
        """Mark the run as ended: abandoned tools emit no further progress."""
        self._is_over = True

    async def ask(self, question: str) -> str:
        """Ask a person."""
        if self.kit.on_ask is None:
            raise ToolExecutionError(model_text("nobody_to_ask"))
        call = current_call()
        name, call_id = ("ask", "") if call is None else (call.tool, call.call_id)
        args, now = {"question": question}, self.kit.clock.now()
        request = PermissionRequest(call_id, name, args, question, self.step, now)
        answer = await ask_person(request, self.kit)
        return answer.message or ("yes" if answer.behavior == "allow" else "no")

    async def _tell(self, event: AnyEvent) -> None:
        if not self._is_over:
            await self.kit.emit(event)


def _left(most: Any, used: Any) -> Any:
    return None if most is None else max(0, most - used)


async def drive(state: QueryState, kit: Kit) -> None:
    """Run the loop with the run as the current one for user functions.

    Raises:
        asyncio.CancelledError: The task was cancelled from outside.
    """
    run = CurrentRun(state, kit)
    deps = kit.deps
    if deps is not None and isinstance(deps, DepsOfRun):
        try:
            with in_run(RunContext(None, run)):
                deps = await deps.made()
        except Exception as error:  # noqa: BLE001 - a function of the user may raise anything
            log_failure("The deps function", error)
            deps = Raised(error)  # raised when the run begins, which ends it
        kit = kit.replace(deps=deps)
    with in_run(RunContext(deps, run)):
        try:
            tracer = current_tracer()
            await (run_loop(state, kit) if tracer is None else tracer.watch(run_loop, state, kit))
        finally:
            run.end()
