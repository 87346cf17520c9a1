"""The loop of a run: the order of its steps, and how it fails and ends."""

from __future__ import annotations

from typing import Any

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import LimitExceededError, LLMError, PureAgentLoopError
from pure_agent_loop.events import Event, EventType, StepEndEvent
from pure_agent_loop.kernel.answers import look_for_more
from pure_agent_loop.kernel.bind import (
    bind_kit,
    end_background,
    list_tools,
    start_notices_of,
    write_facts,
    write_system_prompt,
)
from pure_agent_loop.kernel.calls import run_calls
from pure_agent_loop.kernel.checks import check_made, check_price
from pure_agent_loop.kernel.kit import Kit, shorten, spend
from pure_agent_loop.kernel.model_call import respond
from pure_agent_loop.kernel.request import measure, next_usage
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.step import Step
from pure_agent_loop.limits import LimitChecker, LimitResult, number_of
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.stop_reasons import BACKGROUNDED, INVALID_OUTPUT, LIMITS, WAITING
from pure_agent_loop.support.explained import explain
from pure_agent_loop.support.failures import current_redactor, log_failure, logging_without
from pure_agent_loop.support.language import use_messages
from pure_agent_loop.support.text import safe_str


async def run_loop(state: QueryState, kit: Kit) -> None:
    """Drive `state` until it has a stop reason. Events go to ``kit.emit``, failures into the state.

    Raises:
        asyncio.CancelledError: The task was cancelled from outside; the state is valid even then.
    """
    if kit.redactor is not None and (outer := current_redactor()) is not None:  # a run inside another run
        outer.joined(kit.redactor.joined(outer))
    state.permissions.is_guarded |= kit.permissions.mode == "guard"
    # Tools and permission functions inherit the messages and the redaction.
    with use_messages(kit.prompts), logging_without(kit.redactor):
        checker = LimitChecker(kit.limits, state.ledger, kit.prompts, kit.clock, kit.budget)
        state.deadline, kit = checker.deadline, bind_kit(state, kit)
        try:
            await kit.emit(Event.loop_start(state.task, kit.name))
            with Interrupt() as block:
                block.on(kit.cancel_token)
                block.on(kit.leave)
                for notice in await start_notices_of(kit):
                    await kit.emit(notice)
                check_price(kit)
                if kit.deps is not None:
                    check_made(kit)
                await write_system_prompt(state, kit, begins=True)
                if kit.facts is not None and not state.pending:  # results of pending calls must precede facts
                    await write_facts(state, kit.facts, kit.journal)
                while state.stop_reason is None and not _is_cancelled(kit) and not _leaves_before(state, kit):
                    await _take_step(state, kit, checker)
            if _is_cancelled(kit):
                state.stop("cancelled")
            elif _leaves(kit) and state.stop_reason in (None, *WAITING):
                state.stop_reason = BACKGROUNDED
        except Exception as error:  # noqa: BLE001 - any failure must become an event
            await _fail(error, state, kit)
        except BaseException:  # cancelled, or the program is exiting
            state.stop("cancelled")
            raise
        finally:
            checker.note_time()
            await _end(state, kit)


async def _take_step(state: QueryState, kit: Kit, checker: LimitChecker) -> None:
    if kit.tools.changes:
        await list_tools(state, kit)
    if not (state.pending or state.awaiting):  # with pending calls, the run was resumed in mid-step
        await _prepare(state, kit, checker)
        kit.journal.checkpoint(state)
        if state.stop_reason is not None or _leaves(kit):
            return
    step, response = Step(state, kit), None
    if not state.pending:
        response = await respond(step)
        if not state.pending:
            state.finish(response, kit.prompts)
            await look_for_more(step)
    if state.pending:
        await run_calls(step)
    if state.stop_reason not in WAITING:
        end: dict[str, Any] = {"usage": state.usage.to_dict(), "context": measure(state, kit).to_dict()}
        if state.step_usage is not None:
            end["step_usage"] = state.step_usage.to_dict()
        if response is not None and (response.served or response.token_details):
            plain = response.to_dict()
            end |= {name: plain[name] for name in ("served", "token_details") if name in plain}
        await kit.emit(StepEndEvent(EventType.STEP_END, state.step, end))


async def _prepare(state: QueryState, kit: Kit, checker: LimitChecker) -> None:
    """Prepare a step: check limits, take messages, fit the history."""
    verdict, held = checker.check(), state.take_held() if state.held else []
    incoming = [*held, *kit.journal.take(kit.inbox)]
    if kit.after_tools and state.transition_reason == "tool_results":
        state.add_user(kit.after_tools, synthetic=True)
    for received in incoming:
        spend(received.spent, state, kit)
        state.add_user(received.text, synthetic=received.synthetic)
    reason, fits = _why_close(state, kit, checker, verdict)
    if not fits:
        state.end_unanswered(reason, kit.prompts, number_of(kit.limits, reason))
        return
    if reason:
        state.begin_closing(reason, kit.prompts, number_of(kit.limits, reason))
    state.begin_step()
    if kit.lead is not None:
        await write_system_prompt(state, kit)
    if verdict.action == "warn" and not state.closing:
        state.add_user(verdict.prompt, synthetic=True)
        await kit.emit(Event.soft_limit(state.step, verdict.reason, verdict.prompt))
    for received in incoming:
        await kit.emit(Event.notice(state.step, received.text, synthetic=received.synthetic))
    tokens, before = state.ledger.tokens, state.messages
    await shorten(kit.compactor.compact(state), state, kit)
    if kit.facts is not None and state.facts_due:
        await write_facts(state, kit.facts, kit.journal, compacted=state.messages is not before)
    # The compactor may have used tokens for a summary, and other runs may have used the shared budget.
    may_exceed = state.ledger.tokens != tokens or kit.budget is not None
    if may_exceed and (spent := checker.passed_by(TokenUsage.zero(), kit.model)):
        state.end_unanswered(spent, kit.prompts, number_of(kit.limits, spent))


def _why_close(state: QueryState, kit: Kit, checker: LimitChecker, verdict: LimitResult) -> tuple[str, bool]:
    """Return the reason to ask for a last answer (empty if none), and whether it would fit the limits."""
    reason = state.must_close or (verdict.reason if verdict.action == "stop" else "")
    if not checker.counts:
        return reason, True
    model = kit.model
    # The first request is always sent.
    needed = next_usage(state, kit) if state.ledger.tokens else TokenUsage.zero()
    full = checker.passed_by(needed, model)
    if full:
        return reason or full, False
    # Reserve room for a last answer: if two more requests would exceed a limit, this one must be the last.
    if not reason and state.transition_reason == "tool_results":
        reason = checker.passed_by(needed + needed, model)
    return reason, True


async def _fail(error: Exception, state: QueryState, kit: Kit) -> None:
    """End the run with a failure; if the last request after a limit failed, the limit is the stop reason."""
    if kit.redactor is not None:
        kit.redactor.clean_error(error)
    message = safe_str(error) if isinstance(error, LLMError) else f"{type(error).__name__}: {safe_str(error)}"
    kind = error.kind if isinstance(error, LLMError) else "unknown"
    if not isinstance(error, PureAgentLoopError):
        log_failure("The run", error)
    limit, note = (error.limit_type, error.note) if isinstance(error, LimitExceededError) else ("", "")
    if limit in LIMITS and not state.closing:
        state.end_unanswered(limit, kit.prompts, number_of(kit.limits, limit), note)
    state.failure = error
    state.stop(state.closing or (INVALID_OUTPUT if kind == INVALID_OUTPUT else "error"))
    fatal = not (state.closing or limit in LIMITS)
    await kit.emit(Event.error(state.step, message, fatal, kind, **explain(error)._asdict()))


async def _end(state: QueryState, kit: Kit) -> None:
    """End the run, and give every call a result unless the run is waiting for an answer or a result."""
    if state.stop_reason == BACKGROUNDED:  # record the inbox, because another process will continue the run
        kit.journal.take(kit.inbox, at_end=True)
    await end_background(state, kit)
    if state.stop_reason in WAITING:
        state.held += kit.journal.take(kit.inbox, at_end=True)
    else:
        state.close(kit.prompts.tool_not_started)
        await Step(state, kit).end_parts()
    try:
        kit.journal.checkpoint(state)
    except PureAgentLoopError as error:  # earlier records remain valid; the run has ended
        if state.failure is None:  # if set, the error event was already emitted
            message = f"{type(error).__name__}: {safe_str(error)}"
            await kit.emit(Event.error(state.step, message, fatal=False, kind="unknown"))
    history = state.history(kit.prompts.tool_waiting)
    await kit.emit(Event.loop_end(state.step, str(state.stop_reason), state.content, history))


def _leaves(kit: Kit) -> bool:
    return kit.leave is not None and kit.leave.hand_over is not None


def _leaves_before(state: QueryState, kit: Kit) -> bool:
    """Return True if another process is to send the next request; everything before it has been recorded."""
    return state.awaiting and _leaves(kit)


def _is_cancelled(kit: Kit) -> bool:
    return kit.cancel_token is not None and kit.cancel_token.is_cancelled
