"""The values that travel through a step: the step itself, and each of its tool calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeVar

from pure_agent_loop.errors import SessionError
from pure_agent_loop.events import Event, EventType, PartEvent
from pure_agent_loop.kernel.journal import MemoryJournal, already_recorded
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.messages import text_of
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.parts import PartState, moved, new_part
from pure_agent_loop.permissions import Permission, PlainOrigin, Ruling
from pure_agent_loop.support.failures import log_failure
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import Tool, ToolOutcome

T = TypeVar("T")


class TimedOutcome(NamedTuple):
    """The outcome of a call and the seconds it took."""

    outcome: ToolOutcome
    seconds: float


class ToolCallRun:
    """One pending call of a step, from its decision through its execution to its result.

    Args:
        tool: The tool with the call's name; None if it does not exist.
        args: The effective arguments, which hooks and people may have changed.
        earlier: Tools and arguments of earlier calls that may change something and were not denied.
        ruling: The ruling on the call; None before the decision.
        asked: True if a person has decided.
        origins: In ``guard`` mode: where the call's values come from, in plain form.
        outcome: The reason for a denial, or the result after all stages; None before that.
        warning: Text appended to the result, for the model and for displays.
        note: Text added to the result in the history and in its event.
        task: Task that runs the call; None if the call has not begun.
        seconds: Maximum duration in seconds; None for no limit.
        deadline: Deadline on the event loop's clock; None for no limit.
    """

    __slots__ = (
        "args", "asked", "deadline", "earlier", "id", "name", "note", "origins", "outcome", "ruling",
        "seconds", "task", "tool", "warning", "written",
    )  # fmt: skip

    def __init__(self, written: ToolCall, tool: Tool | None, ruling: Ruling | None) -> None:
        self.written, self.tool, self.ruling = written, tool, ruling
        self.id, self.name = written.id, written.name
        self.args = written.arguments
        self.earlier: Sequence[tuple[Tool, dict[str, Any]]] = ()
        self.outcome: ToolOutcome | None = None
        self.origins: Sequence[PlainOrigin] = ()
        self.asked = False
        self.warning = self.note = ""
        self.task: asyncio.Task[TimedOutcome] | None = None
        self.seconds: float | None = None
        self.deadline: float | None = None

    @property
    def is_changed(self) -> bool:
        """True if the call's arguments differ from those that the model wrote."""
        return self.args is not self.written.arguments and self.args != self.written.arguments

    def in_force(self) -> ToolCall:
        """Return the call with its effective arguments."""
        return (
            self.written
            if self.args is self.written.arguments
            else replace(self.written, arguments=self.args)
        )


class Step:
    """One step of a run: the state and the kit, with the operations that the calls of a step need."""

    __slots__ = ("emit", "has_records", "kit", "number", "state")

    def __init__(self, state: QueryState, kit: Kit) -> None:
        self.state, self.kit, self.number = state, kit, state.step
        self.emit = kit.emit
        self.has_records = type(kit.journal) is not MemoryJournal  # a memory journal needs no keys

    def calls(self) -> list[ToolCallRun]:
        """Return the pending calls that have no result yet."""
        rulings, tools = self.state.permissions.rulings, self.kit.tools
        return [
            ToolCallRun(call, tools.get(call.name), rulings.get(call.id))
            for call in self.state.pending
            if call.id not in self.state.results
        ]

    # -- effects: the only place where a tool round names one; sessions keep these keys ----------------------

    def key(self, effect: str, call: ToolCallRun, detail: object = "") -> str:
        """Return the key of a call's effect, such as ``3:tool:call_1`` or ``3:judge:call_1:first``."""
        key = f"{self.number}:{effect}:{call.id}"
        return f"{key}:{detail}" if detail != "" else key

    def recorded(self, effect: str, call: ToolCallRun, detail: object = "") -> bool:
        """Return True if an earlier process has recorded this effect."""
        return self.has_records and self.kit.journal.recorded(self.key(effect, call, detail))

    def intent_of(self, call: ToolCallRun) -> Mapping[str, Any] | None:
        """Return the recorded intent of a call that began in an earlier process; None if it did not begin."""
        return self.kit.journal.intent_of(self.key("tool", call)) if self.has_records else None

    def effect(
        self,
        effect: str,
        call: ToolCallRun,
        run: Callable[[], Awaitable[T]],
        *,
        detail: object = "",
        intent: Mapping[str, Any] | None = None,
    ) -> Awaitable[T]:
        """Execute an effect once: a recorded result is returned without executing it again."""
        return self.kit.journal.effect(self.key(effect, call, detail), run, intent)

    def hooks(
        self, effect: str, hooks: Sequence[Callable[..., Any]], call: ToolCallRun
    ) -> Iterator[tuple[int, Callable[..., Any]]]:
        """Yield hooks with their numbers, including recorded hooks of an earlier process."""
        yield from enumerate(hooks)
        number = len(hooks)
        while self.has_records and self.recorded(effect, call, number):
            yield number, already_recorded
            number += 1

    def as_recorded(self, call: ToolCall) -> ToolCall:
        """Return the call as a session records it: the form in which a replay compares calls too."""
        redactor = self.kit.redactor
        if redactor is None:
            return call
        args = redactor.redact_value(call.arguments)
        invalid = call.invalid and redactor.redact_value(call.invalid)
        if args is call.arguments and invalid is call.invalid:
            return call
        return replace(call, arguments=args, invalid=invalid)

    # -- parts of a display, recorded and sent whenever they change; see `parts` -----------------------------

    def send_part(self, part: dict[str, Any]) -> Awaitable[None]:
        """Record a changed part, then emit it. The event holds `part` itself; the state keeps a copy."""
        if self.has_records:
            self.kit.journal.note_part(part)
        return self.emit(PartEvent(EventType.PART, self.number, {"part": part}))

    async def open_parts(self) -> None:
        """Open a pending part for each call of a complete response."""
        for call in self.state.pending:
            part = self._new_part(call)
            self.state.parts[call.id] = {**part}
            await self.send_part(part)

    def change_part(self, call: ToolCallRun, to: PartState, output: str | None = None) -> Awaitable[None]:
        """Move the part of a call to another state."""
        part = self.state.parts.get(call.id)
        if part is None:  # the run was resumed: another process opened the part
            part = self._new_part(call.written)
        part = moved(part, to, self.kit.clock.now(), output)
        if to == "running" and (title := self.title(call, "running")):
            part["title"] = title
        if part["ended"] is None:
            self.state.parts[call.id] = {**part}
        else:
            self.state.parts.pop(call.id, None)
        return self.send_part(part)

    async def end_parts(self) -> None:
        """Mark the parts of unfinished calls as failed, with the result that the history holds."""
        parts, messages = self.state.parts, self.state.messages
        newest = messages[-len(parts) :] if parts else ()
        results = {m["tool_call_id"]: text_of(m["content"]) for m in newest if m["role"] == "tool"}
        for call_id in list(parts):
            part = moved(parts.pop(call_id), "error", self.kit.clock.now(), results.get(call_id, ""))
            await self.send_part(part)

    def _new_part(self, call: ToolCall) -> dict[str, Any]:
        message_id = f"msg_{self.state.answers}"
        return new_part(
            f"{message_id}.{call.id}",
            message_id,
            "tool",
            self.kit.clock.now(),
            session_id=self.state.session_id,
            tool=call.name,
            call_id=call.id,
            given=call.arguments,
        )

    # -- decisions and events --------------------------------------------------------------------------------

    def rule(self, call: ToolCallRun, permission: Permission) -> Ruling:
        """Store the decision about a call, with its effective arguments."""
        title = self.title(call, "asks") if permission.behavior == "ask" else ""
        call.ruling = self.state.rule(call.written, permission, call.args, call.origins, title)
        call.args = call.ruling.args
        return call.ruling

    def title(self, call: ToolCallRun, kind: Literal["asks", "running"]) -> str:
        """Return a call's title, as its tool words it; empty if the tool has none."""
        tool, redactor = call.tool, self.kit.redactor
        template = "" if tool is None else tool.asks if kind == "asks" else tool.running
        if tool is None or not template:
            return ""
        title = tool.call_title(template, call.args)
        return title if redactor is None else redactor.redact(title)

    def seconds_left(self) -> float | None:
        """Return the seconds until the run's deadline; None if it has none."""
        deadline = self.state.deadline
        return None if deadline is None else max(0.0, deadline - self.kit.clock.monotonic())

    def notify(self, text: str) -> Awaitable[None]:
        """Send a notice for a person."""
        return self.emit(Event.notice(self.number, text))

    async def or_notice(self, owner: str, effect: Awaitable[T]) -> T | None:
        """Return the result of a caller's function; if it fails, emit a notice and return None."""
        try:
            return await effect
        except SessionError:  # the result could not be recorded; the function did not fail
            raise
        except Exception as error:  # noqa: BLE001 - a foreign function may raise anything
            await self.notify(logged_failure(owner, error))
            return None

    def emit_permission(self, call: ToolCallRun, behavior: str, message: str) -> Awaitable[None]:
        """Emit the decision about a call, or emit that a person has to decide."""
        title = self.title(call, "asks") if behavior == "ask" else ""
        origins = call.origins or (() if call.ruling is None else call.ruling.origins)
        event = Event.permission(
            self.number, call.name, call.args, behavior, message, call.id, origins, title
        )
        return self.emit(event)


def logged_failure(owner: str, error: BaseException) -> str:
    """Log the failure of a caller's function; return the text for people."""
    log_failure(owner, error)
    return f"{owner} failed: {type(error).__name__}: {safe_str(error)}"
