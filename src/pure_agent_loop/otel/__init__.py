"""Traces and metrics of runs for OpenTelemetry, once a provider is configured: ``instrument()``.

    tracing    spans of runs, requests and calls, and what is measured
    names      every name that is sent, in one table

The extra ``[otel]`` brings the API alone. Without a provider nothing is recorded, and a step costs nothing
more.
docs/tracing.md shows a trace.
"""

from __future__ import annotations

import importlib.util

from pure_agent_loop.errors import MissingExtraError
from pure_agent_loop.runs.tracing import carrier, set_tracer

__all__ = ["instrument", "traceparent", "uninstrument"]


def instrument(*, content: bool = False) -> None:
    """Have all runs of this process traced, from now on. Calling it again changes `content`.

    Args:
        content: Also send what was said: messages, arguments and results, without secrets as far as they are
            known.

    Raises:
        MissingExtraError: The extra ``[otel]`` is not installed.
    """
    if importlib.util.find_spec("opentelemetry") is None:
        raise MissingExtraError("tracing", "otel")
    from pure_agent_loop.otel.tracing import Tracing

    set_tracer(Tracing(content=content))


def uninstrument() -> None:
    """No longer trace runs. Those that go on are traced to their end."""
    set_tracer(None)


def traceparent() -> str:
    """Where we are in the current trace, as the header ``traceparent`` has it; empty for nowhere."""
    return carrier().get("traceparent", "")
