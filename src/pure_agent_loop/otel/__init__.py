"""OpenTelemetry traces and metrics of runs: ``instrument()``.

    tracing    spans and metrics of runs, requests and calls
    names      span, attribute and metric names

The extra ``[otel]`` installs only the API. Without a configured provider nothing is recorded, and tracing has
no cost. See docs/tracing.md for an example trace.
"""

from __future__ import annotations

import importlib.util

from pure_agent_loop.errors import MissingExtraError
from pure_agent_loop.runs.tracing import carrier, set_tracer

__all__ = ["instrument", "traceparent", "uninstrument"]


def instrument(*, content: bool = False) -> None:
    """Trace all runs that start in this process after this call. A second call only updates `content`.

    Args:
        content: True to also record messages, arguments and results. Known secrets are redacted.

    Raises:
        MissingExtraError: The extra ``[otel]`` is not installed.
    """
    if importlib.util.find_spec("opentelemetry") is None:
        raise MissingExtraError("tracing", "otel")
    from pure_agent_loop.otel.tracing import Tracing

    set_tracer(Tracing(content=content))


def uninstrument() -> None:
    """Stop tracing new runs. Current runs are traced to their end."""
    set_tracer(None)


def traceparent() -> str:
    """Return the current trace context as a ``traceparent`` header; empty outside a trace."""
    return carrier().get("traceparent", "")
