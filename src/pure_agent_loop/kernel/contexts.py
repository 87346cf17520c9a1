"""Contexts for a call: data about the run for the call's tool and for a permission function."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping

from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Kit, ListsTasks
from pure_agent_loop.kernel.step import Step, ToolCallRun
from pure_agent_loop.permissions import Permission, PermissionContext
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.secrets.redaction import StreamRedactor
from pure_agent_loop.tool_context import ToolContext, has_end


def tool_context(
    step: Step, call: ToolCallRun, on_piece: Callable[[str], Awaitable[None]] | None
) -> ToolContext:
    """Make the context of a tool whose call was allowed."""
    state, kit = step.state, step.kit
    mode = kit.permissions.mode
    return ToolContext(
        tool=call.name,
        call_id=call.id,
        step=step.number,
        session_id=state.session_id,
        agent=kit.name,
        task=state.task,
        permission_mode=mode,
        cancel_token=kit.cancel_token,
        background=kit.background,
        read_only=mode == "plan" or (call.ruling is not None and call.ruling.read_only),
        cwd=kit.cwd or _working_folder(),
        tasks=_task_states(kit),
        on_piece=on_piece,
        tool_timeout=kit.timeouts.tool,
        at_end=kit.at_end.append if has_end() else None,
    )


def progress_emitter(step: Step, call: ToolCallRun) -> Callable[[str], Awaitable[None]] | None:
    """Return a function that emits pieces of a result; None if `after_tool` hooks may change the result."""
    redactor = step.kit.redactor
    if step.kit.hooks.after_tool:
        return None
    stream: StreamRedactor | None = None
    name, call_id = call.name, call.id  # `emit` must not hold the call: that would be a reference cycle

    async def emit(text: str) -> None:
        nonlocal stream
        if redactor is not None:
            stream = redactor.stream() if stream is None else stream
            text = redactor.redact(stream.feed(text) + stream.line_end())
        if text:
            await step.emit(Event.progress(step.number, name, text, call_id))

    return emit


def permission_context(step: Step, call: ToolCallRun, suggested: Permission) -> PermissionContext:
    """Make the context of a permission function."""
    state, kit = step.state, step.kit
    return PermissionContext(
        step=step.number,
        call_id=call.id,
        suggestion=suggested.behavior,
        reason=suggested.message,
        read_only=suggested.read_only or (call.tool is not None and call.tool.read_only),
        session_id=state.session_id,
        agent=kit.name,
        task=state.task,
        permission_mode=kit.permissions.mode,
        cwd=kit.cwd or _working_folder(),
        tasks=_task_states(kit),
    )


def _task_states(kit: Kit) -> Mapping[str, str]:
    tasks = None if kit.background is None else as_protocol(kit.background, ListsTasks)
    return {} if tasks is None else tasks.states()


def _working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - a text is needed
    except OSError:  # the folder was deleted
        return ""
