"""The run as functions of the user see it; see `tool_context.RunContext`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.errors import ToolExecutionError
from pure_agent_loop.events import AnyEvent, Event
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.loop import run_loop
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tools.gate import ask_person
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.permissions import PermissionRequest
from pure_agent_loop.prompts.words import say
from pure_agent_loop.runs.tracing import current_tracer
from pure_agent_loop.support.typed import dataclass
from pure_agent_loop.tool_context import Remaining, RunContext, current_call, in_run


@dataclass(eq=False)
class _Live:
    """A run that goes on.

    Args:
        state: Where it stands.
        kit: What it works with.
    """

    state: QueryState
    kit: Kit
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _telling: set[asyncio.Task[None]] = field(default_factory=set)
    _is_over: bool = False

    @property
    def session_id(self) -> str:
        """The session."""
        return self.state.session_id

    @property
    def step(self) -> int:
        """The step it is in."""
        return self.state.step

    @property
    def usage(self) -> TokenUsage:
        """Tokens so far."""
        return self.state.usage

    @property
    def remaining(self) -> Remaining:
        """What is left of the limits."""
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
        """The history so far."""
        return self.state.history(self.kit.prompts.tool_waiting)

    @property
    def cancel_token(self) -> CancelToken | None:
        """Says whether it was cancelled."""
        return self.kit.cancel_token

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What came with it."""
        return self.kit.metadata

    def progress(self, text: str, **details: str) -> None:
        """Tell it; a thread waits until it is told, so that it comes before the result."""
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
        """Wait until all progress is told."""
        while self._telling:
            await asyncio.wait(set(self._telling))

    def end(self) -> None:
        """It is over: a tool that was left behind tells nothing any more."""
        self._is_over = True

    async def ask(self, question: str) -> str:
        """Ask a person."""
        if self.kit.on_ask is None:
            raise ToolExecutionError(say("nobody_to_ask"))
        call = current_call()
        name, call_id = ("ask", "") if call is None else (call.tool, call.call_id)
        request = PermissionRequest(call_id, name, {"question": question}, question, self.step)
        answer = await ask_person(request, self.kit)
        return answer.message or ("yes" if answer.behavior == "allow" else "no")

    async def _tell(self, event: AnyEvent) -> None:
        if not self._is_over:
            await self.kit.emit(event)


def _left(most: Any, used: Any) -> Any:
    return None if most is None else max(0, most - used)


async def drive(state: QueryState, kit: Kit) -> None:
    """Run the loop, and let functions of the user find the run they are called in.

    Raises:
        asyncio.CancelledError: The task was cancelled from outside.
    """
    run = _Live(state, kit)
    with in_run(RunContext(kit.deps, run)):
        try:
            tracer = current_tracer()
            await (run_loop(state, kit) if tracer is None else tracer.watch(run_loop, state, kit))
        finally:
            run.end()
