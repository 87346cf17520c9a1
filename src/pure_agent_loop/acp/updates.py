"""Conversion of a run's events to session updates."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.acp import calls
from pure_agent_loop.acp.host import Work
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.sessions.story import Entry
from pure_agent_loop.support.explained import failure_lines
from pure_agent_loop.support.language import user_language, user_text
from pure_agent_loop.support.parsing import parsed_object
from pure_agent_loop.toolbox import TODO_TOOL

SendUpdate = Callable[[Mapping[str, Any]], Awaitable[None]]
MAX_PROGRESS = 20_000  # characters of a call's progress to show, counted from the end
MAX_SUBCALLS = 40  # newest calls to show per subagent
_STATES = {"pending": "pending", "running": "in_progress", "error": "failed"}
_SIGNS = {"running": "…", "error": "✗"}  # signs shown after a subagent's calls
_TASK_FIELDS = ("agent", "state", "calls", "tokens")
_CHUNK_KINDS = {
    "task": "user_message_chunk",
    "user": "user_message_chunk",
    "thinking": "agent_thought_chunk",
    "answer": "agent_message_chunk",
}


def chunk(kind: str, text: str, message: str) -> dict[str, Any]:
    """Create a message chunk update."""
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, "messageId": message}


@dataclass
class _ShownCall:
    """A tool call as shown by the editor."""

    is_announced: bool = False
    title: str = ""
    status: str = "pending"
    text: str = ""  # the progress while the call runs, then the result
    attached: list[Mapping[str, Any]] = field(default_factory=list)  # diffs and terminals
    tasks: dict[str, str] = field(default_factory=dict)  # a line per subagent that the call started
    subcalls: dict[str, str] = field(default_factory=dict)  # a line per call of these subagents

    def content(self) -> list[Mapping[str, Any]]:
        """Return the content to show.

        The result's text is omitted if a diff or a terminal shows the result.
        """
        lines = [*self.tasks.values(), *[*self.subcalls.values()][-MAX_SUBCALLS:]]
        shows_text = self.text and (lines or not self.attached or self.status == "failed")
        texts = (["\n".join(lines)] if lines else []) + ([self.text] if shows_text else [])
        return [*self.attached, *map(calls.as_output, texts)]


class Updates:
    """Converts the events of one run to updates.

    Args:
        note: Shows a notice; None to drop notices.
    """

    def __init__(self, work: Work, send: SendUpdate, note: Callable[[str], Awaitable[None]] | None) -> None:
        self._work, self._send, self._note = work, send, note
        self._run = secrets.token_hex(4)
        self._message = 0
        self._streamed: set[EventType] = set()  # delta types of the current response
        self._calls: dict[str, _ShownCall] = {}
        self._parents: dict[str, str] = {}  # id of a subagent's call -> call that shows its attachments
        self.failure = ""
        self.stop_reason = ""

    async def handle(self, event: Event) -> None:
        """Send the updates of an event."""
        data = event.data
        match event.type:
            case EventType.TEXT_DELTA | EventType.REASONING_DELTA | EventType.THOUGHT | EventType.REASONING:
                await self._send_text(event)
            case EventType.RETRY if data["discard"]:
                self._start_message()
                await self._send(chunk("agent_thought_chunk", user_text("again"), self._id))
            case EventType.PART if data["part"]["type"] == "tool":
                await self.part(data["part"])
            case EventType.PROGRESS:
                await self._progress(data["call_id"], data["text"])
            case EventType.OBSERVATION if data.get("unasked"):
                await self.unasked(data["call_id"])
            case EventType.TASK:
                await self._task(data["task"], data.get("part"))
            case EventType.STEP_END:
                self._start_message()
                await self._usage(data.get("context") or {})
            case EventType.NOTICE if self._note is not None and not data.get("synthetic"):
                await self._note(data["message"])
            case EventType.ERROR | EventType.LOOP_END:
                told = "\n".join(failure_lines(data, user_language())) or data.get("error", "")
                self.failure = told if data.get("fatal") else self.failure
                self.stop_reason = data.get("stop_reason", self.stop_reason)

    @property
    def _id(self) -> str:
        return f"{self._run}-{self._message}"

    def _start_message(self) -> None:
        self._message += 1
        self._streamed.clear()

    async def _send_text(self, event: Event) -> None:
        """Send a delta, or the whole text if there were no deltas, as in a recorded response."""
        is_text = event.type in (EventType.TEXT_DELTA, EventType.THOUGHT)
        delta = EventType.TEXT_DELTA if is_text else EventType.REASONING_DELTA
        kind = "agent_message_chunk" if is_text else "agent_thought_chunk"
        if event.type is not delta and delta in self._streamed:
            return
        self._streamed.add(delta)
        if event.data["content"]:
            await self._send(chunk(kind, event.data["content"], self._id))

    # -- calls ------------------------------------------------------------------------------------------

    async def announce(self, call_id: str, tool: str, args: Mapping[str, Any]) -> None:
        """Announce a new call to the editor, once."""
        call = self._calls.setdefault(call_id, _ShownCall())
        if not call.is_announced:
            call.is_announced = True
            summary = calls.summarize(tool, args, self._work.folder)
            call.title = summary["title"]
            update = {"toolCallId": call_id, "status": call.status, **summary}
            await self._send({"sessionUpdate": "tool_call", **update})

    async def finish(self) -> None:
        """Mark unfinished calls as failed at the end of the run."""
        for call_id, call in self._calls.items():
            if call.is_announced and call.status in ("pending", "in_progress"):
                call.status = "failed"
                await self._show(call_id)

    def attach(self, call_id: str, content: Mapping[str, Any]) -> None:
        """Add content to a call, shown with its next update."""
        self._calls.setdefault(self._parents.get(call_id, call_id), _ShownCall()).attached.append(content)

    async def _show(self, call_id: str) -> None:
        call = self._calls[call_id]
        content = {"content": items} if (items := call.content()) else {}
        title = {"title": call.title} if call.title else {}
        update = {"toolCallId": call_id, "status": call.status, **title, **content}
        await self._send({"sessionUpdate": "tool_call_update", **update})

    async def part(self, part: Mapping[str, Any]) -> None:
        """Send the state of a call."""
        call_id, state = part["call_id"], part["state"]
        if part["tool"] == TODO_TOOL and call_id not in self._calls:  # todo calls are shown as a plan
            plan = calls.as_plan(part["input"] or {})
            if state == "completed" and plan is not None:
                await self._send(plan)
            return
        await self.announce(call_id, part["tool"], part["input"] or {})
        if state != "pending":
            call = self._calls[call_id]
            call.status, call.text = _STATES.get(state, "completed"), part["output"]
            call.title = part.get("title") or call.title
            await self._show(call_id)

    async def unasked(self, call_id: str) -> None:
        """Note in a call's title that nobody was asked about the call, because it would fail."""
        if (call := self._calls.get(call_id)) is not None:
            call.title += f" ({user_text('screen.not_asked')})"
            await self._show(call_id)

    async def _progress(self, call_id: str, text: str) -> None:
        call = self._calls.get(call_id)
        if call is not None and text:
            call.status, call.text = "in_progress", (call.text + text)[-MAX_PROGRESS:]
            await self._show(call_id)

    async def _task(self, task: Mapping[str, Any], part: Mapping[str, Any] | None) -> None:
        """Show a subagent's progress in the call that started it.

        A subagent's call that the editor already shows separately is updated there instead.
        """
        parent, call_id = task["call_id"], part["call_id"] if part else ""
        shown_id = call_id if call_id in self._calls else parent
        if shown_id not in self._calls:
            return
        call = self._calls[shown_id]
        if part is None:
            call.tasks[task["id"]] = user_text("task", **{name: task[name] for name in _TASK_FIELDS})
        else:
            own_id = call_id.rpartition(":")[2]
            if (early := self._calls.get(own_id)) is not None and not early.is_announced:
                call.attached += self._calls.pop(own_id).attached
            self._parents[own_id] = shown_id
            if shown_id == call_id:
                call.status, call.text = _STATES.get(part["state"], "completed"), part["output"]
            else:
                summary = calls.summarize(part["tool"], part["input"] or {}, self._work.folder)
                call.subcalls[call_id] = f"{summary['title']} {_SIGNS.get(part['state'], '✓')}"
        await self._show(shown_id)

    async def _usage(self, context: Mapping[str, Any]) -> None:
        used, size = context.get("tokens"), context.get("window")
        if isinstance(used, int) and isinstance(size, int):
            await self._send({"sessionUpdate": "usage_update", "used": used, "size": size})


async def send_history(entries: Iterable[Entry], work: Work, send: SendUpdate) -> None:
    """Send the history of a session.

    Args:
        entries: The history, oldest first.
    """
    updates, inputs = Updates(work, send, None), dict[str, Mapping[str, Any]]()
    for number, entry in enumerate(entries):
        call_id, state = entry.call_id or f"call-{number}", "error" if entry.failed else "completed"
        if entry.kind == "call":
            inputs[call_id], state = _arguments(entry.text), "pending"
        if entry.kind in _CHUNK_KINDS and entry.text:
            await send(chunk(_CHUNK_KINDS[entry.kind], entry.text, f"before-{number}"))
        elif call_id in inputs:
            call = {"call_id": call_id, "tool": entry.tool, "input": inputs[call_id], "title": entry.title}
            await updates.part({**call, "state": state, "output": entry.text})
            if entry.unasked:
                await updates.unasked(call_id)


def _arguments(text: str) -> Mapping[str, Any]:
    arguments = parsed_object(text)
    return {"arguments": text} if arguments is None else arguments
