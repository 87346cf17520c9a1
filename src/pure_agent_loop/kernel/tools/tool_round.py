"""Running the calls of one answer: decide about all, run them together, finish in call order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from pure_agent_loop.events import Event
from pure_agent_loop.kernel.doom import note_result
from pure_agent_loop.kernel.kit import Kit, spend
from pure_agent_loop.kernel.part_events import change_part
from pure_agent_loop.kernel.redacting import as_recorded
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tools.contexts import tool_context
from pure_agent_loop.kernel.tools.gate import decide
from pure_agent_loop.kernel.tools.hook_calls import after_tool, has_hooks
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
from pure_agent_loop.support.secrets.redaction import StreamRedactor
from pure_agent_loop.support.typed import dataclass
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
    tool: Tool | None
    key: str
    outcome: ToolOutcome | None = None
    task: asyncio.Task[_Timed] | None = None
    seconds: float | None = None
    deadline: float | None = None


async def run_calls(state: QueryState, kit: Kit) -> None:
    """Run the pending calls of the state and put each result into it, in call order.

    If one of them waits for a person who cannot be asked here, none runs and the run is suspended. What is
    known of those that began in an earlier process is kept then. If the result of one is made elsewhere, the
    others run, and the run waits for it.
    """
    decided, step = await decide(state, kit), state.step
    planned = _planned(step, state, kit, decided=decided)
    changes = decided and kit.observers.snapshots is not None and may_change(state, kit)
    if changes:
        await keep_before(state, kit)
    open_calls = state.open_calls if state.tools.outside else []
    for each in planned:
        await kit.emit(Event.action(step, each.call.name, each.call.arguments, each.call.id))
    for call in open_calls:
        await kit.emit(Event.action(step, call.name, call.arguments, call.id))
    try:
        for batch in _batches(planned):
            for each in batch:
                await _start(each, step, state, kit)
            await asyncio.sleep(0)  # what need not wait is done then, and so needs nobody who waits for it
            for each in batch:
                await _finish(each, step, state, kit)
    except (Exception, asyncio.CancelledError):  # a cancellation, or a journal or a sink that failed
        await _stop_all(planned, state, kit)
        raise
    if changes:
        await tell_changes(state, kit)
    if not decided or (state.tools.outside and state.open_calls):
        state.stop(WAITING_TOOL if decided else SUSPENDED)


def _planned(step: int, state: QueryState, kit: Kit, *, decided: bool) -> list[_Planned]:
    """The calls whose results come from here."""
    planned = [_plan(call, step, state, kit) for call in state.pending if call.id not in state.results]
    if decided:
        _note_outside(planned, state, kit)
    else:
        planned = [each for each in planned if _is_settled(each, kit)]
    if not state.tools.outside:
        return planned
    return [each for each in planned if not state.tools.awaits(each.call.id)]


def _note_outside(planned: Iterable[_Planned], state: QueryState, kit: Kit) -> None:
    """Which of the calls that may be made have their results made elsewhere; those that came are none."""
    outside = state.tools.outside
    for each in planned:
        call, tool = each.call, each.tool
        if call.id in outside:
            if kit.journal.recorded(each.key):
                del outside[call.id]
        elif (
            tool is not None
            and tool.external
            and each.outcome is None
            and not kit.journal.recorded(each.key)
            and not tool.refusal(call.arguments, kit.prompts)
        ):
            outside[call.id] = Outside(say("result_awaited"))


def _batches(planned: Sequence[_Planned]) -> list[list[_Planned]]:
    """What may run together, in call order: an exclusive call runs alone."""
    batches: list[list[_Planned]] = []
    was_alone = True
    for each in planned:
        is_alone = each.tool is not None and each.tool.exclusive and each.outcome is None
        if is_alone or was_alone:
            batches.append([])
        batches[-1].append(each)
        was_alone = is_alone
    return batches


def _is_settled(planned: _Planned, kit: Kit) -> bool:
    """True if the call began in an earlier process and will not run again."""
    begun = kit.journal.begun(planned.key)
    repeats = begun is not None and begun.get("idempotent") is True and _repeats(planned.tool)
    return begun is not None and (not repeats or kit.journal.recorded(planned.key))


def _repeats(tool: Tool | None) -> bool:
    """True if it may be called again when its process ended in the middle."""
    return tool is not None and (tool.idempotent or getattr(tool, "resumes", False))


def _plan(call: ToolCall, step: int, state: QueryState, kit: Kit) -> _Planned:
    ruling, tool, key = state.permissions.rulings[call.id], kit.tools.get(call.name), f"{step}:tool:{call.id}"
    call = call if ruling.args is call.arguments else replace(call, arguments=ruling.args)
    if ruling.behavior == "allow":
        return _Planned(call, tool, key)
    denied = ruling.kind == "PermissionDenied"
    why = kit.prompts.tool_denied.format(reason=ruling.message) if denied else ruling.message
    why = why.replace("  ", " ")  # there may be no reason
    return _Planned(call, tool, key, failed(kit.prompts, call.name, ruling.kind, why))


async def _start(planned: _Planned, step: int, state: QueryState, kit: Kit) -> None:
    call = planned.call
    if planned.outcome is not None:
        note_denied(call, planned.outcome, state, kit)
        return
    await change_part(state, kit, call.id, "running", step=step)
    tool, loop = planned.tool, asyncio.get_running_loop()
    seconds = kit.timeouts.tool if tool is None or tool.timeout is None else tool.timeout
    if state.deadline is not None:
        left = max(0.0, state.deadline - kit.clock.monotonic())
        seconds = left if seconds is None else min(seconds, left)
    about = {
        "tool": call.name,
        "args": call.arguments,
        "call_id": call.id,
        "idempotent": _repeats(tool),
    }
    effect = _effect(call, tool, state, kit)
    if kit.observers.audit is not None:
        effect = audited(call, effect, state, kit)
    planned.task = loop.create_task(_timed(planned.key, effect, about, kit))
    if seconds is not None:
        planned.seconds, planned.deadline = seconds, loop.time() + seconds


def _effect(
    call: ToolCall, tool: Tool | None, state: QueryState, kit: Kit
) -> Callable[[], Awaitable[ToolOutcome]]:
    """The call itself; repeated after a failure only if the tool says that this does no harm."""
    attempts = kit.tool_retries.attempts if tool is not None and tool.idempotent else 1
    about = tool_context(call, state, kit, _piece_teller(call, state, kit))
    outside = state.tools.outside.get(call.id) if state.tools.outside else None
    invoke = partial(kit.tools.invoke, call.name) if tool is None else tool.invoke  # the first says so

    async def effect() -> ToolOutcome:
        if outside is not None:
            return _redacted(ToolOutcome(outside.text, outside.is_error), kit)
        enter_call(about)  # each call has a task of its own
        for left in range(attempts - 1, -1, -1):
            outcome = await invoke(call.arguments, kit.prompts)
            await all_told()
            outcome = _redacted(outcome, kit)
            if not left or not outcome.is_error or outcome.is_interrupt or outcome.is_retry:
                break
            await kit.clock.sleep(kit.tool_retries.delay)
        return outcome

    return effect


def _redacted(outcome: ToolOutcome, kit: Kit) -> ToolOutcome:
    if kit.redactor is None:
        return outcome
    text, parts, removed = kit.redactor.redact(outcome.text), outcome.parts, False
    if parts:
        parts, removed = without_secrets(parts, kit.redactor)
    text += f"\n{say('media_not_sent', why=say('media_secret'))}" if removed else ""
    if text == outcome.text and parts is outcome.parts:
        return outcome
    value = outcome.value if text == outcome.text else None
    return replace(outcome, text=text, parts=parts, value=value)


def _piece_teller(call: ToolCall, state: QueryState, kit: Kit) -> Callable[[str], Awaitable[None]] | None:
    """Tells of the pieces of a result; hooks that look at results have not seen these, so then nothing."""
    if kit.hooks.after_tool:
        return None
    clean: StreamRedactor | None = None

    async def tell(text: str) -> None:
        nonlocal clean
        if clean is None and kit.redactor is not None:
            clean = kit.redactor.stream()
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


async def _finish(planned: _Planned, step: int, state: QueryState, kit: Kit) -> None:
    """Wait for a call, put its result into the state, tell about it."""
    call, tool, task = planned.call, planned.tool, planned.task
    is_there = task is not None and task.done() and not task.cancelled()
    outcome, seconds = task.result() if task is not None and is_there else await _settle(planned, kit)
    if planned.outcome is None and has_hooks(kit.hooks.after_tool, f"{state.step}:after:{call.id}", kit):
        seen = await after_tool(call, outcome.text, state, kit)
        if seen != outcome.text:  # a hook that keeps something back has not seen what is no text
            outcome = replace(outcome, text=seen, parts=None, value=None)
    state.tools.take(call.name, outcome)
    warning = _warning(call, outcome, state, kit)
    if outcome.is_retry and tool is not None:
        warning += _corrections(tool, state)
    outcome = _cut(call, outcome, state, kit)
    planned.outcome = outcome = replace(outcome, text=outcome.text + warning) if warning else outcome
    ended: PartState = "backgrounded" if outcome.is_background else "completed"
    ended = "error" if outcome.is_error else ended
    await change_part(state, kit, call.id, ended, outcome.text, step=step)
    if outcome.spent:
        spend(outcome.spent, state, kit)
    text = outcome.text if outcome.is_error else marked(call, tool, outcome.text, kit)
    state.add_result(call.id, text, outcome.parts)
    if outcome.is_interrupt:
        state.stop("cancelled")
    if outcome.hands_to and not outcome.is_error:
        state.hand_to(outcome.hands_to)
    about = (call.name, outcome.text, seconds, call.id, outcome.is_error, outcome.value)
    await kit.emit(Event.observation(step, *about))


def _cut(call: ToolCall, outcome: ToolOutcome, state: QueryState, kit: Kit) -> ToolOutcome:
    """The outcome as it fits into the history; what was left out can be read from then on."""
    limit = kit.results.max_error_chars if outcome.is_error else result_chars(state, kit)
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
    call = as_recorded(call, kit.redactor) if outcome.is_error else call  # else its arguments do not matter
    verdict = note_result(state.doom, call, outcome.text, outcome.is_error, kit.limits.doom_loop_threshold)
    if verdict.action != "warn":
        return ""
    what = kit.prompts.repetition(verdict.pattern, verdict.count, call.name)
    return f"\n\n{kit.prompts.warned_repetition.format(what=what)}"


def _corrections(tool: Tool, state: QueryState) -> str:
    """How often a model that was sent back may try again."""
    left = tool.retries + 1 - state.tools.retries[tool.name]
    return "\n" + (say("retries_left", left=left) if left > 0 else say("retries_used_up"))


async def _settle(planned: _Planned, kit: Kit) -> _Timed:
    task = planned.task
    if task is None:
        assert planned.outcome is not None
        return _Timed(planned.outcome, 0.0)
    done = task.done()
    if not done:
        now = asyncio.get_running_loop().time()
        left = None if planned.deadline in (None, float("inf")) else max(0.0, planned.deadline - now)
        await asyncio.wait({task}, timeout=left)
        done = task.done()
    if not done:
        await _leave([task])
        text = kit.prompts.tool_timed_out.format(seconds=f"{planned.seconds:g}")
        outcome = failed(kit.prompts, planned.call.name, "Timeout", text)
        key = planned.key.replace(":tool:", ":timeout:", 1)  # what was measured must be known to a replay
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
    return outcome.text if outcome.is_error else marked(planned.call, planned.tool, outcome.text, kit)


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
