"""Evaluation of agents with custom cases; `benchmarks/bfcl` has a public benchmark of tool calls.

    dataset     cases and evaluators, run against an agent
    cases       a case, a trial of it, and files and sessions as cases
    evaluators  equality, schema, tools called, cost, steps, a judge model
    report      a table, JSON, a data frame, a comparison, an assertion
    progress    the progress line
    runner      many items at a time
    command     ``pure-agent-loop eval``

Importing this package loads only argparse; the other names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pure_agent_loop.evaluation.command import add_arguments, run
from pure_agent_loop.support.lazy import lazy_exports

if TYPE_CHECKING:
    from pure_agent_loop.evaluation.cases import Case, Trial
    from pure_agent_loop.evaluation.dataset import Dataset
    from pure_agent_loop.evaluation.evaluators import (
        CalledTools,
        Contains,
        Equals,
        Judge,
        MaxCost,
        MaxSteps,
        Schema,
    )
    from pure_agent_loop.evaluation.progress import Progress
    from pure_agent_loop.evaluation.report import (
        CaseOutcome,
        Change,
        Comparison,
        EvaluationReport,
        Outcome,
        Report,
        Reports,
        wilson_interval,
    )

_EVALUATORS = ("CalledTools", "Contains", "Equals", "Judge", "MaxCost", "MaxSteps", "Schema")
_REPORT = (
    "CaseOutcome",
    "Change",
    "Comparison",
    "EvaluationReport",
    "Outcome",
    "Report",
    "Reports",
    "wilson_interval",
)
_WHERE = {
    "Progress": "progress",
    "Dataset": "dataset",
    **dict.fromkeys(("Case", "Trial"), "cases"),
    **dict.fromkeys(_REPORT, "report"),
    **dict.fromkeys(_EVALUATORS, "evaluators"),
}

__all__ = [
    "CalledTools",
    "Case",
    "CaseOutcome",
    "Change",
    "Comparison",
    "Contains",
    "Dataset",
    "Equals",
    "EvaluationReport",
    "Judge",
    "MaxCost",
    "MaxSteps",
    "Outcome",
    "Progress",
    "Report",
    "Reports",
    "Schema",
    "Trial",
    "add_arguments",
    "run",
    "wilson_interval",
]


__getattr__, __dir__ = lazy_exports(__name__, _WHERE)
