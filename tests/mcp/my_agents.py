"""Agents that `pal mcp --agents` serves in the tests."""

from __future__ import annotations

from pure_agent_loop import Agent, RunContext, tool
from pure_agent_loop.testing import ScriptedLLM, call


@tool(read_only=True)
def look(ctx: RunContext) -> str:
    """Looks."""
    ctx.progress("looking")
    return "seen"


@tool
def harm() -> str:
    """Does harm."""
    return "harmed"


def answer(messages, tools, _):
    last = messages[-1]
    return call(last["content"]) if last["role"] == "user" else f"It said: {last['content'][:200]}"


helper = Agent(
    llm=ScriptedLLM(answer, strict=False), tools=[look, harm], description="Helps.", permission_mode="ask"
)
agents = {"helper": helper}
