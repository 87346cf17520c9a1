"""Creation, start and results of runs; selection of a model."""

from typing import TYPE_CHECKING

from pure_agent_loop.support.lazy import lazy_exports

if TYPE_CHECKING:
    from pure_agent_loop.runs.choose import (
        LOCAL_KEY,
        Choice,
        Configured,
        Embedded,
        Endpoint,
        Search,
        choose_model,
        client_type,
        find_local_model,
        model_at,
        plan_model,
        protocol_at,
        protocol_of,
        show_url,
        without_protocol,
    )
    from pure_agent_loop.runs.run import Run

__all__ = [
    "LOCAL_KEY",
    "Choice",
    "Configured",
    "Embedded",
    "Endpoint",
    "Run",
    "Search",
    "choose_model",
    "client_type",
    "find_local_model",
    "model_at",
    "plan_model",
    "protocol_at",
    "protocol_of",
    "show_url",
    "without_protocol",
]

__getattr__, __dir__ = lazy_exports(
    __name__, {"Run": "run", **{name: "choose" for name in __all__ if name != "Run"}}
)
