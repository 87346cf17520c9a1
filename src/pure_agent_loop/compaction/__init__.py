"""Making a long history fit: the ladder, and the overflow into a file."""

from pure_agent_loop.compaction.ladder import Ladder
from pure_agent_loop.compaction.memory import Chain, MemoryOverflow

__all__ = ["Chain", "Ladder", "MemoryOverflow"]
