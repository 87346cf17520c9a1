"""Runs of the benchmarks, which need the repository and a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_benchmark(name: str, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run ``python -m benchmarks.NAME`` to its end."""
    return subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
