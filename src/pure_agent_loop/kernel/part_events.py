"""Telling about the parts of an answer while they change; see `parts`."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from pure_agent_loop.events import EventType, PartEvent
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.parts import PartState, PartType, moved, new_part


class AnswerParts:
    """The text and the reasoning of one answer, while it is written.

    Args:
        state: The run it belongs to.
        kit: Where events go.
    """

    def __init__(self, state: QueryState, kit: Kit) -> None:
        self._state = state
        self._kit = kit
        self._step = state.step
        self._written: list[str] = []
        self._count = 0
        self._message_id = f"msg_{state.answers}"
        self.open: dict[str, Any] | None = None
        """What is being written."""

    async def write(self, kind: PartType, text: str) -> None:
        """More of one kind; another kind that was being written is complete."""
        if self.open is None or self.open["type"] != kind:
            await self.end("completed")
            self._count += 1
            now, name = self._kit.clock.now(), f"{self._message_id}.{self._count}"
            part = new_part(name, self._message_id, kind, now, session_id=self._state.session_id)
            self.open = running = moved(part, "running", now)
            await _tell(part, self._step, self._kit)
            await _tell({**running}, self._step, self._kit)
        self._written.append(text)

    async def end(self, state: PartState) -> None:
        """What was being written is complete, or taken back."""
        part, self.open = self.open, None  # first: it is not ended twice, even if telling it fails
        if part is not None:
            output, self._written = "".join(self._written), []
            await _tell(moved(part, state, self._kit.clock.now(), output), self._step, self._kit)

    async def open_calls(self) -> None:
        """The answer is whole: each of its calls is a part that is pending."""
        for call in self._state.pending:
            part = _call_part(call, self._message_id, self._state, self._kit)
            self._state.parts[call.id] = {**part}
            await _tell(part, self._step, self._kit)


def _tell(part: dict[str, Any], step: int, kit: Kit) -> Awaitable[None]:
    """A change is recorded, then told. The event has `part` itself: what is kept is another dict."""
    kit.journal.note_part(part)
    return kit.emit(PartEvent(EventType.PART, step, {"part": part}))


def _call_part(call: ToolCall, message_id: str, state: QueryState, kit: Kit) -> dict[str, Any]:
    return new_part(
        f"{message_id}.{call.id}",
        message_id,
        "tool",
        kit.clock.now(),
        session_id=state.session_id,
        tool=call.name,
        call_id=call.id,
        given=call.arguments,
    )


def change_part(
    state: QueryState, kit: Kit, call_id: str, to: PartState, output: str | None = None, *, step: int
) -> Awaitable[None]:
    """A call's part goes on to another state."""
    part = state.parts.get(call_id)
    if part is None:  # the run was resumed, and another process has announced it
        call = next((call for call in state.pending if call.id == call_id), None)
        if call is None:
            return _nothing()
        part = _call_part(call, f"msg_{state.answers}", state, kit)
    part = moved(part, to, kit.clock.now(), output)
    if part["ended"] is None:
        state.parts[call_id] = {**part}
    else:
        state.parts.pop(call_id, None)
    return _tell(part, step, kit)


async def _nothing() -> None:
    """Nobody is told."""


async def end_open_parts(state: QueryState, kit: Kit) -> None:
    """The run is over: calls that have not ended have failed, with the result that stands in the history."""
    if not state.parts:
        return
    results = {
        m.get("tool_call_id"): m["content"]
        for m in state.messages[-len(state.parts) :]
        if m["role"] == "tool"
    }
    for call_id in list(state.parts):
        await change_part(state, kit, call_id, "error", results.get(call_id, ""), step=state.step)
