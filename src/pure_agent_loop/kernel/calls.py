"""Run the calls of one response: decide about all, start them together, finish them in call order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pure_agent_loop.events import Event
from pure_agent_loop.kernel.contexts import progress_emitter, tool_context
from pure_agent_loop.kernel.gate import decide
from pure_agent_loop.kernel.journal import as_effect
from pure_agent_loop.kernel.redacting import redacted_outcome
from pure_agent_loop.kernel.results import cut_outcome, finish, history_text
from pure_agent_loop.kernel.step import Step, TimedOutcome, ToolCallRun
from pure_agent_loop.kernel.tool_ledger import OutsideResult
from pure_agent_loop.schema.calling import cancelled_itself
from pure_agent_loop.schema.outcome import failed
from pure_agent_loop.stop_reasons import SUSPENDED, WAITING_TOOL
from pure_agent_loop.support.language import model_text
from pure_agent_loop.tool import Tool, ToolOutcome
from pure_agent_loop.tool_context import enter_call, flush_progress

if TYPE_CHECKING:
    from pure_agent_loop.kernel.observers import CallRecord, Snapshots

GRACE_SECONDS = 1.0  # seconds for a cancelled tool to clean up; then it is abandoned
_ABANDONED: set[asyncio.Task[TimedOutcome]] = set()


async def run_calls(step: Step) -> None:
    """Run the pending calls of a step and put each result into the state, in call order.

    If a call is waiting for a person who cannot be asked here, no call runs and the run is suspended; only
    the results of calls that began in an earlier process are kept. If a call is executed elsewhere, the other
    calls run, and the run then waits for the result of that call.
    """
    state = step.state
    calls = step.calls()
    is_decided = await decide(step, calls)
    snapshots = _snapshots_of(step, calls) if is_decided else None
    calls = _to_run(step, calls, is_decided=is_decided)
    if snapshots is not None:
        from pure_agent_loop.kernel.observers import take_snapshot

        await take_snapshot(snapshots, state.session_id, step.number, step.notify)
    await _emit_actions(step, calls)
    try:
        for batch in _batches(calls):
            for call in batch:
                await _start(step, call)
            await asyncio.sleep(0)  # let quick calls finish, so that no wait is needed
            for call in batch:
                outcome, seconds = await _outcome_of(step, call)
                await finish(step, call, outcome, seconds)
    except (Exception, asyncio.CancelledError):  # a cancellation, or an error from the journal or event sink
        await _stop_all(step, calls)
        raise
    if snapshots is not None:
        from pure_agent_loop.kernel.observers import emit_file_changes

        await emit_file_changes(snapshots, state.session_id, step.number, step.emit, step.notify)
    if not is_decided or (state.tools.outside and state.open_calls):
        state.stop(WAITING_TOOL if is_decided else SUSPENDED)


# -- which calls run here, and together ------------------------------------------------------------------


def _to_run(step: Step, calls: Sequence[ToolCallRun], *, is_decided: bool) -> list[ToolCallRun]:
    """Return the calls that this process executes, and the denied calls with their outcomes."""
    for call in calls:
        _fill_denied(step, call)
    if is_decided:
        _note_outside(step, calls)
    else:
        calls = [call for call in calls if _is_settled(step, call)]
    ledger = step.state.tools
    return [call for call in calls if not ledger.outside or not ledger.awaits(call.id)]


def _fill_denied(step: Step, call: ToolCallRun) -> None:
    """Set the outcome of a denied call."""
    ruling, prompts = call.ruling, step.kit.prompts
    if ruling is None or ruling.behavior == "allow":
        return
    message = ruling.message
    is_denied = ruling.kind == "PermissionDenied"
    if is_denied:
        message = prompts.tool_denied.format(reason=message)
    message = message.replace("  ", " ")  # without a reason, the message has two spaces in its place
    call.outcome = failed(prompts, call.name, ruling.kind, message, hint=not is_denied)


def _note_outside(step: Step, calls: Iterable[ToolCallRun]) -> None:
    """Record which allowed calls are executed elsewhere; calls with a recorded result are skipped."""
    outside = step.state.tools.outside
    for call in calls:
        if call.id in outside:
            if step.recorded("tool", call):
                del outside[call.id]
        elif (
            call.tool is not None
            and call.tool.external
            and call.outcome is None
            and not step.recorded("tool", call)
            and not call.tool.refusal(call.args, step.kit.prompts)
        ):
            outside[call.id] = OutsideResult(model_text("result_awaited"))


def _batches(calls: Sequence[ToolCallRun]) -> list[list[ToolCallRun]]:
    """Group the calls that may run together, in call order: an exclusive call runs alone."""
    batches: list[list[ToolCallRun]] = []
    was_alone = True
    for call in calls:
        is_alone = call.tool is not None and call.tool.exclusive and call.outcome is None
        if is_alone or was_alone:
            batches.append([])
        batches[-1].append(call)
        was_alone = is_alone
    return batches


def _is_settled(step: Step, call: ToolCallRun) -> bool:
    """True if the call began in an earlier process and will not run again."""
    intent = step.intent_of(call)
    repeats = intent is not None and intent.get("idempotent") is True and _is_repeatable(call.tool)
    return intent is not None and (not repeats or step.recorded("tool", call))


def _is_repeatable(tool: Tool | None) -> bool:
    """True if the tool may be called again after its process ended during the call."""
    return tool is not None and (tool.idempotent or getattr(tool, "resumes", False))


async def _emit_actions(step: Step, calls: Sequence[ToolCallRun]) -> None:
    """Emit an ACTION for each call that is about to run, here or elsewhere."""
    for call in calls:
        title = step.title(call, "running")
        await step.emit(Event.action(step.number, call.name, call.args, call.id, title))
    for open_call in step.state.open_calls if step.state.tools.outside else ():
        await step.emit(Event.action(step.number, open_call.name, open_call.arguments, open_call.id))


# -- one call --------------------------------------------------------------------------------------------


async def _start(step: Step, call: ToolCallRun) -> None:
    """Start a call as a task; a denied call is only recorded."""
    kit, tool = step.kit, call.tool
    if call.outcome is not None:
        if kit.observers.audit is not None:
            from pure_agent_loop.kernel.observers import audit_denied

            await audit_denied(
                kit.observers.audit,
                _call_record(step, call),
                call.outcome.text,
                step.notify,
                "error" if call.ruling is not None and call.ruling.unasked else "denied",
            )
        return
    await step.change_part(call, "running")
    loop, seconds, left = asyncio.get_running_loop(), kit.timeouts.tool, step.seconds_left()
    if tool is not None and tool.timeout is not None:
        seconds = tool.timeout
    if left is not None:
        seconds = left if seconds is None else min(seconds, left)
    effect = _effect(step, call)
    if kit.observers.audit is not None:
        from pure_agent_loop.kernel.observers import audited

        effect = audited(effect, kit.observers.audit, _call_record(step, call), kit.clock, step.notify)
    call.task = loop.create_task(_timed(effect, step, call))
    if seconds is not None:
        call.seconds, call.deadline = seconds, loop.time() + seconds


async def _timed(effect: Callable[[], Awaitable[ToolOutcome]], step: Step, call: ToolCallRun) -> TimedOutcome:
    intent = {
        "tool": call.name,
        "args": call.args,
        "call_id": call.id,
        "idempotent": _is_repeatable(call.tool),
    }
    if call.ruling is not None and call.ruling.origins:
        intent["why"] = decided_by(step, call)
    started = step.kit.clock.monotonic()
    outcome = await step.effect("tool", call, effect, intent=intent)
    return TimedOutcome(outcome, step.kit.clock.monotonic() - started)


def _effect(step: Step, call: ToolCallRun) -> Callable[[], Awaitable[ToolOutcome]]:
    """Return the function that makes the call. The call is retried only if its tool is idempotent."""
    kit, tool = step.kit, call.tool
    attempts = kit.tool_retries.attempts if tool is not None and tool.idempotent else 1
    context = tool_context(step, call, progress_emitter(step, call))
    outside = step.state.tools.outside.get(call.id) if step.state.tools.outside else None
    # If the tool does not exist, the registry returns that as an error.
    invoke = partial(kit.tools.invoke, call.name) if tool is None else tool.invoke

    async def effect() -> ToolOutcome:
        if outside is not None:
            return redacted_outcome(ToolOutcome(outside.text, outside.is_error), kit.redactor)
        enter_call(context)  # each call has its own task, so this context variable ends with the call
        for left in range(attempts - 1, -1, -1):
            outcome = await invoke(call.args, kit.prompts)
            await flush_progress()
            outcome = redacted_outcome(outcome, kit.redactor)
            if not left or not outcome.is_error or outcome.is_interrupt or outcome.is_retry:
                break
            await kit.clock.sleep(kit.tool_retries.delay)
        return outcome

    return effect


async def _outcome_of(step: Step, call: ToolCallRun) -> TimedOutcome:
    """Return the outcome of a call, waiting for it until its deadline."""
    task, prompts = call.task, step.kit.prompts
    if task is None:
        assert call.outcome is not None
        return TimedOutcome(call.outcome, 0.0)
    if not task.done():
        now = asyncio.get_running_loop().time()
        left = None if call.deadline in (None, float("inf")) else max(0.0, call.deadline - now)
        await asyncio.wait({task}, timeout=left)
        if not task.done():
            await _cancel([task])
            words = prompts.tool_timed_out.format(seconds=f"{call.seconds:g}")
            outcome = failed(prompts, call.name, "Timeout", words, hint=False)
            # The measured time is recorded, because a replay cannot measure it.
            outcome = await step.effect("timeout", call, partial(as_effect, outcome))
            return TimedOutcome(outcome, call.seconds or 0.0)
    try:
        return task.result()
    except asyncio.CancelledError as error:
        inner = error.__context__  # the tool's error, which Python 3.10 wraps in an error of the task
        raised = inner if isinstance(inner, asyncio.CancelledError) else error
        return TimedOutcome(cancelled_itself(raised, call.name, prompts), 0.0)


# -- observers; their module is rarely needed, so it is loaded here --------------------------------------


def _call_record(step: Step, call: ToolCallRun) -> CallRecord:
    from pure_agent_loop.kernel.observers import CallRecord

    assert call.ruling is not None
    return CallRecord(
        tool=call.name,
        args=call.args,
        behavior=call.ruling.behavior,
        reason=decided_by(step, call),
        call_id=call.id,
        step=step.number,
        session_id=step.state.session_id,
        agent=step.kit.name,
        task=step.state.task,
    )


def decided_by(step: Step, call: ToolCallRun) -> str:
    """Return what decided about a call: a reason from the ruling, a person, or the permission mode."""
    ruling, mode = call.ruling, step.kit.permissions.mode
    if ruling is not None and ruling.message:
        return ruling.message
    return model_text("decided_person") if call.asked else model_text("decided_mode", mode=mode)


def _snapshots_of(step: Step, calls: Sequence[ToolCallRun]) -> Snapshots | None:
    """Return the snapshots; None unless a tool that may change the workspace was allowed to run."""
    snapshots = step.kit.observers.snapshots
    if snapshots is None:
        return None
    for call in calls:
        is_allowed = call.ruling is not None and call.ruling.behavior == "allow"
        if is_allowed and call.tool is not None and not call.tool.read_only:
            return snapshots
    return None


# -- a round that is broken off -------------------------------------------------------------------------


async def _stop_all(step: Step, calls: Sequence[ToolCallRun]) -> None:
    """Stop running calls, keep finished results, and give every call a result."""
    started = [call.task for call in calls if call.task is not None]
    running = [task for task in started if not task.done()]
    for call in calls:
        if step.state.pending and call.id not in step.state.results:
            text, failed = _unfinished(step, call)
            step.state.add_result(call.id, text, failed=failed)
    await _cancel(running)


def _unfinished(step: Step, call: ToolCallRun) -> tuple[str, bool]:
    """Return the result of a call in an interrupted round, and whether the call failed."""
    task, prompts = call.task, step.kit.prompts
    if call.outcome is not None:
        return call.outcome.text, call.outcome.is_error
    if task is None:
        return prompts.tool_not_started, True
    if not task.done() or task.cancelled() or task.exception() is not None:
        return prompts.tool_cancelled, True
    if step.kit.hooks.after_tool:  # hooks that have not yet processed this result might remove parts of it
        return prompts.tool_cancelled, True
    outcome = cut_outcome(step, call, task.result().outcome)
    return history_text(step, call, outcome), outcome.is_error


async def _cancel(tasks: list[asyncio.Task[TimedOutcome]]) -> None:
    """Cancel tasks and wait a moment; a task that does not stop is abandoned."""
    for task in tasks:
        task.cancel()
    if tasks:
        ended, stubborn = await asyncio.wait(tasks, timeout=GRACE_SECONDS)
        for task in ended:
            # Retrieve the exception, or the event loop logs a warning.
            _ = task.cancelled() or task.exception()
        for task in stubborn:
            _ABANDONED.add(task)
            task.add_done_callback(_ABANDONED.discard)
