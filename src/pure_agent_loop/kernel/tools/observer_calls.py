"""Letting an audit log and snapshots see what tools do; see `observers`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import ToolOutcome

if TYPE_CHECKING:
    from pure_agent_loop.kernel.tools.observers import CallRecord, CallStatus

Effect = Callable[[], Awaitable[ToolOutcome]]


def _record(call: ToolCall, state: QueryState, kit: Kit) -> CallRecord:
    from pure_agent_loop.kernel.tools.observers import CallRecord  # seldom

    ruling = state.permissions.rulings[call.id]
    return CallRecord(
        tool=call.name,
        args=call.arguments,
        behavior=ruling.behavior,
        reason=ruling.message,
        call_id=call.id,
        step=state.step,
        session_id=state.session_id,
        agent=kit.name,
        task=state.task,
    )


def audited(call: ToolCall, effect: Effect, state: QueryState, kit: Kit) -> Effect:
    """The effect of a call, written down before and after. Without the first it does not happen."""
    audit = kit.observers.audit
    if audit is None:
        return effect
    record = _record(call, state, kit)

    async def run() -> ToolOutcome:
        audit.begin(record)
        started = kit.clock.monotonic()
        try:
            outcome = await effect()
        except BaseException:
            with suppress(PureAgentLoopError):  # that it was stopped is the news
                audit.end(record, "", "stopped", kit.clock.monotonic() - started)
            raise
        try:
            status: CallStatus = "error" if outcome.is_error else "ok"
            audit.end(record, outcome.text, status, kit.clock.monotonic() - started)
        except PureAgentLoopError as error:  # it has happened, so its result is kept
            words = f"The end of {call.name} is not in the audit log: {safe_str(error)}"
            await kit.emit(Event.notice(record.step, words))
        return outcome

    return run


def note_denied(call: ToolCall, outcome: ToolOutcome, state: QueryState, kit: Kit) -> None:
    """Write down a call that is not made."""
    if kit.observers.audit is not None:
        record = _record(call, state, kit)
        kit.observers.audit.begin(record)
        kit.observers.audit.end(record, outcome.text, "denied", 0.0)


def may_change(state: QueryState, kit: Kit) -> bool:
    """True if a call of the round that is allowed is of a tool that may change something."""
    if kit.observers.snapshots is None:
        return False
    allowed = [call for call in state.pending if state.permissions.rulings[call.id].behavior == "allow"]
    tools = [kit.tools.get(call.name) for call in allowed if call.id not in state.results]
    return any(tool is not None and not tool.read_only for tool in tools)


async def keep_before(state: QueryState, kit: Kit) -> None:
    """Keep the workspace as it is before the tools of a step."""
    assert kit.observers.snapshots is not None
    try:
        await kit.observers.snapshots.before(state.session_id, state.step)
    except PureAgentLoopError as error:
        await kit.emit(Event.notice(state.step, f"This step cannot be undone: {safe_str(error)}"))


async def tell_changes(state: QueryState, kit: Kit) -> None:
    """Tell what the tools of a step changed in the workspace."""
    assert kit.observers.snapshots is not None
    try:
        found = await kit.observers.snapshots.after(state.session_id, state.step)
    except PureAgentLoopError as error:
        from pure_agent_loop.kernel.tools.observers import StepChanges

        found = StepChanges(notice=f"It is not known what this step changed: {safe_str(error)}")
    for change in found.changes:
        await kit.emit(Event.file_change(state.step, change.to_dict()))
    if found.notice:
        await kit.emit(Event.notice(state.step, found.notice))
