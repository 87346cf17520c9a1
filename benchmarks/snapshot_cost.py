"""Measure snapshots: the first scan of a workspace, a step without a change, and a step that changes a file.

    python -m benchmarks.snapshot_cost [--files 2000] [--bytes 2000] [--rounds 20] [--folder FOLDER]

A step is ``before`` and ``after`` together. The longest time that the event loop was not served is measured
too. ``CPU`` is how long this process and git were working, for a step on average; on a busy machine the rest
is waiting for a turn. The folder decides which disk is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pure_agent_loop.snapshots import WorkspaceSnapshots

SETTLING = 2.5  # seconds after which the dates of files are trusted


def cpu() -> float:
    """Return the CPU seconds of this process and of its ended children."""
    return sum(os.times()[:4])


async def step(shots: WorkspaceSnapshots, number: int, act: Callable[[], object]) -> float:
    """Return the milliseconds of one step."""
    begun = time.perf_counter()
    await shots.before("s", number)
    act()
    await shots.after("s", number)
    return (time.perf_counter() - begun) * 1000


async def longest_gap(gaps: list[float]) -> None:
    """Record repeatedly how long the event loop was blocked."""
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(0.001)
        gaps.append((time.perf_counter() - begun) * 1000 - 1)


async def measure(folder: Path, files: int, size: int, rounds: int) -> str:
    """One line of the table."""
    root = folder / "work"
    for number in range(files):
        path = root / f"d{number % 50}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size // 2).hex().encode())
    await asyncio.sleep(SETTLING)
    shots = WorkspaceSnapshots(root, store=folder / "store")
    gaps: list[float] = []
    watch = asyncio.create_task(longest_gap(gaps))
    first = await step(shots, 1, lambda: None)
    begun = cpu()
    same = [await step(shots, number + 2, lambda: None) for number in range(rounds)]
    same_cpu, begun = (cpu() - begun) * 1000 / rounds, cpu()
    target = root / "d0" / "f0"
    changed = [
        await step(shots, number + 100, lambda n=number: target.write_text(f"{n}\n"))  # type: ignore[misc]  # bound now
        for number in range(rounds)
    ]
    changed_cpu = (cpu() - begun) * 1000 / rounds
    watch.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watch
    return (
        f"{first:>10.0f}{statistics.median(same):>12.1f}{max(same):>10.1f}{same_cpu:>8.1f}"
        f"{statistics.median(changed):>12.1f}{max(changed):>10.1f}{changed_cpu:>8.1f}{max(gaps):>12.1f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--bytes", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    print(f"{options.files} files of {options.bytes} bytes; milliseconds")
    print("     first   unchanged     worst     CPU one changed     worst     CPU   loop away")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print(asyncio.run(measure(Path(folder), options.files, options.bytes, options.rounds)))


if __name__ == "__main__":
    main()
