"""Making a long history fit: the ladder, and the overflow into a file."""

from typing import TYPE_CHECKING, Any

from pure_agent_loop.compaction.ladder import Ladder
from pure_agent_loop.support.lazy import load_name

if TYPE_CHECKING:
    from pure_agent_loop.compaction.memory import Chain, MemoryOverflow

__all__ = ["Chain", "Ladder", "MemoryOverflow"]

_LATER = {"Chain": "memory", "MemoryOverflow": "memory"}


def __getattr__(name: str) -> Any:
    return load_name(__name__, _LATER, name)
