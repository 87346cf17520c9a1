"""Examine a model server: its protocols, its capabilities in each, and a matching profile.

`survey` recognises the protocols; `examine` sends one small request for each question of one protocol.
"""

from pure_agent_loop.doctor.examination import Watch, as_text, examine, shown_name
from pure_agent_loop.doctor.session import ServerModels, server_models
from pure_agent_loop.doctor.survey import Survey, survey, survey_text
from pure_agent_loop.doctor.values import Finding, Report, Target, Verdict, paste

__all__ = [
    "Finding",
    "Report",
    "ServerModels",
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
