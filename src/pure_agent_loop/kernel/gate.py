"""Decide about a response's calls before any of them runs. Each call is decided once.

A new call passes the stages in order, and the first ruling counts. A recorded decision remains valid even if
this process has different hooks, rules or people: a call that has begun was allowed, and an answered question
is not asked again. Only a deny rule overrides a recorded answer. A question that is still pending when a run
is resumed is decided by the rules and functions of this process.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

from pure_agent_loop.errors import ConfigError, SessionError
from pure_agent_loop.hooks import HookContext, call_before_hook
from pure_agent_loop.inbox import Incoming
from pure_agent_loop.kernel.contexts import permission_context, progress_emitter
from pure_agent_loop.kernel.doom import judge
from pure_agent_loop.kernel.guarding import decide_by_guard
from pure_agent_loop.kernel.journal import already_recorded, as_effect
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.permission_ledger import call_key, has_call, rules_among, to_arguments
from pure_agent_loop.kernel.step import Step, ToolCallRun, logged_failure
from pure_agent_loop.permissions import (
    ALLOWED,
    Opinion,
    Permission,
    PermissionRequest,
    PermissionRules,
    Ruling,
    VerdictError,
    as_permission,
)
from pure_agent_loop.schema.forms import Forms, forms_of, paths_of
from pure_agent_loop.support.failures import log_failure
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import as_text, error_text, safe_str
from pure_agent_loop.support.threads import Raised, run_in_thread
from pure_agent_loop.tool import Tool

MAX_DENIED_ROUNDS = 3

Stage = Callable[[Step, ToolCallRun], Awaitable[Ruling | None]]


async def decide(step: Step, calls: Sequence[ToolCallRun]) -> bool:
    """Decide about every pending call.

    Returns: False if a call is waiting for a person who cannot be asked here. No call may run in that case.
    """
    ledger, is_pending = step.state.permissions, False
    earlier: list[tuple[Tool, dict[str, Any]]] = []
    for call in calls:
        call.earlier = earlier
        ruling = await _decide_one(step, call)
        call.ruling, call.args = ruling, ruling.args
        if ruling.behavior != "deny" and call.tool is not None and not call.tool.read_only:
            earlier = [*earlier, (call.tool, call.args)]
        is_pending = is_pending or ruling.behavior == "ask"
    if is_pending:
        return False
    ledger.count_round([call.written for call in calls])
    if ledger.denied_rounds >= MAX_DENIED_ROUNDS:
        step.state.must_close = "permission_denied"
    return True


async def _decide_one(step: Step, call: ToolCallRun) -> Ruling:
    ledger, kit = step.state.permissions, step.kit
    intent = step.intent_of(call)
    if intent is not None:
        return await _resume_begun(step, call, intent)
    ruling = call.ruling
    if ruling is None:
        ledger.rulings[call.id] = ruling = await _first_ruling(step, call)
    elif ruling.behavior == "ask":  # an earlier process suspended the run
        call.args = ruling.args
        ruling = await _reconsider(step, call, ruling)
    call.args = ruling.args
    # An answer about another call may also allow this one.
    if ruling.behavior == "ask" and await _is_allowed(step, call):
        ruling = step.rule(call, ALLOWED)
    if ruling.behavior == "ask" and (kit.on_ask is not None or _is_answered(step, call)):
        ruling = await _ask(step, call, ruling)
    if ruling.behavior != "deny" and call.args != call.written.arguments:
        ruling = await _check_changed(step, call, ruling)
    return ruling


async def _first_ruling(step: Step, call: ToolCallRun) -> Ruling:
    for stage in STAGES:
        ruling = await stage(step, call)
        if ruling is not None:
            return ruling
    raise AssertionError("The last stage decides.")


# -- the stages ------------------------------------------------------------------------------------------


async def repeated(step: Step, call: ToolCallRun) -> Ruling | None:
    """Deny a call that repeats earlier calls without anything new in between."""
    kit, state = step.kit, step.state
    polls = call.tool is not None and call.tool.polls
    written = call.written
    if kit.redactor is not None and not kit.redactor.is_empty:
        written = step.as_recorded(written)
    verdict = judge(state.doom, written, kit.limits.doom_loop_threshold, polls=polls)
    if verdict.action == "run":
        return None
    if verdict.action == "stop":
        state.must_close = "doom_loop"
    what = kit.prompts.repetition(verdict.pattern, verdict.count, call.name)
    return Ruling("deny", call.args, "RepeatedCall", kit.prompts.refused_repetition.format(what=what))


async def unreadable(step: Step, call: ToolCallRun) -> Ruling | None:
    """Deny a call whose arguments are not JSON."""
    problem = call.written.invalid
    if problem is None:
        return None
    return Ruling("deny", {}, "InvalidArguments", step.kit.prompts.tool_arguments.format(problem=problem))


async def out_of_retries(step: Step, call: ToolCallRun) -> Ruling | None:
    """Deny a call to a tool that has raised `Retry` too often."""
    retries = step.state.tools.retries
    if retries and call.tool is not None and retries.get(call.name, 0) > call.tool.retries:
        return Ruling("deny", call.args, "RetriesUsedUp", model_text("retries_used_up"))
    return None


async def denied_before(step: Step, call: ToolCallRun) -> Ruling | None:
    """Deny a call that was denied before, and repeat the reason."""
    denied = step.state.permissions.denied
    reason = denied.get(call_key(call.name, call.args)) if denied else None
    if reason is None:
        return None
    message = f"{reason} {step.kit.prompts.tool_denied_before}".strip()
    return Ruling("deny", call.args, "PermissionDenied", message)


async def hooks(step: Step, call: ToolCallRun, *, has_begun: bool = False) -> Ruling | None:
    """Let the caller's hooks change the arguments or refuse the call.

    Args:
        has_begun: True if the call has begun, so that only recorded decisions are applied.
    """
    functions = () if has_begun else step.kit.hooks.before_tool
    for number, hook in step.hooks("before", functions, call):
        context = HookContext(step.number, call.id)
        try:
            run = partial(call_before_hook, hook, call.name, deepcopy(call.args), context)
            decision = await step.effect("before", call, run, detail=number)
            call.args = call.args if decision.args is None else to_arguments(decision.args)
        except SessionError:  # the decision could not be recorded; the hook did not fail
            raise
        except Exception as error:  # noqa: BLE001 - a hook that fails must not let the call through
            await step.emit_permission(call, "deny", logged_failure(f"A hook before {call.name}", error))
            message = model_text("hook_failed", error=safe_str(error))
            return Ruling("deny", call.args, type(error).__name__, message)
        if decision.context:  # held in the state, which is saved, unlike the inbox
            step.state.held.append(Incoming(as_text(decision.context), synthetic=True))
        if decision.block:
            return Ruling("deny", call.args, "Blocked", as_text(decision.block))
    return None


async def policy(step: Step, call: ToolCallRun) -> Ruling | None:
    """Apply the rules, the mode, the tool's judge and `can_use_tool`; always return a ruling."""
    try:
        suggested = await _policy_decision(step, call, "first")
        refusal = await _refusal(step, call) if suggested.behavior == "ask" else None
        permission = suggested if refusal else await _permission(step, call, suggested)
    except (SessionError, VerdictError):  # a decision could not be recorded, or is invalid
        raise
    except Exception as error:  # noqa: BLE001 - a permission function that fails must not let the call through
        await step.emit_permission(
            call, "deny", logged_failure(f"A permission function for {call.name}", error)
        )
        return Ruling("deny", call.args, type(error).__name__, safe_str(error))
    if permission.behavior == "ask":  # nobody is asked about a call that would fail anyway
        refusal = refusal or await _refusal(step, call)
        if refusal is not None:
            kind, message = refusal
            return Ruling("deny", call.args, kind, message, unasked=True)
        if call.tool is None or await _is_allowed(step, call):
            permission = replace(permission, behavior="allow")
    if permission.behavior != "allow":
        await step.emit_permission(call, permission.behavior, permission.message)
    return step.rule(call, permission)


async def _is_allowed(step: Step, call: ToolCallRun) -> bool:
    """Return True if an answer to another call allows this one: by tool, as the same call, or by a rule."""
    allowed = step.state.permissions.always_allowed
    if has_call(allowed, call.name, call.args):
        return True
    rules = rules_among(allowed)
    if call.tool is None or not rules.look_into(call.name):
        return False
    views = await _argument_views(step, call, call.tool, "allowed", rules)
    return rules.find("allow", call.name, views) is not None


STAGES: Sequence[Stage] = (repeated, unreadable, out_of_retries, denied_before, hooks, policy)


# -- resumed calls ---------------------------------------------------------------------------------------


async def _resume_begun(step: Step, call: ToolCallRun, intent: Mapping[str, Any]) -> Ruling:
    """Allow a call that has begun, and restore what its recorded decision allows for later calls."""
    if call.ruling is None:
        recorded = step.as_recorded(call.written)
        judge(step.state.doom, recorded, step.kit.limits.doom_loop_threshold, polls=False)  # it counts
        await hooks(step, call, has_begun=True)
    decision = ALLOWED
    for effect in ("permit", "ask"):
        if step.recorded(effect, call):
            call.asked = call.asked or effect == "ask"
            decision = await step.effect(effect, call, already_recorded)
    call.args = intent.get("args", call.written.arguments)
    if step.kit.permissions.mode == "guard" and call.tool is not None:
        decide_by_guard(step, call, call.tool)
        step.state.permissions.learn(decision.message, about=call.origins)
    return step.rule(call, replace(decision, behavior="allow", updated_args=None))


async def _reconsider(step: Step, call: ToolCallRun, ruling: Ruling) -> Ruling:
    """Decide a question that another process left pending, by the rules and functions of this process."""
    permission = await _permission(step, call, await _policy_decision(step, call, "first"))
    if permission.behavior == "ask" or (permission.behavior == "deny" and _is_local_denial(step, call)):
        return ruling
    if permission.behavior != "allow":
        await step.emit_permission(call, permission.behavior, permission.message)
    return step.rule(call, permission)


def _is_local_denial(step: Step, call: ToolCallRun) -> bool:
    """Return True if a denial may be due only to this process (plan mode, no `on_ask`) and must not count."""
    cannot_ask = call.tool is not None and call.tool.judge is not None and not _can_ask(step, call)
    return not _is_answered(step, call) and (cannot_ask or step.kit.permissions.mode == "plan")


def _is_answered(step: Step, call: ToolCallRun) -> bool:
    return step.recorded("ask", call)


def _can_ask(step: Step, call: ToolCallRun) -> bool:
    kit = step.kit
    return kit.on_ask is not None or kit.can_use_tool is not None or _is_answered(step, call)


async def _check_changed(step: Step, call: ToolCallRun, ruling: Ruling) -> Ruling:
    """Apply deny rules to arguments that an answer, a hook or a function has changed."""
    # `moment` is part of the effect's key, because an answer may change arguments that were already checked.
    moment = "again" if ruling.behavior == "allow" else "asked"
    permission = await _policy_decision(step, call, moment)
    if permission.behavior != "deny":
        return ruling
    ruling = step.rule(call, permission)
    await step.emit_permission(call, permission.behavior, permission.message)
    return ruling


# -- the policy ------------------------------------------------------------------------------------------


async def _permission(step: Step, call: ToolCallRun, suggested: Permission) -> Permission:
    """Return the policy's decision, or that of `can_use_tool`, which may override an ask."""
    if suggested.behavior == "deny":
        return suggested
    can_use_tool = step.kit.can_use_tool
    if not step.recorded("permit", call):
        if _is_answered(step, call):  # a person has already decided, so `can_use_tool` must not
            return replace(suggested, behavior="ask")
        if can_use_tool is None:
            return suggested
    context = permission_context(step, call, suggested)
    function = partial(can_use_tool or already_recorded, call.name, deepcopy(call.args), context)
    decision = await step.effect("permit", call, partial(_verdict, function))
    # An allow without new arguments accepts the suggestion; one with new arguments is a new decision.
    agrees = decision.behavior == "allow" and decision.updated_args is None
    return replace(decision, read_only=suggested.read_only) if agrees else decision


async def _policy_decision(step: Step, call: ToolCallRun, moment: str) -> Permission:
    """Return the decision of the rules, the mode and the tool's judge."""
    tool, rules = call.tool, step.kit.permissions
    if rules.is_open and (tool is None or (tool.judge is None and not tool.destructive)):
        return ALLOWED
    if tool is None:
        return rules.suggest(call.name, call.args, read_only=False)
    views = (
        call.args if rules.rules.is_empty else await _argument_views(step, call, tool, moment, rules.rules)
    )
    asks = await _destructive_reason(step, call, tool, moment) if tool.destructive else ""
    guard = decide_by_guard(step, call, tool) if rules.mode == "guard" and not tool.read_only else None
    if tool.judge is None:
        return rules.suggest(call.name, views, read_only=tool.read_only, asks=asks, guard=guard)
    # If arguments were changed or a person has answered, only a denial matters, so the judge need not try the
    # call.
    is_settled = moment == "again" or _is_answered(step, call)
    always = is_settled or call.name in step.state.permissions.always_allowed
    context = rules.judge_context(call.name, views, attended=_can_ask(step, call), always=always)
    on_piece = progress_emitter(step, call)
    left, limit = step.seconds_left(), step.kit.timeouts.tool
    context = replace(context, call_id=call.id, seconds=left, on_piece=on_piece, tool_timeout=limit)
    run = partial(_opinion, partial(tool.judge, deepcopy(call.args), context))
    own = await step.effect("judge", call, run, detail=moment)
    return rules.suggest(
        call.name, views, read_only=tool.read_only, own=own, judges=True, asks=asks, guard=guard
    )


async def _argument_views(
    step: Step, call: ToolCallRun, tool: Tool, moment: str, rules: PermissionRules
) -> Forms:
    """Return the arguments as rules match them. A path's target is recorded, because links may change."""
    views = forms_of(call.args, tool.parameters)
    looks_into = tool.root and rules.look_into(call.name)
    if not looks_into and not step.recorded("forms", call, moment):
        return views

    async def resolve() -> list[str]:
        return paths_of(tool.root, views.meant[0].get("path"))

    return views.with_paths(await step.effect("forms", call, resolve, detail=moment))


async def _destructive_reason(step: Step, call: ToolCallRun, tool: Tool, moment: str) -> str:
    """Return the reason to ask a person about a call that cannot be undone; empty if it can be undone."""
    question = Permission("ask", model_text("destructive"))

    async def judged() -> Opinion:
        flag = tool.destructive
        reason = flag if isinstance(flag, bool) else flag(deepcopy(call.args))
        return (
            Permission("ask", reason) if isinstance(reason, str) and reason else question if reason else None
        )

    if tool.destructive is True:
        return question.message
    opinion = await step.effect("judge", call, judged, detail=f"destructive:{moment}")
    return "" if opinion is None else opinion.message


async def _opinion(judge: Callable[[], Opinion | Awaitable[Opinion]]) -> Opinion:
    opinion = judge()
    opinion = await opinion if inspect.isawaitable(opinion) else opinion
    return None if opinion is None else _read_verdict("The tool's judge", opinion)


async def _verdict(function: Callable[[], Any]) -> Permission:
    verdict = function()
    return _read_verdict("can_use_tool", await verdict if inspect.isawaitable(verdict) else verdict)


def _read_verdict(owner: str, verdict: object) -> Permission:
    try:
        permission = as_permission(verdict)
        if permission.updated_args is None:
            return permission
        return replace(permission, updated_args=to_arguments(permission.updated_args))
    except ConfigError as error:
        raise VerdictError(f"{owner} gave no decision. {error}") from None


async def _refusal(step: Step, call: ToolCallRun) -> Sequence[str] | None:
    """Return the error kind and message for a call that would fail; None if no problem is found.

    A refusal is recorded: the same check may later give another result, and a replay may have only the tool's
    schema.
    """
    refusal, tool = None, call.tool
    if not step.recorded("refusal", call):
        if tool is not None:
            refusal = tool.refusal(call.args, step.kit.prompts)
            refusal = refusal or await tool.objection(call.args, call.earlier)
        if refusal is None:
            return None
    return await step.effect("refusal", call, partial(as_effect, list(refusal or ())))


# -- a person --------------------------------------------------------------------------------------------


async def _ask(step: Step, call: ToolCallRun, ruling: Ruling) -> Ruling:
    now = step.kit.clock.now()
    args, origins = deepcopy(call.args), ruling.origins
    request = PermissionRequest(
        call.id, call.name, args, ruling.message, step.number, now, origins=origins, title=ruling.title
    )
    permission = await step.effect("ask", call, partial(ask_person, request, step.kit))
    if permission.behavior == "ask":
        return ruling  # the question stays open: the run is suspended
    step.state.permissions.learn(permission.message, about=ruling.origins)
    call.asked = True
    ruling = step.rule(call, permission)
    await step.emit_permission(call, permission.behavior, permission.message)
    return ruling


async def ask_person(request: PermissionRequest, kit: Kit) -> Permission:
    """Ask a person. A sync function runs in a thread, because it blocks until the person has answered."""
    ask = kit.on_ask
    assert ask is not None
    try:
        is_async = inspect.iscoroutinefunction(ask)
        answer: Any = ask(request) if is_async else await run_in_thread(lambda: ask(request))
        answer = await answer if inspect.isawaitable(answer) else answer
    except Exception as error:  # noqa: BLE001 - any failure counts as a denial
        answer = Raised(error)
    if isinstance(answer, Raised):
        log_failure(f"The function that asks about {request.tool}", answer.error)
        return Permission("deny", model_text("question_failed", error=error_text(answer.error)))
    return _read_verdict("on_ask", answer)
