"""Running the calls of one answer: decide about all, run them together, finish in call order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from pure_agent_loop.events import Event
from pure_agent_loop.kernel.doom import note_result
from pure_agent_loop.kernel.kit import Kit, spend
from pure_agent_loop.kernel.part_events import change_part
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tools.contexts import tool_context
from pure_agent_loop.kernel.tools.gate import decide
from pure_agent_loop.kernel.tools.hook_calls import after_tool
from pure_agent_loop.kernel.tools.ledger import Outside
from pure_agent_loop.kernel.tools.long_results import READ_RESULT, ResultFolder, cut_text, mentioned
from pure_agent_loop.kernel.tools.marking import marked
from pure_agent_loop.kernel.tools.observer_calls import (
    audited,
    keep_before,
    may_change,
    note_denied,
    tell_changes,
)
from pure_agent_loop.kernel.window import result_chars
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.parts import PartState
from pure_agent_loop.prompts.words import say
from pure_agent_loop.schema.outcome import failed, without_secrets
from pure_agent_loop.stop_reasons import SUSPENDED, WAITING_TOOL
from pure_agent_loop.tool import Tool, ToolOutcome
from pure_agent_loop.tool_context import all_told, enter_call

GRACE_SECONDS = 1.0  # for a tool to clean up after it was cancelled; then it is left behind
_ABANDONED: set[asyncio.Task[_Timed]] = set()


class _Timed(NamedTuple):
    outcome: ToolOutcome
    seconds: float


@dataclass(slots=True)
class _Planned:
    """A call after it was decided about: it will run, or its outcome is known already."""

    call: ToolCall
    outcome: ToolOutcome | None
    task: asyncio.Task[_Timed] | None = None
    seconds: float | None = None
    deadline: float | None = None


async def run_calls(state: QueryState, kit: Kit) -> None:
    """Run the pending calls of the state and put each result into it, in call order.

    If one of them waits for a person who cannot be asked here, none runs and the run is suspended. What is
    known of those that began in an earlier process is kept then. If the result of one is made elsewhere, the
    others run, and the run waits for it.
    """
    decided = await decide(state, kit)
    waiting = [call for call in state.pending if call.id not in state.results]
    if decided:
        _note_outside(waiting, state, kit)
    changes = decided and may_change(state, kit)
    if changes:
        await keep_before(state, kit)
    here = [call for call in waiting if not state.tools.awaits(call.id)]
    planned = [_plan(call, state, kit) for call in here if decided or _is_settled(call, state, kit)]
    for call in [*(each.call for each in planned), *state.open_calls]:
        await kit.emit(Event.action(state.step, call.name, call.arguments, call.id))
    try:
        for batch in _batches(planned, kit):
            for each in batch:
                await _start(each, state, kit)
            for each in batch:
                await _finish(each, state, kit)
    except (Exception, asyncio.CancelledError):  # a cancellation, or a journal or a sink that failed
        await _stop_all(planned, state, kit)
        raise
    if changes:
        await tell_changes(state, kit)
    if not decided or state.open_calls:
        state.stop(WAITING_TOOL if decided else SUSPENDED)


def _note_outside(calls: Iterable[ToolCall], state: QueryState, kit: Kit) -> None:
    """Which of the calls that may be made have their results made elsewhere; those that came are none."""
    for call in calls:
        tool, ruling = kit.tools.get(call.name), state.permissions.rulings[call.id]
        if kit.journal.recorded(_key(call, state)):
            state.tools.outside.pop(call.id, None)
            continue
        is_new = call.id not in state.tools.outside and ruling.behavior == "allow"
        if is_new and tool is not None and tool.external and not tool.refusal(ruling.args, kit.prompts):
            state.tools.outside[call.id] = Outside(say("result_awaited"))


def _batches(planned: Sequence[_Planned], kit: Kit) -> list[list[_Planned]]:
    """What may run together, in call order: an exclusive call runs alone."""
    batches: list[list[_Planned]] = []
    was_alone = True
    for each in planned:
        tool = kit.tools.get(each.call.name)
        is_alone = tool is not None and tool.exclusive and each.outcome is None
        if is_alone or was_alone:
            batches.append([])
        batches[-1].append(each)
        was_alone = is_alone
    return batches


def _is_settled(call: ToolCall, state: QueryState, kit: Kit) -> bool:
    """True if the call began in an earlier process and will not run again."""
    begun, tool = kit.journal.begun(key := _key(call, state)), kit.tools.get(call.name)
    repeats = begun is not None and begun.get("idempotent") is True and _repeats(tool)
    return begun is not None and (not repeats or kit.journal.recorded(key))


def _repeats(tool: Tool | None) -> bool:
    """True if it may be called again when its process ended in the middle."""
    return tool is not None and (tool.idempotent or getattr(tool, "resumes", False))


def _key(call: ToolCall, state: QueryState) -> str:
    return f"{state.step}:tool:{call.id}"


def _plan(call: ToolCall, state: QueryState, kit: Kit) -> _Planned:
    ruling = state.permissions.rulings[call.id]
    call = call if ruling.args is call.arguments else replace(call, arguments=ruling.args)
    if ruling.behavior == "allow":
        return _Planned(call, None)
    denied = ruling.kind == "PermissionDenied"
    why = kit.prompts.tool_denied.format(reason=ruling.message) if denied else ruling.message
    why = why.replace("  ", " ")  # there may be no reason
    return _Planned(call, failed(kit.prompts, call.name, ruling.kind, why))


async def _start(planned: _Planned, state: QueryState, kit: Kit) -> None:
    call = planned.call
    if planned.outcome is not None:
        note_denied(call, planned.outcome, state, kit)
        return
    await change_part(state, kit, call.id, "running")
    tool = kit.tools.get(call.name)
    seconds = tool.timeout if tool is not None and tool.timeout is not None else kit.timeouts.tool
    left = None if state.deadline is None else max(0.0, state.deadline - kit.clock.monotonic())
    planned.seconds = min((each for each in (seconds, left) if each is not None), default=None)
    about = {
        "tool": call.name,
        "args": call.arguments,
        "call_id": call.id,
        "idempotent": _repeats(tool),
    }
    key, effect = _key(call, state), audited(call, _effect(call, tool, state, kit), state, kit)
    planned.task = asyncio.create_task(_timed(key, effect, about, kit))
    if planned.seconds is not None:
        planned.deadline = asyncio.get_running_loop().time() + planned.seconds


def _effect(
    call: ToolCall, tool: Tool | None, state: QueryState, kit: Kit
) -> Callable[[], Awaitable[ToolOutcome]]:
    """The call itself; repeated after a failure only if the tool says that this does no harm."""
    attempts = kit.tool_retries.attempts if tool is not None and tool.idempotent else 1
    about = tool_context(call, state, kit, _piece_teller(call, state, kit))
    outside = state.tools.outside.get(call.id)

    async def effect() -> ToolOutcome:
        if outside is not None:
            return _redacted(ToolOutcome(outside.text, outside.is_error), kit)
        enter_call(about)  # each call has a task of its own
        for _ in range(attempts - 1):
            outcome = await _invoked(call, kit)
            if not outcome.is_error or outcome.is_interrupt or outcome.is_retry:
                return outcome
            await kit.clock.sleep(kit.tool_retries.delay)
        return await _invoked(call, kit)

    return effect


async def _invoked(call: ToolCall, kit: Kit) -> ToolOutcome:
    outcome = await kit.tools.invoke(call.name, call.arguments, kit.prompts)
    await all_told()
    return _redacted(outcome, kit)


def _redacted(outcome: ToolOutcome, kit: Kit) -> ToolOutcome:
    if kit.redactor is None:
        return outcome
    text, (parts, removed) = kit.redactor.redact(outcome.text), without_secrets(outcome.parts, kit.redactor)
    text += f"\n{say('media_not_sent', why=say('media_secret'))}" if removed else ""
    if text == outcome.text and parts is outcome.parts:
        return outcome
    value = outcome.value if text == outcome.text else None
    return replace(outcome, text=text, parts=parts, value=value)


def _piece_teller(call: ToolCall, state: QueryState, kit: Kit) -> Callable[[str], Awaitable[None]] | None:
    """Tells of the pieces of a result; hooks that look at results have not seen these, so then nothing."""
    if kit.hooks.after_tool:
        return None
    clean = None if kit.redactor is None else kit.redactor.stream()

    async def tell(text: str) -> None:
        text = text if clean is None or kit.redactor is None else kit.redactor.redact(clean.feed(text))
        if text:
            await kit.emit(Event.progress(state.step, call.name, text, call.id))

    return tell


async def _timed(
    key: str, effect: Callable[[], Awaitable[ToolOutcome]], about: dict[str, Any], kit: Kit
) -> _Timed:
    started = kit.clock.monotonic()
    outcome = await kit.journal.effect(key, effect, about)
    return _Timed(outcome, kit.clock.monotonic() - started)


async def _finish(planned: _Planned, state: QueryState, kit: Kit) -> None:
    """Wait for a call, put its result into the state, tell about it."""
    outcome, seconds = await _settle(planned, state, kit)
    call = planned.call
    if planned.outcome is None:
        seen = await after_tool(call, outcome.text, state, kit)
        if seen != outcome.text:  # a hook that keeps something back has not seen what is no text
            outcome = replace(outcome, text=seen, parts=None, value=None)
    state.tools.take(call.name, outcome)
    warning = _warning(call, outcome, state, kit) + _corrections(call, outcome, state, kit)
    outcome = _cut(call, outcome, state, kit)
    planned.outcome = outcome = replace(outcome, text=outcome.text + warning) if warning else outcome
    ended: PartState = "backgrounded" if outcome.is_background else "completed"
    await change_part(state, kit, call.id, "error" if outcome.is_error else ended, outcome.text)
    spend(outcome.spent, state, kit)
    text = outcome.text if outcome.is_error else marked(call, outcome.text, kit)
    state.add_result(call.id, text, outcome.parts)
    if outcome.is_interrupt:
        state.stop("cancelled")
    state.hand_to("" if outcome.is_error else outcome.hands_to)
    about = (call.name, outcome.text, seconds, call.id, outcome.is_error, outcome.value)
    await kit.emit(Event.observation(state.step, *about))


def _cut(call: ToolCall, outcome: ToolOutcome, state: QueryState, kit: Kit) -> ToolOutcome:
    """The outcome as it fits into the history; what was left out can be read from then on."""
    limit = kit.results.max_error_chars if outcome.is_error else result_chars(kit)
    if len(outcome.text) <= limit or (
        call.name == READ_RESULT and READ_RESULT not in kit.tools and not outcome.is_error
    ):
        return outcome
    text = cut_text(outcome.text, limit, ResultFolder(kit.results.folder), kit.prompts)
    state.context.results_cut = state.context.results_cut or mentioned(text) is not None
    return replace(outcome, text=text)


def _warning(call: ToolCall, outcome: ToolOutcome, state: QueryState, kit: Kit) -> str:
    """What the model is told behind a result that shows that it goes round in circles."""
    if outcome.is_error and kit.prompts.tool_interrupted in outcome.text:
        return ""  # the program ended, again and again: no fault of the model
    verdict = note_result(state.doom, call, outcome.text, outcome.is_error, kit.limits.doom_loop_threshold)
    if verdict.action != "warn":
        return ""
    what = kit.prompts.repetition(verdict.pattern, verdict.count, call.name)
    return f"\n\n{kit.prompts.warned_repetition.format(what=what)}"


def _corrections(call: ToolCall, outcome: ToolOutcome, state: QueryState, kit: Kit) -> str:
    """How often a model that was sent back may try again."""
    tool = kit.tools.get(call.name)
    if not outcome.is_retry or tool is None:
        return ""
    left = tool.retries + 1 - state.tools.retries[call.name]
    return "\n" + (say("retries_left", left=left) if left > 0 else say("retries_used_up"))


async def _settle(planned: _Planned, state: QueryState, kit: Kit) -> _Timed:
    task = planned.task
    if task is None:
        assert planned.outcome is not None
        return _Timed(planned.outcome, 0.0)
    now = asyncio.get_running_loop().time()
    left = None if planned.deadline in (None, float("inf")) else max(0.0, planned.deadline - now)
    await asyncio.wait({task}, timeout=left)
    if not task.done():
        await _leave([task])
        text = kit.prompts.tool_timed_out.format(seconds=f"{planned.seconds:g}")
        outcome = failed(kit.prompts, planned.call.name, "Timeout", text)
        key = f"{state.step}:timeout:{planned.call.id}"  # what was measured must be known to a replay
        return _Timed(await kit.journal.effect(key, partial(_timed_out, outcome)), planned.seconds or 0.0)
    if task.cancelled():  # not by us: we have not asked for it
        return _Timed(failed(kit.prompts, planned.call.name, "CancelledError", say("cancelled_itself")), 0.0)
    return task.result()


async def _timed_out(outcome: ToolOutcome) -> ToolOutcome:
    return outcome


async def _stop_all(planned: list[_Planned], state: QueryState, kit: Kit) -> None:
    """The run is over: stop what runs, keep what is done, and give every call a result."""
    started = [each.task for each in planned if each.task is not None]
    running = [task for task in started if not task.done()]
    for each in planned:
        if state.pending and each.call.id not in state.results:
            state.add_result(each.call.id, _unfinished(each, state, kit))
    await _leave(running)


def _unfinished(planned: _Planned, state: QueryState, kit: Kit) -> str:
    """The result of a call whose round was broken off, as far as it is known."""
    task = planned.task
    if planned.outcome is not None:
        return planned.outcome.text
    if task is None:
        return kit.prompts.tool_not_started
    if not task.done() or task.cancelled() or task.exception() is not None:
        return kit.prompts.tool_cancelled
    if kit.hooks.after_tool:  # they may be there to keep something back, and have not seen it
        return kit.prompts.tool_cancelled
    outcome = _cut(planned.call, task.result().outcome, state, kit)
    return outcome.text if outcome.is_error else marked(planned.call, outcome.text, kit)


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
