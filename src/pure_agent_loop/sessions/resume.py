"""Starting a run in a session: where it stands, and what became of a run that was cut off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pure_agent_loop.errors import ConfigError, SessionReadError
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.permission_ledger import PermissionLedger
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tools.ledger import ToolLedger
from pure_agent_loop.llm.tokens import estimate_usage
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.runs.handoff import handed_state, in_charge
from pure_agent_loop.runs.start import RunInput, resumed_state, start_state
from pure_agent_loop.schema.outcome import failed
from pure_agent_loop.sessions import default_store
from pure_agent_loop.sessions.effects import decode, read_effect
from pure_agent_loop.sessions.run_record import describe
from pure_agent_loop.sessions.store import SessionLog, SessionStore
from pure_agent_loop.sessions.transcript import Past, SessionJournal, read_past
from pure_agent_loop.support.text import as_text
from pure_agent_loop.tool import ToolOutcome


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that is open for a run.

    Args:
        state: Where the run starts.
        notices: What people should know: repairs, a run that was cut off.
        journal: Where the run writes.
        kit: What it works with: another agent may be in charge.
    """

    state: QueryState
    notices: list[str]
    journal: SessionJournal
    kit: Kit


def begin_in_session(
    kit: Kit, given: RunInput, store: SessionStore | None, session_id: str
) -> tuple[QueryState, Kit]:
    """The state and the kit of a run that is kept in a session, which is open from then on; see `begin_run`.

    Raises:
        ConfigError: These do not fit together.
        HistoryError: Its `messages` are no list of messages.
        SessionError: The session cannot be opened.
    """
    if given.state is not None:
        raise ConfigError("state and session_id were both given. The session has its own state.")
    opened = open_session(store or default_store(), session_id, given, kit)
    opening = (*opened.kit.opening, *opened.notices)
    return opened.state, replace(opened.kit, opening=opening, journal=opened.journal)


def open_session(store: SessionStore, session_id: str, given: RunInput, kit: Kit) -> Opened:
    """Open a session, and make the state to go on from.

    Args:
        store: Where sessions are kept.
        session_id: Which one; a new one is made if there is none of that name.

    Raises:
        ConfigError: The id cannot be one, or there is nothing to go on with.
        SessionLockedError: Another run writes this session; it says who.
        SessionReadError: The session cannot be read at all.
        SessionWriteError: Nothing can be written there.
    """
    log = store.open(session_id)
    try:
        opened = _opened(log, given, kit)
    except BaseException:
        log.close()
        raise
    opened.journal.store = store
    return opened


def _opened(log: SessionLog, given: RunInput, kit: Kit) -> Opened:
    past = read_past(log.records)
    if past.wrong:
        raise SessionReadError(
            f"Session {log.session_id!r} cannot be read: {'; '.join(past.wrong)}. So nobody knows what was "
            "done; fork it from a step before (SessionManager.fork), or begin a new one."
        )
    notices = (
        [f"The session {log.session_id!r} was damaged: {'; '.join(log.problems)}."] if log.problems else []
    )
    is_new = past.state is None
    state, more = first_state(past, log.session_id, given, kit.prompts)
    kit, names = in_charge(given.first, kit, state, new_task=given.task is not None)
    journal = SessionJournal(log, past, lambda tool: unknown_outcome(kit.prompts, tool), kit.redactor)
    history = {"history": state.messages[:-1]} if is_new and len(state.messages) > 1 else {}
    shown = {
        **({"media": list(given.media)} if given.media else {}),
        **({"in_charge": names} if names else {}),
    }
    journal.begin(
        {"task": given.task, "system_prompt": state.system_prompt, **describe(kit), **history, **shown}
    )
    return Opened(state, [*notices, *more], journal, kit)


def first_state(
    past: Past, session_id: str, given: RunInput, prompts: Prompts
) -> tuple[QueryState, list[str]]:
    """Where a run starts, and notices about it.

    Args:
        past: What the session holds; effects that are of no use any more are taken out.

    Raises:
        ConfigError: There is nothing to go on with.
    """
    old = past.to_state()
    notices: list[str] = []
    if given.task is None and past.begun is not None and past.begun.get("handoff"):
        if old is None:
            raise SessionReadError(f"Session {session_id!r} cannot be read: it was handed over by nobody.")
        history = past.begun.get("history", old.messages)
        state = handed_state(old, str(past.begun.get("system_prompt", "")), history)
        state.session_id = session_id
        return state, notices
    if given.task is None and past.begun is not None:  # it was cut off before anything was written of it
        given = recorded_input(past.begun)
    if old is None:
        if given.task is None:
            raise ConfigError(f"The session {session_id!r} has nothing to go on with: give it a task.")
        state, notices = start_state(given.task, given.messages, given.system_prompt, prompts, given.media)
    elif given.task is None:
        state, notices = resumed_state(None, old, prompts)
    else:
        if past.was_cut_off:
            notices.append(f"The last run of {session_id!r} was cut off; what it had done is kept.")
            settle(old, past, prompts)
            past.effects, past.intents = {}, {}
        state, repairs = resumed_state(None, old, prompts)
        state = _with_task(state, given.task, prompts, given.media)
        notices += repairs
    state.session_id = session_id
    return state, notices


def recorded_input(run: Mapping[str, Any]) -> RunInput:
    """What a run began with, from its record."""
    found = run.get("media")
    media = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return RunInput(run["task"], run.get("history"), run.get("system_prompt", ""), media=media)


def unknown_outcome(prompts: Prompts, tool: str) -> ToolOutcome:
    """What the model is told about a call that was running when the program ended."""
    return failed(prompts, tool, "Unknown", prompts.tool_interrupted)


def settle(state: QueryState, past: Past, prompts: Prompts) -> None:
    """Put what a run had recorded when it was cut off into its state, without running anything.

    Args:
        state: Where its newest checkpoint left it; is changed.
        prompts: The words for calls of which no result is known.
    """
    step = state.step
    answered = past.effects.get(f"{step}:model") or past.effects.get(f"{step}:model:shortened")
    if state.awaiting and answered is not None:
        response = read_effect(f"{step}:model", *answered)
        usage = response.usage or estimate_usage(state.messages, response)
        state.add_response(response, usage)
    for call in list(state.pending):
        key = f"{step}:tool:{call.id}"
        if call.id in state.results:
            continue
        if key in past.effects:
            outcome = read_effect(key, *past.effects[key])
            text = _seen(outcome.text, f"{step}:after:{call.id}", past, prompts)
            state.add_result(call.id, text, outcome.parts if text == outcome.text else None)
        elif key in past.unfinished:
            state.add_result(call.id, unknown_outcome(prompts, call.name).text)
        else:
            state.add_result(call.id, prompts.tool_not_started)
    state.stop("cancelled")


def _seen(text: str, key: str, past: Past, prompts: Prompts) -> str:
    """A result as the hooks left it. What they have not seen is kept back: they may be there for that."""
    for number in range(past.after_hooks):
        found = past.effects.get(f"{key}:{number}")
        if found is None:
            return prompts.tool_cancelled
        changed = decode(*found)
        text = text if changed is None else as_text(changed)
    return text


def _with_task(state: QueryState, task: str, prompts: Prompts, media: Sequence[dict[str, Any]]) -> QueryState:
    """A new run in the same history: what is known stays, what was counted starts again."""
    state.close(prompts.tool_not_started)
    new = QueryState(
        system_prompt=state.system_prompt,
        messages=state.messages,
        task=task,
        answers=state.answers,
        permissions=PermissionLedger(always_allowed=state.permissions.always_allowed),
        held=state.held,
        handed_to=state.handed_to,
        tools=ToolLedger(found=state.tools.found),
    )
    new.add_user(task, media)
    return new
