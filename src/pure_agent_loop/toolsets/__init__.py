"""Tools as sets: chosen, renamed, guarded, changed from step to step, or found by a search.

`sets` has what makes one set out of another, `search` lets a model look for tools among many by a `ranking`,
and `running` keeps the sets of a run open while it needs them.
"""

from pure_agent_loop.tool import StepContext, Toolset
from pure_agent_loop.toolsets.search import searchable
from pure_agent_loop.toolsets.sets import (
    approval_required,
    combined,
    filtered,
    prefixed,
    prepared,
    renamed,
    wrapped,
)

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
