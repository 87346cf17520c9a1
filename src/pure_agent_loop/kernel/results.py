"""Finish a call: process its outcome in stages, then store it in the state, the message part and the event.

`redacted_outcome` runs before the stages, inside the effect, so that no record holds a secret.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pure_agent_loop.events import Event
from pure_agent_loop.hooks import HookContext, call_hook
from pure_agent_loop.kernel.doom import note_result
from pure_agent_loop.kernel.kit import spend
from pure_agent_loop.kernel.long_results import READ_RESULT, ResultFolder, cut_text, result_file_in
from pure_agent_loop.kernel.request import result_chars
from pure_agent_loop.kernel.step import Step, ToolCallRun
from pure_agent_loop.llm.base import TracksToolFailures
from pure_agent_loop.parts import PartState
from pure_agent_loop.prompts.frames import framed
from pure_agent_loop.schema.outcome import ToolOutcome
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.support.text import as_text, shorten

MARK_CHARS = 16
MAX_ARGS_CHARS = 2_000  # maximum characters of changed arguments in a note

Stage = Callable[[Step, ToolCallRun, ToolOutcome], Awaitable[ToolOutcome]]


async def finish(step: Step, call: ToolCallRun, outcome: ToolOutcome, seconds: float) -> None:
    """Pass the outcome of a call through the stages and store the result.

    `call.outcome` is set last: a round that is interrupted meanwhile must not keep a result that no hook has
    checked.

    Args:
        seconds: Duration of the call.
    """
    for stage in STAGES:
        outcome = await stage(step, call, outcome)
    call.outcome = outcome
    await keep(step, call, outcome, seconds)


# -- the stages ------------------------------------------------------------------------------------------


async def after_hooks(step: Step, call: ToolCallRun, outcome: ToolOutcome) -> ToolOutcome:
    """Let the caller's hooks change the result text of a call that was made."""
    if call.outcome is not None:  # denied
        return outcome
    text = outcome.text
    for number, hook in step.hooks("after", step.kit.hooks.after_tool, call):
        run = partial(call_hook, hook, call.name, call.args, text, HookContext(step.number, call.id))
        effect = step.effect("after", call, run, detail=number)
        changed = await step.or_notice(f"A hook after {call.name}", effect)
        text = text if changed is None else as_text(changed)
    if text == outcome.text:
        return outcome
    command = outcome.command and {**outcome.command, "tail": ""}
    # Other fields could contain what the hook removed.
    return replace(outcome, text=text, parts=None, value=None, command=command)


async def counted(step: Step, call: ToolCallRun, outcome: ToolOutcome) -> ToolOutcome:
    """Record retries, found tools, and the usage of the call."""
    step.state.tools.take(call.name, outcome)
    if outcome.spent:
        spend(outcome.spent, step.state, step.kit)
    return outcome


async def warned(step: Step, call: ToolCallRun, outcome: ToolOutcome) -> ToolOutcome:
    """Set the warning about a repetition, and the note on how many corrections are left."""
    call.warning = _repetition_warning(step, call, outcome)
    if outcome.is_retry and call.tool is not None:
        left = call.tool.retries + 1 - step.state.tools.retries[call.name]
        retries = model_text("retries_left", left=left) if left > 0 else model_text("retries_used_up")
        call.warning = f"{call.warning}\n{retries}"
    return outcome


async def truncated(step: Step, call: ToolCallRun, outcome: ToolOutcome) -> ToolOutcome:
    """Truncate the text to the limit for the history, and add the warning."""
    outcome = cut_outcome(step, call, outcome)
    return replace(outcome, text=outcome.text + call.warning) if call.warning else outcome


async def noted(step: Step, call: ToolCallRun, outcome: ToolOutcome) -> ToolOutcome:
    """Set the note about arguments that were changed after the model wrote them."""
    if call.is_changed:
        call.note = changed_arguments_note(call.args, step.kit.redactor)
    return outcome


STAGES: Sequence[Stage] = (after_hooks, counted, warned, truncated, noted)


# -- what is kept ----------------------------------------------------------------------------------------


async def keep(step: Step, call: ToolCallRun, outcome: ToolOutcome, seconds: float) -> None:
    """Mark the message part of a call as ended, add the result to the state, and emit the event."""
    state = step.state
    ended: PartState = "backgrounded" if outcome.is_background else "completed"
    ended = "error" if outcome.is_error else ended
    await step.change_part(call, ended, outcome.text)
    text = history_text(step, call, outcome) + call.note
    state.add_result(call.id, text, outcome.parts, failed=outcome.is_error)
    if outcome.is_interrupt:
        state.stop("cancelled")
    if outcome.hands_to and not outcome.is_error:
        state.hand_to(outcome.hands_to)
    if outcome.error is not None:
        _report_failure(step, call, outcome.error)
    await step.emit(
        Event.observation(
            step.number,
            call.name,
            outcome.text + call.note,
            seconds if outcome.command is None else outcome.command["seconds"],
            call.id,
            outcome.is_error,
            outcome.value,
            outcome.error,
            command=outcome.command,
            refused=outcome.refused,
            unasked=call.ruling is not None and call.ruling.unasked,
        )
    )


def _report_failure(step: Step, call: ToolCallRun, error: BaseException) -> None:
    """Redact a tool's exception, because events hold it, and report it to a client that tracks failures."""
    if step.kit.redactor is not None:
        step.kit.redactor.clean_error(error)
    if (client := as_protocol(step.kit.client, TracksToolFailures)) is not None:
        client.tool_failed(call.name, error)


# -- texts of a result, as the model reads them ----------------------------------------------------------


def _repetition_warning(step: Step, call: ToolCallRun, outcome: ToolOutcome) -> str:
    """Return the warning added to a result that shows a repetition."""
    kit, written = step.kit, call.in_force()
    if outcome.is_error and kit.prompts.tool_interrupted in outcome.text:
        return ""  # the process ended during the call, which is not the model's fault
    if outcome.is_error:  # the comparison of errors uses the recorded arguments
        written = step.as_recorded(written)
    threshold = kit.limits.doom_loop_threshold
    verdict = note_result(step.state.doom, written, outcome.text, outcome.is_error, threshold)
    if verdict.action != "warn":
        return ""
    what = kit.prompts.repetition(verdict.pattern, verdict.count, call.name)
    return f"\n\n{kit.prompts.warned_repetition.format(what=what)}"


def cut_outcome(step: Step, call: ToolCallRun, outcome: ToolOutcome) -> ToolOutcome:
    """Return the outcome, truncated for the history; the model can read the rest with a tool."""
    kit, context = step.kit, step.state.context
    limit = kit.results.max_error_chars if outcome.is_error else result_chars(step.state, kit)
    reads_result = call.name == READ_RESULT and READ_RESULT not in kit.tools and not outcome.is_error
    if len(outcome.text) <= limit or reads_result:
        return outcome
    text = cut_text(outcome.text, limit, ResultFolder(kit.results.folder), kit.prompts)
    if not context.results_cut and result_file_in(text) is not None:
        context.results_cut, step.state.rewritten["tools"] = True, "read_result"
    return replace(outcome, text=text)


def history_text(step: Step, call: ToolCallRun, outcome: ToolOutcome) -> str:
    """Return a result as the history holds it: in a frame if its tool is marked ``untrusted``.

    Events, records and the audit log hold the text without the frame. The frame's mark is a hash of the call
    and the whole text, so no text can contain the mark that would close its frame, and a replay produces the
    same frame.
    """
    text = outcome.text
    if outcome.is_error or call.tool is None or not call.tool.untrusted or not text:
        return text
    whole = "\0".join((call.id, call.name, text)).encode("utf-8", "surrogatepass")
    mark = hashlib.sha256(whole).hexdigest()[:MARK_CHARS]
    return framed(step.kit.prompts, call.name, mark, text)


def changed_arguments_note(args: Mapping[str, object], redactor: Redactor | None) -> str:
    """Return the note for the result of a call whose arguments were changed after the model wrote them.

    Args:
        args: The arguments that the call ran with. The history keeps the call as the model wrote it.
    """
    shown = shorten(json.dumps(args, ensure_ascii=False), MAX_ARGS_CHARS)
    return (
        f"\n\n{model_text('arguments_changed', args=shown if redactor is None else redactor.redact(shown))}"
    )
