"""Seeds of random tests: other ones for each commit, and the command that repeats a failure."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
VARIABLE = "PAL_SEED"
OUTSIDE_GIT = 1


@cache
def seed_of_commit() -> int:
    """The seed in ``PAL_SEED``; without one a number made from the commit that is checked out."""
    if given := os.environ.get(VARIABLE):
        return int(given)
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return OUTSIDE_GIT
    return int(done.stdout[:7], 16)


def repeat_with(test: str, seed: int) -> str:
    """The command that repeats a test with a seed."""
    return f"repeat it with: {VARIABLE}={seed} .venv/bin/python -m pytest {test}"
