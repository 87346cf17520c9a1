"""Measure what tracing costs a step, without and with a provider.

    python -m benchmarks.tracing_cost [--rounds 5] [--steps 200]

Each row is a process of its own. A step is a request to a model that answers at once, and a call of a tool.
`CPU` is what the process used for the run, exporting included, over its steps; the least of the rounds.
`calls` is how many calls Python makes in the run's thread, which is exact. The exporter sends to a server of
this machine, which accepts everything and runs in a separate process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from typing import Any

ROWS = ("off", "no provider", "in memory", "OTLP", "OTLP, content")


class Sink(BaseHTTPRequestHandler):
    """Takes everything."""

    def do_POST(self) -> None:
        """Take it."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve() -> None:
    """Run the server."""
    server = HTTPServer(("127.0.0.1", 0), Sink)
    print(server.server_port, flush=True)
    server.serve_forever()


def provide(row: str) -> Any:
    """Configure tracing for a row; return the provider to flush at the end."""
    from pure_agent_loop.otel import instrument

    if row == "off":
        return None
    instrument(content=row.endswith("content"))
    if row == "no provider":
        return None
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    provider = TracerProvider()
    if row == "in memory":
        provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider


def measure(row: str, steps: int) -> dict[str, float]:
    """Measure one row in this process."""
    from pure_agent_loop import Agent, BaseLLMClient, LLMResponse, LoopLimits, TokenUsage, ToolCall
    from pure_agent_loop.support.secrets.redaction import Redactor

    class Quick(BaseLLMClient):
        def __init__(self) -> None:
            self._numbers = count(1)

        async def chat(self, *_: Any, **__: Any) -> LLMResponse:
            number = next(self._numbers)
            usage = TokenUsage(10, 5, 15)
            if number % (steps + 1) == 0:
                return LLMResponse("done", [], usage)
            return LLMResponse(None, [ToolCall(f"c{number}", "add", {"a": number, "b": 1})], usage)

    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    provider = provide(row)
    limits = LoopLimits(max_steps=None, timeout=None, max_tokens=None, doom_loop_threshold=None)
    agent = Agent(llm=Quick(), tools=[add], limits=limits, name="a", redact=Redactor(env={}))
    calls = 0

    def note(_: Any, event: str, __: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    async def work() -> float:
        await agent.arun("x")
        begun = time.process_time()
        await agent.arun("x")
        if provider is not None:
            provider.force_flush()
        used = time.process_time() - begun
        sys.setprofile(note)
        try:
            await agent.arun("x")
        finally:
            sys.setprofile(None)
        return used

    used = asyncio.run(work())
    if provider is not None:
        provider.shutdown()
    return {"cpu": used / steps, "calls": calls / steps}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--row")
    options = parser.parse_args()
    if options.row == "serve":
        serve()
        return
    if options.row:
        print(json.dumps(measure(options.row, options.steps)))
        return
    this = [sys.executable, "-m", "benchmarks.tracing_cost", "--steps", str(options.steps), "--row"]
    with subprocess.Popen([*this, "serve"], stdout=subprocess.PIPE, text=True) as sink:
        try:
            assert sink.stdout is not None
            env = {
                **os.environ,
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{int(sink.stdout.readline())}",
            }
            found: dict[str, list[dict[str, float]]] = {row: [] for row in ROWS}
            for _ in range(options.rounds):
                for row in ROWS:
                    done = subprocess.run([*this, row], env=env, capture_output=True, text=True, check=True)
                    found[row].append(json.loads(done.stdout))
        finally:
            sink.terminate()
    print(f"{'':<16}{'CPU of a step':>16}{'over':>10}{'calls':>10}")
    least = {row: min(each["cpu"] for each in rounds) for row, rounds in found.items()}
    for row, rounds in found.items():
        over = least[row] - least["off"]
        print(f"{row:<16}{least[row] * 1e6:>13.0f} µs{over * 1e6:>7.0f} µs{rounds[0]['calls']:>10.0f}")


if __name__ == "__main__":
    main()
