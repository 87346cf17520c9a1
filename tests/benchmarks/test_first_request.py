"""`benchmarks.first_request` prints what the model of `pal` is told."""

from __future__ import annotations

import re

import pytest
from tests.benchmark_runs import run_benchmark


@pytest.mark.parametrize("language", ["en", "zh"])
def test_first_request_is_measured_by_its_parts(language):
    done = run_benchmark("first_request", "--language", language)
    words = {
        name: int(count) for name, count in re.findall(r"^(\w+) +(\d+) words", done.stdout, re.MULTILINE)
    }
    assert 0 < words["system"] <= 300, done.stderr
    assert 0 < words["facts"] <= 120
    assert words["tools"]
