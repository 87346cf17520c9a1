"""Tools as sets: chosen, renamed, guarded, changed from step to step, or found by a search.

`sets` has what makes one set out of another, `search` lets a model look for tools among many by a `ranking`.
"""

from typing import TYPE_CHECKING

from pure_agent_loop.support.lazy import names_loaded_later
from pure_agent_loop.tool import StepContext, Toolset
from pure_agent_loop.toolsets.sets import (
    approval_required,
    combined,
    filtered,
    prefixed,
    prepared,
    renamed,
    wrapped,
)

if TYPE_CHECKING:
    from pure_agent_loop.toolsets.search import searchable

__all__ = [
    "StepContext",
    "Toolset",
    "approval_required",
    "combined",
    "filtered",
    "prefixed",
    "prepared",
    "renamed",
    "searchable",
    "wrapped",
]


__getattr__, __dir__ = names_loaded_later(__name__, {"searchable": "search"})
