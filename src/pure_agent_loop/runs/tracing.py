"""Tracer of runs; there is none until `pure_agent_loop.otel.instrument` sets one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

_TRACERS: list[Tracer] = []  # at most one tracer


class Tracer(Protocol):
    """Observer of runs."""

    async def watch(self, drive: Callable[[Any, Any], Awaitable[None]], state: Any, kit: Any) -> None:
        """Drive a run and trace it."""

    def carrier(self) -> Mapping[str, str]:
        """Return the trace context for work in another process; empty outside a trace."""


def set_tracer(tracer: Tracer | None) -> None:
    """Set the tracer of all runs; None disables tracing."""
    _TRACERS[:] = [] if tracer is None else [tracer]


def current_tracer() -> Tracer | None:
    """Return the tracer, or None."""
    return _TRACERS[0] if _TRACERS else None


def carrier() -> dict[str, str]:
    """Return the trace context for work in another process; empty if there is no tracer."""
    return dict(_TRACERS[0].carrier()) if _TRACERS else {}
