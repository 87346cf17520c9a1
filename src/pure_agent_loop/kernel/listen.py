"""Listening to one answer of the model, with a watch for silence; and what a request costs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing

from pure_agent_loop.budget import price_for
from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import LLMError
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.request import Request
from pure_agent_loop.llm.base import model_of, stream_of
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.llm.values import Delta, TokenUsage

_NOTHING = Delta()


async def listen(
    request: Request, kit: Kit, assembler: Assembler, show: Callable[[Delta], Awaitable[None]]
) -> LLMResponse:
    """Send a request once and read its answer.

    Args:
        request: What is asked.
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
    model = model_of(kit.client)
    own = price_for(kit.limits.prices, model)
    shared = None if kit.budget is None else price_for(kit.budget.prices, model)
    if kit.budget is not None:
        price = shared or own
        kit.budget.add(tokens=usage.total_tokens, cost=price.of(usage) if price else 0.0)
    price = own or shared
    return price.of(usage) if price else 0.0
