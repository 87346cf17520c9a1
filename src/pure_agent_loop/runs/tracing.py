"""Where tracing comes in: nothing is there until `pure_agent_loop.otel.instrument` puts itself here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol


class Tracer(Protocol):
    """What watches runs."""

    async def watch(self, drive: Callable[[Any, Any], Awaitable[None]], state: Any, kit: Any) -> None:
        """Drive a run, and watch it."""
        ...

    def carrier(self) -> Mapping[str, str]:
        """Where we are, for work that another process will do; empty for nowhere."""
        ...


_TRACERS: list[Tracer] = []  # one, or none


def set_tracer(tracer: Tracer | None) -> None:
    """Let this one watch runs from now on; None for nobody."""
    _TRACERS[:] = [] if tracer is None else [tracer]


def current_tracer() -> Tracer | None:
    """Who watches runs."""
    return _TRACERS[0] if _TRACERS else None


def carrier() -> dict[str, str]:
    """What work for another process takes along; empty if nobody watches."""
    return dict(_TRACERS[0].carrier()) if _TRACERS else {}
