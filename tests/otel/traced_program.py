"""A program whose runs are traced: a run with a tool, one with a subagent, and a durable worker."""

from __future__ import annotations

import sys

from pure_agent_loop import Agent, ToolExecutionError, tool
from pure_agent_loop.llm.openai_client import OpenAIClient


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is quiet, says sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"


@tool
def breaks() -> str:
    """It fails."""
    raise ToolExecutionError("breaks", "no luck with the secret word")


def agents(url: str) -> tuple[Agent, Agent]:
    """The agent that looks, and the one that has it look."""
    client = OpenAIClient("gpt-test", api_key="k", base_url=url)
    scout = Agent(llm=client, tools=[look, breaks], name="scout", description="Looks at places.")
    return scout, Agent(llm=client, tools=[scout], name="boss")


def main(url: str, what: str, database: str = "") -> None:
    """Run what was asked for, with the providers that the environment configures."""
    scout, boss = agents(url)
    if what == "worker":
        from pure_agent_loop.durable import Engine

        registered = {"boss": boss, "scout": scout, "unnamed": Agent(llm=scout.llm)}
        with Engine(f"sqlite:///{database}", agents=registered, lease=2.0):
            print("ready", flush=True)
            sys.stdin.read()
    else:
        agent = boss if what == "subagent" else scout
        task = {"subagent": "ask the scout", "breaks": "break it"}.get(what, "look around")
        print(agent.run(task).content)


def printing() -> tuple:
    """A provider that prints each span: its name, its trace, itself, its parent."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    def line(span) -> str:
        parent = span.parent.span_id if span.parent else 0
        return f"{span.name}|{span.context.trace_id}|{span.context.span_id}|{parent}\n"

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=line)))
    trace.set_tracer_provider(provider)
    return (provider,)


def exporting() -> tuple:
    """Providers that send to where the environment says."""
    from opentelemetry import metrics, trace
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    spans = TracerProvider()
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(spans)
    meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())])
    metrics.set_meter_provider(meters)
    return spans, meters


if __name__ == "__main__":
    from pure_agent_loop.otel import instrument

    providers = printing() if "worker" in sys.argv else exporting()
    instrument(content="--content" in sys.argv)
    main(*[each for each in sys.argv[1:] if each != "--content"])
    for each in providers:
        each.shutdown()
