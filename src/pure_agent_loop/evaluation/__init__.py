"""Measuring agents: with cases of one's own, and with the Berkeley Function Calling Leaderboard.

    dataset     cases and evaluators, and an agent that is put to them
    cases       a case, a trial of it, and files and sessions as cases
    evaluators  equality, schema, tools called, cost, steps, a judge model
    report      a table, JSON, a comparison, an assertion
    words       what a judge is told

    bfcl        the public questions, as messages and tool schemas
    conversion  the leaderboard's function docs as tool schemas
    package     fetches the leaderboard's own package, pinned
    checker     the leaderboard's own checker, in a process of its own
    runner      asks the questions, several at a time
    results     one line for each question, so that a run can go on where it stopped
    table       what came out
    command     ``pure-agent-loop eval``

Importing this loads nothing but argparse; the names of datasets are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pure_agent_loop.evaluation.command import add_arguments, run
from pure_agent_loop.support.lazy import names_loaded_later

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
    from pure_agent_loop.evaluation.report import Comparison, Outcome, Report

_EVALUATORS = ("CalledTools", "Contains", "Equals", "Judge", "MaxCost", "MaxSteps", "Schema")
_WHERE = {
    "Dataset": "dataset",
    **dict.fromkeys(("Case", "Trial"), "cases"),
    **dict.fromkeys(("Comparison", "Outcome", "Report"), "report"),
    **dict.fromkeys(_EVALUATORS, "evaluators"),
}

__all__ = [
    "CalledTools",
    "Case",
    "Comparison",
    "Contains",
    "Dataset",
    "Equals",
    "Judge",
    "MaxCost",
    "MaxSteps",
    "Outcome",
    "Report",
    "Schema",
    "Trial",
    "add_arguments",
    "run",
]


__getattr__, __dir__ = names_loaded_later(__name__, _WHERE)
