"""The audit log: every tool call in lines chained to each other, and the questions that can be asked of it.

    log       what an agent is given: from a call to a line
    redact    keeping secrets out
    chain     appending, by several processes, whatever happens to them
    seal      one line and its hash
    walk      along the chain
    head      how far it goes
    folder    its files and its lock
    verifying whether it is as it was written
    entries   what was called, and what came of it

docs/audit.md describes the format, what it proves, and what it does not.
"""

from typing import TYPE_CHECKING

from pure_agent_loop.audit.folder import default_folder
from pure_agent_loop.audit.log import AuditLog
from pure_agent_loop.audit.redact import default_redaction
from pure_agent_loop.errors import AuditError
from pure_agent_loop.support.lazy import names_loaded_later

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

# A run writes the log; these read it.
_LATER = {
    "Problem": "verifying",
    "ToolCallEntry": "entries",
    "VerifyReport": "verifying",
    "find_call": "entries",
    "history": "entries",
    "verify": "verifying",
}


__getattr__, __dir__ = names_loaded_later(__name__, _LATER)
