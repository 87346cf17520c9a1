"""Compaction: shorten a long history in stages (`Ladder`) or move it into a file (`MemoryOverflow`)."""

from typing import TYPE_CHECKING

from pure_agent_loop.compaction.ladder import Ladder
from pure_agent_loop.kernel.kit import Compactor
from pure_agent_loop.support.lazy import lazy_exports

if TYPE_CHECKING:
    from pure_agent_loop.compaction.rungs import Chain, MemoryOverflow

__all__ = ["Chain", "Compactor", "Ladder", "MemoryOverflow"]

_LATER = {"Chain": "rungs", "MemoryOverflow": "rungs"}


__getattr__, __dir__ = lazy_exports(__name__, _LATER)
