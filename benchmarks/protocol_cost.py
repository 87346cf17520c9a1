"""Compare what a step costs in each protocol with chat completions: Python calls and CPU time.

    python -m benchmarks.protocol_cost [--steps 50,300] [--rounds 5] [--http httpx,aiohttp] [--thought TEXT]

A run has one tool, is streamed, and asks a server in another process that writes each answer at once, with
TEXT as its thinking. Calls are the profiler's, exact whatever else the machine does, in runs of 50 steps. CPU
time is the least of the rounds, which take turns; only ratios within one table mean anything.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time

from tests.kernel import test_cost

from pure_agent_loop import Agent, AnthropicClient, BaseLLMClient, GeminiClient, OpenAIClient, ResponsesClient
from pure_agent_loop.llm.http.choice import HTTP_VARIABLE


def clients_for(port: int) -> dict[str, BaseLLMClient]:
    """Return a client of each protocol."""
    url = f"http://127.0.0.1:{port}"
    return {
        "chat completions": OpenAIClient("m", "k", f"{url}/v1"),
        "Messages": AnthropicClient("claude-opus-4-6", "k", url),
        "Messages, bound thinking": AnthropicClient("claude-fable-5-2", "k", url),
        "Responses": ResponsesClient("m", "k", f"{url}/v1"),
        "Gemini": GeminiClient("gemini-3-flash", "k", url),
    }


def seconds_of_a_step(client: BaseLLMClient, steps: int) -> float:
    """Return the CPU seconds of a step of a run."""
    agent = Agent(llm=client, tools=[test_cost.add], limits=test_cost.FREE)

    async def measured() -> float:
        begun = time.process_time()
        result = await agent.arun("x")
        assert result.steps == steps + 1, result.error
        return (time.process_time() - begun) / steps

    return asyncio.run(measured())


def main() -> None:
    """Measure, and print a table for each HTTP library."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", default="50,300", help="steps of the runs whose CPU time is measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--http", default="httpx,aiohttp")
    parser.add_argument("--thought", default="", help="thinking in each answer")
    options = parser.parse_args()
    for http in options.http.split(","):
        os.environ[HTTP_VARIABLE] = http
        table: dict[str, list[float]] = {}
        with test_cost.answering(thought=options.thought) as port:
            for name, client in clients_for(port).items():
                counted = [test_cost.calls_of_a_step(client, test_cost.FREE, []) for _ in range(3)]
                table[name] = list(map(min, *counted))
        for steps in map(int, options.steps.split(",")):
            with test_cost.answering(steps, options.thought) as port:
                clients = clients_for(port)
                taken: dict[str, list[float]] = {name: [] for name in clients}
                for _ in range(options.rounds):
                    for name, client in clients.items():
                        taken[name].append(seconds_of_a_step(client, steps))
                for name, seconds in taken.items():
                    table[name].append(min(seconds) * 1e6)
        heads = [f"CPU us at {steps} steps" for steps in options.steps.split(",")]
        print(f"\n{http} | calls a step | of ours | {' | '.join(heads)}")
        base = next(iter(table.values()))
        for name, values in table.items():
            cells = [f"{value:,.0f} ({value / first:.2f})" for value, first in zip(values, base, strict=True)]
            print(f"{name} | {' | '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
