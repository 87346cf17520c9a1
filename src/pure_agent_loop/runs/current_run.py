"""The run as user functions see it: its data, progress reports and questions; see `RunContext`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.errors import ToolExecutionError
from pure_agent_loop.events import AnyEvent, Event
from pure_agent_loop.kernel.gate import ask_person
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.permissions import PermissionRequest
from pure_agent_loop.support.language import model_text
from pure_agent_loop.tool_context import Remaining, current_call


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
        """Session id; empty if none."""
        return self.state.session_id

    @property
    def step(self) -> int:
        """Current step."""
        return self.state.step

    @property
    def usage(self) -> TokenUsage:
        """Tokens that the run has used so far."""
        return self.state.usage

    @property
    def remaining(self) -> Remaining:
        """What is left of the run's limits."""
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
        """Return True if the tool is offered to the model."""
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
        """Emit a PROGRESS event; in a thread, wait until it is emitted, so that it precedes the result."""
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

    async def flush_progress(self) -> None:
        """Wait until all progress has been emitted."""
        while self._telling:
            await asyncio.wait(set(self._telling))

    def end(self) -> None:
        """Mark the run as ended, so that abandoned tools emit no further progress."""
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
