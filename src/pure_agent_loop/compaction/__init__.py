"""Making a long history fit: the ladder, and the overflow into a file."""

from typing import TYPE_CHECKING

from pure_agent_loop.compaction.ladder import Ladder
from pure_agent_loop.support.lazy import names_loaded_later

if TYPE_CHECKING:
    from pure_agent_loop.compaction.memory import Chain, MemoryOverflow

__all__ = ["Chain", "Ladder", "MemoryOverflow"]

_LATER = {"Chain": "memory", "MemoryOverflow": "memory"}


__getattr__, __dir__ = names_loaded_later(__name__, _LATER)
