"""Calling the user's hooks; see `hooks` for what they may do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NoReturn

from pure_agent_loop.errors import ConfigError, SessionError
from pure_agent_loop.events import Event
from pure_agent_loop.hooks import BeforeTool, HookContext
from pure_agent_loop.inbox import Incoming
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.permission_ledger import Ruling, to_arguments
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.prompts.words import say
from pure_agent_loop.support.text import as_text, safe_str


async def gone(*_: Any) -> NoReturn:
    """Stands where a function was in an earlier process; what that said is recorded."""
    raise AssertionError("It is recorded, so nobody is asked.")


def _each(
    hooks: Sequence[Callable[..., Any]], about: str, kit: Kit
) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The hooks and their keys; also those that an earlier process had, if what they said is recorded."""
    number = 0
    while number < len(hooks) or kit.journal.recorded(f"{about}:{number}"):
        yield f"{about}:{number}", hooks[number] if number < len(hooks) else gone
        number += 1


def has_hooks(hooks: Sequence[Callable[..., Any]], about: str, kit: Kit) -> bool:
    """True if there are some, or if what some said in an earlier process is recorded."""
    return bool(hooks) or kit.journal.recorded(f"{about}:0")


async def before_tool(
    call: ToolCall, state: QueryState, kit: Kit, *, has_begun: bool = False
) -> tuple[dict[str, Any], Ruling | None]:
    """The arguments that the hooks leave, and their refusal if there is one.

    Args:
        has_begun: It is too late to ask a hook; what one said before the call began is taken.
    """
    args, hooks = call.arguments, () if has_begun else kit.hooks.before_tool
    about = f"{state.step}:before:{call.id}"
    context = HookContext(state.step, call.id)
    for key, hook in _each(hooks, about, kit):
        try:
            asked = partial(_checked_call, partial(hook, call.name, deepcopy(args), context))
            wanted = await kit.journal.effect(key, asked)
            args = args if wanted.args is None else to_arguments(wanted.args)
        except SessionError:  # it could not be written down; that is not the hook's fault
            raise
        except Exception as error:  # noqa: BLE001 - a hook that fails must not let the call through
            return args, Ruling("deny", args, type(error).__name__, say("hook_failed", error=safe_str(error)))
        if wanted.context:  # it is held, not put into the inbox: it is part of the state then
            state.held.append(Incoming(as_text(wanted.context), synthetic=True))
        if wanted.block:
            return args, Ruling("deny", args, "Blocked", as_text(wanted.block))
    return args, None


async def _called(hook: Callable[[], Any]) -> Any:
    found = hook()
    return await found if inspect.isawaitable(found) else found


async def _checked_call(hook: Callable[[], Any]) -> BeforeTool:
    return _checked(await _called(hook))


def _checked(wanted: object) -> BeforeTool:
    if wanted is None:
        return BeforeTool()
    if not isinstance(wanted, BeforeTool):
        raise ConfigError(say("no_before_tool", value=f"{wanted!r:.80}"))
    return wanted


async def after_tool(call: ToolCall, text: str, state: QueryState, kit: Kit) -> str:
    """The result as the hooks leave it."""
    hooks, about = kit.hooks.after_tool, f"{state.step}:after:{call.id}"
    context = HookContext(state.step, call.id)
    for key, hook in _each(hooks, about, kit):
        found = partial(hook, call.name, call.arguments, text, context)
        changed = await _survive(f"A hook after {call.name}", key, found, state, kit)
        text = text if changed is None else as_text(changed)
    return text


async def wants_more(state: QueryState, kit: Kit) -> str:
    """What the stop hooks still want the agent to do; empty lets it end."""
    if state.stop_hook_count >= kit.hooks.max_stops:
        return ""
    hooks: Sequence[Callable[..., Any]] = kit.hooks.on_stop
    for number, hook in enumerate(hooks):
        found = partial(hook, state.content, HookContext(state.step))
        wanted = await _survive("A stop hook", f"{state.step}:stop:{number}", found, state, kit)
        if wanted:
            return as_text(wanted)
    return ""


async def _survive(what: str, key: str, hook: Callable[[], Any], state: QueryState, kit: Kit) -> Any:
    """What a hook says; None if it fails, because neither a result nor an answer may get lost."""
    try:
        return await kit.journal.effect(key, partial(_called, hook))
    except SessionError:
        raise
    except Exception as error:  # noqa: BLE001 - a foreign function may raise anything
        message = f"{what} failed: {type(error).__name__}: {safe_str(error)}"
        await kit.emit(Event.notice(state.step, message))
        return None
