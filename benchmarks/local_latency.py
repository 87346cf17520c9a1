"""How long the embedded model takes for a call, beside a plain request with tools on the same server.

    python -m benchmarks.local_latency [--model NAME_OR_PATH] [--questions 20] [--max-tokens 128]

A fixed random part of the public set ``simple_python``. Every way is asked all of them, one after another,
after a first question that is not counted: it fills the server's cache, as in any longer use. The machine
should have nothing else to do.

- ``native``: the tools in the request, as any server gets them.
- ``schema``: one request, held to the schema of the tool's arguments; without any other help.
- ``ours``: ``tool_mode="json"``, as the embedded model has it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from typing import Any

from pure_agent_loop.evaluation.bfcl import Question, load_questions, pick
from pure_agent_loop.evaluation.package import ensure_package
from pure_agent_loop.evaluation.runner import requests_of
from pure_agent_loop.llm.base import BaseLLMClient
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.local.client import open_local
from pure_agent_loop.prompts import ENGLISH

WARM_UP, SEED = 1, 1


class Schema(BaseLLMClient):
    """The arguments of the first tool as JSON, from a plain request.

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


async def measure(client: BaseLLMClient, questions: list[Question], max_tokens: int) -> list[Any]:
    """Seconds, tokens read and written, and requests for each question."""
    rows = []
    for question in questions:
        started = time.monotonic()
        response = await client.chat(question.messages, question.tools, temperature=0, max_tokens=max_tokens)
        seconds = time.monotonic() - started
        usage, requests = response.usage, requests_of(response)
        read, written = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
        rows.append((seconds, read, written, 1 if requests is None else requests))
    return rows[WARM_UP:]


async def compare(client: BaseLLMClient, questions: list[Question], max_tokens: int) -> None:
    """Ask every way, and write the table."""
    ways: dict[str, BaseLLMClient] = {
        "native": client,
        "schema": Schema(client),
        "ours": ToolModeClient(client, "json", ENGLISH),
    }
    found = {name: await measure(way, questions, max_tokens) for name, way in ways.items()}
    base = statistics.median(row[0] for row in found["native"])
    print("| way | s median | s p95 | to native | tokens read | written | requests |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, rows in found.items():
        median = statistics.median(row[0] for row in rows)
        _, read, written, requests = (statistics.mean(column) for column in zip(*rows, strict=True))
        p95 = sorted(row[0] for row in rows)[int(0.95 * (len(rows) - 1))]
        times = f"{median:.2f} | {p95:.2f} | {median / base:.2f}"
        print(f"| {name} | {times} | {read:.0f} | {written:.0f} | {requests:.1f} |")


async def run(client: BaseLLMClient, questions: list[Question], max_tokens: int) -> None:
    """Compare, and let go of the server."""
    try:
        await compare(client, questions, max_tokens)
    finally:
        await client.aclose()


def main() -> None:
    """Read the options, start the server, compare."""
    parser = argparse.ArgumentParser(description="How long a call of the embedded model takes.")
    parser.add_argument("--model", help="a name, or the path of a .gguf file (default: the embedded one)")
    parser.add_argument("--questions", type=int, default=20, help="how many (default: 20)")
    parser.add_argument("--max-tokens", type=int, default=128, help="limit of each answer (default: 128)")
    args = parser.parse_args()
    questions = pick(load_questions(ensure_package(), "simple_python"), args.questions + WARM_UP, SEED)
    asyncio.run(run(open_local(args.model, print), questions, args.max_tokens))


if __name__ == "__main__":
    main()
