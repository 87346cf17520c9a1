"""Differences between two runs: chance is not a regression, and a regression is found."""

from __future__ import annotations

import math
import random

import pytest

from pure_agent_loop import Agent, ConfigError
from pure_agent_loop.cli import main
from pure_agent_loop.evaluation import Case, CaseOutcome, Contains, Dataset, EvaluationReport
from pure_agent_loop.testing import ScriptedLLM

CASES = [Case(f"question {number}", "fine") for number in range(40)]


def run(share, seed, repeats=3, never=""):
    """Evaluate an agent that is right with a probability, by question and seed."""

    def reply(messages, tools, options):
        question = messages[-1]["content"]
        is_right = random.Random(f"{question}/{options['seed']}").random() < share and question != never
        return "fine" if is_right else "no idea"

    agent = Agent(llm=ScriptedLLM(reply))
    return Dataset(CASES, [Contains()]).run(agent, repeats=repeats, seed=seed, concurrency=8)


def report(**cases):
    """A report: the trials of each case as a text of 1 (passed) and 0."""
    return EvaluationReport(
        "d",
        [
            CaseOutcome(name, i, mark == "1")
            for name, marks in cases.items()
            for i, mark in enumerate(marks, 1)
        ],
    )


def test_same_agent_with_other_seeds_does_not_get_worse():
    former = run(0.7, 0)
    found = [run(0.7, seed).compare(former) for seed in range(100, 2100, 100)]
    assert len(found) == 20
    assert sum(bool(comparison.worse) for comparison in found) <= 1
    assert sum(bool(comparison.better) for comparison in found) <= 1
    assert all(
        "no difference beyond chance: passed" in str(each) for each in found if not each.better + each.worse
    )


def test_worse_and_better_agents_are_found():
    former = run(0.7, 0)
    assert [line[:6] for line in run(0.4, 100).compare(former).worse] == ["passed", "contai"]
    better = run(0.95, 100).compare(former)
    assert [line[:6] for line in better.better] == ["passed", "contai"]
    assert not better.worse
    assert str(better).startswith("better: passed 0.6")


def test_case_that_fell_is_the_first_of_the_changes():
    comparison = run(0.9, 7, never="question 31").compare(run(0.9, 0))
    assert str(comparison.changes[0]) == "question 31: passed 1 -> 0"
    lines = str(comparison).splitlines()
    heading = next(number for number, line in enumerate(lines) if line.startswith("Cases that changed"))
    assert lines[heading + 1] == "  question 31: passed 1 -> 0, contains 1 -> 0"
    assert len(lines) == heading + 12  # ten cases, and how many more
    assert lines[-1].strip().startswith("... and ")


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        ({"a": "1111"}, {"a": "0000"}, "worse"),
        ({"a": "0000"}, {"a": "1111"}, "better"),
        ({"a": "11"}, {"a": "00"}, "chance"),
        ({"a": "1", "b": "1", "c": "1"}, {"a": "0", "b": "0", "c": "0"}, "chance"),
        (dict.fromkeys("abcd", "1"), dict.fromkeys("abcd", "0"), "worse"),
        (dict.fromkeys("abcd", "1") | {"e": "0"}, dict.fromkeys("abcd", "0") | {"e": "1"}, "chance"),
        ({"a": "1111", "b": "1111"}, {"a": "0000", "c": "1"}, "worse"),
        ({"a": "1", "b": "11111"}, {"a": "11111", "b": "1"}, "unchanged"),
    ],
)
def test_verdict_for_few_trials(before, now, verdict):
    comparison = report(**now).compare(report(**before))
    first = str(comparison).partition(":")[0]
    words = {"chance": "no difference beyond chance", "unchanged": "nothing got better or worse"}
    assert first == words.get(verdict, verdict)
    assert bool(comparison.worse) is (verdict == "worse")
    assert bool(comparison.better) is (verdict == "better")


def test_interval_of_one_trial_per_case_is_that_of_mcnemar():
    """12 cases got worse, 3 better, 85 did not change: z = (b - c) / sqrt(b + c)."""
    before = report(**{f"c{n}": "1" if n < 12 or n >= 15 else "0" for n in range(100)})
    now = report(**{f"c{n}": "0" if n < 12 else "1" for n in range(100)})
    (difference,) = now.compare(before).differences
    assert difference.error == pytest.approx(math.sqrt(15) / 100)
    assert (difference.low, difference.high) == pytest.approx((-0.09 - 0.0759, -0.09 + 0.0759), abs=1e-4)


def test_repeats_for_a_difference():
    (difference,) = report(a="1100", b="1010").compare(report(a="1100", b="0101")).differences
    assert difference.repeats == 4
    assert difference.error == pytest.approx(math.sqrt(2 * 2 / 7 * 2 / 4) / 2)
    assert difference.repeats_for(0.5) == math.ceil(4 * (2.8016 * difference.error / 0.5) ** 2)
    assert difference.repeats_for() == difference.repeats_for(0.05) == 898
    assert "both runs need about" in str(report(a="1").compare(report(a="0")))


def test_several_scores_share_the_level():
    """Each of two scores alone would be worse at 5 % (z = 2.0), but one of two is so by chance."""

    def scored(values):
        return EvaluationReport("d", [CaseOutcome(c, 1, False, {"x": x, "y": y}) for c, x, y in values])

    now = scored([(c, 0, n % 2) for n, c in enumerate("abcd")])
    comparison = now.compare(scored([(c, 1, (n + 1) % 2) for n, c in enumerate("abcd")]))
    assert comparison.worse == []
    alike = scored([(c, 0, 0) for c in "abcd"]).compare(scored([(c, 1, 1) for c in "abcd"]))
    assert len(alike.worse) == 2  # two that rise and fall together are one test


def test_numbers_that_differ_by_rounding_are_unchanged():
    def scored(count):
        return EvaluationReport("d", [CaseOutcome("a", i, True, {"x": 0.1}) for i in range(1, count + 1)])

    assert str(scored(3).compare(scored(1))) == "nothing got better or worse"


def test_chinese_verdict(monkeypatch):
    monkeypatch.setenv("PAL_LANG", "zh")
    assert "没有超出偶然的差异：passed" in str(report(a="1").compare(report(a="0")))


FILE = """
import random
from pure_agent_loop import Agent
from pure_agent_loop.evaluation import Case, Contains, Dataset
from pure_agent_loop.testing import ScriptedLLM

def reply(messages, tools, options):
    return "fine" if random.Random(f"{{messages[-1]}}/{{options['seed']}}").random() < {share} else "no"

agent = Agent(llm=ScriptedLLM(reply))
dataset = Dataset([Case(f"question {{number}}", "fine") for number in range(40)], [Contains()])
"""


@pytest.mark.parametrize("name", ["before.json", "before.jsonl"])
def test_exit_code_of_a_comparison(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)

    def command(share, seed, *words):
        (tmp_path / "mine.py").write_text(FILE.format(share=share))
        repeats = ["--repeats", "3", "--at-least", "0", "--concurrency", "8"]
        code = main(["eval", "mine.py", "--seed", seed, *repeats, *words])
        return code, capsys.readouterr().out

    assert command(0.7, "1", "--out", name)[0] == 0
    code, printed = command(0.7, "101", "--compare", name)
    assert code == 0
    assert "worse" not in printed
    code, printed = command(0.3, "101", "--compare", name)
    assert code == 1
    assert "worse: passed 0." in printed
    assert command(0.95, "101", "--compare", name)[0] == 0


def test_shares_of_cases_with_several_trials():
    """pass^k and pass@k against all subsets of the trials."""
    one = report(a="1101", b="0001", c="0000")
    table = one.table().splitlines()
    assert table[0].split()[4:6] == ["pass^4", "pass@4"]
    assert table[4].split()[3:5] == ["0.00", "0.67"]
    assert one.pass_at(1) == one.pass_all(1) == pytest.approx(one.passed)
    assert one.pass_all(2) == pytest.approx((3 / 6 + 0 + 0) / 3)
    assert one.pass_at(2) == pytest.approx((1 + 3 / 6 + 0) / 3)
    assert "pass^" not in report(a="11", b="1").table()
    for wrong in (0, 5, 1.0, True):
        with pytest.raises(ConfigError, match="k must be a whole number from 1 to 4"):
            one.pass_at(wrong)
    with pytest.raises(ConfigError, match="from 1 to 0"):
        EvaluationReport("d").pass_all(1)


def test_table_ends_with_totals():
    outcomes = [CaseOutcome("a", i, True, seconds=1.5, steps=2, tokens=100, cost=0.25) for i in (1, 2)]
    head, *_, total = EvaluationReport("d", outcomes).table().splitlines()
    assert head.endswith("cost")
    assert total.split() == ["total", "3.00", "4", "200", "0.5"]
    unknown = EvaluationReport("d", [*outcomes, CaseOutcome("a", 3, True, cost=None)])
    assert unknown.table().splitlines()[-1].split()[-1] == "-"
    assert EvaluationReport("d").table().splitlines()[-1].startswith("total")
