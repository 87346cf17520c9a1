"""Report of an evaluation: a table, JSON, a data frame, a comparison, and an assertion for tests."""

from __future__ import annotations

import importlib
import json
import math
import os
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.terminal import aligned, one_line
from pure_agent_loop.support.text import as_text, shorten, to_jsonable
from pure_agent_loop.support.typed import mistyped

MEASURES = ("seconds", "steps", "tokens", "cost")
RESERVED = ("passed", *MEASURES)
_INTERVAL = "95 %"
_SHOWN_FAILURES = 10
_MAX_ROWS, _MAX_CHARS = 500, 5_000  # maximum shown in a notebook
_MARKS = {True: "✓", False: "✗"}
_UNCHANGED = "nothing got better or worse"
_CHANGE = ("change", "case", "score", "before", "now")
_WIDTH, _LEFT, _STEP = 640, 200, 28  # pixels: plot width, width of the names, row height


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """Outcome of one trial.

    Args:
        case: Name of the case.
        repeat: Number of the repetition, from 1.
        passed: True if the run completed and no evaluator returned False.
        scores: Score by evaluator name: True or False, or a number (higher is better).
        notes: Further texts that evaluators returned.
        output: Output of the agent, as JSON.
        stop_reason: Why the run ended.
        error: Error of the run or of an evaluator; empty if there is none.
        tools: The tools that were called.
        calls: The calls, in order: ``{"tool", "args"}``.
        messages: The history of the run; empty in a report that was saved without messages.
        seconds: Duration of the run in seconds.
        steps: Number of steps.
        tokens: Number of tokens.
        cost: Cost of the run; None if unknown.
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
    cost: float | None = 0.0
    calls: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list, repr=False)

    @property
    def right(self) -> bool:
        """Same as `passed`."""
        return self.passed

    def why(self) -> str:
        """Reason for the failure, in one line."""
        notes = [f"{name}: {text}" for name, text in self.notes.items()]
        wrong = [name for name, score in self.scores.items() if score is False]
        ended = (
            []
            if self.stop_reason in ("completed", "error", "invalid_output")
            else [f"stop_reason {self.stop_reason}"]
        )
        parts = [*ended, ", ".join(wrong), self.error, f"output {self.output!r:.120}", *notes]
        return "; ".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        """Return the output, the calls and the messages as HTML for notebooks."""
        from pure_agent_loop.support.prose import escaped, folded_table, prose_to_html

        output = shorten(as_text(self.output), 4 * _MAX_CHARS)
        why = "" if self.passed else f"<p>{escaped(shorten(self.why(), _MAX_CHARS))}</p>"
        calls = [[call["tool"], shorten(as_text(call["args"]), _MAX_CHARS)] for call in self.calls]
        messages = [
            [
                str(message["role"]),
                shorten(as_text(message.get("content") or message.get("tool_calls") or ""), _MAX_CHARS),
            ]
            for message in self.messages[:_MAX_ROWS]
        ]
        parts = [
            f"<p>{escaped(f'{_MARKS[self.passed]} {self.case} ({self.repeat})')}</p>{why}",
            prose_to_html(output) if isinstance(self.output, str) else f"<pre>{escaped(output)}</pre>",
            folded_table("call", ["tool", "arguments"], calls),
            folded_table("message", ["role", "content"], messages),
        ]
        return f"<div>{''.join(parts)}</div>"


class Change(NamedTuple):
    """A change in a score's mean between two runs.

    Args:
        case: The case.
        score: Name of the score, such as ``passed``.
        before: Mean of the score in the former run.
        now: Mean of the score in this run.
    """

    case: str
    score: str
    before: float
    now: float

    def __str__(self) -> str:
        return f"{self.case}: {self.score} {self.before:g} -> {self.now:g}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences from a former run.

    Args:
        better: One line per improvement.
        worse: One line per regression.
        new: Cases that the former run did not have.
        gone: Cases that only the former run had.
        changes: The improvements and regressions as values.
    """

    better: list[str]
    worse: list[str]
    new: list[str]
    gone: list[str]
    changes: list[Change] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{what}: {line}" for what in ("worse", "better", "new", "gone") for line in getattr(self, what)
        ]
        return "\n".join(lines) or _UNCHANGED

    def to_dataframe(self) -> Any:
        """Return a `pandas.DataFrame` with the columns ``change``, ``case``, ``score``, ``before``, ``now``.

        Raises:
            ConfigError: pandas is not installed.
        """
        return _frame([dict(zip(_CHANGE, row, strict=True)) for row in self._rows()])

    def _rows(self) -> list[tuple[Any, ...]]:
        worse = [("worse", *change) for change in self.changes if change.now < change.before]
        better = [("better", *change) for change in self.changes if change.now > change.before]
        others = [(what, case, None, None, None) for what in ("new", "gone") for case in getattr(self, what)]
        return [*worse, *better, *others]

    def _repr_html_(self) -> str:
        """Return the changes as an HTML table for notebooks."""
        from pure_agent_loop.support.prose import table_to_html

        rows = [
            ["" if cell is None else f"{cell:g}" if isinstance(cell, float) else cell for cell in row]
            for row in self._rows()[:_MAX_ROWS]
        ]
        return table_to_html([_CHANGE, *rows]) if rows else f"<p>{_UNCHANGED}</p>"


@dataclass(slots=True)
class EvaluationReport:
    """Results of an evaluation.

    Args:
        name: The dataset.
        outcomes: One for each trial, in the order of the cases.
        about: Model and settings of the run.
    """

    name: str
    outcomes: list[CaseOutcome] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> float:
        """Share of trials that passed, from 0 to 1."""
        return statistics.fmean(outcome.passed for outcome in self.outcomes) if self.outcomes else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of `passed`; see `wilson_interval`."""
        return wilson_interval(sum(outcome.passed for outcome in self.outcomes), len(self.outcomes))

    @property
    def scores(self) -> dict[str, float]:
        """Mean per evaluator, and means of ``passed``, ``seconds``, ``steps``, ``tokens`` and ``cost``."""
        return _means(self.outcomes, (*MEASURES,))

    @property
    def failures(self) -> list[CaseOutcome]:
        """The trials that did not pass."""
        return [outcome for outcome in self.outcomes if not outcome.passed]

    def by_case(self) -> dict[str, list[CaseOutcome]]:
        """The trials of each case."""
        groups: dict[str, list[CaseOutcome]] = {}
        for outcome in self.outcomes:
            groups.setdefault(outcome.case, []).append(outcome)
        return groups

    def table(self, style: str = "text") -> str:
        """Return a table with a row per case, and a row for all cases.

        The column ``95 %`` is the confidence interval of the share of passed trials; see `wilson_interval`.

        Args:
            style: ``text`` or ``markdown``.
        """
        return laid_out(self._rows(), (0,), style)

    def _rows(self) -> list[list[str]]:
        return _table("case", [*self.by_case().items(), ("all", self.outcomes)])

    def _repr_html_(self) -> str:
        """Return the table and the failures as HTML for notebooks."""
        from pure_agent_loop.support.prose import folded_table, table_to_html

        header, *cases, total = self._rows()
        failures = [
            [failure.case, str(failure.repeat), shorten(failure.why(), _MAX_CHARS)]
            for failure in self.failures[:_MAX_ROWS]
        ]
        table = table_to_html([header, *cases[:_MAX_ROWS], total])
        return f"<div>{table}{folded_table('failure', ['case', 'repeat', 'why'], failures)}</div>"

    def to_dataframe(self) -> Any:
        """Return a `pandas.DataFrame`: a row per trial, fields of `CaseOutcome` and scores as columns.

        Raises:
            ConfigError: pandas is not installed.
        """
        return _frame([_trial(outcome) for outcome in self.outcomes])

    def __str__(self) -> str:
        failures = self.failures
        lines = [
            f"{outcome.case} ({outcome.repeat}): {outcome.why()}" for outcome in failures[:_SHOWN_FAILURES]
        ]
        rest = len(failures) - len(lines)
        return "\n".join([self.table().rstrip(), *lines, *([f"... and {rest} more"] if rest else [])])

    def compare(self, former: EvaluationReport) -> Comparison:
        """Compare with a former run, case by case and score by score.

        Args:
            former: The run before, such as ``EvaluationReport.load("before.json")``.

        Raises:
            ConfigError: `former` is not a report.
        """
        if not isinstance(former, EvaluationReport):
            raise ConfigError(
                f"former must be an EvaluationReport; it is {former!r:.80}. "
                "Read one with EvaluationReport.load(path)."
            )
        now, before = self.by_case(), former.by_case()
        changes: list[Change] = []
        for case in (name for name in now if name in before):
            new, old = _means(now[case]), _means(before[case])
            shared = (name for name in new if name in old and new[name] != old[name])
            changes += (Change(case, name, old[name], new[name]) for name in shared)
        return Comparison(
            [str(change) for change in changes if change.now > change.before],
            [str(change) for change in changes if change.now < change.before],
            [name for name in now if name not in before],
            [name for name in before if name not in now],
            changes,
        )

    def assert_scores(
        self,
        at_least: Mapping[str, float] | None = None,
        at_most: Mapping[str, float] | None = None,
    ) -> None:
        """Raise unless the means are within these bounds; without bounds, unless every trial passed.

        Args:
            at_least: Lower bounds by name in `scores`, such as ``{"passed": 0.9, "judge": 0.8}``.
            at_most: Upper bounds by name in `scores`, such as ``{"steps": 3, "cost": 0.01}``.

        Raises:
            AssertionError: A bound is violated; the message has the table and the failures.
            ConfigError: The name of a score is unknown.
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

    def to_dict(self, *, messages: bool = False) -> dict[str, Any]:
        """Plain JSON form.

        Args:
            messages: True includes the history of each trial.
        """
        names = [each.name for each in fields(CaseOutcome) if messages or each.name != "messages"]
        plain: dict[str, Any] = to_jsonable(
            {
                "name": self.name,
                "about": self.about,
                "scores": self.scores,
                "outcomes": [{name: getattr(outcome, name) for name in names} for outcome in self.outcomes],
            }
        )
        return plain

    def save(self, path: str | os.PathLike[str], *, messages: bool = False) -> None:
        """Write the report to a file, as JSON.

        Histories can be large. The arguments are those of `to_dict`.
        """
        text = json.dumps(self.to_dict(messages=messages), ensure_ascii=False, indent=1)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> EvaluationReport:
        """Load a report written by `save`.

        Raises:
            ConfigError: The file cannot be read, or is not a report.
        """
        try:
            plain = json.loads(Path(path).read_text(encoding="utf-8"))
            report = cls(
                plain["name"], [CaseOutcome(**fields_) for fields_ in plain["outcomes"]], plain["about"]
            )
            problem = mistyped(report, cls)
        except (OSError, ValueError, TypeError, KeyError) as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            raise ConfigError(notice("library.not_a_report", path=os.fspath(path), wrong=problem))
        return report


@dataclass(frozen=True, slots=True)
class Reports:
    """Reports of several prompts, models or agents on the same cases, side by side.

        reports = Reports({name: dataset.run(agent) for name, agent in agents.items()})

    Args:
        reports: The reports by name.

    Raises:
        ConfigError: `reports` is not a mapping of names to reports.
    """

    reports: Mapping[str, EvaluationReport]

    def __post_init__(self) -> None:
        given: Any = self.reports
        if not isinstance(given, Mapping) or not all(
            isinstance(name, str) and isinstance(report, EvaluationReport) for name, report in given.items()
        ):
            raise ConfigError(f'reports must be a dict such as {{"short": report}}; it is {given!r:.80}.')

    def table(self, style: str = "text") -> str:
        """Return a table with a row per report; see `EvaluationReport.table`."""
        return laid_out(self._rows(), (0,), style)

    def __str__(self) -> str:
        return self.table().rstrip()

    def to_dataframe(self) -> Any:
        """Return a `pandas.DataFrame` with all trials; the column ``report`` has the report names.

        Raises:
            ConfigError: pandas is not installed.
        """
        return _frame(
            [
                {"report": name, **_trial(each)}
                for name, report in self.reports.items()
                for each in report.outcomes
            ]
        )

    def svg(self) -> str:
        """Return an SVG plot of the shares of passed trials, with confidence intervals."""
        from pure_agent_loop.support.prose import escaped

        height = _STEP * len(self.reports)
        parts = [
            f'<line x1="{_x(share)}" x2="{_x(share)}" y2="{height}" stroke="currentColor" opacity=".2"/>'
            f'<text x="{_x(share)}" y="{height + 16}" text-anchor="middle">{share:.0%}</text>'
            for share in (0, 0.25, 0.5, 0.75, 1)
        ]
        for number, (name, report) in enumerate(self.reports.items()):
            y, (low, high) = _STEP * number + _STEP // 2, report.interval
            parts.append(
                f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{escaped(one_line(name, 24))}</text>'
                f'<line x1="{_x(low)}" x2="{_x(high)}" y1="{y}" y2="{y}" stroke="currentColor"/>'
                f'<circle cx="{_x(report.passed)}" cy="{y}" r="5"/>'
            )
        size = f'width="{_WIDTH}" height="{height + 24}" font-family="sans-serif" font-size="13"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} fill="currentColor">'
        return f"{head}{''.join(parts)}</svg>"

    def _rows(self) -> list[list[str]]:
        return _table("report", [(name, report.outcomes) for name, report in self.reports.items()])

    def _repr_html_(self) -> str:
        """Return the table and the plot as HTML for notebooks."""
        from pure_agent_loop.support.prose import table_to_html

        return f"<div>{table_to_html(self._rows())}{self.svg()}</div>"


def _x(share: float) -> int:
    return round(_LEFT + share * (_WIDTH - _LEFT - 30))


def wilson_interval(passed: int, trials: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a share, from 0 to 1.

    The trials are assumed to be independent; repetitions of a case are not, so the true interval is wider.
    Source: E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", Journal of
    the American Statistical Association 22 (1927), 209-212.

    Args:
        passed: Number of passed trials.
        trials: Number of all trials; if 0, the interval is from 0 to 1.
    """
    if not trials:
        return 0.0, 1.0
    z = statistics.NormalDist().inv_cdf(0.975)
    share, spread = passed / trials, z * z / trials
    centre = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / trials + spread / (4 * trials))
    return max(0.0, centre - half), min(1.0, centre + half)


def _frame(rows: list[dict[str, Any]]) -> Any:
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise ConfigError(notice("library.pandas_missing")) from error
    return pandas.DataFrame(rows)


def _trial(outcome: CaseOutcome) -> dict[str, Any]:
    """Return a trial as a row; scores and notes are columns."""
    row = {
        each.name: getattr(outcome, each.name)
        for each in fields(CaseOutcome)
        if each.name not in ("scores", "notes")
    }
    measured = {**outcome.notes, **outcome.scores}
    return {**row, **{f"score_{name}" if name in row else name: value for name, value in measured.items()}}


def _table(first: str, groups: Iterable[tuple[str, Sequence[CaseOutcome]]]) -> list[list[str]]:
    """Return a table: the header, and a row for each group of trials."""
    groups = list(groups)
    names = list(dict.fromkeys(name for _, outcomes in groups for each in outcomes for name in each.scores))
    return [[first, "passed", _INTERVAL, *names, *MEASURES], *(_row(*group, names) for group in groups)]


def _means(outcomes: Sequence[CaseOutcome], measures: Sequence[str] = ()) -> dict[str, float]:
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome.scores))
    values = {"passed": [outcome.passed for outcome in outcomes]}
    values |= {
        name: [outcome.scores[name] for outcome in outcomes if name in outcome.scores] for name in names
    }
    for name in measures:
        measured = [getattr(outcome, name) for outcome in outcomes]
        values[name] = [] if None in measured else measured  # if a cost is unknown, so is the mean
    return {name: statistics.fmean(numbers) for name, numbers in values.items() if numbers}


def _row(name: str, outcomes: Sequence[CaseOutcome], names: Sequence[str]) -> list[str]:
    means = _means(outcomes, MEASURES)
    passed = sum(outcome.passed for outcome in outcomes)
    low, high = wilson_interval(passed, len(outcomes))
    interval = f"{low * 100:.0f}-{high * 100:.0f}" if len(outcomes) > 1 else "-"  # no interval for one trial
    cells = [f"{means[column]:.2f}" if column in means else "-" for column in (*names, "seconds", "steps")]
    cost = f"{means['cost']:.4g}" if "cost" in means else "-"
    return [name, f"{passed}/{len(outcomes)}", interval, *cells, f"{means.get('tokens', 0):.0f}", cost]


def laid_out(lines: Sequence[Sequence[str]], left: Collection[int], style: str) -> str:
    """Format a table; the first row is the header.

    Args:
        left: Left-aligned columns, which have words; the others have numbers.
        style: ``text`` for a terminal or ``markdown`` for a document.
    """
    if style == "markdown":
        from pure_agent_loop.support.prose import cell_to_markdown

        rule = ["---" if i in left else "---:" for i in range(len(lines[0]))]
        cells = [[cell_to_markdown(cell) for cell in line] for line in lines]
        lines = [cells[0], rule, *cells[1:]]
        return "".join("| " + " | ".join(line) + " |\n" for line in lines)
    columns = [aligned(cells, right=i not in left) for i, cells in enumerate(zip(*lines, strict=True))]
    return "".join("  ".join(row).rstrip() + "\n" for row in zip(*columns, strict=True))


# Earlier names of these classes.
Report = EvaluationReport
Outcome = CaseOutcome
