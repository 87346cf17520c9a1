"""Compaction: shorten a long history in stages (`Ladder`) or move it into a file (`MemoryOverflow`)."""

from typing import TYPE_CHECKING

from pure_agent_loop.compaction.ladder import Ladder
from pure_agent_loop.kernel.kit import Compactor
from pure_agent_loop.support.lazy import lazy_exports

if TYPE_CHECKING:
    from pure_agent_loop.compaction.chain import Chain
    from pure_agent_loop.compaction.memory import MemoryOverflow

__all__ = ["Chain", "Compactor", "Ladder", "MemoryOverflow"]

_LATER = {"Chain": "chain", "MemoryOverflow": "memory"}


__getattr__, __dir__ = lazy_exports(__name__, _LATER)
