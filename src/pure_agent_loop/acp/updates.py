"""Events of a run as updates of a session."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from pure_agent_loop.acp import calls
from pure_agent_loop.acp.host import Work
from pure_agent_loop.acp.words import say
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.sessions.story import Entry

Tell = Callable[[Mapping[str, Any]], Awaitable[None]]
MOST_PROGRESS = 20_000  # characters of a call that tells of itself; the newest are shown
_STATES = {"pending": "pending", "running": "in_progress", "error": "failed"}
_SAID = {
    "task": "user_message_chunk",
    "user": "user_message_chunk",
    "thinking": "agent_thought_chunk",
    "answer": "agent_message_chunk",
}


def chunk(kind: str, text: str, message: str) -> dict[str, Any]:
    """A piece of what is said."""
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, "messageId": message}


class Updates:
    """Turns the events of one run into updates.

    Args:
        work: What goes on; it says what calls would change.
        tell: Sends an update.
        has_notices: The editor shows notices.
    """

    def __init__(self, work: Work, tell: Tell, *, has_notices: bool) -> None:
        self._work, self._tell, self._has_notices = work, tell, has_notices
        self._run = secrets.token_hex(4)
        self._message = 0
        self._shown: set[EventType] = set()  # of the answer that is being written
        self._calls: dict[str, bool] = {}  # that were announced; whether they have ended
        self._attached: dict[str, list[Mapping[str, Any]]] = {}  # diffs and terminals, by call
        self._progress: dict[str, str] = {}
        self.failure = ""
        self.stop_reason = ""

    async def take(self, event: Event) -> None:
        """Tell the editor of an event."""
        data = event.data
        match event.type:
            case EventType.TEXT_DELTA | EventType.THOUGHT:
                await self._say("agent_message_chunk", event, EventType.TEXT_DELTA)
            case EventType.REASONING_DELTA | EventType.REASONING:
                await self._say("agent_thought_chunk", event, EventType.REASONING_DELTA)
            case EventType.RETRY if data["discard"]:
                self._next()
                await self._tell(chunk("agent_thought_chunk", say("again"), self._id))
            case EventType.PART if data["part"]["type"] == "tool":
                await self._part(data["part"])
            case EventType.PROGRESS:
                await self._goes_on(data["call_id"], data["text"])
            case EventType.STEP_END:
                self._next()
                await self._usage(data.get("context") or {})
            case EventType.NOTICE if self._has_notices and not data.get("synthetic"):
                notice = {"severity": "info", "title": data["message"] or "-"}
                await self._tell({"sessionUpdate": "notice", **notice})
            case EventType.ERROR:
                self.failure = data["error"] if data["fatal"] else self.failure
            case EventType.LOOP_END:
                self.stop_reason = data["stop_reason"]
            case _:
                pass

    @property
    def _id(self) -> str:
        return f"{self._run}-{self._message}"

    def _next(self) -> None:
        self._message += 1
        self._shown.clear()

    async def _say(self, kind: str, event: Event, piece: EventType) -> None:
        """A piece; or the whole, where no pieces came because the answer was recorded."""
        if event.type is not piece and piece in self._shown:
            return
        self._shown.add(piece)
        if event.data["content"]:
            await self._tell(chunk(kind, event.data["content"], self._id))

    # -- calls ------------------------------------------------------------------------------------------

    async def announce(self, call_id: str, tool: str, args: Mapping[str, Any]) -> None:
        """Tell of a call, once."""
        if call_id in self._calls:
            return
        self._calls[call_id] = False
        found = calls.about(tool, args, self._work.folder)
        await self._tell({"sessionUpdate": "tool_call", "toolCallId": call_id, "status": "pending", **found})

    async def finish(self) -> None:
        """The run is over: calls of others that were only asked about, such as subagents', are over too."""
        for call_id in [each for each, has_ended in self._calls.items() if not has_ended]:
            await self.settle(call_id, "completed")

    def attach(self, call_id: str, content: Mapping[str, Any]) -> None:
        """Show something with a call from now on."""
        self._attached.setdefault(call_id, []).append(content)

    async def settle(self, call_id: str, status: str, text: str = "") -> None:
        """Tell how a call stands, with what it changed, or said."""
        self._calls[call_id] = status in ("completed", "failed")
        attached = self._attached.get(call_id, [])
        said = [calls.as_output(text)] if text and (not attached or status == "failed") else []
        content = {"content": [*attached, *said]} if attached or said else {}
        await self._tell(
            {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": status, **content}
        )

    async def _part(self, part: Mapping[str, Any]) -> None:
        call_id, state = part["call_id"], part["state"]
        if part["tool"] == calls.TODO and call_id not in self._calls:  # it is shown as a plan
            plan = calls.as_plan(part["input"] or {})
            if state == "completed" and plan is not None:
                await self._tell(plan)
            return
        await self.announce(call_id, part["tool"], part["input"] or {})
        if state != "pending":
            self._progress.pop(call_id, None)
            await self.settle(call_id, _STATES.get(state, "completed"), part["output"])

    async def _goes_on(self, call_id: str, text: str) -> None:
        if call_id in self._calls and text:
            self._progress[call_id] = text = (self._progress.get(call_id, "") + text)[-MOST_PROGRESS:]
            await self.settle(call_id, "in_progress", text)

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
    lists: dict[str, Mapping[str, Any]] = {}
    open_calls: set[str] = set()
    for number, entry in enumerate(entries):
        call_id = entry.call_id or f"call-{number}"
        if entry.kind in _SAID and entry.text:
            await tell(chunk(_SAID[entry.kind], entry.text, f"before-{number}"))
        elif entry.kind == "call" and entry.tool == calls.TODO:
            lists[call_id] = _arguments(entry.text)
        elif entry.kind == "call":
            open_calls.add(call_id)
            found = calls.about(entry.tool, _arguments(entry.text), work.folder)
            await tell({"sessionUpdate": "tool_call", "toolCallId": call_id, "status": "pending", **found})
        elif entry.kind == "result" and call_id in lists:
            plan = None if entry.failed else calls.as_plan(lists.pop(call_id))
            if plan is not None:
                await tell(plan)
        elif entry.kind == "result" and call_id in open_calls:
            status, content = "failed" if entry.failed else "completed", [calls.as_output(entry.text)]
            update = {"toolCallId": call_id, "status": status, "content": content}
            await tell({"sessionUpdate": "tool_call_update", **update})


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"arguments": text}
