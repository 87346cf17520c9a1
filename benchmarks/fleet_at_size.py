"""Measure what a large fleet costs on a real PostgreSQL, in counts, not seconds; plan from these costs.

    python -m benchmarks.fleet_at_size [--quick] [--only NAME ...]
    python -m benchmarks.fleet_at_size --plan [--waiting 1000000] [--fleet 100] [--steps 1000] [--cores 16]

Each line of the table compares what was seen at commit a77b0a4a with what is measured now:

- takeovers: two live workers, many parked runs, and a tool that takes long: how often is a run taken over?
- list: rows that ``tasks("waiting_permission")`` reads among many finished runs, copied in SQL
- idle: commits a second and connections of a worker without work
- step: commits of a step with three parallel calls, by the transactions of its rows
- poison: deaths of workers by one run that ends its process, and whether a run beside it ends well
- session: rows that a run reads in a session of many runs

`--plan` measures nothing: it computes from the costs in `COSTS`, which ``--measure`` measures again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.postgres_server import PostgresServer

from benchmarks.engine_cost import Store, measure, working
from benchmarks.fleet import SERVER, Fleet, model_process, open_fleet
from pure_agent_loop import Agent, LoopLimits, tool
from pure_agent_loop.durable import Engine
from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.run_table import RunTable
from pure_agent_loop.durable.values import PARKED_QUEUE, WORKFLOW
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.sessions import PostgresStore
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer, call

PATIENCE, CALLS = 120.0, 3
FREE = LoopLimits(max_steps=None, doom_loop_threshold=None)
_NUMBERS = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})"
_WORKFLOWS = (
    "INSERT INTO {table} (workflow_uuid, status, name, queue_name, created_at, updated_at) {numbers} "
    "SELECT '{state}' || n, '{state}', '{workflow}', '{queue}', n, n FROM numbers"
)
_RUNS = (
    "INSERT INTO @runs (run, agent, session, place, status, created, attempts, progress, max_attempts) "
    "{numbers} SELECT '{state}' || n, 'worker', 's', n, '{status}', n / 1000.0, 1, 0, 0 FROM numbers"
)
_WRITERS = "SELECT count(DISTINCT xmin::text) FROM {table} WHERE {column} = ?"
_FETCHED = (
    "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables "
    "WHERE schemaname = 'pure_agent_loop' AND relname = 'records'"
)


@tool
async def put(n: int) -> str:
    """Put a thing in its place."""
    return f"{n} is put"


@tool
def wait(seconds: float) -> str:
    """Wait."""
    time.sleep(seconds)
    return "It is over."


@tool(idempotent=True)
def poison() -> str:
    """End the process, and that of each attempt, as it may be called again."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def agents() -> dict[str, Agent]:
    """What the workers load."""
    client = OpenAIClient("scripted", api_key="k", base_url=os.environ[SERVER])
    return {"worker": Agent(llm=client, tools=[put, wait, poison], limits=FREE)}


def be_model() -> None:
    """Serve as the model until the standard input ends; the task says what to do: ``put 3``, ``wait 5``."""

    def answer(request: Any) -> Any:
        what, number = next(m["content"] for m in request.messages if m["role"] == "user").split()
        done = sum(1 for message in request.messages if message.get("tool_calls"))
        if what == "put" and done < int(number):
            return [call("put", n=CALLS * done + n) for n in range(CALLS)]
        if what == "put" or done:
            return "Done."
        return call("wait", seconds=float(number)) if what == "wait" else call("poison")

    with ScriptedServer(handler=answer, check=False) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()


@dataclass
class Place:
    """A PostgreSQL with empty databases, a model, and the sizes of the measurements."""

    server: PostgresServer
    model: str
    sizes: argparse.Namespace

    @contextlib.contextmanager
    def fleet(self, workers: int, *words: str) -> Iterator[tuple[Engine, Fleet]]:
        """Yield an engine on a new database, with this many workers."""
        url = self.server.new_database()
        with tempfile.TemporaryDirectory() as folder, Engine(url) as engine:
            fleet = open_fleet(
                Path(folder), "benchmarks.fleet_at_size:agents", self.model, ["--database", url, *words]
            )
            try:
                for _ in range(workers):
                    fleet.start()
                fleet.wait_until_ready(workers)
                yield engine, fleet
            finally:
                fleet.close()


def copy_runs(database: Database, count: int, state: str, status: str, queue: str = "") -> None:
    """Add this many runs of one session in SQL.

    Args:
        state: Status for DBOS.
        status: Status in the table of runs.
    """
    numbers = _NUMBERS.format(count=count)
    database.change(
        _WORKFLOWS.format(
            table=database.runs_table, numbers=numbers, state=state, workflow=WORKFLOW, queue=queue
        )
    )
    database.change(_RUNS.format(numbers=numbers, state=state, status=status))
    database.change(f"ANALYZE {database.runs_table}, pal_durable.runs")


def takeovers(place: Place) -> str:
    """Count how often a run is taken from a live worker while many runs are parked."""
    with place.fleet(2, "--concurrency", "1") as (engine, fleet):
        copy_runs(engine.database, place.sizes.parked, "ENQUEUED", "", PARKED_QUEUE)
        engine.database.change("UPDATE @runs SET status = 'waiting_permission' WHERE run = 'ENQUEUED1'")
        engine.database.change(
            f"UPDATE {engine.database.runs_table} SET status = 'SUCCESS' WHERE workflow_uuid = 'ENQUEUED1'"
        )
        handles = [engine.submit("worker", f"wait {place.sizes.seconds}") for _ in range(2)]
        ended = [handle.result(PATIENCE).status for handle in handles]
        taken = sum("of dead worker" in worker.said for worker in fleet.workers)
        return f"{taken} of 2 runs taken over, {place.sizes.parked} parked; {', '.join(ended)}"


class Asking(Database):
    """A database that records its queries."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Record a query, and return its rows."""
        self.asked.append((statement, values))
        return super().rows(statement, *values)


def rows_read(database: Database, statement: str, values: tuple[Any, ...]) -> int:
    """Rows that PostgreSQL reads for a query, with those that it throws away."""

    def count(node: Any) -> int:
        read = sum(node.get(key, 0) for key in ("Actual Rows", "Rows Removed by Filter"))
        return int(read * node["Actual Loops"]) + sum(count(child) for child in node.get("Plans", ()))

    plan = database.rows(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *values)[0][0]
    return count(plan[0]["Plan"])


def list_waiting(place: Place) -> str:
    """Rows read for a list of one run that waits among many finished ones."""
    with Engine(place.server.new_database()) as engine:
        assert engine.queue.carrier
        engine.queue.register_agents({"worker": "model scripted"})
        copy_runs(engine.database, place.sizes.finished, "SUCCESS", "completed")
        engine.submit("worker", "put 1", run_id="waits")
        engine.queue.runs.note_status("waits", "waiting_permission")
        engine.database.change(
            f"UPDATE {engine.database.runs_table} SET status = 'SUCCESS' WHERE workflow_uuid = 'waits'"
        )
        database = Asking(engine.database.url)
        found = RunTable(database).select("waiting_permission", None, None, 100, 0)
        read = sum(rows_read(database, *each) for each in list(database.asked))
        database.close()
        return f"{read} rows read for {len(found)} among {place.sizes.finished:,} finished"


def idle_costs(place: Place) -> tuple[float, int]:
    """Commits a second and connections of a worker without work."""

    def commits() -> int:
        statement = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        return int(engine.database.rows(statement)[0][0])

    def connections() -> int:
        statement = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        return int(engine.database.rows(statement)[0][0])

    with Engine(place.server.new_database()) as client:
        engine = client
        assert engine.queue.carrier
        without = connections()
    with place.fleet(1) as (engine, _):
        time.sleep(place.sizes.seconds)
        before, begun = commits(), time.monotonic()
        time.sleep(place.sizes.seconds)
        each = (commits() - before) / (time.monotonic() - begun)
        return each, connections() - without


def idle(place: Place) -> str:
    """Return the statistics as text."""
    commits, connections = idle_costs(place)
    return f"{commits:.1f} commits/s, {connections} connections"


def commits_of(engine: Engine, run_id: str) -> tuple[int, int]:
    """Transactions that have written the records and the events of a run."""
    found = [
        engine.database.rows(_WRITERS.format(table=table, column=column), run_id)[0][0]
        for table, column in (("pure_agent_loop.records", "session"), ("pal_durable.events", "run"))
    ]
    return int(found[0]), int(found[1])


def step(place: Place) -> str:
    """Commits of a step with parallel calls."""
    with place.fleet(1) as (engine, _):
        counts = []
        for number in (1, 1 + place.sizes.run_steps):
            handle = engine.submit("worker", f"put {number}")
            assert handle.result(PATIENCE).status == "completed"
            counts.append(commits_of(engine, handle.run_id))
    records, events = ((b - a) / place.sizes.run_steps for a, b in zip(*counts, strict=True))
    return f"{records:.1f} for records and {events:.1f} for events, {CALLS} calls a step"


def poisoned(place: Place) -> str:
    """Deaths of workers by one run, and the end of a run beside it."""
    with place.fleet(2) as (engine, fleet):
        bad, good = engine.submit("worker", "poison 1"), engine.submit("worker", "put 2")
        deaths, give_up = 0, time.monotonic() + PATIENCE
        while not (bad.info().has_ended and good.info().has_ended):
            assert time.monotonic() < give_up, "they do not end"
            for worker in [worker for worker in fleet.workers if not worker.is_there]:
                deaths += 1
                fleet.workers.remove(worker)
                fleet.gone.append(worker)
                fleet.start()
            time.sleep(0.1)
        return f"{deaths} deaths, then {bad.status()}; the run beside it {good.status()}"


def long_session(place: Place) -> str:
    """Rows that a run reads in a session of many runs."""
    url = place.server.new_database()
    read = []

    def fetched() -> int:
        with contextlib.closing(Database(url)) as database:
            return int(database.rows(_FETCHED)[0][0])

    for number in range(1, place.sizes.session_runs + 1):
        before = fetched() if number in (10, place.sizes.session_runs) else 0
        with PostgresStore(url) as store:
            Agent(llm=ScriptedLLM(["Yes."]), sessions=store).run(f"Task {number}.", session_id="s")
        if number in (10, place.sizes.session_runs):
            read.append(fetched() - before)
    return f"{read[-1]} rows read in run {place.sizes.session_runs}, {read[0]} in run 10"


SECTIONS: dict[str, tuple[str, Callable[[Place], str]]] = {
    "takeovers": ("2 of 2 runs taken over, 700 parked", takeovers),
    "list": ("all finished runs: 10.1 s among 10,000", list_waiting),
    "idle": ("36 to 40 commits/s, 13 to 16 connections", idle),
    "step": ("6 for records with one call, 10 with three", step),
    "poison": ("16 deaths in 100 s, then repeated; the run beside it took 137 s", poisoned),
    "session": ("all records, twice (about 3,600 in run 300)", long_session),
}


# -- the plan --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Costs:
    """Measured costs; milliseconds are of CPU.

    Args:
        step_commits: Commits of a step without streamed events.
        step_database: Milliseconds of PostgreSQL for a step.
        step_worker: Milliseconds of a worker for a step.
        run_commits: Commits of a run without steps.
        step_kb: KB that a step leaves in the database.
        waiting_kb: KB of a run that waits.
        idle_commits: Commits a second of an idle worker.
        idle_database: Milliseconds of PostgreSQL a second for an idle worker.
        connections: Connections of a worker.
    """

    step_commits: float
    step_database: float
    step_worker: float
    run_commits: float
    step_kb: float
    waiting_kb: float
    idle_commits: float
    idle_database: float
    connections: float


# CPU, bytes and connections: docs/costs.md and docs/scaling.md, measured when a step took 7 commits.
COSTS = Costs(
    step_commits=3.0,
    step_database=2.3,
    step_worker=9.2,
    run_commits=36.0,
    step_kb=5.6,
    waiting_kb=10.8,
    idle_commits=0.8,
    idle_database=14.0,
    connections=3.0,
)
STREAM_COMMITS = 20.0  # of the events of a worker, a second: a batch each 50 ms
CLUSTER_COMMITS = 140_000  # published by DBOS for one PostgreSQL on 96 cores
SAFE = 0.7  # share of a resource to plan with


def measured_costs(place: Place) -> Costs:
    """Measure the costs of a run and a step again, with one worker."""
    idle_commits, connections = idle_costs(place)
    store = Store("postgres", place.server.url, place.server)
    with working(store, place.model, 1) as (engine, pids):
        found = [measure(store, engine, pids, 0, place.sizes.point_runs, (n, 0)) for n in (1, 20)]
    each = [(b - a) / 19 for a, b in zip(*(map(float, vars(m).values()) for m in found), strict=True)]
    by_name = dict(zip(vars(found[0]), each, strict=True))
    return Costs(
        step_commits=by_name["commits"],
        step_database=by_name["database_cpu"],
        step_worker=by_name["worker_cpu"],
        run_commits=found[0].commits - by_name["commits"],
        step_kb=by_name["size"] / 1000,
        waiting_kb=COSTS.waiting_kb,
        idle_commits=idle_commits,
        idle_database=COSTS.idle_database,
        connections=connections,
    )


def plan(costs: Costs, sizes: argparse.Namespace) -> list[str]:
    """Compute the resources that a fleet needs, and which of them is exhausted first."""
    runs = sizes.steps / sizes.steps_of_run
    open_runs = sizes.steps * sizes.seconds_of_step
    commits = sizes.steps * costs.step_commits + runs * costs.run_commits
    idle_commits = sizes.fleet * costs.idle_commits
    streams = min(open_runs * sizes.streaming, sizes.fleet) * STREAM_COMMITS
    available = CLUSTER_COMMITS * sizes.cores / 96
    uses = {
        "commits/s": (commits + idle_commits + streams, available),
        "database cores": (
            (sizes.steps * costs.step_database + sizes.fleet * costs.idle_database) / 1000,
            sizes.cores,
        ),
        "connections": (sizes.fleet * costs.connections, sizes.max_connections),
        "worker cores": (sizes.steps * costs.step_worker / 1000, sizes.fleet),
    }
    lines = [
        f"{sizes.waiting:,} waiting, {sizes.fleet} workers, {sizes.steps:,} steps/s, {sizes.cores} cores",
        f"runs/s {runs:,.0f}, runs at work {open_runs:,.0f}, slots a worker {open_runs / sizes.fleet:,.0f}",
        f"commits/s: steps and runs {commits:,.0f}, polls {idle_commits:,.0f}, streamed {streams:,.0f}",
        f"waiting runs: {sizes.waiting * costs.waiting_kb / 1e6:,.1f} GB and no CPU",
        f"growth: {sizes.steps * costs.step_kb * 86_400 / 1e6:,.0f} GB a day, until deleted",
        "resource          needed  available  used",
    ]
    for name, (needed, there) in sorted(uses.items(), key=lambda each: -each[1][0] / each[1][1]):
        full = "  too much" if needed > SAFE * there else ""
        lines.append(f"{name:14} {needed:9,.0f} {there:10,.0f} {needed / there:5.0%}{full}")
    return [
        *lines,
        f"measured: {costs}",
        "extrapolated: commits/s of the server (DBOS, 96 cores, in proportion), cores, streams, slots",
    ]


def parser() -> argparse.ArgumentParser:
    """The options."""
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("--quick", action="store_true", help="small sizes, to see that everything works")
    words.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    words.add_argument("--plan", action="store_true", help="compute from measured costs, and measure nothing")
    words.add_argument("--measure", action="store_true", help="measure the costs of a step, then compute")
    numbers = {
        "parked": 700, "seconds": 20, "finished": 100_000, "run-steps": 20, "session-runs": 300,
        "point-runs": 16, "waiting": 1_000_000, "fleet": 100, "steps": 1_000, "cores": 16,
        "max-connections": 500, "steps-of-run": 10, "seconds-of-step": 5,
    }  # fmt: skip
    for name, default in numbers.items():
        words.add_argument(f"--{name}", type=int, default=default)
    words.add_argument("--streaming", type=float, default=0.5, help="share of a step in which text streams")
    words.add_argument("--model", action="store_true", help=argparse.SUPPRESS)
    return words


def main() -> int:
    """Measure, and print the table or the plan."""
    sizes = parser().parse_args()
    if sizes.model:
        be_model()
        return 0
    if sizes.plan:
        print("\n".join(plan(COSTS, sizes)))
        return 0
    if sizes.quick:
        sizes.parked, sizes.seconds, sizes.finished, sizes.session_runs, sizes.run_steps = 20, 2, 1000, 40, 4
    module = "benchmarks.engine_cost" if sizes.measure else "benchmarks.fleet_at_size"
    with model_process(module) as (url, _), PostgresServer() as server:
        place = Place(server, url, sizes)
        if sizes.measure:
            print("\n".join(plan(measured_costs(place), sizes)))
            return 0
        for name in sizes.only:
            before, work = SECTIONS[name]
            print(f"{name:10} before: {before}\n{'':10} today:  {work(place)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
