"""Start a run in a session: restore its state, and apply the recorded effects of an interrupted run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pure_agent_loop.errors import ConfigError, SessionReadError
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.results import changed_arguments_note
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tool_ledger import ToolLedger
from pure_agent_loop.llm.tokens import estimate_usage
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.runs.handoff import handed_state, resolve_handoff
from pure_agent_loop.runs.run import RunInput, resumed_state, start_state
from pure_agent_loop.schema.outcome import failed
from pure_agent_loop.sessions.run_record import describe
from pure_agent_loop.sessions.store import SessionLog, SessionStore, opening_lock, tail_option
from pure_agent_loop.sessions.stores.records import dicts_in
from pure_agent_loop.sessions.transcript import (
    ResumePoint,
    SessionJournal,
    ask_key,
    decode,
    read_effect,
    read_resume_point,
)
from pure_agent_loop.stop_reasons import SUSPENDED
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import as_text
from pure_agent_loop.tool import ToolOutcome


def begin_in_session(
    kit: Kit, run_input: RunInput, store: SessionStore, session_id: str
) -> tuple[QueryState, Kit]:
    """Open the session of a run, and return the run's first state and kit; see `runs.run.begin`.

    Args:
        kit: Kit of the caller's agent; the session may have been handed over to another agent.
        session_id: Id of the session; it is created if missing.

    Raises:
        ConfigError: The id is invalid, the input conflicts with the session, or there is nothing to resume.
        HistoryError: `messages` is not a list of messages.
        SessionLockedError: Another run is writing this session; the error names that run's process.
        SessionReadError: The session cannot be read at all.
        SessionWriteError: The session cannot be written.
    """
    if run_input.state is not None:
        raise ConfigError("state cannot be combined with session_id: the session has its own state.")
    with opening_lock(session_id):
        log = store.open(session_id, **tail_option(store.open))
    try:
        return _begin(log, store, run_input, kit)
    except BaseException:
        log.close()
        raise


def _begin(log: SessionLog, store: SessionStore, run_input: RunInput, kit: Kit) -> tuple[QueryState, Kit]:
    point = read_resume_point(log.records, log.session_id)
    if point.unreadable:
        raise SessionReadError(
            notice("library.session_unreadable", session_id=log.session_id, point="; ".join(point.unreadable))
        )
    if run_input.task is None and point.left:
        raise ConfigError(notice("library.run_left", session_id=log.session_id, run=point.left))
    notices = [f"Session {log.session_id!r} was damaged: {'; '.join(log.problems)}."] if log.problems else []
    is_new = point.state is None
    state, state_notices = first_state(point, log.session_id, run_input, kit.prompts)
    kit, names = resolve_handoff(run_input.first, kit, state, new_task=run_input.task is not None)
    journal = SessionJournal(log, point, lambda tool: unknown_outcome(kit.prompts, tool), kit.redactor)
    journal.store = store
    # The record includes the first system message, so that a replay starts with the same messages.
    lead = [] if state.own_prompt is None else [{"role": "system", "content": state.own_prompt}]
    earlier = [*lead, *state.messages[:-1]]
    history = {"history": earlier} if is_new and earlier else {}
    extras = {
        **({"media": list(run_input.media)} if run_input.media else {}),
        **({"in_charge": names} if names else {}),
    }
    journal.begin(
        {"task": run_input.task, "system_prompt": state.system_prompt, **describe(kit), **history, **extras}
    )
    start_notices = (*kit.start_notices, *notices, *state_notices)
    return state, replace(kit, start_notices=start_notices, journal=journal)


def first_state(
    point: ResumePoint, session_id: str, run_input: RunInput, prompts: Prompts
) -> tuple[QueryState, list[str]]:
    """Return the first state of a run, and notices.

    Args:
        point: Resume point of the session; recorded effects that are applied here are removed from the point.

    Raises:
        ConfigError: There is no task and nothing to resume, or `messages` was passed for a session that has
            begun.
    """
    previous = point.to_state()
    if run_input.messages and (previous is not None or point.started_run is not None):
        raise ConfigError(
            f"messages ({len(run_input.messages)}) cannot be passed: session {session_id!r} has begun and "
            "has its own history. Leave messages out, or use a new session_id."
        )
    notices: list[str] = []
    if run_input.task is None and point.started_run is not None and point.started_run.get("handoff"):
        if previous is None:
            raise SessionReadError(f"Session {session_id!r} cannot be read: handoff without a state.")
        history = point.started_run.get("history", previous.messages)
        state = handed_state(previous, str(point.started_run.get("system_prompt", "")), history)
        state.session_id = session_id
        return state, notices
    # The run was interrupted before its first checkpoint.
    if run_input.task is None and point.started_run is not None:
        run_input = recorded_input(point.started_run)
    if previous is None:
        if run_input.task is None:
            raise ConfigError(notice("library.nothing_to_resume", session_id=session_id))
        state, notices = start_state(
            run_input.task, run_input.messages, run_input.system_prompt, prompts, run_input.media
        )
    elif run_input.task is None:
        state, notices = resumed_state(None, previous, prompts)
    else:
        _reject_if_allowed(point, previous, session_id)
        open_questions = [
            each for each in previous.questions if ask_key(each.step, each.call_id) not in point.effects
        ]
        if previous.stop_reason == SUSPENDED and open_questions:
            tools = ", ".join(each.tool for each in open_questions)
            notices.append(f"The new task denied calls that waited for approval in {session_id!r}: {tools}.")
        if point.was_cut_off:
            cut_off = f"The last run of {session_id!r} was interrupted; its recorded work is kept."
            notices += [] if point.left else [cut_off]
            apply_recorded_effects(previous, point, prompts)
            point.effects, point.intents = {}, {}
        state, repairs = resumed_state(None, previous, prompts)
        state = _with_new_task(state, run_input.task, prompts, run_input.media)
        notices += repairs
    state.session_id = session_id
    return state, notices


def _reject_if_allowed(point: ResumePoint, state: QueryState, session_id: str) -> None:
    """Reject a new task if a person has allowed a call that has not begun: that approval must be honoured.

    A new task counts as a denial of unanswered questions: "no, and do this instead".
    """
    call = _allowed_call(point, state)
    if call is not None:
        raise ConfigError(notice("library.call_not_run", session_id=session_id, name=call.name))


def _allowed_call(point: ResumePoint, state: QueryState) -> ToolCall | None:
    """Return a call that a person has allowed since the run was suspended; None if there is none."""
    for call in state.pending if state.stop_reason == SUSPENDED else ():
        key = ask_key(state.step, call.id)
        is_new = key in point.effects and key in point.unused_answers
        answer = read_effect(key, *point.effects[key]) if is_new else None
        if answer is not None and answer.behavior == "allow":
            return call
    return None


def has_allowed_call(store: SessionStore, session_id: str) -> bool:
    """Return True if a suspended session has a call that was allowed and has not begun.

    Raises:
        SessionError: The session cannot be read.
    """
    point = read_resume_point(store.read(session_id).records, session_id)
    state = point.to_state()
    return state is not None and _allowed_call(point, state) is not None


def recorded_input(run: Mapping[str, Any]) -> RunInput:
    """Return the input of a run from its record."""
    media = dicts_in(run, "media")
    return RunInput(run["task"], run.get("history"), run.get("system_prompt", ""), media=media)


def unknown_outcome(prompts: Prompts, tool: str) -> ToolOutcome:
    """Return the outcome of a call that was running when its process ended."""
    return failed(prompts, tool, "Unknown", prompts.tool_interrupted, hint=False)


def apply_recorded_effects(state: QueryState, point: ResumePoint, prompts: Prompts) -> None:
    """Apply the recorded effects of an interrupted run to its state, without running anything.

    Args:
        state: State of the newest checkpoint; it is changed.
        prompts: Texts for calls without a known result.
    """
    step = state.step
    answered = point.effects.get(f"{step}:model") or point.effects.get(f"{step}:model:shortened")
    if state.awaiting and answered is not None:
        response = read_effect(f"{step}:model", *answered)
        state.add_response(response, response.usage or estimate_usage(state.messages, response))
        if response.spent is not None:
            state.count(response.spent)
    for call in list(state.pending):
        key = f"{step}:tool:{call.id}"
        if call.id in state.results:
            continue
        if key in point.effects:
            outcome = read_effect(key, *point.effects[key])
            text = _text_after_hooks(outcome.text, f"{step}:after:{call.id}", point, prompts)
            parts = outcome.parts if text == outcome.text else None
            args = point.intents.get(key, {}).get("args", call.arguments)
            if args != call.arguments:
                text += changed_arguments_note(args, None)
            state.add_result(call.id, text, parts, failed=outcome.is_error)
        elif key in point.unfinished:
            state.add_result(call.id, unknown_outcome(prompts, call.name).text, failed=True)
        else:
            state.add_result(call.id, prompts.tool_not_started, failed=True)
    state.stop("cancelled")


def _text_after_hooks(text: str, key: str, point: ResumePoint, prompts: Prompts) -> str:
    """Return a result as the recorded hooks changed it; withhold it if some hooks have not processed it."""
    for number in range(point.after_hooks):
        recorded = point.effects.get(f"{key}:{number}")
        if recorded is None:
            return prompts.tool_cancelled
        changed = decode(*recorded)
        text = text if changed is None else as_text(changed)
    return text


def _with_new_task(
    state: QueryState, task: str, prompts: Prompts, media: Sequence[dict[str, Any]]
) -> QueryState:
    """Start a new run on the same history: approvals and found tools are kept, counters restart."""
    state.close(prompts.tool_not_started)
    new = QueryState(
        system_prompt=state.system_prompt,
        own_prompt=state.own_prompt,
        messages=state.messages,
        task=task,
        answers=state.answers,
        permissions=state.permissions.for_next(),
        held=state.held,
        handed_to=state.handed_to,
        tools=ToolLedger(found=state.tools.found),
    )
    new.add_task(task, media)
    return new
