"""The loop: the order of a step, and nothing else. Ways in and out are in the modules it names."""

from __future__ import annotations

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import LLMError, PureAgentLoopError
from pure_agent_loop.events import Event, EventType, StepEndEvent
from pure_agent_loop.kernel.equip import end_background, equipped, list_tools
from pure_agent_loop.kernel.kit import Kit, spend
from pure_agent_loop.kernel.model_call import respond
from pure_agent_loop.kernel.part_events import end_open_parts
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tools.hook_calls import wants_more
from pure_agent_loop.kernel.tools.tool_round import run_calls
from pure_agent_loop.kernel.typed_output import correction, write_lead
from pure_agent_loop.kernel.window import measure, next_usage
from pure_agent_loop.limits import LimitChecker, LimitResult
from pure_agent_loop.llm.base import model_of
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.stop_reasons import INVALID_OUTPUT, WAITING
from pure_agent_loop.support.language import speaking
from pure_agent_loop.support.text import safe_str


async def run_loop(state: QueryState, kit: Kit) -> None:
    """Drive `state` until it has a stop reason. Events go to ``kit.emit``; failures end in the state.

    Raises:
        asyncio.CancelledError: The task was cancelled from outside; the state is valid even then.
    """
    with speaking(kit.prompts):  # its tools and its judges, too
        checker = LimitChecker(kit.limits, state.ledger, kit.prompts, kit.clock, kit.budget)
        state.deadline, kit = checker.deadline, equipped(state, kit)
        try:
            await kit.emit(Event.loop_start(state.task, kit.name))
            with Interrupt() as block:
                block.on(kit.cancel_token)
                for notice in kit.opening:
                    await kit.emit(Event.notice(0, notice))
                await write_lead(state, kit, begins=True)
                while state.stop_reason is None and not _is_cancelled(kit):
                    await _take_step(state, kit, checker)
            if block.fired or _is_cancelled(kit):
                state.stop("cancelled")
        except Exception as error:  # noqa: BLE001 - whatever it is, it must reach the reader as an event
            await _fail(error, state, kit)
        except BaseException:  # cancelled, or the program is ending
            state.stop("cancelled")
            raise
        finally:
            checker.note_time()
            await _end(state, kit)


async def _take_step(state: QueryState, kit: Kit, checker: LimitChecker) -> None:
    if kit.tools.changes:
        await list_tools(state, kit)
    if not state.pending:  # else the run was resumed between an answer and its results
        if not state.awaiting:
            await _prepare(state, kit, checker)
            kit.journal.checkpoint(state)
            if state.stop_reason is not None:
                return
        response = await respond(state, kit)
        if not state.pending:
            state.finish(response, kit.prompts)
            await _look_for_more(state, kit)
    if state.pending:
        await run_calls(state, kit)
    if state.stop_reason not in WAITING:
        end = {"usage": state.usage.to_dict(), "context": measure(state, kit).to_dict()}
        await kit.emit(StepEndEvent(EventType.STEP_END, state.step, end))


async def _prepare(state: QueryState, kit: Kit, checker: LimitChecker) -> None:
    """May the run go on? Is there anything new? Does it fit?"""
    verdict, held = checker.check(), state.take_held() if state.held else []
    incoming = [*held, *kit.journal.take(kit.inbox)]
    if kit.after_tools and state.transition_reason == "tool_results":
        state.add_user(kit.after_tools, synthetic=True)
    for each in incoming:
        spend(each.spent, state, kit)
        state.add_user(each.text, synthetic=each.synthetic)
    reason, fits = _why_close(state, kit, checker, verdict)
    if not fits:
        state.end_unanswered(reason, kit.prompts)
        return
    if reason:
        state.begin_closing(reason, kit.prompts)
    state.begin_step()
    if kit.lead is not None:
        await write_lead(state, kit)
    if verdict.action == "warn" and not state.closing:
        state.add_user(verdict.prompt, synthetic=True)
        await kit.emit(Event.soft_limit(state.step, verdict.reason, verdict.prompt))
    for each in incoming:
        await kit.emit(Event.notice(state.step, each.text, synthetic=each.synthetic))
    await kit.compactor.compact(state)
    spent = checker.counts and checker.passed_by(TokenUsage.zero(), model_of(kit.client))
    if spent:  # by a summary
        state.end_unanswered(spent, kit.prompts)


def _why_close(state: QueryState, kit: Kit, checker: LimitChecker, verdict: LimitResult) -> tuple[str, bool]:
    """Why the next answer has to be the last one, if it has to, and whether there is room for it."""
    reason = state.must_close or (verdict.reason if verdict.action == "stop" else "")
    if not checker.counts:
        return reason, True
    model = model_of(kit.client)
    needed = next_usage(state, kit) if state.ledger.tokens else TokenUsage.zero()  # the first is always asked
    full = checker.passed_by(needed, model)
    if full:
        return reason or full, False
    if not reason and state.transition_reason == "tool_results":  # the last one for which there is room
        reason = checker.passed_by(needed + needed, model)
    return reason, True


async def _look_for_more(state: QueryState, kit: Kit) -> None:
    """The model has given its answer. A stop hook, or a message that has come in, sends it on."""
    if state.stop_reason != "completed":
        return
    try:
        wrong = await correction(state, kit)
        reason = wrong or await wants_more(state, kit)
        if not reason and kit.background is not None:
            await kit.background.wait()
    except BaseException:  # cancelled while something was still waited for: this was not the end
        state.stop_reason = None
        raise
    if reason:
        state.go_on(reason, "correction" if wrong else "stop_hook", synthetic=True)
        await kit.emit(Event.notice(state.step, reason, synthetic=True))
        return
    incoming = [*state.take_held(at_end=True), *kit.journal.take(kit.inbox, at_end=True)]
    for number, each in enumerate(incoming):
        spend(each.spent, state, kit)
        if number == 0:
            state.go_on(each.text, "follow_up", synthetic=each.synthetic)
        else:
            state.add_user(each.text, synthetic=each.synthetic)
        await kit.emit(Event.notice(state.step, each.text, synthetic=each.synthetic))


async def _fail(error: Exception, state: QueryState, kit: Kit) -> None:
    """A failure ends the run; while the last answer after a limit is asked for, the limit is the reason."""
    message = safe_str(error) if isinstance(error, LLMError) else f"{type(error).__name__}: {safe_str(error)}"
    kind = error.kind if isinstance(error, LLMError) else "unknown"
    state.failure = error
    state.stop(state.closing or (INVALID_OUTPUT if kind == INVALID_OUTPUT else "error"))
    await kit.emit(Event.error(state.step, message, fatal=not state.closing, kind=kind))


async def _end(state: QueryState, kit: Kit) -> None:
    """Whatever the end is: every call gets its result, unless the run only waits for one of them."""
    await end_background(state, kit)
    if state.stop_reason in WAITING:
        state.held += kit.journal.take(kit.inbox, at_end=True)
    else:
        state.close(kit.prompts.tool_not_started)
        await end_open_parts(state, kit)
    try:
        kit.journal.checkpoint(state)
    except PureAgentLoopError as error:  # what was recorded before holds; the run itself has ended
        if state.failure is None:  # else it was said already
            message = f"{type(error).__name__}: {safe_str(error)}"
            await kit.emit(Event.error(state.step, message, fatal=False, kind="unknown"))
    history = state.history(kit.prompts.tool_waiting)
    await kit.emit(Event.loop_end(state.step, str(state.stop_reason), state.content, history))


def _is_cancelled(kit: Kit) -> bool:
    return kit.cancel_token is not None and kit.cancel_token.is_cancelled
