"""Measure what recording a session costs: a step of a run in each store, and reading it back.

    python -m benchmarks.journal_cost [--steps 300] [--bytes 2000] [--folder FOLDER]

A step is five records: the intent and the result of a tool call, each on the disk before the run goes on, and
three plain ones. Each carries ``--bytes`` characters of data. The folder decides which disk is measured.

``bare`` is the time of the disk alone: the same bytes in five writes, two of them flushed. ``CPU`` is the
CPU time of the process; on a busy machine the rest is waiting for the processor. PostgreSQL runs on the
same machine, over a socket of the file system.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.postgres_server import PostgresServer

from pure_agent_loop.sessions import JsonlStore, PostgresStore, SessionLog, SessionStore, SqliteStore
from pure_agent_loop.support.disk import flush_to_disk

STORES: dict[str, Callable[[Path], SessionStore]] = {
    "jsonl": lambda folder: JsonlStore(folder / "sessions"),
    "sqlite": lambda folder: SqliteStore(folder / "sessions.sqlite"),
}
PLAIN = ("message", "event", "state")
RECORDS_A_STEP = 2 + len(PLAIN)


def write_step(log: SessionLog, text: str, *, durable: bool) -> None:
    """The records of one step."""
    log.append("intent", {"text": text}, durable=durable)
    log.append("result", {"text": text}, durable=durable)
    for kind in PLAIN:
        log.append(kind, {"text": text})


def measure_writing(log: SessionLog, steps: int, text: str, *, durable: bool) -> list[float]:
    """Return the milliseconds of each step."""
    taken = []
    for _ in range(steps):
        begun = time.perf_counter()
        write_step(log, text, durable=durable)
        taken.append((time.perf_counter() - begun) * 1000)
    return taken


def measure_bare(folder: Path, steps: int, text: str) -> str:
    """Return the cost of the same writes without this package's code."""
    line = b"x" * (len(text) + 150)
    handle = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    taken = []
    for _ in range(steps):
        begun = time.perf_counter()
        for number in range(RECORDS_A_STEP):
            os.write(handle, line)
            if number < RECORDS_A_STEP - len(PLAIN):
                flush_to_disk(handle)
        taken.append((time.perf_counter() - begun) * 1000)
    os.close(handle)
    return f"{'bare':8} {_summed_up(taken)}"


def _summed_up(taken: list[float]) -> str:
    slow = statistics.quantiles(taken, n=20)[-1]
    return f"{min(taken):8.2f} {statistics.median(taken):8.2f} {statistics.mean(taken):8.2f} {slow:8.2f}"


def measure(name: str, store: SessionStore, steps: int, text: str) -> str:
    """Return one row of the table."""
    with store.open("flushed") as log:
        busy = time.process_time()
        flushed = measure_writing(log, steps, text, durable=True)
        busy = (time.process_time() - busy) * 1000 / steps
    with store.open("plain") as log:
        plain = measure_writing(log, steps, text, durable=False)
    begun = time.perf_counter()
    count = len(store.read("flushed").records)
    reading = (time.perf_counter() - begun) * 1000 / count
    assert count == steps * RECORDS_A_STEP
    return f"{name:8} {_summed_up(flushed)} {busy:8.2f} {statistics.median(plain):10.2f} {reading:12.4f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What keeping a session costs.")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--bytes", type=int, default=2000)
    parser.add_argument(
        "--folder", default=None, help="on the disk to measure; the system's temporary folder if not given"
    )
    given = parser.parse_args()
    print("milliseconds a step: two flushed and three plain records")
    print("store       least   median     mean     95 %      CPU  unflushed  read/record")
    text = ("é" + "x" * 39) * (given.bytes // 40)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        print(measure_bare(Path(folder), given.steps, text))
    for name, make in STORES.items():
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            print(measure(name, make(Path(folder)), given.steps, text))
    with PostgresServer(folder=given.folder, fsync=True) as server, PostgresStore(server.url) as store:
        print(measure("postgres", store, given.steps, text))


if __name__ == "__main__":
    main()
