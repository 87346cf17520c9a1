"""Around a call: hooks, contexts of functions, the audit log, snapshots, and frames of untrusted results."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from pure_agent_loop.errors import ConfigError, PureAgentLoopError, SessionError
from pure_agent_loop.events import Event
from pure_agent_loop.hooks import BeforeTool, HookContext
from pure_agent_loop.inbox import Incoming
from pure_agent_loop.kernel.kit import Kit, ListsTasks
from pure_agent_loop.kernel.ledgers import Ruling, to_arguments
from pure_agent_loop.kernel.step import Step, ToolCallRun
from pure_agent_loop.permissions import Permission, PermissionContext
from pure_agent_loop.prompts.frames import framed
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.failures import log_failure
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.secrets.redaction import Redactor, StreamRedactor
from pure_agent_loop.support.text import as_text, safe_str, shorten
from pure_agent_loop.tool import ToolOutcome
from pure_agent_loop.tool_context import ToolContext

if TYPE_CHECKING:
    from pure_agent_loop.kernel.observers import CallRecord, CallStatus

Effect = Callable[[], Awaitable[ToolOutcome]]
MARK_CHARS = 16
MAX_ARGS_CHARS = 2_000  # characters of changed arguments in a result

# -- hooks: the caller's functions before and after a call, and before the end ---------------------------


async def already_recorded(*_: Any) -> NoReturn:
    """Replace a function of an earlier process. Its decision is recorded, so this is never called."""
    raise AssertionError("The decision is recorded.")


def has_hooks(hooks: Sequence[Callable[..., Any]], effect: str, step: Step, call: ToolCallRun) -> bool:
    """True if there are hooks, or recorded decisions of hooks that an earlier process had."""
    return bool(hooks) or step.recorded(effect, call, 0)


def _numbered(
    hooks: Sequence[Callable[..., Any]], effect: str, step: Step, call: ToolCallRun
) -> Iterator[tuple[int, Callable[..., Any]]]:
    """Yield the hooks with their numbers, recorded ones of an earlier process included."""
    number = 0
    while number < len(hooks) or step.recorded(effect, call, number):
        yield number, hooks[number] if number < len(hooks) else already_recorded
        number += 1


async def before_tool(step: Step, call: ToolCallRun, *, has_begun: bool = False) -> Ruling | None:
    """Let the hooks change the arguments of a call; return their refusal if there is one.

    Args:
        has_begun: The call has begun: only recorded decisions count.
    """
    hooks = () if has_begun else step.kit.hooks.before_tool
    context = HookContext(step.number, call.id)
    for number, hook in _numbered(hooks, "before", step, call):
        try:
            run = partial(_checked_decision, partial(hook, call.name, deepcopy(call.args), context))
            decision = await step.effect("before", call, run, detail=number)
            call.args = call.args if decision.args is None else to_arguments(decision.args)
        except SessionError:  # the decision could not be recorded: not the hook's failure
            raise
        except Exception as error:  # noqa: BLE001 - a hook that fails must not let the call through
            await deny_after_failure(f"A hook before {call.name}", error, step, call)
            return Ruling(
                "deny", call.args, type(error).__name__, model_text("hook_failed", error=safe_str(error))
            )
        if decision.context:  # held in the state, because the inbox is not part of it
            step.state.held.append(Incoming(as_text(decision.context), synthetic=True))
        if decision.block:
            return Ruling("deny", call.args, "Blocked", as_text(decision.block))
    return None


async def _awaited(function: Callable[[], Any]) -> Any:
    result = function()
    return await result if inspect.isawaitable(result) else result


async def _checked_decision(hook: Callable[[], Any]) -> BeforeTool:
    decision = await _awaited(hook)
    if decision is None:
        return BeforeTool()
    if not isinstance(decision, BeforeTool):
        raise ConfigError(model_text("no_before_tool", value=f"{decision!r:.80}"))
    return decision


async def after_tool(text: str, step: Step, call: ToolCallRun) -> str:
    """Return a result as the hooks change it."""
    context = HookContext(step.number, call.id)
    for number, hook in _numbered(step.kit.hooks.after_tool, "after", step, call):
        run = partial(_awaited, partial(hook, call.name, call.args, text, context))
        effect = step.effect("after", call, run, detail=number)
        changed = await _or_notice(f"A hook after {call.name}", effect, step)
        text = text if changed is None else as_text(changed)
    return text


async def wants_more(step: Step) -> str:
    """Return what a stop hook still wants done; empty if the run may end."""
    hooks = step.kit.hooks
    if step.state.stop_hook_count >= hooks.max_stops:
        return ""
    on_stop: Sequence[Callable[..., Any]] = hooks.on_stop
    for number, hook in enumerate(on_stop):
        run = partial(_awaited, partial(hook, step.state.content, HookContext(step.number)))
        effect = step.kit.journal.effect(f"{step.number}:stop:{number}", run)
        request = await _or_notice("A stop hook", effect, step)
        if request:
            return as_text(request)
    return ""


async def _or_notice(owner: str, effect: Awaitable[Any], step: Step) -> Any:
    """Return what a hook returns; None with a notice if it fails, so that no result or answer gets lost."""
    try:
        return await effect
    except SessionError:
        raise
    except Exception as error:  # noqa: BLE001 - a foreign function may raise anything
        await step.notify(_logged(owner, error))
        return None


async def deny_after_failure(owner: str, error: BaseException, step: Step, call: ToolCallRun) -> None:
    """Log that a function that decides about a call failed, and send that the call is denied."""
    await step.emit_permission(call, "deny", _logged(owner, error))


def _logged(owner: str, error: BaseException) -> str:
    """Log the failure of a caller's function; return the text for people."""
    log_failure(owner, error)
    return f"{owner} failed: {type(error).__name__}: {safe_str(error)}"


# -- contexts: what tools and permission functions can ask about the run ---------------------------------


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
    )


def progress_emitter(step: Step, call: ToolCallRun) -> Callable[[str], Awaitable[None]] | None:
    """Return what sends pieces of a result; None with hooks after tools, which have not seen the pieces."""
    redactor = step.kit.redactor
    if step.kit.hooks.after_tool:
        return None
    stream: StreamRedactor | None = None

    async def emit(text: str) -> None:
        nonlocal stream
        if redactor is not None:
            stream = redactor.stream() if stream is None else stream
            text = redactor.redact(stream.feed(text))
        if text:
            await step.emit(Event.progress(step.number, call.name, text, call.id))

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


# -- the audit log and snapshots; see `observers` --------------------------------------------------------


def _call_record(step: Step, call: ToolCallRun) -> CallRecord:
    from pure_agent_loop.kernel.observers import CallRecord  # rarely needed

    assert call.ruling is not None
    return CallRecord(
        tool=call.name,
        args=call.args,
        behavior=call.ruling.behavior,
        reason=call.ruling.message,
        call_id=call.id,
        step=step.number,
        session_id=step.state.session_id,
        agent=step.kit.name,
        task=step.state.task,
    )


def audited(effect: Effect, step: Step, call: ToolCallRun) -> Effect:
    """Record a call in the audit log before and after it. If the first fails, the call is not made."""
    audit, clock = step.kit.observers.audit, step.kit.clock
    if audit is None:
        return effect
    record = _call_record(step, call)

    async def run() -> ToolOutcome:
        await _notify(audit.begin(record), step)
        started = clock.monotonic()
        try:
            outcome = await effect()
        except BaseException:
            with suppress(PureAgentLoopError):  # the call's own error matters more
                audit.end(record, "", "stopped", clock.monotonic() - started)
            raise
        try:
            status: CallStatus = "error" if outcome.has_failed else "ok"
            measured = clock.monotonic() - started
            seconds = measured if outcome.command is None else outcome.command["seconds"]
            record.exit_code = None if outcome.command is None else outcome.command["exit_code"]
            notice = audit.end(record, outcome.text, status, seconds)
        except PureAgentLoopError as error:  # the call was made, so its result is kept
            notice = f"The end of {call.name} is not in the audit log: {safe_str(error)}"
        await _notify(notice, step)
        return outcome

    return run


async def _notify(notice: str | None, step: Step) -> None:
    if notice:
        await step.notify(notice)


async def audit_denied(step: Step, call: ToolCallRun) -> None:
    """Record a denied call in the audit log."""
    audit = step.kit.observers.audit
    if audit is not None and call.outcome is not None:
        record = _call_record(step, call)
        await _notify(audit.begin(record), step)
        await _notify(audit.end(record, call.outcome.text, "denied", 0.0), step)


def may_change_files(calls: Sequence[ToolCallRun]) -> bool:
    """True if an allowed call is of a tool that may change something."""
    return any(
        call.tool is not None
        and not call.tool.read_only
        and call.ruling is not None
        and call.ruling.behavior == "allow"
        for call in calls
    )


async def take_snapshot(step: Step) -> None:
    """Keep the content of the workspace before the calls of a step."""
    assert step.kit.observers.snapshots is not None
    try:
        await step.kit.observers.snapshots.before(step.state.session_id, step.number)
    except PureAgentLoopError as error:
        await step.notify(f"This step cannot be undone: {safe_str(error)}")


async def emit_file_changes(step: Step) -> None:
    """Send what the calls of a step changed in the workspace."""
    assert step.kit.observers.snapshots is not None
    try:
        changes = await step.kit.observers.snapshots.after(step.state.session_id, step.number)
    except PureAgentLoopError as error:
        await step.notify(f"It is not known what this step changed: {safe_str(error)}")
        return
    for change in changes.changes:
        await step.emit(Event.file_change(step.number, change.to_dict()))
    if changes.notice:
        await step.notify(changes.notice)


# -- results, as the model reads them --------------------------------------------------------------------


def wrap_untrusted(text: str, step: Step, call: ToolCallRun) -> str:
    """Put a result in a frame if its tool returns text from outside.

    The frame is in the history only; events, records and the audit log have the plain text. Its mark is a
    hash of the call and the whole text, so no text can contain its own mark and close the frame, and a
    replay makes the same frame.
    """
    if call.tool is None or not call.tool.untrusted or not text:
        return text
    whole = "\0".join((call.id, call.name, text)).encode("utf-8", "surrogatepass")
    mark = hashlib.sha256(whole).hexdigest()[:MARK_CHARS]
    return framed(step.kit.prompts, call.name, mark, text)


def changed_arguments_note(args: Mapping[str, Any], redactor: Redactor | None) -> str:
    """Return the note added to the result of a call that ran with other arguments than the model's.

    Args:
        args: The arguments it ran with. The history keeps the call as it was written.
    """
    shown = shorten(json.dumps(args, ensure_ascii=False), MAX_ARGS_CHARS)
    return (
        f"\n\n{model_text('arguments_changed', args=shown if redactor is None else redactor.redact(shown))}"
    )
