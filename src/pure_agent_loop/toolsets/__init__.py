"""Toolsets that filter, rename, guard, search, or change tools from step to step.

`sets` derives one set from another; `search` lets a model search many tools.
"""

from typing import TYPE_CHECKING

from pure_agent_loop.support.lazy import lazy_exports
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


__getattr__, __dir__ = lazy_exports(__name__, {"searchable": "search"})
