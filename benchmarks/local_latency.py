"""Compare the time of a small model for a call with a plain request with tools on the same server.

    python -m benchmarks.local_latency [--model NAME_OR_PATH] [--questions 20] [--max-tokens 128]
    python -m benchmarks.local_latency --base-url URL --model NAME [--sets simple_python,multiple,starter]

Fixed random parts of public sets, in which each question has tools of its own; and ``starter``: the held-out
questions of `local_tools` with the three starter tools, as in an agent, which keeps its tools. Every question
is asked in every way in turn, so that other work on the machine disturbs all alike. A first question is not
counted: it fills the server's cache, as in any longer use.

- ``native``: the tools in the request, as any server gets them.
- ``schema``: one request, held to the schema of the tool's arguments; without any other help.
- ``ours``: ``tool_mode="json"``, as the embedded model has it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.bfcl.package import ensure_package
from benchmarks.bfcl.questions import load_questions, pick
from benchmarks.bfcl.runner import requests_of
from benchmarks.local_tools import HELD_OUT
from pure_agent_loop.llm.base import BaseLLMClient
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.local.client import open_local
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.tool import ToolRegistry
from pure_agent_loop.toolbox import starter_tools

WARM_UP, SEED = 1, 1
STARTER = "starter"
Asked = tuple[list[dict[str, Any]], list[dict[str, Any]]]  # messages and tools
Row = tuple[float, int, int, int, int]


class Schema(BaseLLMClient):
    """A client that requests the arguments of the first tool as JSON, in a plain request.

    Args:
        inner: The client of the server.
    """

    def __init__(self, inner: BaseLLMClient) -> None:
        self._inner = inner

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        """Ask for JSON under the tool's schema."""
        function = (tools or [{}])[0]["function"]
        system = {"role": "system", "content": f"{function['name']}: {function['description']} Write JSON."}
        held = {"name": "arguments", "schema": function["parameters"]}
        form = {"type": "json_schema", "json_schema": held}
        return await self._inner.chat([system, *messages], None, **kwargs, response_format=form)


async def measure(client: BaseLLMClient, asked: Asked, max_tokens: int) -> Row:
    """Seconds, tokens read, of these in the server's cache, tokens written, and requests for one question."""
    started = time.monotonic()
    response = await client.chat(*asked, temperature=0, max_tokens=max_tokens)
    seconds = time.monotonic() - started
    usage, requests = response.usage, requests_of(response)
    counts = (usage.prompt_tokens, usage.cached_tokens or 0, usage.completion_tokens) if usage else (0, 0, 0)
    return seconds, *counts, 1 if requests is None else requests


async def compare(client: BaseLLMClient, name: str, questions: list[Asked], max_tokens: int) -> None:
    """Ask each question in each way, and print the table."""
    registry = ToolRegistry(starter_tools(Path(tempfile.gettempdir()))) if name == STARTER else None
    examples = {} if registry is None else {"examples": registry.examples_of}
    ways: dict[str, BaseLLMClient] = {
        "native": client,
        "schema": Schema(client),
        "ours": ToolModeClient(client, "json", ENGLISH, **examples),
    }
    found: dict[str, list[Row]] = {way: [] for way in ways}
    for asked in questions:
        for way, asks in ways.items():
            found[way].append(await measure(asks, asked, max_tokens))
    heads = "s median | to native | s p95 | to native | tokens read | in the cache | written | requests"
    print(f"\n| {name} (n={len(questions) - WARM_UP}) | {heads} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    base = _times(found["native"])
    for way, rows in found.items():
        median, p95 = _times(rows)
        times = f"{median:.2f} | {median / base[0]:.2f} | {p95:.2f} | {p95 / base[1]:.2f}"
        _, read, cached, written, requests = (
            statistics.mean(row) for row in zip(*rows[WARM_UP:], strict=True)
        )
        print(f"| {way} | {times} | {read:.0f} | {cached:.0f} | {written:.0f} | {requests:.1f} |", flush=True)


def _times(rows: list[Row]) -> tuple[float, float]:
    """Return the median and 95th percentile of the seconds."""
    seconds = sorted(row[0] for row in rows[WARM_UP:])
    return statistics.median(seconds), seconds[int(0.95 * (len(seconds) - 1))]


def questions_of(name: str, count: int) -> list[Asked]:
    """Return the questions of a set, preceded by one for warming up."""
    if name == STARTER:
        tools = ToolRegistry(starter_tools(Path(tempfile.gettempdir()))).to_openai_schema()
        needing = [question.text for question in HELD_OUT if question.tool]
        return [([{"role": "user", "content": text}], tools) for text in needing[: count + WARM_UP]]
    picked = pick(load_questions(ensure_package(), name), count + WARM_UP, SEED)
    return [(question.messages, question.tools) for question in picked]


async def run(client: BaseLLMClient, sets: list[str], count: int, max_tokens: int) -> None:
    """Compare, and release the server."""
    try:
        # First, because a server closes idle connections.
        every = [(name, questions_of(name, count)) for name in sets]
        for name, questions in every:
            await compare(client, name, questions, max_tokens)
    finally:
        await client.aclose()


def main() -> None:
    """Parse the options, start or join the server, and compare."""
    parser = argparse.ArgumentParser(description="How long a call of a small model takes.")
    parser.add_argument("--model", help="a name, or the path of a .gguf file (default: the embedded one)")
    parser.add_argument("--base-url", help="a server that has the model")
    parser.add_argument("--sets", default=f"simple_python,multiple,{STARTER}")
    parser.add_argument("--questions", type=int, default=20, help="how many of each (default: 20)")
    parser.add_argument("--max-tokens", type=int, default=128, help="limit of each answer (default: 128)")
    args = parser.parse_args()
    client: BaseLLMClient
    if args.base_url:
        client = OpenAIClient(args.model or "local", api_key="none", base_url=args.base_url)
    else:
        client = open_local(args.model, print)
    asyncio.run(run(client, args.sets.split(","), args.questions, args.max_tokens))


if __name__ == "__main__":
    main()
