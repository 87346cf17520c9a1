"""The benchmark of a fleet at size, at small sizes; and its plan."""

from __future__ import annotations

import os
import re

import pytest
from tests.benchmark_runs import run_benchmark


def run(*words: str) -> str:
    done = run_benchmark("fleet_at_size", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked, to be there soon")
def test_its_lines_are_those_of_a_fleet_that_scales():
    output = run("--quick", "--only", "list", "step", "session")
    listed = re.search(r"today: +(\d+) rows read for 1 among 1,000 finished", output)
    assert listed, output
    assert int(listed[1]) < 100
    commits = re.search(r"today: +([\d.]+) for records and (-?[\d.]+) for events", output)
    assert commits, output
    assert float(commits[1]) <= 4
    read = re.search(r"today: +(\d+) rows read in run 40, (\d+) in run 10", output)
    assert read, output
    assert int(read[1]) < 3 * int(read[2])


def test_plan_lists_the_fullest_resource_first():
    lines = run("--plan", "--steps", "100000").splitlines()
    first = lines[lines.index("resource          needed  available  used") + 1]
    assert first.startswith("commits/s")
    assert first.endswith("too much")
    assert "too much" not in run("--plan", "--steps", "10", "--fleet", "2")
