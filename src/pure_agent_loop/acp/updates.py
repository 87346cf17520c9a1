"""Events of a run as updates of a session."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.acp import calls
from pure_agent_loop.acp.host import Work
from pure_agent_loop.acp.words import say
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.sessions.story import Entry

Tell = Callable[[Mapping[str, Any]], Awaitable[None]]
MOST_PROGRESS = 20_000  # characters of a call that tells of itself; the newest are shown
MOST_BELOW = 40  # calls of a subagent that are shown; the newest
_STATES = {"pending": "pending", "running": "in_progress", "error": "failed"}
_SIGNS = {"running": "…", "error": "✗"}  # behind the calls of a subagent
_TOLD = ("agent", "state", "calls", "tokens")  # of a subagent
_SAID = {
    "task": "user_message_chunk",
    "user": "user_message_chunk",
    "thinking": "agent_thought_chunk",
    "answer": "agent_message_chunk",
}


def chunk(kind: str, text: str, message: str) -> dict[str, Any]:
    """A piece of what is said."""
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, "messageId": message}


@dataclass
class _Call:
    """A call as the editor has it."""

    is_told: bool = False
    status: str = "pending"
    text: str = ""  # what it says of itself, and then its result
    attached: list[Mapping[str, Any]] = field(default_factory=list)  # diffs and terminals
    tasks: dict[str, str] = field(default_factory=dict)  # how each subagent stands that it has begun
    below: dict[str, str] = field(default_factory=dict)  # their calls

    def content(self) -> list[Mapping[str, Any]]:
        """What is shown with it. A diff says what came out as well."""
        lines = [*self.tasks.values(), *[*self.below.values()][-MOST_BELOW:]]
        says = self.text and (lines or not self.attached or self.status == "failed")
        texts = (["\n".join(lines)] if lines else []) + ([self.text] if says else [])
        return [*self.attached, *map(calls.as_output, texts)]


class Updates:
    """Turns the events of one run into updates.

    Args:
        work: What goes on; it says what calls would change.
        tell: Sends an update.
        note: Shows a notice; None where nobody is told.
    """

    def __init__(self, work: Work, tell: Tell, note: Callable[[str], Awaitable[None]] | None) -> None:
        self._work, self._tell, self._note = work, tell, note
        self._run = secrets.token_hex(4)
        self._message = 0
        self._shown: set[EventType] = set()  # of the answer that is being written
        self._calls: dict[str, _Call] = {}
        self._homes: dict[str, str] = {}  # with which call it is shown what a subagent's call attaches
        self.failure = ""
        self.stop_reason = ""

    async def take(self, event: Event) -> None:
        """Tell the editor of an event."""
        data = event.data
        match event.type:
            case EventType.TEXT_DELTA | EventType.REASONING_DELTA | EventType.THOUGHT | EventType.REASONING:
                await self._say(event)
            case EventType.RETRY if data["discard"]:
                self._next()
                await self._tell(chunk("agent_thought_chunk", say("again"), self._id))
            case EventType.PART if data["part"]["type"] == "tool":
                await self.part(data["part"])
            case EventType.PROGRESS:
                await self._goes_on(data["call_id"], data["text"])
            case EventType.TASK:
                await self._task(data["task"], data.get("part"))
            case EventType.STEP_END:
                self._next()
                await self._usage(data.get("context") or {})
            case EventType.NOTICE if self._note is not None and not data.get("synthetic"):
                await self._note(data["message"])
            case EventType.ERROR:
                self.failure = data["error"] if data["fatal"] else self.failure
            case EventType.LOOP_END:
                self.stop_reason = data["stop_reason"]

    @property
    def _id(self) -> str:
        return f"{self._run}-{self._message}"

    def _next(self) -> None:
        self._message += 1
        self._shown.clear()

    async def _say(self, event: Event) -> None:
        """A piece; or the whole, where no pieces came because the answer was recorded."""
        is_text = event.type in (EventType.TEXT_DELTA, EventType.THOUGHT)
        piece = EventType.TEXT_DELTA if is_text else EventType.REASONING_DELTA
        kind = "agent_message_chunk" if is_text else "agent_thought_chunk"
        if event.type is not piece and piece in self._shown:
            return
        self._shown.add(piece)
        if event.data["content"]:
            await self._tell(chunk(kind, event.data["content"], self._id))

    # -- calls ------------------------------------------------------------------------------------------

    async def announce(self, call_id: str, tool: str, args: Mapping[str, Any]) -> None:
        """Tell of a call, once."""
        call = self._calls.setdefault(call_id, _Call())
        if not call.is_told:
            call.is_told = True
            about = calls.about(tool, args, self._work.folder)
            told = {"toolCallId": call_id, "status": call.status, **about}
            await self._tell({"sessionUpdate": "tool_call", **told})

    async def finish(self) -> None:
        """The run is over, and calls of subagents with it whose end nobody told."""
        for call_id, call in self._calls.items():
            if call.is_told and call.status in ("pending", "in_progress"):
                call.status = "failed"
                await self._show(call_id)

    def attach(self, call_id: str, content: Mapping[str, Any]) -> None:
        """Show something with a call from now on."""
        self._calls.setdefault(self._homes.get(call_id, call_id), _Call()).attached.append(content)

    async def _show(self, call_id: str) -> None:
        call = self._calls[call_id]
        content = {"content": found} if (found := call.content()) else {}
        told = {"toolCallId": call_id, "status": call.status, **content}
        await self._tell({"sessionUpdate": "tool_call_update", **told})

    async def part(self, part: Mapping[str, Any]) -> None:
        """A call has begun, got on, or ended."""
        call_id, state = part["call_id"], part["state"]
        if part["tool"] == calls.TODO and call_id not in self._calls:  # it is shown as a plan
            plan = calls.as_plan(part["input"] or {})
            if state == "completed" and plan is not None:
                await self._tell(plan)
            return
        await self.announce(call_id, part["tool"], part["input"] or {})
        if state != "pending":
            call = self._calls[call_id]
            call.status, call.text = _STATES.get(state, "completed"), part["output"]
            await self._show(call_id)

    async def _goes_on(self, call_id: str, text: str) -> None:
        call = self._calls.get(call_id)
        if call is not None and text:
            call.status, call.text = "in_progress", (call.text + text)[-MOST_PROGRESS:]
            await self._show(call_id)

    async def _task(self, task: Mapping[str, Any], part: Mapping[str, Any] | None) -> None:
        """What a subagent does, with the call that began it; what was asked about stands alone."""
        above, call_id = task["call_id"], part["call_id"] if part else ""
        home = call_id if call_id in self._calls else above
        if home not in self._calls:
            return
        call = self._calls[home]
        if part is None:
            call.tasks[task["id"]] = say("task", **{each: task[each] for each in _TOLD})
        else:
            own = call_id.rpartition(":")[2]
            if (early := self._calls.get(own)) is not None and not early.is_told:
                call.attached += self._calls.pop(own).attached
            self._homes[own] = home
            if home == call_id:
                call.status, call.text = _STATES.get(part["state"], "completed"), part["output"]
            else:
                about = calls.about(part["tool"], part["input"] or {}, self._work.folder)
                call.below[call_id] = f"{about['title']} {_SIGNS.get(part['state'], '✓')}"
        await self._show(home)

    async def _usage(self, context: Mapping[str, Any]) -> None:
        used, size = context.get("tokens"), context.get("window")
        if isinstance(used, int) and isinstance(size, int):
            await self._tell({"sessionUpdate": "usage_update", "used": used, "size": size})


async def tell_history(entries: Iterable[Entry], work: Work, tell: Tell) -> None:
    """Tell what was said and done in a session before.

    Args:
        entries: In the order of reading.
        work: The session.
        tell: Sends an update.
    """
    updates, given = Updates(work, tell, None), dict[str, Mapping[str, Any]]()
    for number, entry in enumerate(entries):
        call_id, state = entry.call_id or f"call-{number}", "error" if entry.failed else "completed"
        if entry.kind == "call":
            given[call_id], state = _arguments(entry.text), "pending"
        if entry.kind in _SAID and entry.text:
            await tell(chunk(_SAID[entry.kind], entry.text, f"before-{number}"))
        elif call_id in given:
            about = {"call_id": call_id, "tool": entry.tool, "input": given[call_id]}
            await updates.part({**about, "state": state, "output": entry.text})


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"arguments": text}
