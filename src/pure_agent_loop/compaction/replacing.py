"""Replace a run's history with a shorter one, and emit the event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pure_agent_loop.compaction.cost import choose_cut, cut_at, rates_of
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.request import fixed_tokens, measure
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.tokens import Boundary, estimate_message

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import HistoryMessage


async def take_over(
    rung: str,
    messages: list[HistoryMessage],
    state: QueryState,
    kit: Kit,
    limit: int = 0,
    *,
    chooses: bool = False,
) -> bool:
    """Replace the history with a shorter one.

    Args:
        limit: Maximum tokens of the request; 0 for the current number.
        chooses: True to replace only the end of the history, after the cut that `choose_cut` returns.

    Returns:
        False if the new history would not be shorter, or not worth its cost. The history is then unchanged.
    """
    fixed, before = fixed_tokens(state, kit), measure(state, kit).tokens
    sizes, new_sizes = [*map(estimate_message, state.messages)], [*map(estimate_message, messages)]
    old = fixed + sum(sizes)
    room = int((limit or before) * old / max(1, before)) - fixed  # the limit converted to estimated tokens
    rounds = sum(message["role"] == "assistant" for message in state.messages)
    rates = rates_of(state.usage, kit.price())
    if chooses:
        cut = choose_cut(sizes, new_sizes, room, rounds, rates)
        if cut is None:
            return False
        messages = [*state.messages[: cut.start], *messages[cut.start :]]
        new_sizes = [*sizes[: cut.start], *new_sizes[cut.start :]]
    else:
        pairs = enumerate(zip(state.messages, messages, strict=False))
        start = next((at for at, (was, now) in pairs if was != now), min(len(sizes), len(new_sizes)))
        cut = cut_at(start, sizes, new_sizes, room, rounds, rates)
    new = fixed + sum(new_sizes)
    after = before * new // max(1, old)  # the server's last count, scaled by the estimates
    if new >= old or after >= before:
        return False
    counts = (len(state.messages), len(messages))
    boundary = Boundary(
        rung=rung,
        step=state.step,
        tokens_before=before,
        tokens_after=after,
        messages_before=counts[0],
        messages_after=counts[1],
    )
    state.replace_messages(messages, boundary)
    worth = (round(cut.cost), round(cut.saving))
    await kit.emit(Event.compaction(state.step, rung, (before, after), counts, worth))
    return True
