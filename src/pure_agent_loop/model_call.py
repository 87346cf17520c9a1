"""Asking the model: one answer, streamed, under retry, with a watch for silence."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from pure_agent_loop.budget import price_for
from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.context import Request, build_request
from pure_agent_loop.doom import note_answer
from pure_agent_loop.errors import LLMError, SessionError
from pure_agent_loop.events import Event
from pure_agent_loop.kit import Kit
from pure_agent_loop.llm.base import stream_of
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.llm.values import Delta, TokenUsage
from pure_agent_loop.part_events import AnswerParts
from pure_agent_loop.retry import RetryAttempt, RetryHandler
from pure_agent_loop.state import QueryState
from pure_agent_loop.text import safe_str
from pure_agent_loop.tokens import estimate_usage

_NOTHING = Delta()


async def respond(state: QueryState, kit: Kit) -> LLMResponse:
    """Ask for the next answer and take it into the state.

    Raises:
        LLMError: No answer could be had. What was written of it is kept only if the run was cancelled.
    """
    request = build_request(state, kit)
    parts = AnswerParts(state, kit)
    call = _ModelCall(state.step, request, kit, parts)
    try:
        response = await kit.journal.effect(f"{state.step}:model", call.run)
    except asyncio.CancelledError:
        partial = call.assembler.partial()
        state.keep_partial(partial, cost=0.0 if partial.usage is None else _count(partial.usage, kit))
        await parts.end("error")
        raise
    except (LLMError, SessionError):
        await parts.end("error")
        raise
    except Exception as error:
        await parts.end("error")
        raise LLMError(
            f"The model client failed: {type(error).__name__}: {safe_str(error)}", error
        ) from error
    await parts.end("completed")
    usage = response.usage or estimate_usage(request.messages, response)
    cost = _count(usage, kit)
    state.add_response(
        response, usage, cost=cost, tools_offered=request.tools is not None or not len(kit.tools)
    )
    said = note_answer(state.doom, response.content or "", kit.limits.doom_loop_threshold)
    if said.action == "stop" and not state.pending:
        state.must_close = "doom_loop"
    if kit.budget is not None:
        kit.budget.add(tool_calls=len(state.pending))
    await _tell(response, state.step, kit)
    await parts.open_calls()
    return response


def _count(usage: TokenUsage, kit: Kit) -> float:
    """What an answer costs; tokens and money go to the shared budget, at its own prices if it has any."""
    model = str(getattr(kit.client, "model", ""))
    own = price_for(kit.limits.prices, model)
    shared = None if kit.budget is None else price_for(kit.budget.prices, model)
    if kit.budget is not None:
        price = shared or own
        kit.budget.add(tokens=usage.total_tokens, cost=price.of(usage) if price else 0.0)
    price = own or shared
    return price.of(usage) if price else 0.0


async def _tell(response: LLMResponse, step: int, kit: Kit) -> None:
    if response.reasoning_content and kit.emit_reasoning:
        await kit.emit(Event.reasoning(step, response.reasoning_content))
    if response.content:
        await kit.emit(Event.thought(step, response.content))


class _ModelCall:
    """One request and its repetitions."""

    def __init__(self, step: int, request: Request, kit: Kit, parts: AnswerParts) -> None:
        self.assembler = Assembler()
        self._step = step
        self._request = request
        self._kit = kit
        self._parts = parts
        self._shown = False

    async def run(self) -> LLMResponse:
        handler = RetryHandler(self._kit.retry, self._kit.clock)
        return await handler.execute(self._once, on_retry=self._on_retry)

    async def _on_retry(self, attempt: RetryAttempt) -> None:
        discard, self._shown = self._shown, False
        self.assembler = Assembler()
        await self._parts.end("error")
        error = safe_str(attempt.error) or type(attempt.error).__name__
        await self._kit.emit(Event.retry(self._step, attempt.attempt, attempt.delay, error, discard))

    async def _once(self) -> LLMResponse:
        kit, request = self._kit, self._request
        patience, begun = kit.first_byte_timeout, False
        with Interrupt() as silence:
            silence.after(patience)
            stream = stream_of(kit.client, request.messages, request.tools, request.options)
            async with aclosing(stream) as deltas:
                async for delta in deltas:
                    if begun and delta == _NOTHING:
                        continue  # keep-alives are no progress
                    silence.after(None)  # a slow reader is not a silent server
                    await self._show(self.assembler.feed(delta))
                    patience, begun = kit.idle_timeout, True
                    silence.after(patience)
        if silence.fired:
            rest = "the rest" if begun else "the beginning"
            message = f"The server was silent for {patience:g} s while {rest} of its answer was awaited."
            raise LLMError(message, kind="timeout")
        await self._show(self.assembler.flush())
        return self.assembler.finish()

    async def _show(self, delta: Delta) -> None:
        emit, step = self._kit.emit, self._step
        if delta.notice:
            await emit(Event.notice(step, delta.notice))
        if delta.reasoning and self._kit.emit_reasoning:
            self._shown = True
            await self._parts.write("reasoning", delta.reasoning)
            await emit(Event.reasoning_delta(step, delta.reasoning))
        if delta.text:
            self._shown = True
            await self._parts.write("text", delta.text)
            await emit(Event.text_delta(step, delta.text))
        for part in delta.tool_calls:
            self._shown = True
            arguments = part.arguments if isinstance(part.arguments, str) else ""
            await emit(Event.tool_call_delta(step, part.index, part.name, arguments))
