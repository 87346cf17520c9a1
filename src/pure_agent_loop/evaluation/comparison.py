"""Comparison of two runs of the same cases: paired differences with intervals, and changed cases."""

from __future__ import annotations

import importlib
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.evaluation.outcomes import MAX_ROWS
from pure_agent_loop.support.language import notice, user_text

Scores = Mapping[str, Mapping[str, Sequence[float]]]  # a value per trial, by case and score
SHOWN = 10  # maximum lines of changed, new or removed cases in a text
_POINTS = 0.05  # size of the difference to detect, for the number of repeats
_POWER = 0.8
_CHANGE = ("change", "case", "score", "before", "now")


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
        return f"{self.case}: {self._value()}"

    def _value(self) -> str:
        return f"{self.score} {self.before:.4g} -> {self.now:.4g}"


class ScoreDifference(NamedTuple):
    """Difference in a score's mean over the cases that two runs share, with its confidence interval.

    Each case is compared with itself. The standard error assumes that the two runs differ by chance alone: in
    each case, the trials of both runs then have the same distribution, with the pooled variance. The
    interval, difference ± z · error, excludes 0 exactly if this assumption is rejected at 5 %. Trials of a
    case must be independent. With several scores, z is Bonferroni's, so that all intervals hold
    simultaneously.

    Sources: Pitman, "Significance Tests Which May be Applied to Samples from any Populations",
    Supplement to the Journal of the Royal Statistical Society 4 (1937), 119-130, for the variance; Cochran,
    "Some Methods for Strengthening the Common χ² Tests", Biometrics 10 (1954), 417-451, for the sum
    over cases. With one trial per case and run, the test is McNemar's.

    Args:
        score: Name of the score, such as ``passed``.
        before: Mean of the former run's means per case.
        now: Mean of this run's means per case.
        low: Lower end of the interval of ``now - before``.
        high: Upper end.
        error: Standard error of the difference.
        repeats: Harmonic mean of the numbers of trials per case and run.
    """

    score: str
    before: float
    now: float
    low: float
    high: float
    error: float
    repeats: float

    def repeats_for(self, difference: float = _POINTS) -> int:
        """Return the repeats per case that give the interval an 80 % chance of excluding 0.

        Source: the normal approximation, n = n₀ · ((z + z₀.₈) · error / difference)²; see Lenth, "Some
        Practical Guidelines for Effective Sample Size Determination", The American Statistician 55 (2001),
        187-193.

        Args:
            difference: Size of the true difference: 0.05 for 5 percentage points.
        """
        spread = (self.high - self.low) / 2 + statistics.NormalDist().inv_cdf(_POWER) * self.error
        return max(1, math.ceil(self.repeats * (spread / difference) ** 2))

    def __str__(self) -> str:
        interval = f"{self.now - self.before:+.3f}, 95 %: {self.low:+.3f} … {self.high:+.3f}"
        return f"{self.score} {self.before:.3f} -> {self.now:.3f} ({interval})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences from a former run.

    Args:
        better: One line per score that improved beyond chance, over all cases.
        worse: One line per score that got worse beyond chance, over all cases.
        new: Cases that the former run did not have.
        gone: Cases that only the former run had.
        changes: Changed means of cases, largest first, ``passed`` before other scores. They
            include chance differences.
        differences: The difference in each score over all cases.
    """

    better: list[str]
    worse: list[str]
    new: list[str]
    gone: list[str]
    changes: list[Change] = field(default_factory=list)
    differences: list[ScoreDifference] = field(default_factory=list)

    def __str__(self) -> str:
        by_case: dict[str, list[str]] = {}
        for change in self.changes:
            by_case.setdefault(change.case, []).append(change._value())
        changed = [f"  {case}: {', '.join(values)}" for case, values in by_case.items()]
        heading = [user_text("library.compare_cases")] if changed else []
        lines = [*self._verdicts(), *heading, *_folded(changed, "  ")]
        for what in ("new", "gone"):
            lines += _folded([f"{what}: {case}" for case in getattr(self, what)])
        return "\n".join(lines)

    def _verdicts(self) -> Iterator[str]:
        """Yield a line per score whose trials differ, and one on the repeats that detect a small change."""
        uncertain = [difference for difference in self.differences if difference.error]
        if not uncertain and not self.new and not self.gone:
            yield user_text("library.compare_unchanged")
        for each in uncertain:
            verdict = "worse" if each.high < 0 else "better" if each.low > 0 else "chance"
            yield user_text(f"library.compare_{verdict}", difference=each)
        if uncertain and uncertain[0].score == "passed":
            needed, now = uncertain[0].repeats_for(), uncertain[0].repeats
            yield user_text("library.compare_power", points=100 * _POINTS, needed=needed, now=now)

    def to_dataframe(self) -> Any:
        """Return a `pandas.DataFrame` with the columns ``change``, ``case``, ``score``, ``before``, ``now``.

        Raises:
            ConfigError: pandas is not installed.
        """
        return frame([dict(zip(_CHANGE, row, strict=True)) for row in self._rows()])

    def _rows(self) -> list[tuple[Any, ...]]:
        changes = [("lower" if change.now < change.before else "higher", *change) for change in self.changes]
        others = [(what, case, None, None, None) for what in ("new", "gone") for case in getattr(self, what)]
        return [*changes, *others]

    def _repr_html_(self) -> str:
        """Return the differences, and the changes as a table, as HTML for notebooks."""
        from pure_agent_loop.support.prose import escaped, table_to_html

        rows = [
            ["" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row]
            for row in self._rows()[:MAX_ROWS]
        ]
        verdicts = "".join(f"<p>{escaped(verdict)}</p>" for verdict in self._verdicts())
        return verdicts + (table_to_html([_CHANGE, *rows]) if rows else "")


def compare_scores(now: Scores, before: Scores, comparisons: int = 1) -> Comparison:
    """Compare the scores of two runs, by case.

    Args:
        comparisons: Number of comparisons whose intervals must hold simultaneously.
    """
    pairs: dict[str, list[tuple[str, Sequence[float], Sequence[float]]]] = {}
    for case in (name for name in now if name in before):
        for score in (name for name in now[case] if name in before[case]):
            pairs.setdefault(score, []).append((case, before[case][score], now[case][score]))
    means = {score: [_change(score, *values) for values in of_score] for score, of_score in pairs.items()}
    changed = (change for changes in means.values() for change in changes)
    changes = [change for change in changed if not math.isclose(change.now, change.before)]
    changes.sort(key=lambda change: (change.score != "passed", -abs(change.now - change.before), change.now))
    errors = {score: _error([values[1:] for values in pairs[score]]) for score in pairs}
    # Scores that vary identically in all cases count as one test; constant scores count as none.
    tests = {tuple(change.now - change.before for change in means[score]) for score in pairs if errors[score]}
    z = statistics.NormalDist().inv_cdf(1 - 0.025 / (comparisons * max(1, len(tests))))
    differences = []
    for score, values in pairs.items():
        old, new = (statistics.fmean(getattr(c, name) for c in means[score]) for name in ("before", "now"))
        margin, repeats = z * errors[score], statistics.harmonic_mean([len(v) for p in values for v in p[1:]])
        low, high = new - old - margin, new - old + margin
        differences.append(ScoreDifference(score, old, new, low, high, errors[score], repeats))
    return Comparison(
        [str(difference) for difference in differences if difference.error and difference.low > 0],
        [str(difference) for difference in differences if difference.error and difference.high < 0],
        [name for name in now if name not in before],
        [name for name in before if name not in now],
        changes,
        differences,
    )


def _change(score: str, case: str, before: Sequence[float], now: Sequence[float]) -> Change:
    return Change(case, score, statistics.fmean(before), statistics.fmean(now))


def _error(pairs: Sequence[tuple[Sequence[float], ...]]) -> float:
    """Return the standard error of the mean difference, if both runs have the same distribution."""
    variances = [
        statistics.variance([float(value) for values in pair for value in values])
        * sum(1 / len(values) for values in pair)
        for pair in pairs
    ]
    return math.sqrt(math.fsum(variances)) / len(pairs)


def _folded(lines: Sequence[str], indent: str = "") -> list[str]:
    rest = len(lines) - SHOWN
    return [*lines[:SHOWN], *([indent + user_text("library.compare_more", count=rest)] if rest > 0 else [])]


def frame(rows: list[dict[str, Any]]) -> Any:
    """Return a `pandas.DataFrame`.

    Raises:
        ConfigError: pandas is not installed.
    """
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise ConfigError(notice("library.pandas_missing")) from error
    return pandas.DataFrame(rows)
