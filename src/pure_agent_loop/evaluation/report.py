"""Report of an evaluation: a table, JSON, a comparison, and an assertion for tests."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import to_jsonable
from pure_agent_loop.support.typed import mistyped

MEASURES = ("seconds", "steps", "tokens", "cost")
RESERVED = ("passed", *MEASURES)
_HEADER = ("case", "passed")
_SHOWN_FAILURES = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one trial.

    Args:
        case: Its name.
        repeat: Number of the repetition, from 1.
        passed: True if the run completed and no evaluator returned False.
        scores: By evaluator: True or False, or a number, of which higher is better.
        notes: Other texts from evaluators.
        output: Output of the agent, as JSON.
        stop_reason: Why the run ended.
        error: Failure of the run or of an evaluator; empty for none.
        tools: The tools that were called.
        seconds: Duration of the run in seconds.
        steps: Its steps.
        tokens: Its tokens.
        cost: Its cost, if prices are set.
    """

    case: str
    repeat: int
    passed: bool
    scores: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    output: Any = None
    stop_reason: str = ""
    error: str = ""
    tools: list[str] = field(default_factory=list)
    seconds: float = 0.0
    steps: int = 0
    tokens: int = 0
    cost: float = 0.0

    @property
    def right(self) -> bool:
        """Same as `passed`."""
        return self.passed

    def why(self) -> str:
        """Reason of the failure, in one line."""
        notes = [f"{name}: {text}" for name, text in self.notes.items()]
        wrong = [name for name, score in self.scores.items() if score is False]
        ended = (
            []
            if self.stop_reason in ("completed", "error", "invalid_output")
            else [f"stop_reason {self.stop_reason}"]
        )
        parts = [*ended, ", ".join(wrong), self.error, f"output {self.output!r:.120}", *notes]
        return "; ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences from a former run.

    Args:
        better: One line per improvement.
        worse: One line per regression.
        new: Cases that the former run did not have.
        gone: Cases that only the former run had.
    """

    better: list[str]
    worse: list[str]
    new: list[str]
    gone: list[str]

    def __str__(self) -> str:
        lines = [
            f"{what}: {line}" for what in ("worse", "better", "new", "gone") for line in getattr(self, what)
        ]
        return "\n".join(lines) or "nothing got better or worse"


@dataclass(slots=True)
class Report:
    """Results of an evaluation.

    Args:
        name: The dataset.
        outcomes: One for each trial, in the order of the cases.
        about: The model and the settings of the run.
    """

    name: str
    outcomes: list[Outcome] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> float:
        """Share of trials that passed, from 0 to 1."""
        return statistics.fmean(outcome.passed for outcome in self.outcomes) if self.outcomes else 0.0

    @property
    def scores(self) -> dict[str, float]:
        """Mean of each evaluator, and of ``passed``, ``seconds``, ``steps``, ``tokens`` and ``cost``."""
        return _means(self.outcomes, (*MEASURES,))

    @property
    def failures(self) -> list[Outcome]:
        """The trials that did not pass."""
        return [outcome for outcome in self.outcomes if not outcome.passed]

    def by_case(self) -> dict[str, list[Outcome]]:
        """The trials of each case."""
        groups: dict[str, list[Outcome]] = {}
        for outcome in self.outcomes:
            groups.setdefault(outcome.case, []).append(outcome)
        return groups

    def table(self, style: str = "text") -> str:
        """Return a table with a row per case, and one for all.

        Args:
            style: ``text`` or ``markdown``.
        """
        names = list(dict.fromkeys(name for outcome in self.outcomes for name in outcome.scores))
        groups = [*self.by_case().items(), ("all", self.outcomes)]
        rows = [_row(name, outcomes, names) for name, outcomes in groups]
        return laid_out([(*_HEADER, *names, *MEASURES), *rows], (0,), style)

    def __str__(self) -> str:
        failures = self.failures
        lines = [
            f"{outcome.case} ({outcome.repeat}): {outcome.why()}" for outcome in failures[:_SHOWN_FAILURES]
        ]
        rest = len(failures) - len(lines)
        return "\n".join([self.table().rstrip(), *lines, *([f"... and {rest} more"] if rest else [])])

    def compare(self, former: Report) -> Comparison:
        """Compare with a former run, case by case and score by score.

        Args:
            former: The run before, such as ``Report.load("before.json")``.

        Raises:
            ConfigError: `former` is not a report.
        """
        if not isinstance(former, Report):
            raise ConfigError(
                f"former must be a Report; it is {former!r:.80}. Read one with Report.load(path)."
            )
        now, before = self.by_case(), former.by_case()
        better, worse = list[str](), list[str]()
        for case in (name for name in now if name in before):
            new, old = _means(now[case]), _means(before[case])
            for name in (name for name in new if name in old and new[name] != old[name]):
                line = f"{case}: {name} {old[name]:g} -> {new[name]:g}"
                (better if new[name] > old[name] else worse).append(line)
        return Comparison(
            better, worse, [name for name in now if name not in before], [e for e in before if e not in now]
        )

    def assert_scores(
        self,
        at_least: Mapping[str, float] | None = None,
        at_most: Mapping[str, float] | None = None,
    ) -> None:
        """Fail a test unless the means are within these bounds; without bounds, unless every trial passed.

        Args:
            at_least: By name of `scores`, such as ``{"passed": 0.9, "judge": 0.8}``.
            at_most: The same, such as ``{"steps": 3, "cost": 0.01}``.

        Raises:
            AssertionError: A bound is violated; the message has the table and the failures.
            ConfigError: A name of a score is unknown.
        """
        if at_least is None and at_most is None:
            at_least = {"passed": 1.0}
        scores, wrong = self.scores, list[str]()
        for bounds, sign, word in ((at_least, 1, "at least"), (at_most, -1, "at most")):
            for name, bound in (bounds or {}).items():
                if name not in scores:
                    raise ConfigError(notice("library.no_score", name=name, scores=", ".join(scores)))
                if sign * (scores[name] - bound) < -1e-9:
                    wrong.append(f"{name} is {scores[name]:.4g}, and must be {word} {bound:g}")
        if wrong:
            raise AssertionError(f"{self.name}: {'; '.join(wrong)}\n\n{self}")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        plain: dict[str, Any] = to_jsonable(
            {
                "name": self.name,
                "about": self.about,
                "scores": self.scores,
                "outcomes": [asdict(outcome) for outcome in self.outcomes],
            }
        )
        return plain

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a file, as JSON."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=1)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Report:
        """Load a report written by `save`.

        Raises:
            ConfigError: The file cannot be read, or is not a report.
        """
        try:
            plain = json.loads(Path(path).read_text(encoding="utf-8"))
            report = cls(plain["name"], [Outcome(**fields_) for fields_ in plain["outcomes"]], plain["about"])
            problem = mistyped(report, cls)
        except (OSError, ValueError, TypeError, KeyError) as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            raise ConfigError(notice("library.not_a_report", path=os.fspath(path), wrong=problem))
        return report


def _means(outcomes: Sequence[Outcome], measures: Sequence[str] = ()) -> dict[str, float]:
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome.scores))
    values = {"passed": [outcome.passed for outcome in outcomes]}
    values |= {
        name: [outcome.scores[name] for outcome in outcomes if name in outcome.scores] for name in names
    }
    values |= {name: [getattr(outcome, name) for outcome in outcomes] for name in measures}
    return {name: statistics.fmean(numbers) for name, numbers in values.items() if numbers}


def _row(name: str, outcomes: Sequence[Outcome], names: Sequence[str]) -> list[str]:
    means = _means(outcomes, MEASURES)
    passed = f"{sum(outcome.passed for outcome in outcomes)}/{len(outcomes)}"
    cells = [f"{means[column]:.2f}" if column in means else "-" for column in (*names, "seconds", "steps")]
    return [name, passed, *cells, f"{means.get('tokens', 0):.0f}", f"{means.get('cost', 0):.4g}"]


def laid_out(lines: Sequence[Sequence[str]], left: Collection[int], style: str) -> str:
    """Format a table, the header first.

    Args:
        left: Columns of words; the others are numbers.
        style: ``text`` for a terminal or ``markdown`` for a document.
    """
    columns = range(len(lines[0]))
    if style == "markdown":
        rule = ["---" if i in left else "---:" for i in columns]
        lines = [[cell.replace("|", "\\|") for cell in line] for line in (lines[0], rule, *lines[1:])]
        return "".join("| " + " | ".join(line) + " |\n" for line in lines)
    widths = [max(len(line[i]) for line in lines) for i in columns]
    return "".join("  ".join(_aligned(line, widths, left)).rstrip() + "\n" for line in lines)


def _aligned(line: Sequence[str], widths: Sequence[int], left: Collection[int]) -> Iterable[str]:
    for i, (cell, width) in enumerate(zip(line, widths, strict=True)):
        yield cell.ljust(width) if i in left else cell.rjust(width)
