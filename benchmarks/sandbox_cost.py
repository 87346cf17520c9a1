"""Measure ``bash -c true`` in each sandbox, in turns, so that other load on the machine affects all alike.

    python -m benchmarks.sandbox_cost [--rounds 40]

``plain`` is a bare subprocess; ``none`` has the supervisor that ends what a command leaves behind.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pure_agent_loop.toolbox.sandbox.best import bubblewrap_problem, landlock_problem
from pure_agent_loop.toolbox.sandbox.process import run_process
from pure_agent_loop.toolbox.shell.tool import Shell

COMMAND = ["/bin/bash", "--noprofile", "--norc", "-c", "true"]


def ways(folder: Path) -> dict[str, Callable[[], object]]:
    """Return the sandboxes that work on this machine."""
    found: dict[str, Callable[[], object]] = {"plain": lambda: subprocess.run(COMMAND, check=True)}
    names = ["none"]
    names += [] if landlock_problem() else ["landlock"]
    names += [] if bubblewrap_problem()[0] else ["bubblewrap"]
    for name in names:
        sandbox = Shell(folder, sandbox=name).sandbox
        found[name] = lambda sandbox=sandbox: asyncio.run(
            run_process(COMMAND, cwd=folder, timeout=30, sandbox=sandbox, home=str(folder))
        )
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        taken: dict[str, list[float]] = {}
        for _ in range(rounds):
            for name, run in ways(Path(folder)).items():
                begun = time.perf_counter()
                run()
                taken.setdefault(name, []).append((time.perf_counter() - begun) * 1000)
    for name, times in taken.items():
        print(f"{name:12} median {statistics.median(times):6.1f} ms   fastest {min(times):6.1f} ms")


if __name__ == "__main__":
    main()
