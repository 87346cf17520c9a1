"""Examine a chat-completions server: its capabilities, and a matching profile.

`examine` sends one small request for each question; `as_text` formats the findings.
"""

from pure_agent_loop.doctor.examination import Watch, as_text, examine
from pure_agent_loop.doctor.values import Finding, Report, Target, Verdict, paste

__all__ = ["Finding", "Report", "Target", "Verdict", "Watch", "as_text", "examine", "paste"]
