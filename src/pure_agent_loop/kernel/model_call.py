"""Asking the model: one answer, streamed, under retry, with a watch for silence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from pure_agent_loop.budget import price_for
from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import LLMError, SessionError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.doom import note_answer
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.overflow import as_overflow, is_of_one_request, make_room, note_length
from pure_agent_loop.kernel.part_events import AnswerParts
from pure_agent_loop.kernel.redacting import Veil
from pure_agent_loop.kernel.request import Request, build_request, is_typed, may_call
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.window import guess
from pure_agent_loop.llm.base import model_of, stream_of
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.llm.tokens import estimate_message, usage_of
from pure_agent_loop.llm.tool_modes.typed_answer import answered
from pure_agent_loop.llm.values import Delta, TokenUsage
from pure_agent_loop.output.wanted import PartialOutput
from pure_agent_loop.prompts.words import say
from pure_agent_loop.retry import RetryAttempt, RetryHandler
from pure_agent_loop.support.text import safe_str


async def respond(state: QueryState, kit: Kit) -> LLMResponse:
    """Ask for the next answer and take it into the state.

    A request that is refused as too long is shortened and sent again, once.

    Raises:
        LLMError: No answer could be had. What was written of it is kept only if the run was cancelled.
    """
    call, response = await _ask(state, kit)
    await call.parts.end("completed")
    await note_length(response, state, kit)
    usage = response.usage or usage_of(_prompt_tokens(state), response)
    cost = charge(usage, kit)
    _take_in(response, usage, cost, state, kit)
    said = note_answer(state.doom, response.content or "", kit.limits.doom_loop_threshold)
    if said.action == "stop" and not state.pending:
        state.must_close = "doom_loop"
    _count_calls(state, kit)
    await _tell(response, state.step, kit)
    await call.parts.open_calls()
    return response


def _count_calls(state: QueryState, kit: Kit) -> None:
    """Take the calls from what is left; those that are too many are refused before anybody is asked."""
    granted, most = len(state.pending), kit.limits.max_tool_calls
    if most is not None:
        granted = min(granted, max(0, most - state.ledger.tool_calls))
    if kit.budget is not None:
        granted = kit.budget.take_calls(granted)
    if too_many := state.pending[granted:]:
        state.permissions.refuse(too_many, say("no_calls_left"))


def _prompt_tokens(state: QueryState) -> int:
    """About the tokens of the request. Each message is looked at once in a run, not once a step."""
    system = {"role": "system", "content": state.system_prompt}
    lead = estimate_message(system) if state.system_prompt else 0
    return lead + state.context.estimate(state.messages)


def _take_in(response: LLMResponse, usage: TokenUsage, cost: float, state: QueryState, kit: Kit) -> None:
    guessed, before = guess(state, kit), len(state.messages)
    state.add_response(response, usage, cost=cost, tools_offered=may_call(state, kit) or not len(kit.tools))
    if is_of_one_request(response):
        state.context.note(usage, guessed, len(state.messages), kept=len(state.messages) > before)


async def _ask(state: QueryState, kit: Kit) -> tuple[_ModelCall, LLMResponse]:
    for key in ("model", "model:shortened"):
        call = _ModelCall(state, kit)
        try:
            return call, await call.answer(f"{state.step}:{key}")
        except LLMError as error:
            overflow = as_overflow(error, state, kit)
            if overflow is None:
                raise
            if not await make_room(state, kit):
                raise overflow from error.__cause__
            state.answers += 1  # the parts of the next one have names of their own
            await kit.emit(Event.retry(state.step, 1, 0.0, safe_str(overflow), call.shown))
    raise AssertionError("make_room says yes only once a step")


async def _tell(response: LLMResponse, step: int, kit: Kit) -> None:
    if response.reasoning_content and kit.emit_reasoning:
        await kit.emit(Event.reasoning(step, response.reasoning_content))
    if response.content:
        await kit.emit(Event.thought(step, response.content))


class _ModelCall:
    """One request and its repetitions."""

    def __init__(self, state: QueryState, kit: Kit) -> None:
        self.request = build_request(state, kit)
        self.parts = AnswerParts(state, kit)
        self.shown = False
        self._assembler = Assembler()
        self._veil = Veil(kit.redactor)
        self._is_typed = is_typed(state, kit)
        self._partial = self._new_partial(kit)
        self._state = state
        self._kit = kit

    def _new_partial(self, kit: Kit) -> PartialOutput | None:
        return kit.output.partial() if kit.output is not None and self._is_typed else None

    async def answer(self, key: str) -> LLMResponse:
        try:
            return await self._kit.journal.effect(key, self._run)
        except asyncio.CancelledError:
            partial = self._veil.whole(self._assembler.partial())
            cost = 0.0 if partial.usage is None else charge(partial.usage, self._kit)
            self._state.keep_partial(partial, cost=cost)
            await self.parts.end("error")
            raise
        except (LLMError, SessionError):
            await self.parts.end("error")
            raise
        except Exception as error:
            await self.parts.end("error")
            raise client_failure(error) from error

    async def _run(self) -> LLMResponse:
        handler = RetryHandler(self._kit.retry, self._kit.clock)
        return await handler.execute(self._once, on_retry=self._on_retry)

    async def _on_retry(self, attempt: RetryAttempt) -> None:
        discard, self.shown = self.shown, False
        self._assembler, self._veil = Assembler(), Veil(self._kit.redactor)
        self._partial = self._new_partial(self._kit)
        await self.parts.end("error")
        await tell_retry(attempt, self._state, self._kit, discard=discard)

    async def _once(self) -> LLMResponse:
        response = await listen(self.request, self._kit, self._assembler, self._show)
        if self._is_typed:
            response, text = answered(response)
            await self._show(Delta(text))
        await self._show_delta(self._veil.rest())
        return self._veil.whole(response)

    async def _show(self, delta: Delta) -> None:
        await self._show_delta(self._veil.over(delta))

    async def _show_delta(self, delta: Delta) -> None:
        emit, step = self._kit.emit, self._state.step
        if delta.notice:
            await emit(Event.notice(step, delta.notice))
        if delta.reasoning and self._kit.emit_reasoning:
            self.shown = True
            await self.parts.write("reasoning", delta.reasoning)
            await emit(Event.reasoning_delta(step, delta.reasoning))
        if delta.text:
            self.shown = True
            await self.parts.write("text", delta.text)
            await emit(Event.text_delta(step, delta.text))
        for part in delta.tool_calls:
            self.shown = True
            arguments = part.arguments if isinstance(part.arguments, str) else ""
            await emit(Event.tool_call_delta(step, part.index, part.name, arguments))
        if self._partial is not None:
            for output in self._partial.feed(delta):
                await emit(Event.partial_output(step, output))


def client_failure(error: Exception) -> LLMError:
    """What a client raised that is no error of a model."""
    return LLMError(f"The model client failed: {type(error).__name__}: {safe_str(error)}", error)


async def tell_retry(attempt: RetryAttempt, state: QueryState, kit: Kit, *, discard: bool) -> None:
    """Tell that a request is sent again; with `discard`, that what was shown of its answer does not count."""
    error = safe_str(attempt.error) or type(attempt.error).__name__
    await kit.emit(Event.retry(state.step, attempt.attempt, attempt.delay, error, discard))


_NOTHING = Delta()


async def listen(
    request: Request, kit: Kit, assembler: Assembler, show: Callable[[Delta], Awaitable[None]]
) -> LLMResponse:
    """Send a request once and read its answer.

    Args:
        kit: The client, and how long it may be silent.
        assembler: A new one; it holds what came so far if this is broken off.
        show: Called with each piece.

    Raises:
        LLMError: There was no whole answer, or silence for too long.
    """
    patience, begun = kit.timeouts.first_byte, False
    with Interrupt() as silence:
        silence.after(patience)
        stream = stream_of(kit.client, request.messages, request.tools, request.options)
        async with aclosing(stream) as deltas:
            async for delta in deltas:
                if begun and delta == _NOTHING:
                    continue  # keep-alives are no progress
                silence.after(None)  # a slow reader is not a silent server
                await show(assembler.feed(delta))
                patience, begun = kit.timeouts.idle, True
                silence.after(patience)
    if silence.fired:
        rest = "the rest" if begun else "the beginning"
        message = f"The server was silent for {patience:g} s while {rest} of its answer was awaited."
        raise LLMError(message, kind="timeout")
    await show(assembler.flush())
    return assembler.finish()


def charge(usage: TokenUsage, kit: Kit) -> float:
    """What a request cost; tokens and money go to the shared budget, at its own prices if it has any."""
    if kit.budget is None and not kit.limits.prices:
        return 0.0
    model = model_of(kit.client)
    own = price_for(kit.limits.prices, model)
    shared = None if kit.budget is None else price_for(kit.budget.prices, model)
    if kit.budget is not None:
        price = shared or own
        kit.budget.add(tokens=usage.total_tokens, cost=price.of(usage) if price else 0.0)
    price = own or shared
    return price.of(usage) if price else 0.0
