"""What functions of the user say about the words of a run: its system prompt, and its final answer."""

from __future__ import annotations

from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.support.text import clean_text, counted


async def correction(state: QueryState, kit: Kit) -> str:
    """What the model has to correct; empty if its answer can be taken.

    Raises:
        LLMError: It was corrected too often.
    """
    wanted = kit.output
    if wanted is None:
        return ""
    values: list[Any] = []

    async def judged() -> dict[str, Any]:
        plain, value = await wanted.judge(state.content)
        values.append(value)
        return plain

    said = await kit.journal.effect(f"{state.step}:output", judged)
    if "value" in said:
        state.output, state.live_output = said, values[0] if values else wanted.load(said["value"])
        return ""
    state.corrections += 1
    if state.corrections > wanted.retries:
        tried = counted(wanted.retries, "correction")
        raise LLMError(
            f"The answer was not of the form that was asked for, after {tried}: {said['why']}",
            kind="invalid_output",
        )
    return wanted.complaint(said["why"])


async def write_lead(state: QueryState, kit: Kit, *, begins: bool = False) -> None:
    """Have the system prompt written where a function does so: when a run begins, or in each step."""
    if kit.lead is not None and kit.lead_each_step is not begins:
        key = f"{state.step}:{'lead' if begins else 'lead_of_step'}"
        state.system_prompt = clean_text(str(await kit.journal.effect(key, kit.lead)))
