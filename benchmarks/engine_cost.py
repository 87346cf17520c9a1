"""What a durable run costs: in memory, on SQLite and on PostgreSQL, and with more than one worker.

    python -m benchmarks.engine_cost [--runs 60] [--steps 5]

The model is a server in a separate process that answers at once, so the measured cost is that of everything
else. Each worker is a ``pal worker`` process that does four runs at once; PostgreSQL writes to
the disk. CPU is that of the workers and, apart, of PostgreSQL, in milliseconds; on a busy machine it is the
figure to look at.

The first table gives the points from which the model of a run's CPU is made, and points that were not used
for it, beside what the model says:

    CPU of a run = a + b * steps + c * KB sent

`KB sent` is what its results come to in all its requests: KB of one result * steps * (steps + 1) / 2. The
points take turns for some rounds, and each figure is the median of them, as other work on the machine's
processor makes single ones differ by half.

The second has the same work with 1, 2 and 4 workers, beside what is predicted from a lone run and from the
CPU of a run with one worker, by mean value analysis (Reiser and Lavenberg, Journal of the ACM 27, 1980) of
one place that serves one after the other, and of waiting elsewhere that nobody disturbs. That place is the
fullest: the Python process of a worker, or all cores together. Linux only, as CPU is read from ``/proc``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from tests.postgres_server import PostgresServer

from benchmarks.fleet import SERVER, model_process, open_fleet
from pure_agent_loop import Agent, LoopLimits, tool
from pure_agent_loop.durable import Engine
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.testing import ScriptedServer, call

AT_ONCE, PATIENCE, KB = 4, 300.0, 1000
IDLE_SECONDS = 5.0
LIMITS = LoopLimits(max_steps=100)
TICK = os.sysconf("SC_CLK_TCK")
FITTED = ((1, 0), (20, 0), (10, 10))  # steps, and KB of text in each result
LEFT_OUT = ((5, 0), (10, 0), (10, 2), (20, 5), (30, 1))
POINTS = (*FITTED, *LEFT_OUT)
LONE_RUNS = 10


@tool
def fetch(n: int, kb: int) -> str:
    """Fetch so much text."""
    return f"{n} " + "x" * (kb * KB)


def make_agent(url: str) -> Agent:
    """An agent that follows the task: a number of steps with results of a number of KB."""
    return Agent(llm=OpenAIClient("scripted", api_key="k", base_url=url), tools=[fetch], limits=LIMITS)


def agents() -> dict[str, Agent]:
    """Return the agents that the workers load."""
    return {"worker": make_agent(os.environ[SERVER])}


def be_model() -> None:
    """Serve as the model until the standard input ends."""

    def answer(request: Any) -> Any:
        words = next(each["content"] for each in request.messages if each["role"] == "user").split()
        done = sum(1 for each in request.messages if each.get("tool_calls"))
        return call("fetch", n=done, kb=int(words[1])) if done < int(words[0]) else "Done."

    with ScriptedServer(handler=answer, check=False) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()


def cpu_of(pid: int) -> float:
    """Return the CPU milliseconds of a process, with its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return sum(int(each) for each in fields[11:15]) * 1000 / TICK


def children_of(pid: int) -> list[int]:
    """Return the child processes of a process."""
    with contextlib.suppress(FileNotFoundError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


@dataclass
class Store:
    """A database of durable runs."""

    name: str
    url: str
    server: PostgresServer | None

    def cpu(self) -> float:
        """Return the CPU time that PostgreSQL has used so far."""
        if self.server is None:
            return 0.0
        first = int((self.server.folder / "data" / "postmaster.pid").read_text().split()[0])
        return sum(cpu_of(each) for each in [first, *children_of(first)])

    def commits(self, engine: Engine) -> int:
        """Return the number of commits; 0 if unknown."""
        if self.server is None:
            return 0
        found = engine.database.rows(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        )
        return int(found[0][0])

    def connections(self, engine: Engine) -> int:
        """Return the number of open connections, without this one and that of the submitting engine."""
        if self.server is None:
            return 0
        found = engine.database.rows(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        )
        return int(found[0][0])

    def size(self, engine: Engine) -> int:
        """Bytes on the disk."""
        if self.server is None:
            pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            return int(engine.database.rows(pages)[0][0])
        return int(engine.database.rows("SELECT pg_database_size(current_database())")[0][0])

    def rows(self, engine: Engine) -> int:
        """Rows of the engine, of sessions and of events together."""
        names = ("records", "pal_events", "workflow_status", "operation_outputs")
        if self.server is not None:
            names = (
                "pure_agent_loop.records",
                "pal_durable.events",
                "dbos.workflow_status",
                "dbos.operation_outputs",
            )
        return sum(int(engine.database.rows(f"SELECT count(*) FROM {name}")[0][0]) for name in names)


@dataclass
class Measured:
    """The cost per run of some runs."""

    wall: float
    worker_cpu: float
    database_cpu: float
    size: float
    rows: float
    commits: float
    others_cpu: float

    @property
    def cpu(self) -> float:
        """The CPU time of worker and database together."""
        return self.worker_cpu + self.database_cpu

    @property
    def all_cpu(self) -> float:
        """The CPU time with that of the model and of the process that submits and polls the runs."""
        return self.cpu + self.others_cpu


@contextlib.contextmanager
def working(store: Store, url: str, workers: int) -> Iterator[tuple[Engine, list[int]]]:
    """Yield an engine to submit to, with a number of warm worker processes."""
    words = ["--database", store.url, "--concurrency", str(AT_ONCE)]
    with tempfile.TemporaryDirectory() as folder, Engine(store.url) as engine:
        fleet = open_fleet(Path(folder), "benchmarks.engine_cost:agents", url, words)
        wrong: list[str] = []
        try:
            for _ in range(workers):
                fleet.start()
            fleet.wait_until_ready(workers)
            run_all(engine, AT_ONCE * workers * 2, 1, 0)
            yield engine, [each.pid for each in fleet.workers]
            fleet.end(wrong)
        finally:
            fleet.close()
    if wrong:
        raise RuntimeError("\n".join(wrong))


def run_all(engine: Engine, runs: int, steps: int, kb: int) -> float:
    """Return the seconds until this many runs have ended."""
    begun = time.monotonic()
    handles = [engine.submit("worker", f"{steps} {kb}") for _ in range(runs)]
    for each in handles:
        info = each.result(PATIENCE)
        if (info.status, info.content) != ("completed", "Done."):
            raise RuntimeError(str(info))
    return time.monotonic() - begun


def measure(
    store: Store, engine: Engine, pids: Sequence[int], model: int, runs: int, point: tuple[int, int]
) -> Measured:
    """Return the cost of a run with these steps and KB."""

    def look() -> list[float]:
        return [
            sum(map(cpu_of, pids)),
            store.cpu(),
            store.size(engine),
            store.rows(engine),
            store.commits(engine),
            cpu_of(model) + time.process_time() * 1000,
        ]

    before = look()
    seconds = run_all(engine, runs, *point)
    if store.server is not None:
        time.sleep(1.1)  # PostgreSQL updates its commit statistics with a delay
    each = [(new - old) / runs for old, new in zip(before, look(), strict=True)]
    return Measured(seconds * 1000 / runs, *each)


def in_memory(url: str, runs: int, point: tuple[int, int]) -> Measured:
    """Return the cost without an engine: the same concurrency, in this process, without storage."""

    async def all_of_them() -> None:
        agent, turns = make_agent(url), asyncio.Semaphore(AT_ONCE)

        async def one() -> None:
            async with turns:
                result = await agent.arun(f"{point[0]} {point[1]}")
                assert result.content == "Done.", result.error

        await asyncio.gather(*(one() for _ in range(runs)))

    begun, busy = time.monotonic(), time.process_time()
    asyncio.run(all_of_them())
    wall, cpu = time.monotonic() - begun, time.process_time() - busy
    return Measured(wall * 1000 / runs, cpu * 1000 / runs, 0, 0, 0, 0, 0)


@dataclass
class Model:
    """The model of a run's CPU cost, created by `fit`; see the module docstring."""

    a: float
    b: float
    c: float

    def cpu(self, steps: int, kb: int) -> float:
        """Return the predicted milliseconds of a run with these steps and KB per result."""
        return self.a + self.b * steps + self.c * sent(steps, kb)

    def __str__(self) -> str:
        return f"CPU ms of a run = {self.a:.1f} + {self.b:.2f} * steps + {self.c:.4f} * KB sent"


def sent(steps: int, kb: int) -> float:
    """Return the KB of results in all requests of a run: each result is in every later request."""
    return kb * steps * (steps + 1) / 2


def fit(found: Sequence[Measured]) -> Model:
    """Return the model through the three points of `FITTED`: two without text, one with text."""
    (low, _), (high, _), (middle, kb) = FITTED
    b = (found[1].cpu - found[0].cpu) / (high - low)
    a = found[0].cpu - b * low
    return Model(a, b, (found[2].cpu - a - b * middle) / sent(middle, kb))


def median_of(rounds: Sequence[Sequence[Measured]]) -> list[Measured]:
    """Return each point's figures: the medians of the rounds."""
    return [
        Measured(*(statistics.median(getattr(each, one.name) for each in same) for one in fields(Measured)))
        for same in zip(*rounds, strict=True)
    ]


def show_points(name: str, found: Sequence[Measured]) -> None:
    """Print the points of a store and the model made from them."""
    model = fit(found)
    for (steps, kb), each in zip(POINTS, found, strict=True):
        said = "fitted" if (steps, kb) in FITTED else f"{model.cpu(steps, kb):.1f}"
        print(
            f"{name:9} {steps:5} {kb:4} {each.wall:8.1f} {each.worker_cpu:8.1f} {each.database_cpu:8.1f} "
            f"{each.cpu:8.1f} {said:>9} {each.rows:6.1f} {each.size / KB:8.1f} {each.commits:8.1f}"
        )
    print(f"{name:9} {model}")


def lone_run(engine: Engine, steps: int) -> float:
    """Return the milliseconds from submission to end of a run on an idle worker, polling included."""
    took = []
    for _ in range(LONE_RUNS):
        info = engine.submit("worker", f"{steps} 0").result(PATIENCE)
        took.append((info.updated - info.created) * 1000)
    return statistics.fmean(took)


def predicted(workers: int, lone: float, one: Measured) -> float:
    """Return the predicted runs per second; see the module docstring."""
    fullest = max(one.worker_cpu / workers, one.all_cpu / (os.cpu_count() or 1))
    queue = rate = 0.0
    for at_work in range(1, workers * AT_ONCE + 1):
        stay = fullest * (1 + queue)
        rate = at_work / (lone - fullest + stay)
        queue = rate * stay
    return 1000 * rate


def idle(store: Store, engine: Engine, pids: Sequence[int]) -> str:
    """Return a line about the cost of idle workers."""
    before = (store.commits(engine), sum(map(cpu_of, pids)), store.cpu())
    time.sleep(IDLE_SECONDS)
    seconds = IDLE_SECONDS * len(pids)
    commits = (store.commits(engine) - before[0]) / seconds
    mine, theirs = (sum(map(cpu_of, pids)) - before[1]) / seconds, (store.cpu() - before[2]) / seconds
    connections = store.connections(engine)
    return (
        f"idle: {commits:.1f} commits a second and worker, {mine:.0f} + {theirs:.0f} ms CPU a second and "
        f"worker, {connections} connections in all"
    )


@contextlib.contextmanager
def open_store(name: str) -> Iterator[Store]:
    """A new one."""
    if name == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield Store(name, f"sqlite:///{folder}/d.sqlite", None)
    else:
        with PostgresServer(fsync=True) as server:
            yield Store(name, server.url, server)


def main() -> int:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--point-runs", type=int, default=16, help="of each point of the first table")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4], help="1 is among them")
    parser.add_argument("--model", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.model:
        be_model()
        return 0
    with model_process("benchmarks.engine_cost") as (url, model):
        print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; each figure is for one run")
        print("store     steps   KB  wall ms   worker database together predicted   rows       KB  commits")
        in_memory(url, AT_ONCE * 2, (5, 0))
        rounds = [[in_memory(url, given.point_runs, each) for each in POINTS] for _ in range(given.rounds)]
        show_points("memory", median_of(rounds))
        rest = [line for name in ("sqlite", "postgres") for line in measure_store(name, url, model, given)]
    print(f"\nruns of {given.steps} steps, the median of {given.rounds} rounds of {given.runs}")
    print("store     workers runs/second predicted   worker database others")
    print("\n".join(rest))
    return 0


def measure_store(name: str, url: str, model: int, given: argparse.Namespace) -> list[str]:
    """Print the points of a store; return the lines about its workers."""
    found: dict[int, list[Measured]] = {workers: [] for workers in given.workers}
    lone, idles = [], []
    with open_store(name) as store:
        with working(store, url, 1) as (engine, pids):
            look = partial(measure, store, engine, pids, model, given.point_runs)
            show_points(name, median_of([[look(each) for each in POINTS] for _ in range(given.rounds)]))
        for number in range(given.rounds):
            for workers in given.workers:
                with working(store, url, workers) as (engine, pids):
                    if workers == 1:
                        lone.append(lone_run(engine, given.steps))
                    found[workers].append(measure(store, engine, pids, model, given.runs, (given.steps, 0)))
                    if number == 0:
                        idles.append(idle(store, engine, pids))
    alone = statistics.median(lone)
    all_of = {workers: median_of([[each] for each in rounds])[0] for workers, rounds in found.items()}
    lines = [f"{name:9} a lone run: {alone:.0f} ms"]
    for (workers, each), words in zip(all_of.items(), idles, strict=True):
        lines.append(
            f"{name:9} {workers:7} {1000 / each.wall:11.1f} {predicted(workers, alone, all_of[1]):9.1f} "
            f"{each.worker_cpu:8.1f} {each.database_cpu:8.1f} {each.others_cpu:6.1f}   {words}"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
