"""Telling about the parts of an answer while they change; see `parts`."""

from __future__ import annotations

from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.parts import Part, PartState, PartType


class AnswerParts:
    """The text and the reasoning of one answer, while it is written.

    Args:
        state: The run it belongs to.
        kit: Where events go.
    """

    def __init__(self, state: QueryState, kit: Kit) -> None:
        self._state = state
        self._kit = kit
        self._open: Part | None = None
        self._written: list[str] = []
        self._count = 0
        self._message_id = f"msg_{state.answers}"

    async def write(self, kind: PartType, text: str) -> None:
        """More of one kind; another kind that was being written is complete."""
        if self._open is None or self._open.type != kind:
            await self.end("completed")
            self._open = self._new(kind)
            await self._emit(self._open)
            self._open = self._open.to("running", self._kit.clock.now())
            await self._emit(self._open)
        self._written.append(text)

    async def end(self, state: PartState) -> None:
        """What was being written is complete, or taken back."""
        part, self._open = self._open, None  # first: it is not ended twice, even if telling it fails
        if part is not None:
            output, self._written = "".join(self._written), []
            await self._emit(part.to(state, self._kit.clock.now(), output))

    async def open_calls(self) -> None:
        """The answer is whole: each of its calls is a part that is pending."""
        for call in self._state.pending:
            self._state.parts[call.id] = part = _call_part(call, self._message_id, self._state, self._kit)
            await self._emit(part)

    def _new(self, kind: PartType) -> Part:
        self._count += 1
        part_id = f"{self._message_id}.{self._count}"
        now = self._kit.clock.now()
        return Part(part_id, self._state.session_id, self._message_id, kind, created=now)

    async def _emit(self, part: Part) -> None:
        await _tell(part, self._state, self._kit)


async def _tell(part: Part, state: QueryState, kit: Kit) -> None:
    """A change is recorded, then told. What was said or given out stands in other records."""
    when = part.ended or part.started or part.created
    about = {"id": part.id, "type": part.type, "state": part.state, "time": when}
    kit.journal.note_part({**about, "call_id": part.call_id, "tool": part.tool} if part.call_id else about)
    await kit.emit(Event.part(state.step, part.to_dict()))


def _call_part(call: ToolCall, message_id: str, state: QueryState, kit: Kit) -> Part:
    return Part(
        f"{message_id}.{call.id}",
        state.session_id,
        message_id,
        "tool",
        tool=call.name,
        call_id=call.id,
        input=call.arguments,
        created=kit.clock.now(),
    )


async def change_part(
    state: QueryState, kit: Kit, call_id: str, to: PartState, output: str | None = None
) -> None:
    """A call's part goes on to another state."""
    part = state.parts.get(call_id)
    if part is None:  # the run was resumed, and another process has announced it
        call = next((call for call in state.pending if call.id == call_id), None)
        if call is None:
            return
        part = _call_part(call, f"msg_{state.answers}", state, kit)
    part = part.to(to, kit.clock.now(), output)
    state.parts[call_id] = part
    if part.ended is not None:
        del state.parts[call_id]
    await _tell(part, state, kit)


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
        await change_part(state, kit, call_id, "error", results.get(call_id, ""))
