"""Table of results: one row per set."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from benchmarks.bfcl.results import QuestionResult
from pure_agent_loop.evaluation.report import laid_out

HEADER = ("set", "n", "right", "%", "s median", "s p95", "tokens", "requests", "errors")
_LEFT = (0, len(HEADER) - 1)  # columns of words; the others are numbers


@dataclass(frozen=True, slots=True)
class Row:
    """Results of one set.

    Args:
        name: The set.
        n: Questions asked.
        wanted: Number of planned questions.
        right: Right answers.
        median: Median seconds per question.
        p95: 95th percentile of seconds per question.
        tokens: Mean output tokens per question; None if not reported.
        requests: Mean requests per question; None if not reported.
        errors: Number of errors by kind.
    """

    name: str
    n: int
    wanted: int
    right: int
    median: float
    p95: float
    tokens: float | None = None
    requests: float | None = None
    errors: Mapping[str, int] = field(default_factory=dict)

    @property
    def percent(self) -> float:
        """Percentage of right answers; a failed request is not right."""
        return 100 * self.right / self.n if self.n else 0.0


def summarise(records: Iterable[QuestionResult], wanted: Mapping[str, int]) -> list[Row]:
    """Return one row per set, and a total row for several sets.

    Args:
        records: The results; other sets are ignored.
        wanted: Number of planned questions per set.
    """
    by_set: dict[str, list[QuestionResult]] = {name: [] for name in wanted}
    for record in records:
        if record.set in by_set:
            by_set[record.set].append(record)
    rows = [_table_row(name, results, wanted[name]) for name, results in by_set.items()]
    if len(rows) > 1:
        rows.append(_table_row("all", list(chain.from_iterable(by_set.values())), sum(wanted.values())))
    return rows


def _table_row(name: str, records: Sequence[QuestionResult], wanted: int) -> Row:
    seconds = sorted(record.seconds for record in records if record.answered)
    return Row(
        name=name,
        n=len(records),
        wanted=wanted,
        right=sum(record.right for record in records),
        median=statistics.median(seconds) if seconds else 0.0,
        # The nearest rank: a measured time, not an interpolated one.
        p95=seconds[math.ceil(0.95 * len(seconds)) - 1] if seconds else 0.0,
        tokens=_mean(record.usage.get("completion_tokens") for record in records if record.usage),
        requests=_mean(record.requests for record in records),
        errors=dict(Counter(short_kind(r.error_type) for r in records if not r.right).most_common()),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def short_kind(kind: str) -> str:
    """Return an error's kind without the name of the checker's function."""
    where, _, what = kind.partition(":")
    return what if what and "_checker" in where else kind


def as_text(rows: Sequence[Row]) -> str:
    """Format the table for a terminal: aligned columns."""
    return laid_out([HEADER, *map(_cells, rows)], _LEFT, "text")


def as_markdown(rows: Sequence[Row]) -> str:
    """Format the table for a document."""
    return laid_out([HEADER, *map(_cells, rows)], _LEFT, "markdown")


def _cells(row: Row) -> list[str]:
    return [
        row.name,
        str(row.n) if row.n == row.wanted else f"{row.n} of {row.wanted}",
        str(row.right),
        f"{row.percent:.1f}",
        f"{row.median:.2f}",
        f"{row.p95:.2f}",
        "-" if row.tokens is None else f"{row.tokens:.0f}",
        "-" if row.requests is None else f"{row.requests:.1f}",
        ", ".join(f"{kind} {count}" for kind, count in row.errors.items()) or "-",
    ]
