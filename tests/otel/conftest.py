"""The model of the traced program, and spans in memory."""

from __future__ import annotations

import threading

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pure_agent_loop import otel
from pure_agent_loop.testing import Gate, ScriptedServer, call, deltas, status

_held = threading.Event()  # the first one who asks for patience waits for an answer
busy = [status(503, "later", headers={"retry-after": "0"})]  # what the first one who is in a hurry is told


def _script(request):
    last = request.messages[-1]
    if "patience" in str(request.messages) and last["role"] == "tool" and not _held.is_set():
        _held.set()
        return deltas("So far ", Gate(), "never")
    if "hurry" in str(request.messages) and busy:
        return busy.pop()
    if last["role"] == "tool":
        return f"It said: {last['content']}"
    task = str(last["content"])
    if "scout" in task:
        return call("scout", input="look around there")
    return call("breaks") if "break" in task else call("look", place="the hill")


@pytest.fixture(scope="session")
def model():
    with ScriptedServer(handler=_script, strict=False) as server:
        yield server.base_url


@pytest.fixture
def held():
    """Set once somebody waits for an answer that does not come."""
    return _held


@pytest.fixture(scope="session")
def _providers():
    """A process can have only one of each; its reader returns what was measured since the last reading."""
    since_last = dict.fromkeys((Counter, Histogram), AggregationTemporality.DELTA)
    reader, exporter = InMemoryMetricReader(preferred_temporality=since_last), InMemorySpanExporter()
    spans = TracerProvider()
    spans.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(spans)
    metrics.set_meter_provider(MeterProvider([reader]))
    return exporter, reader


@pytest.fixture
def spans(_providers):
    """Spans and metrics of this test alone; `content` adds the text of the conversation."""
    exporter, reader = _providers
    exporter.clear()
    reader.get_metrics_data()  # drops what an earlier test measured

    class Sent:
        instrument = staticmethod(otel.instrument)

        def __call__(self, name=None):
            found = exporter.get_finished_spans()
            return [each for each in found if name is None or each.name == name]

        def metrics(self):
            data = reader.get_metrics_data()
            scopes = [scope for each in data.resource_metrics for scope in each.scope_metrics]
            return {metric.name: metric for scope in scopes for metric in scope.metrics}

    otel.instrument()
    yield Sent()
    otel.uninstrument()
