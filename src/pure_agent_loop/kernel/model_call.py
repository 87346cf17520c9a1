"""Asking the model: one answer, streamed, under retry, with a watch for silence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pure_agent_loop.budget import price_for
from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import LLMError, SessionError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.doom import note_answer
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.overflow import (
    as_overflow,
    counts_less,
    is_of_one_request,
    make_room,
    note_length,
)
from pure_agent_loop.kernel.part_events import AnswerParts
from pure_agent_loop.kernel.redacting import veil_of
from pure_agent_loop.kernel.request import Request, build_request, is_typed
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.window import guess
from pure_agent_loop.llm.base import model_of, stream_of
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.llm.tokens import estimate_message, usage_of
from pure_agent_loop.llm.tool_modes.typed_answer import answered
from pure_agent_loop.llm.values import NOTHING, Delta, TokenUsage
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
    for key in ("model", "model:shortened"):
        call = _ModelCall(state, kit)
        try:
            response = await call.answer(f"{call.step}:{key}")
            break
        except LLMError as error:
            await _shorten(error, call, state, kit)
    if call.parts.open is not None:
        await call.parts.end("completed")
    guessed = guess(state, call.request.tools)
    if counts_less(response, guessed):
        await note_length(response, guessed, state, kit)
    usage = response.usage or usage_of(_prompt_tokens(state), response)
    _take_in(response, usage, guessed, state, kit)
    said = note_answer(state.doom, response.content or "", kit.limits.doom_loop_threshold)
    if said.action == "stop" and not state.pending:
        state.must_close = "doom_loop"
    if kit.limits.max_tool_calls is not None or kit.budget is not None:
        _count_calls(state, kit)
    if response.reasoning_content and kit.emit_reasoning:
        await kit.emit(Event.reasoning(state.step, response.reasoning_content))
    if response.content:
        await kit.emit(Event.thought(state.step, response.content))
    if state.pending:
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


def _take_in(response: LLMResponse, usage: TokenUsage, guessed: int, state: QueryState, kit: Kit) -> None:
    before = len(state.messages)
    offered = kit.tool_rounds is None or state.tool_rounds < kit.tool_rounds or not kit.tools
    state.add_response(response, usage, cost=charge(usage, kit), tools_offered=offered)
    if is_of_one_request(response):
        state.context.note(usage, guessed, len(state.messages), kept=len(state.messages) > before)


async def _shorten(error: LLMError, call: _ModelCall, state: QueryState, kit: Kit) -> None:
    """A request failed: make room if it was too long, which is done once a step; else raise why."""
    state.window = 0  # a client may have learned it from this
    overflow = as_overflow(error, state, kit)
    if overflow is None:
        raise error
    if not await make_room(state, kit):
        raise overflow from error.__cause__
    state.answers += 1  # the parts of the next one have names of their own
    await kit.emit(Event.retry(state.step, 1, 0.0, safe_str(overflow), call.shown))


class _ModelCall:
    """One request and its repetitions."""

    def __init__(self, state: QueryState, kit: Kit) -> None:
        self.request = build_request(state, kit)
        self.parts = AnswerParts(state, kit)
        self.shown = False
        self._assembler = Assembler()
        self._veil = veil_of(kit.redactor)
        self._partial: PartialOutput | None = None
        self._is_typed = kit.output is not None and is_typed(state, kit)
        self._state, self._kit, self.step = state, kit, state.step
        if self._is_typed:
            self._begin_typed()

    def _begin_typed(self) -> None:
        self._partial = None if self._kit.output is None else self._kit.output.partial()

    async def answer(self, key: str) -> LLMResponse:
        try:
            return await self._kit.journal.effect(key, self._run)
        except asyncio.CancelledError:
            partial = self._assembler.partial()
            partial = partial if self._veil is None else self._veil.whole(partial)
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

    def _run(self) -> Awaitable[LLMResponse]:
        handler = RetryHandler(self._kit.retry, self._kit.clock)
        return handler.execute(self._once, on_retry=self._on_retry)

    async def _on_retry(self, attempt: RetryAttempt) -> None:
        discard, self.shown = self.shown, False
        self._assembler, self._veil = Assembler(), veil_of(self._kit.redactor)
        if self._is_typed:
            self._begin_typed()
        await self.parts.end("error")
        await tell_retry(attempt, self._state, self._kit, discard=discard)

    def _once(self) -> Awaitable[LLMResponse]:
        heard = listen(self.request, self._kit, self._assembler, self._show)
        return self._read(heard) if self._is_typed or self._veil is not None else heard

    async def _read(self, heard: Awaitable[LLMResponse]) -> LLMResponse:
        response = await heard
        if self._is_typed:
            response, text = answered(response)
            await self._show(Delta(text))
        if self._veil is None:
            return response
        await self._show_clean(self._veil.rest())
        return self._veil.whole(response)

    def _show(self, delta: Delta) -> Awaitable[None]:
        return self._show_clean(delta if self._veil is None else self._veil.over(delta))

    async def _show_clean(self, delta: Delta) -> None:
        emit, step = self._kit.emit, self.step
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
    watch = kit.silence if kit.silence is not None and kit.silence.is_free else Interrupt()
    with watch as silence:
        silence.after(patience)
        stream = stream_of(kit.client, request.messages, request.tools, request.options)
        try:
            async for delta in stream:
                if begun and delta == NOTHING:
                    continue  # keep-alives are no progress
                seen = assembler.feed(delta)
                if seen.text or seen.tool_calls or seen.reasoning or seen.notice:
                    silence.deadline = 0.0  # a slow reader is not a silent server
                    await show(seen)
                patience, begun = kit.timeouts.idle, True
                silence.after(patience)
        finally:
            await stream.aclose()
    if silence.fired:
        rest = "the rest" if begun else "the beginning"
        message = f"The server was silent for {patience:g} s while {rest} of its answer was awaited."
        raise LLMError(message, kind="timeout")
    if (held_back := assembler.flush()) != NOTHING:
        await show(held_back)
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
