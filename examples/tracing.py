"""Traces: each run, request and call is a span of OpenTelemetry. Needs [otel] and opentelemetry-sdk.

With an exporter of yours in the place of this one they go to Jaeger, Grafana, Logfire or any other.
"""

from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from pure_agent_loop import Agent, tool
from pure_agent_loop.otel import instrument


class Lines(SpanExporter):
    """Print a line for each span, when it ends."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            tokens = (span.attributes or {}).get("gen_ai.usage.input_tokens")
            print(f"{'  ' if span.parent else ''}{span.name}{f': {tokens} tokens in' if tokens else ''}")
        return SpanExportResult.SUCCESS


@tool(read_only=True)
def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"Light rain and 8 degrees in {city}"


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Lines()))
trace.set_tracer_provider(provider)
instrument()

print(Agent(name="helper", tools=[get_weather]).run("Do I need an umbrella in Oslo?").content)

# Output:
#   chat gpt-4o-mini: 10 tokens in
#   execute_tool get_weather
#   chat gpt-4o-mini: 10 tokens in
# invoke_agent helper: 20 tokens in
# Yes, take one: it rains.
