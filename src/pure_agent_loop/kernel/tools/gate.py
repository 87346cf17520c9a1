"""Deciding about the calls of an answer, before any of them runs: each is decided once, and that is kept.

For each call, in this order: is it a repetition? are its arguments readable? was it refused before? what do
the hooks want? what do the rules, the mode and the user's function say? what does a person say, if asked?

What is recorded rules, whatever this process has or lacks: a call that has begun was allowed, and an answer
that was given is not asked for again. Only a rule that denies stands above an answer. A question that is
still open when a run is resumed is decided by what the process at hand has.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

from pure_agent_loop.errors import ConfigError, SessionError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.doom import judge
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.permission_ledger import Ruling, call_key, to_arguments
from pure_agent_loop.kernel.redacting import as_recorded
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tools.contexts import permission_context
from pure_agent_loop.kernel.tools.hook_calls import before_tool, gone, has_hooks
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import (
    ALLOWED,
    Opinion,
    Permission,
    PermissionRequest,
    VerdictError,
    as_permission,
)
from pure_agent_loop.prompts.words import say
from pure_agent_loop.schema.forms import Forms, forms_of, paths_of
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import Raised, run_in_thread
from pure_agent_loop.tool import Tool

MOST_DENIED_ROUNDS = 3


async def decide(state: QueryState, kit: Kit) -> bool:
    """Decide about every pending call.

    Returns:
        False if one of them waits for a person who cannot be asked here: then none of them may run.
    """
    waiting = [call for call in state.pending if call.id not in state.results]
    ledger, step, asks = state.permissions, state.step, False
    for call in waiting:
        begun, ruling = kit.journal.begun(f"{step}:tool:{call.id}"), ledger.rulings.get(call.id)
        if begun is not None:
            await _follow(call, begun, state, kit, is_new=ruling is None)
            continue
        if ruling is None:
            ledger.rulings[call.id] = ruling = await _rule(call, state, kit)
        elif ruling.behavior == "ask":  # when an earlier run was suspended
            ruling = await _reconsider(call, ruling, state, kit)
        if ruling.behavior == "ask" and call.name in ledger.always_allowed:  # by an answer meanwhile
            ruling = state.rule(call, ALLOWED, ruling.args)
        if ruling.behavior == "ask" and (kit.on_ask is not None or _is_answered(call, state, kit)):
            await _ask(call, ruling, state, kit)
        ruling = ledger.rulings[call.id]
        if ruling.behavior != "deny" and ruling.args != call.arguments:
            ruling = await _check_again(call, ruling, state, kit)
        asks = asks or ruling.behavior == "ask"
    if asks:
        return False
    ledger.count_round(waiting)
    if ledger.denied_rounds >= MOST_DENIED_ROUNDS:
        state.must_close = "permission_denied"
    return True


async def _follow(
    call: ToolCall, begun: Mapping[str, Any], state: QueryState, kit: Kit, *, is_new: bool
) -> None:
    """The call has begun, so it was allowed. What was said then about later calls holds too."""
    if is_new:
        kept = as_recorded(call, kit.redactor)
        judge(state.doom, kept, kit.limits.doom_loop_threshold, polls=False)  # it counts
        await before_tool(call, state, kit, has_begun=True)
    said = ALLOWED
    for what in ("permit", "ask"):
        if kit.journal.recorded(key := f"{state.step}:{what}:{call.id}"):
            said = await kit.journal.effect(key, gone)
    args = begun.get("args", call.arguments)
    state.rule(call, replace(said, behavior="allow", updated_args=None), args)


def _is_answered(call: ToolCall, state: QueryState, kit: Kit) -> bool:
    return kit.journal.recorded(f"{state.step}:ask:{call.id}")


async def _reconsider(call: ToolCall, ruling: Ruling, state: QueryState, kit: Kit) -> Ruling:
    """An open question, in another process: its rules or its function may know the answer."""
    permission = await _permission(call, ruling.args, state, kit)
    if permission.behavior == "ask" or (permission.behavior == "deny" and _only_lacks(call, state, kit)):
        return ruling
    if permission.behavior != "allow":
        await _tell(call, ruling.args, permission, state, kit)
    return state.rule(call, permission, ruling.args)


def _only_lacks(call: ToolCall, state: QueryState, kit: Kit) -> bool:
    """True if a refusal may only mean that this process plans, or has nobody to ask: that is no answer."""
    tool = kit.tools.get(call.name)
    is_alone = tool is not None and tool.judge is not None and not _attended(call, state, kit)
    return not _is_answered(call, state, kit) and (is_alone or kit.permissions.mode == "plan")


def _attended(call: ToolCall, state: QueryState, kit: Kit) -> bool:
    return kit.on_ask is not None or kit.can_use_tool is not None or _is_answered(call, state, kit)


async def _check_again(call: ToolCall, ruling: Ruling, state: QueryState, kit: Kit) -> Ruling:
    """What is forbidden stays forbidden, also with the arguments that an answer brought."""
    when = "again" if ruling.behavior == "allow" else "asked"  # an answer may bring other arguments
    found = await _suggest(call, ruling.args, state, kit, when)
    if found.behavior == "deny":
        ruling = state.rule(call, found, ruling.args)
        await _tell(call, ruling.args, found, state, kit)
    return ruling


async def _suggest(
    call: ToolCall, args: dict[str, Any], state: QueryState, kit: Kit, when: str
) -> Permission:
    """What the rules, the mode and the tool itself say."""
    tool, policy = kit.tools.get(call.name), kit.permissions
    if policy.is_open and (tool is None or (tool.judge is None and not tool.destructive)):
        return ALLOWED
    if tool is None:
        return policy.suggest(call.name, args, read_only=False)
    forms = args if policy.rules.is_empty else await _forms(call, tool, args, state, kit, when)
    asks = await _asks(call, tool, args, state, kit, when) if tool.destructive else ""
    if tool.judge is None:
        return policy.suggest(call.name, forms, read_only=tool.read_only, asks=asks)
    # The second time only a refusal matters.
    always = when == "again" or call.name in state.permissions.always_allowed
    left = None if state.deadline is None else max(0.0, state.deadline - kit.clock.monotonic())
    attended = _attended(call, state, kit)
    context = policy.judge_context(call.name, forms, attended=attended, always=always)
    context = replace(context, call_id=call.id, seconds=left)
    asked = partial(_opinion, partial(tool.judge, deepcopy(args), context))
    own = await kit.journal.effect(f"{state.step}:judge:{call.id}:{when}", asked)
    return policy.suggest(call.name, forms, read_only=tool.read_only, own=own, judges=True, asks=asks)


async def _forms(
    call: ToolCall, tool: Tool, args: dict[str, Any], state: QueryState, kit: Kit, when: str
) -> Forms:
    """The call as rules see it. What a path leads to is recorded, because links and folders change."""
    forms, key = forms_of(args, tool.parameters), f"{state.step}:forms:{call.id}:{when}"
    if not kit.journal.recorded(key) and not (tool.root and kit.permissions.rules.look_into(call.name)):
        return forms

    async def found() -> list[str]:
        return paths_of(tool.root, forms.meant[0].get("path"))

    return forms.with_paths(await kit.journal.effect(key, found))


async def _asks(
    call: ToolCall, tool: Tool, args: dict[str, Any], state: QueryState, kit: Kit, when: str
) -> str:
    """Why a person is asked about a call that cannot be taken back; empty if it can be."""
    said = Permission("ask", say("destructive"))

    async def judged() -> Opinion:
        is_so = tool.destructive if isinstance(tool.destructive, bool) else tool.destructive(deepcopy(args))
        return said if is_so else None

    if tool.destructive is True:
        return said.message
    found = await kit.journal.effect(f"{state.step}:judge:{call.id}:destructive:{when}", judged)
    return "" if found is None else found.message


async def _opinion(judge: Callable[[], Opinion | Awaitable[Opinion]]) -> Opinion:
    found = judge()
    found = await found if inspect.isawaitable(found) else found
    return None if found is None else _read_verdict("The tool's judge", found)


async def _rule(call: ToolCall, state: QueryState, kit: Kit) -> Ruling:
    tool = kit.tools.get(call.name)
    senseless = _senseless(call, tool, state, kit)
    if senseless is not None:
        return senseless
    args = call.arguments
    if has_hooks(kit.hooks.before_tool, f"{state.step}:before:{call.id}", kit):
        args, blocked = await before_tool(call, state, kit)
        if blocked is not None:
            return blocked
    try:
        permission = await _permission(call, args, state, kit)
    except (SessionError, VerdictError):  # not written down, which is no fault of it; or a mistake in it
        raise
    except Exception as error:  # noqa: BLE001 - a permission function that fails must not let the call through
        return Ruling("deny", args, type(error).__name__, safe_str(error))
    if permission.behavior == "ask":  # nobody is asked about what would not be done anyway
        refusal = None if tool is None else await _refusal(call, tool, args, state, kit)
        if refusal is not None:
            kind, message = refusal
            return Ruling("deny", args, kind, message)
        if tool is None or call.name in state.permissions.always_allowed:
            permission = replace(permission, behavior="allow")
    if permission.behavior != "allow":
        await _tell(call, args, permission, state, kit)
    return state.rule(call, permission, args)


def _senseless(call: ToolCall, tool: Tool | None, state: QueryState, kit: Kit) -> Ruling | None:
    """The refusal of a call that need not be looked at: it goes round in circles, or was refused before."""
    polls = tool is not None and tool.polls
    kept = call if kit.redactor is None or kit.redactor.is_empty else as_recorded(call, kit.redactor)
    verdict = judge(state.doom, kept, kit.limits.doom_loop_threshold, polls=polls)
    if verdict.action != "run":
        if verdict.action == "stop":
            state.must_close = "doom_loop"
        what = kit.prompts.repetition(verdict.pattern, verdict.count, call.name)
        return Ruling(
            "deny", call.arguments, "RepeatedCall", kit.prompts.refused_repetition.format(what=what)
        )
    if call.invalid is not None:
        return Ruling("deny", {}, "InvalidArguments", kit.prompts.tool_arguments.format(problem=call.invalid))
    retries = state.tools.retries
    if retries and tool is not None and retries.get(call.name, 0) > tool.retries:
        return Ruling("deny", call.arguments, "RetriesUsedUp", say("retries_used_up"))
    denied = state.permissions.denied
    before = denied.get(call_key(call.name, call.arguments)) if denied else None
    if before is not None:
        reason = f"{before} {kit.prompts.tool_denied_before}".strip()
        return Ruling("deny", call.arguments, "PermissionDenied", reason)
    return None


async def _refusal(
    call: ToolCall, tool: Tool, args: dict[str, Any], state: QueryState, kit: Kit
) -> Sequence[str] | None:
    """The kind and the text of what is said of arguments that do not fit; None if they do.

    It is recorded: a replay may have no more of the tool than its schema.
    """
    key = f"{state.step}:refusal:{call.id}"
    found: Sequence[str] | None = None
    if not kit.journal.recorded(key):
        found = tool.refusal(args, kit.prompts)
        if found is None:
            return None

    async def said() -> list[str]:
        return list(found or ())

    return await kit.journal.effect(key, said)


async def _permission(call: ToolCall, args: dict[str, Any], state: QueryState, kit: Kit) -> Permission:
    suggested = await _suggest(call, args, state, kit, "first")
    if suggested.behavior == "deny":
        return suggested
    key = f"{state.step}:permit:{call.id}"
    if not kit.journal.recorded(key):
        if _is_answered(call, state, kit):  # a person has decided about it
            return replace(suggested, behavior="ask")
        if kit.can_use_tool is None:
            return suggested
    context = permission_context(call, suggested, state, kit)
    verdict = partial(_verdict, partial(kit.can_use_tool or gone, call.name, deepcopy(args), context))
    found = await kit.journal.effect(key, verdict)
    # It agreed to what was suggested, no more than that: arguments of its own are its own decision.
    agreed = found.behavior == "allow" and found.updated_args is None
    return replace(found, read_only=suggested.read_only) if agreed else found


async def _verdict(function: Callable[[], Any]) -> Permission:
    found = function()
    return _read_verdict("can_use_tool", await found if inspect.isawaitable(found) else found)


def _read_verdict(owner: str, found: object) -> Permission:
    try:
        permission = as_permission(found)
        if permission.updated_args is None:
            return permission
        return replace(permission, updated_args=to_arguments(permission.updated_args))
    except ConfigError as error:
        raise VerdictError(f"{owner} gave no decision. {error}") from None


async def _ask(call: ToolCall, ruling: Ruling, state: QueryState, kit: Kit) -> None:
    request = PermissionRequest(call.id, call.name, deepcopy(ruling.args), ruling.message, state.step)
    asked = partial(ask_person, request, kit)
    permission = await kit.journal.effect(f"{state.step}:ask:{call.id}", asked)
    if permission.behavior == "ask":
        return  # not answered now: the run is suspended
    ruling = state.rule(call, permission, ruling.args)
    await _tell(call, ruling.args, permission, state, kit)


async def ask_person(request: PermissionRequest, kit: Kit) -> Permission:
    """Ask a person. A function that is not async runs in a thread, because it will block."""
    ask = kit.on_ask
    assert ask is not None
    try:
        is_async = inspect.iscoroutinefunction(ask)
        found: Any = ask(request) if is_async else await run_in_thread(lambda: ask(request))
        found = await found if inspect.isawaitable(found) else found
    except Exception as error:  # noqa: BLE001 - whatever failed, nobody said yes
        found = Raised(error)
    if isinstance(found, Raised):
        return Permission(
            "deny", say("question_failed", error=safe_str(found.error) or type(found.error).__name__)
        )
    return _read_verdict("on_ask", found)


async def _tell(
    call: ToolCall, args: dict[str, Any], permission: Permission, state: QueryState, kit: Kit
) -> None:
    behavior, message = permission.behavior, permission.message
    await kit.emit(Event.permission(state.step, call.name, args, behavior, message, call.id))
