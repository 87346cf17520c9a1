"""Audit log: every tool call as a line of a hash chain, with verification and queries.

    log        the log that an agent writes, with a line for each call and each result
    chain      crash-safe appends from several processes; lines, hashes and the recorded end
    folder     log files, and the writers' lock
    verifying  one pass over all lines, whatever their content
    entries    history of calls and results

docs/audit.md describes the format, and what the log does and does not prove.
"""

from typing import TYPE_CHECKING

from pure_agent_loop.audit.folder import default_folder
from pure_agent_loop.audit.log import AuditLog, default_redaction
from pure_agent_loop.errors import AuditError
from pure_agent_loop.support.lazy import lazy_exports

if TYPE_CHECKING:
    from pure_agent_loop.audit.entries import ToolCallEntry, find_call, history
    from pure_agent_loop.audit.verifying import Problem, VerifyReport, verify

__all__ = [
    "AuditError",
    "AuditLog",
    "Problem",
    "ToolCallEntry",
    "VerifyReport",
    "default_folder",
    "default_redaction",
    "find_call",
    "history",
    "verify",
]

# These names read the log. They are loaded lazily, because a run only writes it.
_LATER = {
    "Problem": "verifying",
    "ToolCallEntry": "entries",
    "VerifyReport": "verifying",
    "find_call": "entries",
    "history": "entries",
    "verify": "verifying",
}


__getattr__, __dir__ = lazy_exports(__name__, _LATER)
