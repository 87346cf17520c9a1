"""What came of an evaluation: a table, JSON, what got better or worse, and an assertion for tests."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.evaluation.table import laid_out
from pure_agent_loop.support.text import to_jsonable
from pure_agent_loop.support.typed import mistyped

MEASURES = ("seconds", "steps", "tokens", "cost")
RESERVED = ("passed", *MEASURES)
_HEADER = ("case", "passed")
_SHOWN_FAILURES = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one trial.

    Args:
        case: Its name.
        repeat: Which repetition, from 1.
        passed: The run came to its end by itself, and no evaluator said no.
        scores: By evaluator: True or False, or a number, of which more is better.
        notes: What evaluators said besides.
        output: What the agent gave, as JSON.
        stop_reason: Why the run ended.
        error: What failed, in the run or in an evaluator; empty for nothing.
        tools: The tools that were called.
        seconds: How long the run took.
        steps: Its steps.
        tokens: Its tokens.
        cost: Its money, as far as there are prices.
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
        """The same as `passed`."""
        return self.passed

    def why(self) -> str:
        """What is wrong with it, in a line."""
        said = [f"{name}: {text}" for name, text in self.notes.items()]
        wrong = [name for name, score in self.scores.items() if score is False]
        ended = (
            []
            if self.stop_reason in ("completed", "error", "invalid_output")
            else [f"stop_reason {self.stop_reason}"]
        )
        parts = [*ended, ", ".join(wrong), self.error, f"output {self.output!r:.120}", *said]
        return "; ".join(each for each in parts if each)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs from a former run.

    Args:
        better: Lines about what got better.
        worse: Lines about what got worse.
        new: Cases that the former run did not have.
        gone: Cases that only it had.
    """

    better: list[str]
    worse: list[str]
    new: list[str]
    gone: list[str]

    def __str__(self) -> str:
        lines = [
            f"{what}: {each}" for what in ("worse", "better", "new", "gone") for each in getattr(self, what)
        ]
        return "\n".join(lines) or "nothing got better or worse"


@dataclass(slots=True)
class Report:
    """The outcome of an evaluation.

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
        """The share of trials that passed, from 0 to 1."""
        return statistics.fmean(each.passed for each in self.outcomes) if self.outcomes else 0.0

    @property
    def scores(self) -> dict[str, float]:
        """The mean of each evaluator, and of ``passed``, ``seconds``, ``steps``, ``tokens`` and ``cost``."""
        return _means(self.outcomes, (*MEASURES,))

    @property
    def failures(self) -> list[Outcome]:
        """The trials that did not pass."""
        return [each for each in self.outcomes if not each.passed]

    def by_case(self) -> dict[str, list[Outcome]]:
        """The trials of each case."""
        found: dict[str, list[Outcome]] = {}
        for each in self.outcomes:
            found.setdefault(each.case, []).append(each)
        return found

    def table(self, style: str = "text") -> str:
        """A row for each case, and one for all.

        Args:
            style: ``text`` or ``markdown``.
        """
        names = list(dict.fromkeys(name for each in self.outcomes for name in each.scores))
        groups = [*self.by_case().items(), ("all", self.outcomes)]
        rows = [_row(name, outcomes, names) for name, outcomes in groups]
        return laid_out([(*_HEADER, *names, *MEASURES), *rows], (0,), style)

    def __str__(self) -> str:
        failures = self.failures
        lines = [f"{each.case} ({each.repeat}): {each.why()}" for each in failures[:_SHOWN_FAILURES]]
        more = len(failures) - len(lines)
        return "\n".join([self.table().rstrip(), *lines, *([f"... and {more} more"] if more else [])])

    def compare(self, former: Report) -> Comparison:
        """What got better or worse since a former run, case by case and score by score.

        Args:
            former: The run before, such as ``Report.load("before.json")``.

        Raises:
            ConfigError: `former` is no report.
        """
        if not isinstance(former, Report):
            raise ConfigError(f"compare takes a Report; Report.load(path) reads one. It is {former!r:.80}.")
        now, before = self.by_case(), former.by_case()
        better, worse = list[str](), list[str]()
        for case in (name for name in now if name in before):
            new, old = _means(now[case]), _means(before[case])
            for name in (name for name in new if name in old and new[name] != old[name]):
                line = f"{case}: {name} {old[name]:g} -> {new[name]:g}"
                (better if new[name] > old[name] else worse).append(line)
        return Comparison(
            better, worse, [each for each in now if each not in before], [e for e in before if e not in now]
        )

    def assert_scores(
        self,
        at_least: Mapping[str, float] | None = None,
        at_most: Mapping[str, float] | None = None,
    ) -> None:
        """Fail a test unless the means keep these bounds; without any, unless every trial passed.

        Args:
            at_least: By name of `scores`, such as ``{"passed": 0.9, "judge": 0.8}``.
            at_most: The same, such as ``{"steps": 3, "cost": 0.01}``.

        Raises:
            AssertionError: One is not kept; the message has the table and the failures.
            ConfigError: There is no score of that name.
        """
        if at_least is None and at_most is None:
            at_least = {"passed": 1.0}
        scores, wrong = self.scores, list[str]()
        for bounds, sign, word in ((at_least, 1, "at least"), (at_most, -1, "at most")):
            for name, bound in (bounds or {}).items():
                if name not in scores:
                    raise ConfigError(f"There is no score {name!r}. There are: {', '.join(scores)}.")
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
                "outcomes": [asdict(each) for each in self.outcomes],
            }
        )
        return plain

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, as JSON."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=1)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Report:
        """Read what `save` wrote.

        Raises:
            ConfigError: It cannot be read, or is no report.
        """
        try:
            plain = json.loads(Path(path).read_text(encoding="utf-8"))
            report = cls(plain["name"], [Outcome(**each) for each in plain["outcomes"]], plain["about"])
            wrong = mistyped(report, cls)
        except (OSError, ValueError, TypeError, KeyError) as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            raise ConfigError(f"{os.fspath(path)} is no report of an evaluation: {wrong}")
        return report


def _means(outcomes: Sequence[Outcome], more: Sequence[str] = ()) -> dict[str, float]:
    names = list(dict.fromkeys(name for each in outcomes for name in each.scores))
    values = {"passed": [each.passed for each in outcomes]}
    values |= {name: [each.scores[name] for each in outcomes if name in each.scores] for name in names}
    values |= {name: [getattr(each, name) for each in outcomes] for name in more}
    return {name: statistics.fmean(found) for name, found in values.items() if found}


def _row(name: str, outcomes: Sequence[Outcome], names: Sequence[str]) -> list[str]:
    means = _means(outcomes, MEASURES)
    passed = f"{sum(each.passed for each in outcomes)}/{len(outcomes)}"
    cells = [f"{means[each]:.2f}" if each in means else "-" for each in (*names, "seconds", "steps")]
    return [name, passed, *cells, f"{means.get('tokens', 0):.0f}", f"{means.get('cost', 0):.4g}"]
