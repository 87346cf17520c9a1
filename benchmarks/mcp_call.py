"""What a call over stdio costs: the bare client of the MCP SDK, `MCPServer`, and a tool in a run.

    python -m benchmarks.mcp_call [--calls 500] [--rounds 5]

The server is a Python program of the SDK whose tool adds two numbers; it is the same for all. The rows take
turns for some rounds, and each figure is over all calls of all rounds, in milliseconds.

- bare: ``Client.call_tool`` of the SDK over its own stdio transport
- busy: the same after 3 ms of work, which is what a step of a run takes of the processor: where other
  programs want it too, who has worked waits longer for it
- ours: ``MCPServer.call``, with our transport, which bounds what comes in
- run: the time from the action to the observation in a run of an agent, as its event tells it
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable

from pure_agent_loop import Agent, EventType, LoopLimits
from pure_agent_loop.mcp import MCPServer
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.tool import StepContext

SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("adds")
@server.tool()
def add(a: int, b: int) -> int:
    "Adds."
    return a + b
server.run()
"""
STEP_SECONDS = 0.003
COMMAND = [sys.executable, "-c", SERVER]


async def timed(count: int, one: Callable[[], Awaitable[object]], work: float = 0.0) -> list[float]:
    """Return the milliseconds of each call, with a number of seconds of work before each."""
    found = []
    for _ in range(count):
        until = time.perf_counter() + work
        while time.perf_counter() < until:
            pass
        begun = time.perf_counter()
        await one()
        found.append((time.perf_counter() - begun) * 1000)
    return found


async def in_run(server: MCPServer, count: int) -> list[float]:
    """Return the milliseconds of each call of a run."""
    script = [call("mcp__adds__add", a=number, b=1) for number in range(count)]
    limits = LoopLimits(max_turns=count + 1, max_tokens=None)
    agent = Agent(llm=ScriptedLLM([*script, "done"]), tools=[server], limits=limits)
    result = await agent.arun("Add.")
    seen = [each for each in result.events if each.type is EventType.OBSERVATION]
    assert len(seen) == count, result.stop_reason
    return [each.data["duration"] * 1000 for each in seen]


async def measure(calls: int, rounds: int) -> dict[str, list[float]]:
    """Return all figures by row."""
    from mcp.client.stdio import StdioServerParameters

    from mcp import Client

    rows: dict[str, list[float]] = {"bare": [], "busy": [], "ours": [], "run": []}
    bare = Client(StdioServerParameters(command=COMMAND[0], args=COMMAND[1:]))
    async with bare, MCPServer(COMMAND, name="adds", pinned=False) as server:
        await server.list(StepContext())
        for number in range(rounds + 1):
            found = {
                "bare": await timed(calls, lambda: bare.call_tool("add", {"a": 1, "b": 2})),
                "busy": await timed(calls, lambda: bare.call_tool("add", {"a": 1, "b": 2}), STEP_SECONDS),
                "ours": await timed(calls, lambda: server.call("add", {"a": 1, "b": 2})),
                "run": await in_run(server, calls),
            }
            for name, figures in found.items():
                rows[name] += figures if number else []  # the first round warms up
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows = asyncio.run(measure(options.calls, options.rounds))
    print(f"{'row':6} {'median':>8} {'p95':>8} {'p99':>8}  ms, {options.calls * options.rounds} calls each")
    for name, figures in rows.items():
        cuts = statistics.quantiles(figures, n=100)
        print(f"{name:6} {cuts[49]:8.2f} {cuts[94]:8.2f} {cuts[98]:8.2f}")


if __name__ == "__main__":
    import os

    os.environ["PAL_HOME"] = tempfile.mkdtemp()
    main()
