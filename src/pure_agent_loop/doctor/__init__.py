"""Look at a chat-completions server: what it can do, and the profile that fits it.

`examine` asks it, one small request a question; `as_text` writes what came out.
"""

from pure_agent_loop.doctor.advice import paste
from pure_agent_loop.doctor.examination import Watch, examine
from pure_agent_loop.doctor.table import as_text
from pure_agent_loop.doctor.values import Finding, Report, Target, Verdict

__all__ = ["Finding", "Report", "Target", "Verdict", "Watch", "as_text", "examine", "paste"]
