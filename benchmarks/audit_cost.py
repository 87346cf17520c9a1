"""Measure the audit log: a call, with and without flushing each line to disk, and a query over many lines.

    python -m benchmarks.audit_cost [--calls 300] [--lines 100000] [--folder FOLDER]

A call is two lines, with 1,000 characters of arguments and 2,000 of result. ``CPU`` is the CPU time of the
process; on a busy machine the rest is waiting for the processor.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pure_agent_loop.audit import AuditLog, history, verify
from pure_agent_loop.audit.chain import ChainWriter
from pure_agent_loop.kernel.observers import CallRecord


def one_call(log: AuditLog, number: int, text: str) -> None:
    """A call as an agent records it."""
    record = CallRecord(
        f"tool{number % 10}", {"text": text[: len(text) // 2]}, "allow", session_id=f"s{number % 100}"
    )
    log.begin(record)
    log.end(record, text, "ok", 0.1)


def measure_calls(folder: Path, calls: int, *, durable: bool) -> str:
    """Return a row: milliseconds per call."""
    log = AuditLog(folder, durable=durable, key="")
    taken, busy = [], time.process_time()
    for number in range(calls):
        begun = time.perf_counter()
        one_call(log, number, "x" * 2_000)
        taken.append((time.perf_counter() - begun) * 1000)
    busy = (time.process_time() - busy) * 1000 / calls
    slow = statistics.quantiles(taken, n=20)[-1]
    name = "durable" if durable else "not durable"
    return f"{name:12} {min(taken):8.2f} {statistics.median(taken):8.2f} {slow:8.2f} {busy:8.2f}"


def write_many(log: AuditLog, calls: int) -> None:
    """Write many chained lines at once, as `Chain` does, but without reading the disk before each line."""
    records = []
    for number in range(calls):
        about = {"session": f"s{number % 100}", "tool": f"tool{number % 10}", "step": 1, "call": "c"}
        args = {"args": {"text": "x" * 100}, "verdict": "allow", "reason": "", "task": "do it", "notes": {}}
        records.append({"kind": "call", **about, **args})
        digest = {"result_sha256": "0" * 64, "result_length": 200, "result": "x" * 200}
        ended = {"kind": "result", "of": 2 * number + 1, **about, "status": "ok", "seconds": 0.1, **digest}
        records.append(ended)
    chain = ChainWriter(log.path, log.sealer, durable=False, max_bytes=1 << 30)
    for start in range(0, len(records), 1_000):
        chain.append_all(records[start : start + 1_000])


def timed(name: str, ask: Callable[[], Any]) -> str:
    """Return a row: seconds per query."""
    begun, busy = time.perf_counter(), time.process_time()
    answer = ask()
    count = len(answer) if isinstance(answer, list) else answer.lines
    return f"{name:34} {time.perf_counter() - begun:8.3f} {time.process_time() - busy:8.3f} {count:8}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What the audit log costs.")
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument(
        "--folder", default=None, help="on the disk to measure; default: the temporary folder"
    )
    given = parser.parse_args()
    print("milliseconds a call     least   median     95 %      CPU")
    for durable in (True, False):
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            print("          ", measure_calls(Path(folder), given.calls, durable=durable))
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        log = AuditLog(folder, durable=False, key="")
        write_many(log, given.lines // 2)
        print(f"seconds, {given.lines} lines                  wall      CPU    found")
        print(timed("the newest 20", lambda: history(log, limit=20)))
        print(timed("of one session", lambda: history(log, session="s7")))
        print(timed("of one tool", lambda: history(log, tool="tool7")))
        print(timed("of the last day", lambda: history(log, since=time.time() - 86_400)))
        print(timed("with a word", lambda: history(log, text="nowhere")))
        print(timed("verify", lambda: verify(log)))


if __name__ == "__main__":
    main()
