"""Evaluation of agents with custom cases; `python -m benchmarks.bfcl` runs a public benchmark of tool calls.

    dataset     cases and evaluators, run against an agent
    cases       a case, a trial of it, and files and sessions as cases
    evaluators  equality, schema, tools called, cost, steps, a judge model
    report      a table, JSON, a data frame, an assertion
    comparison  differences between two runs, with intervals
    outcomes    an outcome, and the file of outcomes that resumes an evaluation
    identity    digests that distinguish trials of different agents, cases and seeds
    progress    the progress line
    runner      concurrent processing of items

Names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pure_agent_loop.support.lazy import lazy_exports

if TYPE_CHECKING:
    from pure_agent_loop.evaluation.cases import Case, Trial
    from pure_agent_loop.evaluation.comparison import Change, Comparison, ScoreDifference
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
    from pure_agent_loop.evaluation.outcomes import CaseOutcome, Outcome
    from pure_agent_loop.evaluation.progress import Progress
    from pure_agent_loop.evaluation.report import EvaluationReport, Report, Reports, wilson_interval

_EVALUATORS = ("CalledTools", "Contains", "Equals", "Judge", "MaxCost", "MaxSteps", "Schema")
_REPORT = ("EvaluationReport", "Report", "Reports", "wilson_interval")
_WHERE = {
    "Progress": "progress",
    "Dataset": "dataset",
    **dict.fromkeys(("Case", "Trial"), "cases"),
    **dict.fromkeys(("Change", "Comparison", "ScoreDifference"), "comparison"),
    **dict.fromkeys(("CaseOutcome", "Outcome"), "outcomes"),
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
    "ScoreDifference",
    "Trial",
    "wilson_interval",
]


__getattr__, __dir__ = lazy_exports(__name__, _WHERE)
