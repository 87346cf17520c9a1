"""Examine a model server: its protocols, its capabilities in each, and a matching profile.

`survey` recognises the protocols; `examine` sends one small request for each question about one protocol.
"""

from pure_agent_loop.doctor.examination import Watch, examine
from pure_agent_loop.doctor.listing import ServerModels, server_models
from pure_agent_loop.doctor.report_text import as_text, shown_name, survey_text
from pure_agent_loop.doctor.survey import Survey, survey
from pure_agent_loop.doctor.values import Finding, ServerReport, Target, Verdict, paste

Report = ServerReport  # the former name of `ServerReport`

__all__ = [
    "Finding",
    "Report",
    "ServerModels",
    "ServerReport",
    "Survey",
    "Target",
    "Verdict",
    "Watch",
    "as_text",
    "examine",
    "paste",
    "server_models",
    "shown_name",
    "survey",
    "survey_text",
]
