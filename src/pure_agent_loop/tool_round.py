"""Running the calls of one answer: prepare each, run them together, finish in call order."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from pure_agent_loop.doom import judge_call
from pure_agent_loop.events import Event
from pure_agent_loop.kit import Kit
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import PermissionContext, as_permission
from pure_agent_loop.state import QueryState
from pure_agent_loop.text import safe_str
from pure_agent_loop.tool import ToolOutcome, failed

GRACE_SECONDS = 1.0  # for a tool to clean up after it was cancelled; then it is left behind
_ABANDONED: set[asyncio.Task[_Timed]] = set()


class _Timed(NamedTuple):
    outcome: ToolOutcome
    seconds: float


@dataclass(slots=True)
class _Planned:
    """A call after its preparation: it will run, or its outcome is known already."""

    call: ToolCall
    outcome: ToolOutcome | None
    task: asyncio.Task[_Timed] | None = None
    deadline: float | None = None


async def run_calls(state: QueryState, kit: Kit) -> None:
    """Run the pending calls of the state and put each result into it, in call order."""
    waiting = [call for call in state.pending if call.id not in state.results]
    planned = [await _prepare(call, state, kit) for call in waiting]
    for each in planned:
        await kit.emit(Event.action(state.step, each.call.name, each.call.arguments, each.call.id))
    try:
        for each in planned:
            _start(each, state.step, kit)
        for each in planned:
            await _finish(each, state, kit)
    except (Exception, asyncio.CancelledError):  # a cancellation, or a journal or a sink that failed
        await _stop_all(planned, state, kit)
        raise


async def _prepare(call: ToolCall, state: QueryState, kit: Kit) -> _Planned:
    """Decide whether a call may run. Nothing has happened yet."""
    verdict = judge_call(state.doom, call, kit.limits.doom_loop_threshold)
    if verdict != "run":
        if verdict == "stop":
            state.must_close = "doom_loop"
        repeated = kit.prompts.repeated_call.format(count=state.doom.count - 1)
        return _Planned(call, failed(kit.prompts, call.name, "RepeatedCall", repeated))
    if call.invalid is not None:
        problem = kit.prompts.tool_arguments.format(problem=call.invalid)
        return _Planned(call, failed(kit.prompts, call.name, "InvalidArguments", problem))
    return await _ask_permission(call, state, kit)


async def _ask_permission(call: ToolCall, state: QueryState, kit: Kit) -> _Planned:
    try:
        verdict = kit.permit(call.name, call.arguments, PermissionContext(state.step, call.id))
        permission = as_permission(await verdict if inspect.isawaitable(verdict) else verdict)
    except Exception as error:  # noqa: BLE001 - a permission function that fails must not let the call through
        return _Planned(call, failed(kit.prompts, call.name, type(error).__name__, safe_str(error)))
    if permission.behavior == "deny":
        denied = kit.prompts.tool_denied.format(reason=permission.message)
        return _Planned(call, failed(kit.prompts, call.name, "PermissionDenied", denied))
    if permission.updated_args is not None:
        call = replace(call, arguments=permission.updated_args)
    return _Planned(call, None)


def _start(planned: _Planned, step: int, kit: Kit) -> None:
    if planned.outcome is not None:
        return
    call = planned.call
    effect: Callable[[], Awaitable[ToolOutcome]] = partial(
        kit.tools.invoke, call.name, call.arguments, kit.prompts
    )
    tool = kit.tools.get(call.name)
    seconds = tool.timeout if tool is not None and tool.timeout is not None else kit.tool_timeout
    planned.task = asyncio.create_task(_timed(f"{step}:tool:{call.id}", effect, kit))
    planned.deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds


async def _timed(key: str, effect: Callable[[], Awaitable[ToolOutcome]], kit: Kit) -> _Timed:
    started = kit.clock.monotonic()
    outcome = await kit.journal.effect(key, effect)
    return _Timed(outcome, kit.clock.monotonic() - started)


async def _finish(planned: _Planned, state: QueryState, kit: Kit) -> None:
    """Wait for a call, put its result into the state, tell about it."""
    outcome, seconds = await _settle(planned, kit)
    call = planned.call
    state.add_result(call.id, outcome.text)
    if outcome.is_interrupt:
        state.stop("cancelled")
    await kit.emit(Event.observation(state.step, call.name, outcome.text, seconds, call.id, outcome.is_error))


async def _settle(planned: _Planned, kit: Kit) -> _Timed:
    task = planned.task
    if task is None:
        assert planned.outcome is not None
        return _Timed(planned.outcome, 0.0)
    now = asyncio.get_running_loop().time()
    left = None if planned.deadline in (None, float("inf")) else max(0.0, planned.deadline - now)
    await asyncio.wait({task}, timeout=left)
    if not task.done():
        await _leave([task])
        tool = kit.tools.get(planned.call.name)
        seconds = tool.timeout if tool is not None and tool.timeout is not None else kit.tool_timeout
        text = kit.prompts.tool_timed_out.format(seconds=f"{seconds:g}")
        return _Timed(failed(kit.prompts, planned.call.name, "Timeout", text), seconds or 0.0)
    if task.cancelled():  # not by us: we have not asked for it
        return _Timed(
            failed(kit.prompts, planned.call.name, "CancelledError", "the tool cancelled itself"), 0.0
        )
    return task.result()


async def _stop_all(planned: list[_Planned], state: QueryState, kit: Kit) -> None:
    """The run is over: stop what runs, keep what is done, and give every call a result."""
    started = [each.task for each in planned if each.task is not None]
    running = [task for task in started if not task.done()]
    for each in planned:
        if state.pending and each.call.id not in state.results:
            state.add_result(each.call.id, _unfinished(each, kit))
    await _leave(running)


def _unfinished(planned: _Planned, kit: Kit) -> str:
    """The result of a call whose round was broken off, as far as it is known."""
    task = planned.task
    if task is None:
        return planned.outcome.text if planned.outcome is not None else kit.prompts.tool_not_started
    if not task.done() or task.cancelled() or task.exception() is not None:
        return kit.prompts.tool_cancelled
    return task.result().outcome.text


async def _leave(tasks: list[asyncio.Task[_Timed]]) -> None:
    """Cancel tasks and give them a moment; one that does not stop is left behind, never waited for."""
    for task in tasks:
        task.cancel()
    if tasks:
        ended, stubborn = await asyncio.wait(tasks, timeout=GRACE_SECONDS)
        for task in ended:
            _ = task.cancelled() or task.exception()  # else the event loop complains that nobody asked
        for task in stubborn:
            _ABANDONED.add(task)
            task.add_done_callback(_ABANDONED.discard)
