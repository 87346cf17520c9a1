"""Several models in one `pal eval` command: a table, comparisons of pairs, and a file that resumes."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pure_agent_loop import ConfigError
from pure_agent_loop.cli import main
from pure_agent_loop.evaluation import CaseOutcome, EvaluationReport, Reports
from pure_agent_loop.testing import ScriptedServer, status

CASES = '{"cases": [%s], "evaluators": ["contains"]}'
SHARES = {"good": 1.0, "alike": 1.0, "bad": 0.2}


class Served:
    """A server with several models, which counts its requests."""

    def __init__(self, refuses=""):
        self.asked, self.refuses = Counter(), refuses

    def __call__(self, request):
        model, question = request.body["model"], request.messages[-1]["content"]
        self.asked[model] += 1
        if model == self.refuses:
            return status(401)
        return "fine" if random.Random(f"{model}/{question}").random() < SHARES[model] else "no"


@pytest.fixture
def pal(tmp_path, monkeypatch, capsys):
    """Run `pal eval` on 20 cases; return the code and what it printed."""
    monkeypatch.chdir(tmp_path)
    case = '{"input": "question %d", "expected": "fine"}'
    (tmp_path / "cases.json").write_text(CASES % ", ".join(case % number for number in range(20)))
    answering = []
    with ScriptedServer(handler=lambda request: answering[-1](request)) as server:

        def run(served, *words):
            answering.append(served)
            code = main(["eval", "cases.json", "--base-url", server.base_url, *words])
            return code, capsys.readouterr().out

        yield run


def models(*names):
    return [word for name in names for word in ("--model", name)]


def test_models_are_compared_in_pairs_and_the_first_decides_the_exit_code(pal):
    code, printed = pal(Served(), *models("good", "alike", "bad"))
    assert code == 1
    rows = [line.split()[:2] for line in printed.splitlines()[1:4]]
    assert [name for name, _ in rows] == ["good", "alike", "bad"]
    assert [rows[0][1], rows[1][1]] == ["20/20", "20/20"]
    assert "alike compared with good:\nnothing got better or worse" in printed
    assert "bad compared with good:\nworse: passed" in printed
    assert "bad compared with alike:\nworse: passed" in printed
    assert pal(Served(), *models("good", "alike"))[0] == 0
    assert pal(Served(), *models("bad", "good"))[0] == 0  # better than the first
    assert pal(Served(), *models("bad", "good"), "--at-least", "0.9")[0] == 1


@pytest.mark.parametrize("name", ["r.json", "r.jsonl"])
def test_command_resumes_with_the_missing_trials(pal, tmp_path, name):
    words = [*models("good", "bad"), "--out", name]
    assert pal(Served(refuses="bad"), *words)[0] == 1
    served = Served()
    assert pal(served, *words)[0] == 1
    assert served.asked == {"bad": 20}
    loaded = Reports.load(tmp_path / name).reports
    assert [*loaded] == ["good", "bad"]
    assert [len(report.outcomes) for report in loaded.values()] == [20, 20]
    assert not (tmp_path / "r.json.outcomes.jsonl").exists()


def test_each_model_is_compared_with_its_own_former_report(pal):
    assert pal(Served(), *models("good", "bad"), "--out", "r.json")[0] == 1
    code, printed = pal(Served(), *models("bad"), "--compare", "r.json")
    assert (code, "nothing got better or worse" in printed) == (0, True)
    code, printed = pal(Served(), *models("good", "alike"), "--compare", "r.json")
    assert code == 2  # of two reports, none is of this model


def test_model_replaces_the_model_of_an_agent(tmp_path, pal):
    program = """
from pure_agent_loop import Agent
from pure_agent_loop.evaluation import Contains, Dataset
dataset = Dataset.from_file("cases.json")
agent = Agent(model="alike", base_url="{url}", api_key="k", system_prompt="Be brief.")
"""
    served = Served()
    with ScriptedServer(handler=served) as server:
        (tmp_path / "mine.py").write_text(program.format(url=server.base_url))
        assert main(["eval", "mine.py", *models("good", "alike")]) == 0
        assert server.requests[0].messages[0]["content"] == "Be brief."
    assert served.asked == {"good": 20, "alike": 20}


def test_intervals_of_several_pairs_hold_together():
    def report(marks):
        return EvaluationReport("d", [CaseOutcome(str(n), 1, mark == "1") for n, mark in enumerate(marks)])

    pair = Reports({"a": report("1111"), "b": report("0000")})
    assert len(pair.compare()["b", "a"].worse) == 1
    three = Reports({**pair.reports, "c": report("1111")})
    assert [*three.compare()] == [("b", "a"), ("c", "a"), ("c", "b")]
    assert three.compare()["b", "a"].worse == []  # one of three pairs differs so by chance


def test_reports_are_saved_and_loaded(tmp_path):
    one = EvaluationReport("d", [CaseOutcome("a", 1, True, messages=[{"role": "user", "content": "x"}])])
    reports = Reports({"x": one, "y": EvaluationReport("d")})
    reports.save(tmp_path / "r.json", messages=True)
    assert Reports.load(tmp_path / "r.json") == reports
    one.save(tmp_path / "one.json")
    assert [*Reports.load(tmp_path / "one.json").reports] == ["d"]
    (tmp_path / "bad.json").write_text('{"reports": [1]}')
    with pytest.raises(ConfigError, match="not an evaluation report"):
        Reports.load(tmp_path / "bad.json")


def test_table_has_the_total_cost_of_each_report():
    def report(cost):
        return EvaluationReport("d", [CaseOutcome("a", i, True, cost=cost) for i in (1, 2)])

    header, *rows = Reports({"x": report(0.25), "y": report(None)}).table().splitlines()
    assert header.endswith("cost  total cost")
    assert [row.split()[-2:] for row in rows] == [["0.25", "0.5"], ["-", "-"]]
