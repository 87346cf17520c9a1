"""Check an answer before it ends the run: its type, the stop hooks, and newly arrived messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.events import Event
from pure_agent_loop.hooks import HookContext, call_hook
from pure_agent_loop.kernel.kit import Kit, spend
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.step import Step
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import as_text, counted


async def look_for_more(step: Step) -> None:
    """After an answer, continue the run if a correction, a stop hook or a new message requires this."""
    state, kit = step.state, step.kit
    if state.stop_reason != "completed":
        return
    try:
        wrong = await _correction(state, kit)
        reason = wrong or await _stop_hooks(step)
        if not reason and kit.background is not None:
            await kit.background.wait()
    except BaseException:  # cancelled while waiting for background work, so the run has not completed
        state.stop_reason = None
        raise
    if reason:
        state.go_on(reason, "correction" if wrong else "stop_hook", synthetic=True)
        await kit.emit(Event.notice(state.step, reason, synthetic=True))
        return
    incoming = [*state.take_held(at_end=True), *kit.journal.take(kit.inbox, at_end=True)]
    for number, received in enumerate(incoming):
        spend(received.spent, state, kit)
        if number == 0:
            state.go_on(received.text, "follow_up", synthetic=received.synthetic)
        else:
            state.add_user(received.text, synthetic=received.synthetic)
        await kit.emit(Event.notice(state.step, received.text, synthetic=received.synthetic))


async def _correction(state: QueryState, kit: Kit) -> str:
    """Return the correction request for the model; empty if its answer is accepted.

    Raises:
        LLMError: The answer is still wrong after the last correction.
    """
    output = kit.output
    if output is None:
        return ""
    values: list[object] = []

    async def judged() -> dict[str, Any]:
        plain, value = await output.judge(state.content)
        values.append(value)
        return plain

    verdict = await kit.journal.effect(f"{state.step}:output", judged)
    if "value" in verdict:
        state.output, state.live_output = verdict, values[0] if values else output.load(verdict["value"])
        return ""
    state.corrections += 1
    if state.corrections > output.retries:
        attempts = counted(output.retries, "correction")
        raise LLMError(
            f"The answer does not have the requested form after {attempts}: {verdict['why']}",
            kind="invalid_output",
        )
    return model_text("correct_answer", why=verdict["why"])


async def _stop_hooks(step: Step) -> str:
    """Return the remaining work that a stop hook reports; empty if the run may end."""
    hooks = step.kit.hooks
    if step.state.stop_hook_count >= hooks.max_stops:
        return ""
    on_stop: Sequence[Callable[..., Any]] = hooks.on_stop
    for number, hook in enumerate(on_stop):
        run = partial(call_hook, hook, step.state.content, HookContext(step.number))
        effect = step.kit.journal.effect(f"{step.number}:stop:{number}", run)
        request = await step.or_notice("A stop hook", effect)
        if request:
            return as_text(request)
    return ""
