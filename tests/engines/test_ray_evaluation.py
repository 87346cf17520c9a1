"""Trials of an evaluation in a Ray cluster."""

from __future__ import annotations

import os

import pytest
from tests.engines.ray_cluster import cluster, make_agent

from pure_agent_loop import ConfigError
from pure_agent_loop.evaluation import Case, Contains, Dataset


def test_trials_run_in_processes_of_the_cluster(tmp_path):
    marks = tmp_path / "marks"
    cases = [*(Case(f"case {n}", name=f"case {n}") for n in range(4)), Case(f"leave {marks}", name="leaves")]
    seen = []
    with cluster():
        dataset = Dataset(cases, [lambda trial: {"pid": trial.text}, lambda trial: os.getpid() == parent])
        parent = os.getpid()
        report = dataset.run(make_agent, on="ray", concurrency=2, repeats=2, on_outcome=seen.append)
    assert len(report.outcomes) == len(seen) == 10
    by_case = {name: [each for each in report.outcomes if each.case == name] for name in ("leaves", "case 1")}
    assert not [each.error for each in report.outcomes if each.case != "leaves" and not each.passed]
    assert all("not repeated" in each.error and not each.passed for each in by_case["leaves"])
    assert marks.read_text() == "left\n" * 2  # once a trial
    pids = {each.notes["pid"] for each in report.outcomes if each.case != "leaves"}
    assert f"pid {parent}" not in pids


def test_a_cluster_of_its_own_ends_with_the_evaluation(monkeypatch):
    import ray

    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # of somebody else: never joined
    report = Dataset(["case"], [Contains("pid")]).run(make_agent, on="ray")
    assert not ray.is_initialized()
    assert len(report.outcomes) == 1


@pytest.mark.parametrize(
    ("agent", "on", "name"),
    [(make_agent, "spark", "on"), (make_agent(), "ray", "agent"), (make_agent, None, "agent")],
)
def test_invalid_trial_setting_is_refused_by_name(agent, on, name):
    with pytest.raises(ConfigError, match=name):
        Dataset(["case"]).run(agent, on=on)
