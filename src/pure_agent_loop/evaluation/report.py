"""Report of an evaluation: a table, JSON, a data frame, a comparison, and an assertion for tests."""

from __future__ import annotations

import itertools
import json
import math
import os
import shlex
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain, islice
from pathlib import Path
from typing import Any, overload

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.evaluation.comparison import SHOWN, Comparison, compare_scores, frame
from pure_agent_loop.evaluation.outcomes import (
    MAX_CHARS,
    MAX_ROWS,
    MEASURES,
    CaseOutcome,
    Values,
    read_outcomes,
    scored,
)
from pure_agent_loop.llm.extra import without_extra
from pure_agent_loop.llm.messages import SYSTEM_ROLES
from pure_agent_loop.support.checks import is_whole, require
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.terminal import aligned, one_line
from pure_agent_loop.support.text import present, shorten, to_jsonable
from pure_agent_loop.support.typed import mistyped

RESERVED = ("passed", *MEASURES)
_HISTORY = ("messages", "system_prompt", "offered", "token_details")
_DETAILS = ("case", "repeat", "session", "passed", "scores")  # optional keys of a line of `to_chat_jsonl`
_WIDTH, _LEFT, _STEP = 640, 200, 28  # pixels: plot width, width of the names, row height


@dataclass(slots=True)
class EvaluationReport:
    """Results of an evaluation.

    Args:
        name: The dataset.
        outcomes: One for each trial, in the order of the cases. In reports from `Dataset.run` and `load`,
            each outcome is read from its file on access.
        about: Model and settings of the run.
    """

    name: str
    outcomes: Sequence[CaseOutcome] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> float:
        """Share of trials that passed, from 0 to 1."""
        return self._passed() / len(self.outcomes) if self.outcomes else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of `passed`; see `wilson_interval`."""
        return wilson_interval(self._passed(), len(self.outcomes))

    def _passed(self) -> int:
        return int(_totals(scored(self.outcomes).values(), ["passed"])["passed"])

    @property
    def scores(self) -> dict[str, float]:
        """Mean per evaluator, and means of ``passed``, ``seconds``, ``steps``, ``tokens`` and ``cost``."""
        return _means(scored(self.outcomes).values())

    @property
    def failures(self) -> list[CaseOutcome]:
        """The trials that did not pass."""
        return list(self._failed())

    def _failed(self) -> Iterator[CaseOutcome]:
        return (outcome for outcome in self.outcomes if not outcome.passed)

    def by_case(self) -> dict[str, list[CaseOutcome]]:
        """The trials of each case."""
        groups: dict[str, list[CaseOutcome]] = {}
        for outcome in self.outcomes:
            groups.setdefault(outcome.case, []).append(outcome)
        return groups

    def pass_at(self, k: int) -> float:
        """Return pass@k: the estimated probability that at least one of `k` trials of a case passes.

        The unbiased estimator, averaged over the cases, is 1 - C(n - c, k) / C(n, k) for `c` passed trials of
        `n`. Source: M. Chen et al., "Evaluating Large Language Models Trained on Code", arXiv:2107.03374
        (2021).

        Args:
            k: From 1 to the smallest number of trials of any case.

        Raises:
            ConfigError: A case has fewer than `k` trials.
        """
        return self._estimated(k)[1]

    def pass_all(self, k: int) -> float:
        """Return pass^k: the estimated probability that all of `k` trials of a case pass.

        The unbiased estimator, averaged over the cases, is C(c, k) / C(n, k) for `c` passed trials of `n`.
        Source: S. Yao et al., "τ-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains",
        arXiv:2406.12045 (2024).

        Args:
            k: From 1 to the smallest number of trials of any case.

        Raises:
            ConfigError: A case has fewer than `k` trials.
        """
        return self._estimated(k)[0]

    def _estimated(self, k: int) -> tuple[float, float]:
        cases = scored(self.outcomes).values()
        least = _least(cases)
        require(
            is_whole(k, 1) and k <= least, "k", k, f"a whole number from 1 to {least}, the trials per case"
        )
        return _pass_shares(cases, k)

    def table(self, style: str = "text") -> str:
        """Return a table with a row per case, a row for all cases, and a row with the totals.

        The column ``95 %`` is the confidence interval of the share of passed trials; see `wilson_interval`.
        If each case has k > 1 trials, ``pass^k`` is the share of cases in which all trials passed, and
        ``pass@k`` the share in which at least one did; see `pass_all` and `pass_at`. Costs are in US dollars,
        unless the prices of the agent are in another currency.

        Args:
            style: ``text`` or ``markdown``.
        """
        return laid_out(self._rows(), (0,), style)

    def _rows(self) -> list[list[str]]:
        cases = scored(self.outcomes)
        rows = _table(
            "case", [*((name, [values]) for name, values in cases.items()), ("all", cases.values())]
        )
        blanks = ["" for _ in rows[0][1 : -len(MEASURES)]]
        return [*rows, ["total", *blanks, *_measured(_totals(cases.values(), MEASURES), steps=0)]]

    def _repr_html_(self) -> str:
        """Return the table and the failures as HTML for notebooks."""
        from pure_agent_loop.support.prose import folded_table, table_to_html

        header, *cases, means, total = self._rows()
        failures = [
            [failure.case, str(failure.repeat), shorten(failure.why(), MAX_CHARS)]
            for failure in islice(self._failed(), MAX_ROWS)
        ]
        table = table_to_html([header, *cases[:MAX_ROWS], means, total])
        return f"<div>{table}{folded_table('failure', ['case', 'repeat', 'why'], failures)}</div>"

    def to_dataframe(self) -> Any:
        """Return a `pandas.DataFrame`: a row per trial, fields of `CaseOutcome` and scores as columns.

        Raises:
            ConfigError: pandas is not installed.
        """
        return frame([_trial(outcome) for outcome in self.outcomes])

    def __str__(self) -> str:
        failures = list(islice(self._failed(), SHOWN))
        lines = [f"{outcome.case} ({outcome.repeat}): {outcome.why()}" for outcome in failures]
        rest = len(self.outcomes) - self._passed() - len(lines)
        more = [f"... and {rest} more"] if rest else []
        if any(outcome.session for outcome in failures) and "sessions" in self.about:
            more.append(f"sessions: pal replay ID --database {shlex.quote(self.about['sessions'])}")
        return "\n".join([self.table().rstrip(), *lines, *more])

    def compare(self, former: EvaluationReport) -> Comparison:
        """Compare with a former run, case by case and score by score; `ScoreDifference` describes the test
        for chance.

        Args:
            former: Report of the former run, such as ``EvaluationReport.load("before.json")``.

        Raises:
            ConfigError: `former` is not a report.
        """
        if not isinstance(former, EvaluationReport):
            raise ConfigError(
                f"former must be an EvaluationReport; it is {former!r:.80}. "
                "Read one with EvaluationReport.load(path)."
            )
        return compare_scores(_of_cases(self), _of_cases(former))

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
            messages: True includes the history of each trial: its messages, system prompt, tools and token
                details.
        """
        return {**self._head(), "outcomes": [*self._plain_outcomes(messages)]}

    def _head(self) -> dict[str, Any]:
        head: dict[str, Any] = to_jsonable({"name": self.name, "about": self.about, "scores": self.scores})
        return head

    def _plain_outcomes(self, messages: bool) -> Iterator[Any]:
        names = [each.name for each in fields(CaseOutcome) if messages or each.name not in _HISTORY]
        for outcome in self.outcomes:
            yield to_jsonable({name: getattr(outcome, name) for name in names})

    def _written(self, messages: bool) -> Iterator[str]:
        """Yield the pieces of the JSON form, with a line for each outcome."""
        yield f'{_json(self._head())[:-1]}, "outcomes": ['
        between = "\n"
        for plain in self._plain_outcomes(messages):
            yield between + _json(plain)
            between = ",\n"
        yield "\n]}\n"

    def save(self, path: str | os.PathLike[str], *, messages: bool = False) -> None:
        """Write the report to a file, as JSON.

        Histories can be large. The arguments are those of `to_dict`.
        """
        with Path(path).open("w", encoding="utf-8") as file:
            file.writelines(self._written(messages))

    @overload
    def to_chat_jsonl(
        self, path: None = None, *, system: bool = True, tools: bool = True, details: bool = True
    ) -> str: ...
    @overload
    def to_chat_jsonl(
        self,
        path: str | os.PathLike[str],
        *,
        system: bool = True,
        tools: bool = True,
        details: bool = True,
    ) -> None: ...
    def to_chat_jsonl(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        system: bool = True,
        tools: bool = True,
        details: bool = True,
    ) -> str | None:
        """Return the trials as JSON lines for fine-tuning, or write them to a file.

        Each line has the ``messages`` of a trial in the form of chat completions, with calls and results, and
        the ``tools`` that the model was offered. A trial without tools has no key ``tools``.

        Args:
            path: The file; None to return the text.
            system: False omits the system prompt.
            tools: False omits the tools.
            details: True adds ``case``, ``repeat``, ``session``, ``passed``, ``scores`` and, if recorded,
                ``token_details`` with an entry for each assistant message, as in `CaseOutcome`. False for
                servers that reject keys other than ``messages`` and ``tools``.

        Raises:
            ConfigError: A trial has no messages; nothing is written.
        """
        for outcome in self.outcomes:
            if not outcome.messages:
                raise ConfigError(notice("library.no_messages", case=outcome.case, repeat=outcome.repeat))
        lines = (_chat_line(outcome, system, tools, details) for outcome in self.outcomes)
        if path is None:
            return "".join(lines)
        with Path(path).open("w", encoding="utf-8") as file:
            file.writelines(lines)
        return None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> EvaluationReport:
        """Load a report written by `save`, or the outcomes in a ``.jsonl`` file written by `Dataset.run`.

        In a file with the outcomes of several agents, those of the last one are loaded.

        Raises:
            ConfigError: The file cannot be read, or is not a report.
        """
        return _loaded(path)[-1][1]


def _loaded(path: str | os.PathLike[str]) -> list[tuple[str, EvaluationReport]]:
    """Load the reports in a file, each with its name.

    Raises:
        ConfigError: The file cannot be read, or is not a report.
    """
    try:
        if Path(path).suffix == ".jsonl":
            agents = [EvaluationReport(*outcomes) for outcomes in read_outcomes(Path(path))]
            return [(str(report.about.get("model")), report) for report in agents]
        plain = read_json(Path(path).read_text(encoding="utf-8"))
        reports = [
            (name, EvaluationReport(one["name"], [CaseOutcome(**o) for o in one["outcomes"]], one["about"]))
            for name, one in (plain["reports"] if "reports" in plain else {plain["name"]: plain}).items()
        ]
        problem = mistyped(reports, list[tuple[str, EvaluationReport]])
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        raise ConfigError(notice("library.not_a_report", path=os.fspath(path), wrong=problem))
    return reports


def _of_cases(report: EvaluationReport) -> dict[str, Values]:
    """Return ``passed`` and the scores by case."""
    return {
        case: {name: numbers for name, numbers in values.items() if name not in MEASURES}
        for case, values in scored(report.outcomes).items()
    }


def _chat_line(outcome: CaseOutcome, system: bool, tools: bool, details: bool) -> str:
    messages = [without_extra(each) for each in outcome.messages if each["role"] not in SYSTEM_ROLES]
    if system and outcome.system_prompt:
        messages.insert(0, {"role": "system", "content": outcome.system_prompt})
    line = {"messages": messages, **present(tools=(outcome.offered or None) if tools else None)}
    if details:
        line |= {name: getattr(outcome, name) for name in _DETAILS}
        line |= {"token_details": outcome.token_details} if outcome.token_details else {}
    return _json(line) + "\n"


def _json(plain: Any) -> str:
    return json.dumps(plain, ensure_ascii=False)


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
        is_dict = isinstance(given, Mapping) and all(
            isinstance(name, str) and isinstance(report, EvaluationReport) for name, report in given.items()
        )
        require(is_dict, "reports", given, 'a dict such as {"short": report}')

    def table(self, style: str = "text") -> str:
        """Return a table with a row per report; see `EvaluationReport.table`."""
        return laid_out(self._rows(), (0,), style)

    def __str__(self) -> str:
        return self.table().rstrip()

    def compare(self) -> dict[tuple[str, str], Comparison]:
        """Compare each report with each earlier one, case by case; see `EvaluationReport.compare`.

        The intervals are widened so that those of all pairs hold simultaneously.

        Returns:
            The differences from the earlier report, for each pair of names (the later report comes first).
        """
        pairs = list(itertools.combinations(self.reports.items(), 2))
        return {
            (later[0], former[0]): compare_scores(
                _of_cases(later[1]), _of_cases(former[1]), comparisons=len(pairs)
            )
            for former, later in pairs
        }

    def save(self, path: str | os.PathLike[str], *, messages: bool = False) -> None:
        """Write the reports to a file, as JSON. The arguments are those of `EvaluationReport.to_dict`."""
        with Path(path).open("w", encoding="utf-8") as file:
            before = '{"reports": {'
            for name, report in self.reports.items():
                file.write(f"{before}\n{_json(name)}: ")
                file.writelines(report._written(messages))
                before = ","
            file.write("}}\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Reports:
        """Load reports written by `save`, or by ``pal eval`` with several models.

        The file may also be one that `EvaluationReport.load` reads. The outcomes in a ``.jsonl`` file are
        named after their models; if several agents have the same model, only those of the last are loaded.

        Raises:
            ConfigError: The file cannot be read, or has no reports.
        """
        return cls(dict(_loaded(path)))

    def to_dataframe(self) -> Any:
        """Return a `pandas.DataFrame` with all trials; the column ``report`` has the report names.

        Raises:
            ConfigError: pandas is not installed.
        """
        return frame(
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
        groups = [(name, scored(report.outcomes).values()) for name, report in self.reports.items()]
        header, *rows = _table("report", groups)
        totals = [_totals(group, ["cost"])["cost"] for _, group in groups]
        cells = ["-" if math.isnan(total) else f"{total:.4g}" for total in totals]
        return [[*header, "total cost"], *([*row, cell] for row, cell in zip(rows, cells, strict=True))]

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


def _trial(outcome: CaseOutcome) -> dict[str, Any]:
    """Return a trial as a row; scores and notes are columns."""
    row = {
        each.name: getattr(outcome, each.name)
        for each in fields(CaseOutcome)
        if each.name not in ("scores", "notes")
    }
    measured = {**outcome.notes, **outcome.scores}
    return {**row, **{f"score_{name}" if name in row else name: value for name, value in measured.items()}}


def _table(first: str, groups: Sequence[tuple[str, Collection[Values]]]) -> list[list[str]]:
    """Return a table: the header, and a row for each group of cases."""
    cases = [values for _, group in groups for values in group]
    names = list(dict.fromkeys(name for values in cases for name in values if name not in RESERVED))
    k = _least(cases)
    powers = [f"pass^{k}", f"pass@{k}"] if k > 1 else []
    header = [first, "passed", "95 %", *powers, *names, *MEASURES[:-1], "cost"]
    return [header, *(_row(name, group, names, k) for name, group in groups)]


def _pass_shares(cases: Iterable[Values], k: int) -> tuple[float, float]:
    """Return pass^k and pass@k, averaged over the cases."""
    shares = list[tuple[float, float]]()
    for values in cases:
        count, passed = len(values["passed"]), int(sum(values["passed"]))
        all_ways = math.comb(count, k)
        shares.append((math.comb(passed, k) / all_ways, 1 - math.comb(count - passed, k) / all_ways))
    return statistics.fmean(share for share, _ in shares), statistics.fmean(share for _, share in shares)


def _least(cases: Iterable[Values]) -> int:
    """Return the smallest number of trials of a case; 0 without cases."""
    return min((len(values["passed"]) for values in cases), default=0)


def _totals(cases: Collection[Values], names: Iterable[str]) -> dict[str, float]:
    """Return the sum of each value over all trials; NaN if one is unknown."""
    return {name: math.fsum(chain.from_iterable(each.get(name, ()) for each in cases)) for name in names}


def _means(cases: Collection[Values]) -> dict[str, float]:
    """Return the mean of each value. If the cost of one trial is unknown, the mean cost is missing."""
    totals = _totals(cases, dict.fromkeys(chain.from_iterable(cases)))
    counts = {name: sum(len(values.get(name, ())) for values in cases) for name in totals}
    return {name: total / counts[name] for name, total in totals.items() if not math.isnan(total)}


def _row(name: str, group: Collection[Values], names: Sequence[str], k: int) -> list[str]:
    means, count = _means(group), sum(len(values["passed"]) for values in group)
    passed = int(_totals(group, ["passed"])["passed"])
    low, high = wilson_interval(passed, count)
    interval = f"{low * 100:.0f}-{high * 100:.0f}" if count > 1 else "-"  # no interval for one trial
    powers = [f"{share:.2f}" for share in _pass_shares(group, k)] if k > 1 else []
    scores = [f"{means[column]:.2f}" if column in means else "-" for column in names]
    return [name, f"{passed}/{count}", interval, *powers, *scores, *_measured(means)]


def _measured(values: Mapping[str, float | None], steps: int = 2) -> list[str]:
    """Return the cells of `MEASURES`; `steps` is the number of decimals of the steps."""
    forms = {"seconds": ".2f", "steps": f".{steps}f", "tokens": ".0f", "cost": ".4g"}
    known = ((values.get(name), form) for name, form in forms.items())
    return ["-" if value is None or math.isnan(value) else f"{value:{form}}" for value, form in known]


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


# Former name of this class.
Report = EvaluationReport
