"""Draw one trace: a program submits a run, a durable worker executes it, and its agent calls another agent.

    python -m benchmarks.trace_picture [docs/images/trace.svg]

The model is a scripted server on this machine; the spans come from the SDK of OpenTelemetry, kept in memory.
"""

from __future__ import annotations

import sys
import tempfile
import time
from html import escape
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pure_agent_loop import Agent
from pure_agent_loop.durable import Engine
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.otel import instrument, names
from pure_agent_loop.testing import ScriptedServer, call

ROW, TALL, WIDTH, LEFT, STEP = 26, 18, 980, 330, 16
STYLE = """
text { font: 13px system-ui, "Segoe UI", sans-serif; fill: #1f2421; }
.time { fill: #5b635e; } .ground { fill: #fbfaf7; stroke: #c9c5bb; }
@media (prefers-color-scheme: dark) {
  text { fill: #e8eae8; } .time { fill: #a9b1ab; } .ground { fill: #16191c; stroke: #3a4044; }
}
"""
TITLE = "A trace: a submitted run, executed by a worker, whose agent asks another one"
COLOURS = {names.INVOKE_AGENT: "#4c6ef5", names.CHAT: "#12b886", names.EXECUTE_TOOL: "#f08c00", "": "#868e96"}


def look(place: str) -> str:
    """Look at a place."""
    time.sleep(0.05)
    return f"{place} is quiet."


def _answer(request: Any) -> Any:
    time.sleep(0.04)
    last = request.messages[-1]
    if last["role"] == "tool":
        return "All is quiet."
    if "scout" in str(last["content"]):
        return call("scout", input="Look around the hill.")
    return [call("look", place="the hill"), call("look", place="the wood")]


def record() -> list[Any]:
    """Return the spans of one trace."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    instrument()
    with ScriptedServer(handler=_answer, strict=False) as server, tempfile.TemporaryDirectory() as folder:
        client = OpenAIClient("gpt-4o-mini", api_key="k", base_url=server.base_url)
        scout = Agent(llm=client, tools=[look], name="scout", description="Looks at places.")
        boss = Agent(llm=client, tools=[scout], name="boss")
        with Engine(f"sqlite:///{folder}/work.sqlite", agents={"boss": boss}) as engine:
            with trace.get_tracer("program").start_as_current_span("submit"):
                handle = engine.submit("boss", "Ask the scout.")
            handle.result(timeout=60)
    sent = exporter.get_finished_spans()
    first = next(each for each in sent if each.name == "submit")
    return [each for each in sent if each.context.trace_id == first.context.trace_id]


def rows_of(spans: list[Any], parent: int | None = None, depth: int = 0) -> list[tuple[int, Any]]:
    """Return the spans in the order of a tree, each with its depth."""
    known = {each.context.span_id for each in spans}

    def above(span: Any) -> int | None:
        return span.parent.span_id if span.parent and span.parent.span_id in known else None

    found = []
    for each in sorted((each for each in spans if above(each) == parent), key=lambda each: each.start_time):
        found += [(depth, each), *rows_of(spans, each.context.span_id, depth + 1)]
    return found


def drawn(spans: list[Any]) -> str:
    """The picture."""
    rows = rows_of(spans)
    begin, end = min(each.start_time for each in spans), max(each.end_time for each in spans)
    scale = (WIDTH - LEFT - 90) / max(1, end - begin)
    height = ROW * (len(rows) + 1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{TITLE}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" x="1" y="1" width="{WIDTH - 2}" height="{height - 2}" rx="10"/>',
    ]
    for number, (depth, span) in enumerate(rows):
        at, length = (
            LEFT + (span.start_time - begin) * scale,
            max(2, (span.end_time - span.start_time) * scale),
        )
        colour = COLOURS[str((span.attributes or {}).get(names.OPERATION, ""))]
        top = ROW * number + 10
        took = f"{(span.end_time - span.start_time) / 1e6:.0f} ms"
        lines += [
            f'<text x="{12 + STEP * depth}" y="{top + 14}">{escape(span.name)}</text>',
            f'<rect x="{at:.1f}" y="{top}" width="{length:.1f}" height="{TALL}" rx="3" fill="{colour}"/>',
            f'<text x="{at + length + 6:.1f}" y="{top + 14}" class="time">{took}</text>',
        ]
    return "\n".join([*lines, "</svg>\n"])


if __name__ == "__main__":
    spans = record()
    for depth, span in rows_of(spans):
        print("  " * depth + span.name)
    if sys.argv[1:]:
        Path(sys.argv[1]).write_text(drawn(spans), encoding="utf-8")
