"""Small fleets on a real PostgreSQL, by the benchmark that also does the large ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked, to be there soon")


def run_fleet(*words: str) -> dict[str, Any]:
    source = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command = [sys.executable, "-m", "benchmarks.fleet", "--workers", "2", "--runs", "8", "--no-fsync"]
    done = subprocess.run(
        [*command, "--concurrency", "1", *words],
        env={**os.environ, "PYTHONPATH": source},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    print(found)
    assert found["wrong"] == []
    assert done.returncode == 0, done.stderr
    assert found["statuses"] == {"completed": 8}
    return found


def test_a_worker_is_killed_and_no_run_is_lost():
    found = run_fleet("--kill-every", "0.3", "--most-kills", "1")
    assert found["kills"] == found["kills_that_met_runs"] == 1
    assert found["runs_of_the_killed"] == 1


def test_the_database_crashes_in_the_middle_and_no_run_is_lost():
    found = run_fleet("--kill-every", "0", "--restart-database")
    assert found["database_away"] > 0
