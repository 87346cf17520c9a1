"""What tools and permission functions are told about the run that a call belongs to."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping

from pure_agent_loop.kernel.kit import Kit, KnowsTasks
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import Permission, PermissionContext
from pure_agent_loop.support.abilities import able
from pure_agent_loop.tool_context import ToolContext


def tool_context(
    call: ToolCall, state: QueryState, kit: Kit, on_piece: Callable[[str], Awaitable[None]] | None
) -> ToolContext:
    """What a tool is told, once its call was allowed."""
    mode = kit.permissions.mode
    return ToolContext(
        tool=call.name,
        call_id=call.id,
        step=state.step,
        session_id=state.session_id,
        agent=kit.name,
        task=state.task,
        permission_mode=mode,
        cancel_token=kit.cancel_token,
        background=kit.background,
        read_only=mode == "plan" or state.permissions.rulings[call.id].read_only,
        cwd=kit.cwd or _own_folder(),
        tasks=_tasks(kit),
        on_piece=on_piece,
    )


def permission_context(
    call: ToolCall, suggested: Permission, state: QueryState, kit: Kit
) -> PermissionContext:
    """What a permission function is told."""
    tool = kit.tools.get(call.name)
    return PermissionContext(
        step=state.step,
        call_id=call.id,
        suggestion=suggested.behavior,
        reason=suggested.message,
        read_only=suggested.read_only or (tool is not None and tool.read_only),
        session_id=state.session_id,
        agent=kit.name,
        task=state.task,
        permission_mode=kit.permissions.mode,
        cwd=kit.cwd or _own_folder(),
        tasks=_tasks(kit),
    )


def _tasks(kit: Kit) -> Mapping[str, str]:
    tasks = None if kit.background is None else able(kit.background, KnowsTasks)
    return {} if tasks is None else tasks.states()


def _own_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - a text is wanted
    except OSError:  # it was taken away
        return ""
