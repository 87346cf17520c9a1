"""What a step costs, in calls that Python makes: exact, whatever else the machine does."""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from typing import Any

import pytest

from pure_agent_loop import Agent, BaseLLMClient, LLMResponse, LoopLimits, TokenUsage, ToolCall, tool
from pure_agent_loop.support.secrets.redaction import Redactor

STEPS = 50
# As measured. Who needs more says what for; who needs less writes that down, too.
MOST_CALLS = {"none": 585, "default": 682, "secrets": 744}
FREE = LoopLimits(max_steps=None, timeout=None, max_tokens=None, doom_loop_threshold=None)


class Counting(BaseLLMClient):
    """Asks for a tool so many times, then answers."""

    def __init__(self) -> None:
        self._numbers = count(1)

    async def chat(self, messages: list[Any], tools: Any = None, **kwargs: Any) -> LLMResponse:
        number, usage = next(self._numbers), TokenUsage(10, 5, 15)
        if number % (STEPS + 1) == 0:
            return LLMResponse("done", [], usage)
        return LLMResponse(None, [ToolCall(f"c{number}", "add", {"a": number, "b": 1})], usage)


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def calls_of_a_step(limits: LoopLimits, secrets: list[str]) -> float:
    """Python's calls, of its own functions and of built-in ones, in a run of many steps."""
    known = Redactor(secrets, env={})  # the secrets of who runs this would be looked for, too
    agent, calls = Agent(llm=Counting(), tools=[add], limits=limits, redact=known), 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    async def measured() -> None:
        await agent.arun("x")  # what is made once
        sys.setprofile(note)
        try:
            result = await agent.arun("x")
        finally:
            sys.setprofile(None)
        assert result.steps == STEPS + 1

    asyncio.run(measured())
    return calls / STEPS


@pytest.mark.parametrize("given", MOST_CALLS)
def test_a_step_costs_no_more_calls_than_it_did(given):
    """What nobody uses costs nothing: an agent with one tool, no session, no typed answer."""
    most = MOST_CALLS[given] * (1 if sys.version_info[:2] == (3, 11) else 1.1)  # asyncio's own calls differ
    limits = LoopLimits() if given == "default" else FREE
    secrets = ["sk-one-that-is-known-0123456789"] if given == "secrets" else []
    assert min(calls_of_a_step(limits, secrets) for _ in range(2)) <= most  # at first, modules may be loaded
