"""Run the calls of one response: decide about all, run them together, finish them in call order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from pure_agent_loop.events import Event
from pure_agent_loop.kernel.around import (
    after_tool,
    audit_denied,
    audited,
    changed_arguments_note,
    emit_file_changes,
    has_hooks,
    may_change_files,
    progress_emitter,
    take_snapshot,
    tool_context,
    wrap_untrusted,
)
from pure_agent_loop.kernel.doom import note_result
from pure_agent_loop.kernel.gate import decide
from pure_agent_loop.kernel.kit import spend
from pure_agent_loop.kernel.ledgers import OutsideResult
from pure_agent_loop.kernel.long_results import READ_RESULT, ResultFolder, cut_text, result_file_in
from pure_agent_loop.kernel.request import result_chars
from pure_agent_loop.kernel.step import Step, TimedOutcome, ToolCallRun
from pure_agent_loop.llm.base import TracksToolFailures
from pure_agent_loop.parts import PartState
from pure_agent_loop.schema.calling import cancelled_itself
from pure_agent_loop.schema.outcome import failed, without_secrets
from pure_agent_loop.stop_reasons import SUSPENDED, WAITING_TOOL
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.language import model_text
from pure_agent_loop.tool import Tool, ToolOutcome
from pure_agent_loop.tool_context import all_told, enter_call

GRACE_SECONDS = 1.0  # time for a tool to clean up after it was cancelled; then it is abandoned
_ABANDONED: set[asyncio.Task[TimedOutcome]] = set()


async def run_calls(step: Step) -> None:
    """Run the pending calls of a step and put each result into the state, in call order.

    If a call waits for a person who cannot be asked here, none runs and the run is suspended; results of
    calls that began in an earlier process are kept then. If the result of a call is made elsewhere, the
    other calls run, and the run waits for it.
    """
    state = step.state
    calls = step.calls()
    is_decided = await decide(step, calls)
    snapshots = is_decided and step.kit.observers.snapshots is not None and may_change_files(calls)
    calls = _to_run(step, calls, is_decided=is_decided)
    if snapshots:
        await take_snapshot(step)
    for call in calls:
        await step.emit(Event.action(step.number, call.name, call.args, call.id))
    for open_call in state.open_calls if state.tools.outside else ():
        await step.emit(Event.action(step.number, open_call.name, open_call.arguments, open_call.id))
    try:
        for batch in _batches(calls):
            for call in batch:
                await _start(step, call)
            await asyncio.sleep(0)  # quick calls end here, and need no task that waits for them
            for call in batch:
                await _finish(step, call)
    except (Exception, asyncio.CancelledError):  # a cancellation, or a journal or a sink that failed
        await _stop_all(step, calls)
        raise
    if snapshots:
        await emit_file_changes(step)
    if not is_decided or (state.tools.outside and state.open_calls):
        state.stop(WAITING_TOOL if is_decided else SUSPENDED)


# -- which calls run here, and together ------------------------------------------------------------------


def _to_run(step: Step, calls: Sequence[ToolCallRun], *, is_decided: bool) -> list[ToolCallRun]:
    """Return the calls whose results are made here, the denied ones with their outcome."""
    for call in calls:
        _fill_denied(step, call)
    if is_decided:
        _note_outside(step, calls)
    else:
        calls = [call for call in calls if _is_settled(step, call)]
    ledger = step.state.tools
    return [call for call in calls if not ledger.outside or not ledger.awaits(call.id)]


def _fill_denied(step: Step, call: ToolCallRun) -> None:
    """Give a denied call its outcome."""
    ruling, prompts = call.ruling, step.kit.prompts
    if ruling is None or ruling.behavior == "allow":
        return
    message = ruling.message
    is_denied = ruling.kind == "PermissionDenied"
    if is_denied:
        message = prompts.tool_denied.format(reason=message)
    message = message.replace("  ", " ")  # the reason may be empty
    call.outcome = failed(prompts, call.name, ruling.kind, message, hint=not is_denied)


def _note_outside(step: Step, calls: Iterable[ToolCallRun]) -> None:
    """Note the allowed calls whose results are made elsewhere; calls with a recorded result are skipped."""
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


# -- one call --------------------------------------------------------------------------------------------


async def _start(step: Step, call: ToolCallRun) -> None:
    """Start a call as a task; a denied one is only recorded."""
    kit, tool = step.kit, call.tool
    if call.outcome is not None:
        await audit_denied(step, call)
        return
    await step.change_part(call, "running")
    loop, seconds, left = asyncio.get_running_loop(), kit.timeouts.tool, step.seconds_left()
    if tool is not None and tool.timeout is not None:
        seconds = tool.timeout
    if left is not None:
        seconds = left if seconds is None else min(seconds, left)
    effect = _effect(step, call)
    if kit.observers.audit is not None:
        effect = audited(effect, step, call)
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
    started = step.kit.clock.monotonic()
    outcome = await step.effect("tool", call, effect, intent=intent)
    return TimedOutcome(outcome, step.kit.clock.monotonic() - started)


def _effect(step: Step, call: ToolCallRun) -> Callable[[], Awaitable[ToolOutcome]]:
    """Return the call itself. It is retried only if its tool is idempotent."""
    kit, tool = step.kit, call.tool
    attempts = kit.tool_retries.attempts if tool is not None and tool.idempotent else 1
    context = tool_context(step, call, progress_emitter(step, call))
    outside = step.state.tools.outside.get(call.id) if step.state.tools.outside else None
    # Without a tool, the registry answers that there is none.
    invoke = partial(kit.tools.invoke, call.name) if tool is None else tool.invoke

    async def effect() -> ToolOutcome:
        if outside is not None:
            return _redacted(step, ToolOutcome(outside.text, outside.is_error))
        enter_call(context)  # each call has its own task, so the context ends with it
        for left in range(attempts - 1, -1, -1):
            outcome = await invoke(call.args, kit.prompts)
            await all_told()
            outcome = _redacted(step, outcome)
            if not left or not outcome.is_error or outcome.is_interrupt or outcome.is_retry:
                break
            await kit.clock.sleep(kit.tool_retries.delay)
        return outcome

    return effect


def _redacted(step: Step, outcome: ToolOutcome) -> ToolOutcome:
    redactor = step.kit.redactor
    if redactor is None:
        return outcome
    text, parts, removed = redactor.redact(outcome.text), outcome.parts, False
    if parts:
        parts, removed = without_secrets(parts, redactor)
    text += f"\n{model_text('media_not_sent', why=model_text('media_secret'))}" if removed else ""
    if text == outcome.text and parts is outcome.parts:
        return outcome
    value = outcome.value if text == outcome.text else None
    command = outcome.command and {**outcome.command, "tail": redactor.redact(outcome.command["tail"])}
    return replace(outcome, text=text, parts=parts, value=value, command=command)


async def _finish(step: Step, call: ToolCallRun) -> None:
    """Wait for a call, put its result into the state and send it."""
    state, kit, task = step.state, step.kit, call.task
    is_done = task is not None and task.done() and not task.cancelled()
    outcome, seconds = task.result() if task is not None and is_done else await _await_outcome(step, call)
    if call.outcome is None and has_hooks(kit.hooks.after_tool, "after", step, call):
        text = await after_tool(outcome.text, step, call)
        if text != outcome.text:  # a hook that removes something has not seen media and values
            command = outcome.command and {**outcome.command, "tail": ""}
            outcome = replace(outcome, text=text, parts=None, value=None, command=command)
    state.tools.take(call.name, outcome)
    warning = _repetition_warning(step, call, outcome)
    if outcome.is_retry and call.tool is not None:
        warning += _retries_left(step, call.tool)
    outcome = _truncated(step, call, outcome)
    call.outcome = outcome = replace(outcome, text=outcome.text + warning) if warning else outcome
    ended: PartState = "backgrounded" if outcome.is_background else "completed"
    ended = "error" if outcome.is_error else ended
    await step.change_part(call, ended, outcome.text)
    if outcome.spent:
        spend(outcome.spent, state, kit)
    text = outcome.text if outcome.is_error else wrap_untrusted(outcome.text, step, call)
    note = changed_arguments_note(call.args, kit.redactor) if call.is_changed else ""
    state.add_result(call.id, text + note, outcome.parts, failed=outcome.is_error)
    if outcome.is_interrupt:
        state.stop("cancelled")
    if outcome.hands_to and not outcome.is_error:
        state.hand_to(outcome.hands_to)
    shown = outcome.text + note
    if outcome.error is not None:
        _report_failure(step, call, outcome.error)
    await step.emit(
        Event.observation(
            step.number,
            call.name,
            shown,
            seconds if outcome.command is None else outcome.command["seconds"],
            call.id,
            outcome.is_error,
            outcome.value,
            outcome.error,
            command=outcome.command,
            refused=outcome.refused,
        )
    )


def _report_failure(step: Step, call: ToolCallRun, error: BaseException) -> None:
    """Give the exception of a tool to a client that wants it, without secrets: it is part of an event."""
    if step.kit.redactor is not None:
        step.kit.redactor.clean_error(error)
    if (client := as_protocol(step.kit.client, TracksToolFailures)) is not None:
        client.tool_failed(call.name, error)


def _truncated(step: Step, call: ToolCallRun, outcome: ToolOutcome) -> ToolOutcome:
    """Return the outcome as it fits into the history; the model can read the rest with a tool."""
    kit, context = step.kit, step.state.context
    limit = kit.results.max_error_chars if outcome.is_error else result_chars(step.state, kit)
    reads_result = call.name == READ_RESULT and READ_RESULT not in kit.tools and not outcome.is_error
    if len(outcome.text) <= limit or reads_result:
        return outcome
    text = cut_text(outcome.text, limit, ResultFolder(kit.results.folder), kit.prompts)
    if not context.results_cut and result_file_in(text) is not None:
        context.results_cut, step.state.rewritten["tools"] = True, "read_result"
    return replace(outcome, text=text)


def _repetition_warning(step: Step, call: ToolCallRun, outcome: ToolOutcome) -> str:
    """Return the warning added to a result that shows a repetition."""
    kit, written = step.kit, call.in_force()
    if outcome.is_error and kit.prompts.tool_interrupted in outcome.text:
        return ""  # the process ended during the call, perhaps several times: not the model's fault
    if outcome.is_error:  # arguments matter only then
        written = step.as_recorded(written)
    threshold = kit.limits.doom_loop_threshold
    verdict = note_result(step.state.doom, written, outcome.text, outcome.is_error, threshold)
    if verdict.action != "warn":
        return ""
    what = kit.prompts.repetition(verdict.pattern, verdict.count, call.name)
    return f"\n\n{kit.prompts.warned_repetition.format(what=what)}"


def _retries_left(step: Step, tool: Tool) -> str:
    """Return how often the model may correct its arguments."""
    left = tool.retries + 1 - step.state.tools.retries[tool.name]
    return "\n" + (model_text("retries_left", left=left) if left > 0 else model_text("retries_used_up"))


async def _await_outcome(step: Step, call: ToolCallRun) -> TimedOutcome:
    """Wait for a call until its deadline."""
    task, prompts = call.task, step.kit.prompts
    if task is None:
        assert call.outcome is not None
        return TimedOutcome(call.outcome, 0.0)
    done = task.done()
    if not done:
        now = asyncio.get_running_loop().time()
        left = None if call.deadline in (None, float("inf")) else max(0.0, call.deadline - now)
        await asyncio.wait({task}, timeout=left)
        done = task.done()
    if not done:
        await _cancel([task])
        words = prompts.tool_timed_out.format(seconds=f"{call.seconds:g}")
        outcome = failed(prompts, call.name, "Timeout", words, hint=False)
        # The measured time is recorded, because a replay has no clock.
        return TimedOutcome(
            await step.effect("timeout", call, partial(_return, outcome)), call.seconds or 0.0
        )
    try:
        return task.result()
    except asyncio.CancelledError as error:
        inner = error.__context__  # the tool's error, which Python 3.10 wraps in one of the task
        raised = inner if isinstance(inner, asyncio.CancelledError) else error
        return TimedOutcome(cancelled_itself(raised, call.name, prompts), 0.0)


async def _return(outcome: ToolOutcome) -> ToolOutcome:
    return outcome


# -- the run is over -------------------------------------------------------------------------------------


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
    """Return the result of a call whose round was broken off, and whether it is a failure."""
    task, prompts = call.task, step.kit.prompts
    if call.outcome is not None:
        return call.outcome.text, call.outcome.is_error
    if task is None:
        return prompts.tool_not_started, True
    if not task.done() or task.cancelled() or task.exception() is not None:
        return prompts.tool_cancelled, True
    if step.kit.hooks.after_tool:  # a hook may remove something, and has not seen the result
        return prompts.tool_cancelled, True
    outcome = _truncated(step, call, task.result().outcome)
    text = outcome.text if outcome.is_error else wrap_untrusted(outcome.text, step, call)
    return text, outcome.is_error


async def _cancel(tasks: list[asyncio.Task[TimedOutcome]]) -> None:
    """Cancel tasks and wait a moment; a task that does not stop is abandoned."""
    for task in tasks:
        task.cancel()
    if tasks:
        ended, stubborn = await asyncio.wait(tasks, timeout=GRACE_SECONDS)
        for task in ended:
            _ = task.cancelled() or task.exception()  # else the event loop logs an unread exception
        for task in stubborn:
            _ABANDONED.add(task)
            task.add_done_callback(_ABANDONED.discard)
