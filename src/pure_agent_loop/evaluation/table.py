"""What came out: one row for each set."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from pure_agent_loop.evaluation.results import Record

HEADER = ("set", "n", "right", "%", "s median", "s p95", "tokens", "requests", "errors")
_LEFT = (0, len(HEADER) - 1)  # columns of words; the others are numbers


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one set.

    Args:
        name: The set.
        n: Questions asked.
        wanted: Questions that were to be asked.
        right: Right answers.
        median: Seconds for one question.
        p95: Seconds that 95 of 100 questions stay within.
        tokens: Written for one question, on average; None where no server said so.
        requests: Sent for one question, on average; None where the client did not say so.
        errors: How often each kind of error happened.
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
        """Right answers of 100 asked questions; a failed request is not right."""
        return 100 * self.right / self.n if self.n else 0.0


def summarise(records: Iterable[Record], wanted: Mapping[str, int]) -> list[Row]:
    """One row for each set, and one for all of them if there are several.

    Args:
        records: The results; those of other sets are left out.
        wanted: How many questions of each set were to be asked.
    """
    by_set: dict[str, list[Record]] = {name: [] for name in wanted}
    for record in records:
        if record.set in by_set:
            by_set[record.set].append(record)
    rows = [_row(name, found, wanted[name]) for name, found in by_set.items()]
    if len(rows) > 1:
        rows.append(_row("all", list(chain.from_iterable(by_set.values())), sum(wanted.values())))
    return rows


def _row(name: str, records: Sequence[Record], wanted: int) -> Row:
    seconds = sorted(record.seconds for record in records if record.answered)
    return Row(
        name=name,
        n=len(records),
        wanted=wanted,
        right=sum(record.right for record in records),
        median=statistics.median(seconds) if seconds else 0.0,
        # The nearest rank: a time that really was measured.
        p95=seconds[math.ceil(0.95 * len(seconds)) - 1] if seconds else 0.0,
        tokens=_mean(record.usage.get("completion_tokens") for record in records if record.usage),
        requests=_mean(record.requests for record in records),
        errors=dict(Counter(short_kind(r.error_type) for r in records if not r.right).most_common()),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def short_kind(kind: str) -> str:
    """An error's kind without the name of the checker's function that found it."""
    where, _, what = kind.partition(":")
    return what if what and "_checker" in where else kind


def as_text(rows: Sequence[Row]) -> str:
    """The table for a terminal: aligned columns."""
    return laid_out([HEADER, *map(_cells, rows)], _LEFT, "text")


def as_markdown(rows: Sequence[Row]) -> str:
    """The table for a document."""
    return laid_out([HEADER, *map(_cells, rows)], _LEFT, "markdown")


def laid_out(lines: Sequence[Sequence[str]], left: Collection[int], style: str) -> str:
    """A table, the header first.

    Args:
        left: Columns of words; the others are numbers.
        style: ``text`` for a terminal or ``markdown`` for a document.
    """
    columns = range(len(lines[0]))
    if style == "markdown":
        rule = ["---" if i in left else "---:" for i in columns]
        lines = [[each.replace("|", "\\|") for each in line] for line in (lines[0], rule, *lines[1:])]
        return "".join("| " + " | ".join(line) + " |\n" for line in lines)
    widths = [max(len(line[i]) for line in lines) for i in columns]
    return "".join("  ".join(_aligned(line, widths, left)).rstrip() + "\n" for line in lines)


def _aligned(line: Sequence[str], widths: Sequence[int], left: Collection[int]) -> Iterable[str]:
    for i, (cell, width) in enumerate(zip(line, widths, strict=True)):
        yield cell.ljust(width) if i in left else cell.rjust(width)


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
