"""Taking a shorter history over, and telling about it."""

from __future__ import annotations

from pure_agent_loop.compaction.shape import estimate
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.window import fixed_tokens, measure
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.llm.tokens import Boundary


async def take_over(
    rung: str, messages: list[Message], state: QueryState, kit: Kit, least: float = 0.0
) -> bool:
    """Put a history into the place of the old one, if it is shorter by enough.

    Args:
        least: So many tokens it must save.

    Returns:
        False if it is not; nothing has changed then.
    """
    fixed, before = fixed_tokens(state, kit), measure(state, kit).tokens
    old, new = fixed + state.context.estimate(state.messages), fixed + estimate(messages)
    after = before * new // max(1, old)  # what a server counts is scaled, not mixed with what we guess
    if new >= old or after >= before or before - after < least:
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
    await kit.emit(Event.compaction(state.step, rung, (before, after), counts))
    return True
