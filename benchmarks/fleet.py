"""Kill and freeze the workers of a fleet and restart its database: what is lost?

    python -m benchmarks.fleet --workers 3 --runs 200 --kill-every 3 [--freeze] [--restart-database]
    python -m benchmarks.fleet --workers 2 --runs 10 --database sqlite

Each worker is a ``pal worker`` process, forked from one that has imported everything. The model is a server
in a process of its own, and PostgreSQL is a real one that writes to the disk. Every few seconds a worker
that has runs is killed (stopped first, so that it is known which runs it had) and a new one started. With
``--freeze`` each second one is stopped for longer than its lease and woken later instead; with
``--restart-database`` the database crashes half way and is away for two seconds. At the end each run is
compared with its session and with the marks that its tools left in a file. The takeover time is from a kill
to the first record that another worker wrote in a run of the dead one.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.postgres_server import PostgresServer

from benchmarks.durable_kill import DONE, compare_runs, make_agent, next_answer
from pure_agent_loop import Agent, cli
from pure_agent_loop.durable import Engine, Handle
from pure_agent_loop.sessions import PostgresStore, SessionStore, SqliteStore
from pure_agent_loop.testing import ScriptedServer

SERVER, MARKS = "PAL_FLEET_SERVER", "PAL_FLEET_MARKS"
ROOT = Path(__file__).parents[1]
PATIENCE, LOOK_SECONDS = 120.0, 0.25
AWAY_SECONDS, LATE_SECONDS = 2.0, 2.0
TAKEN = "was taken over by another worker"
Say = Callable[[str], None]


def agents() -> dict[str, Agent]:
    """Return the agents that the workers load."""
    return {"worker": make_agent(os.environ[SERVER], Path(os.environ[MARKS]))}


def be_model() -> None:
    """Serve as the model until the standard input ends."""
    with ScriptedServer(handler=lambda request: next_answer(request.messages)) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()
        server.assert_clean()


@contextlib.contextmanager
def model_process(module: str) -> Iterator[tuple[str, int]]:
    """Yield a model, served by a module in a separate process: the address and the process."""
    words = [sys.executable, "-m", module, "--model"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.stdin.close()
            if process.wait(PATIENCE) != 0:
                raise RuntimeError("the model got a request that was not valid")


def be_zygote(words: Sequence[str]) -> None:
    """Import everything once, then fork a ``pal worker`` for each log that is named, and print its id."""
    import dbos  # noqa: F401 - before the fork

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid:
            print(pid, flush=True)
            continue
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(os.open(line.strip(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
            cli.main(["worker", *words])
        except BaseException:  # noqa: BLE001 - nothing may get back into the loop
            traceback.print_exc()
        finally:
            os._exit(0)


@dataclass
class Worker:
    """A worker process and its log."""

    pid: int
    log: Path
    frozen_until: float = 0.0

    @property
    def said(self) -> str:
        """The log so far."""
        return self.log.read_text(errors="replace")

    @property
    def is_ready(self) -> bool:
        """True if the worker takes runs."""
        return "queues" in self.said

    @property
    def is_there(self) -> bool:
        """True if the process has not ended."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    @property
    def executor(self) -> str:
        """The worker's name in the database."""
        found = re.search(r" worker (\S+) started: ", self.said)
        assert found, self.said
        return found[1]


@dataclass(frozen=True)
class Event:
    """A worker was killed or frozen."""

    time: float
    runs: list[str]


@dataclass
class Fleet:
    """Workers on one database."""

    folder: Path
    zygote: subprocess.Popen[str]
    workers: list[Worker] = field(default_factory=list)
    gone: list[Worker] = field(default_factory=list)
    killed: list[Event] = field(default_factory=list)
    frozen: list[Event] = field(default_factory=list)

    def start(self) -> None:
        """Start one more worker, which will be ready a little later."""
        log = self.folder / f"worker-{len(self.workers) + len(self.gone)}.log"
        log.touch()
        assert self.zygote.stdin is not None
        assert self.zygote.stdout is not None
        print(log, file=self.zygote.stdin, flush=True)
        self.workers.append(Worker(int(self.zygote.stdout.readline()), log))

    def revive(self) -> None:
        """Restart ended workers, as a supervisor does: a worker exits if it starts without the database."""
        for each in list(self.workers):
            if not each.is_there and not each.is_ready and "is unavailable" in each.said:
                self.workers.remove(each)
                self.gone.append(each)
                self.start()

    def wait_until_ready(self, count: int) -> None:
        """Wait until this many workers are ready."""
        give_up = time.monotonic() + PATIENCE
        while sum(each.is_ready for each in self.workers) < count:
            self.revive()
            if time.monotonic() > give_up or not all(each.is_there for each in self.workers):
                raise RuntimeError("\n".join(each.said for each in self.workers))
            time.sleep(0.05)

    def _stopped(self, rng: random.Random, engine: Engine) -> tuple[Worker, Event] | None:
        """Stop and return one of at least two workers, in the middle of runs; None if impossible now."""
        awake = [each for each in self.workers if each.is_ready and not each.frozen_until]
        busy = {each.worker for each in engine.tasks("running", limit=None)}
        chosen = [each for each in awake if each.executor in busy]
        if not chosen or len(awake) < 2:
            return None
        victim = rng.choice(chosen)
        os.kill(victim.pid, signal.SIGSTOP)
        event = Event(time.time(), runs_of(engine, victim.executor))
        if not event.runs:  # the runs have ended in the meantime
            os.kill(victim.pid, signal.SIGCONT)
            return None
        return victim, event

    def kill(self, rng: random.Random, engine: Engine) -> bool:
        """Kill a worker and start a new one; return False if that is not possible now."""
        stopped = self._stopped(rng, engine)
        if stopped is None:
            return False
        victim, event = stopped
        os.kill(victim.pid, signal.SIGKILL)
        self.killed.append(event)
        self.workers.remove(victim)
        self.gone.append(victim)
        self.start()
        return True

    def freeze(self, rng: random.Random, engine: Engine, seconds: float) -> bool:
        """Freeze a worker for some time; return False if that is not possible now."""
        stopped = self._stopped(rng, engine)
        if stopped is None:
            return False
        victim, event = stopped
        victim.frozen_until = time.monotonic() + seconds
        self.frozen.append(event)
        return True

    def wake(self) -> None:
        """Resume the frozen workers that are due."""
        for each in self.workers:
            if each.frozen_until and time.monotonic() >= each.frozen_until:
                each.frozen_until = 0.0
                os.kill(each.pid, signal.SIGCONT)

    def refused(self) -> int:
        """Return the number of runs that workers have dropped because a write was rejected."""
        return sum(each.said.count(TAKEN) for each in [*self.workers, *self.gone])

    def end(self, wrong: list[str]) -> None:
        """Stop all workers gracefully."""
        for each in self.workers:
            os.kill(each.pid, signal.SIGTERM)
        give_up = time.monotonic() + PATIENCE
        while any(each.is_there for each in self.workers) and time.monotonic() < give_up:
            time.sleep(0.05)
        bad = [each for each in self.workers if "stopped;" not in each.said]
        wrong += [f"a worker has not ended in order: {each.said[-500:]}" for each in bad]
        said = [each.said for each in [*self.workers, *self.gone]]
        wrong += [f"a worker printed a traceback: {each[-3000:]}" for each in said if "Traceback" in each]

    def close(self) -> None:
        """Kill the remaining processes."""
        for each in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGKILL)
        assert self.zygote.stdin is not None
        self.zygote.stdin.close()
        self.zygote.wait(PATIENCE)


def open_fleet(folder: Path, where: str, url: str, words: Sequence[str]) -> Fleet:
    """A fleet without a worker.

    Args:
        folder: For logs and marks.
        where: The agents, as ``pal worker --agents`` has it.
        url: The model.
        words: More words of the command.
    """
    environment = {
        **os.environ,
        SERVER: url,
        MARKS: str(folder / "marks"),
        "PAL_HOME": str(folder / "home"),
    }
    zygote = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.fleet", "--zygote", "--agents", where, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    return Fleet(folder, zygote)


def runs_of(engine: Engine, executor: str) -> list[str]:
    """Return the runs that a worker is executing."""
    return [each.run_id for each in engine.tasks("running", limit=None) if each.worker == executor]


def watch(
    fleet: Fleet, handles: Sequence[Handle], engine: Engine, options: argparse.Namespace, rest: Rest
) -> None:
    """Kill, freeze and restart until every run has ended."""
    rng = random.Random(options.seed)
    next_blow = time.monotonic() + options.kill_every
    give_up, left = time.monotonic() + options.patience, len(handles)
    while left:
        time.sleep(LOOK_SECONDS)
        fleet.wake()
        fleet.revive()
        known = engine.tasks("running", limit=None) + engine.tasks("pending", limit=None)
        if not known:  # a run may have moved between the two queries
            known = [each for each in engine.tasks(limit=None) if not each.has_ended]
        if len(known) != left:
            give_up = time.monotonic() + options.patience
        left = len(known)
        if time.monotonic() > give_up:
            raise TimeoutError(f"{left} runs do not end: {known[:3]}")
        if rest.is_wanted and left <= len(handles) / 2:
            rest.restart()
        blows = len(fleet.killed) + len(fleet.frozen)
        if left and options.kill_every > 0 and time.monotonic() >= next_blow and blows < options.most_kills:
            if options.freeze and blows % 2:
                done = fleet.freeze(rng, engine, options.lease * 2 + 1)
            else:
                done = fleet.kill(rng, engine)
            if done:
                next_blow = time.monotonic() + options.kill_every
                options.say(f"{len(fleet.killed)} kills, {len(fleet.frozen)} freezes, {left} runs are left")


@dataclass
class Rest:
    """The interruption of the database."""

    server: PostgresServer | None
    is_wanted: bool
    away: float
    seconds: float = 0.0

    def restart(self) -> None:
        """Crash the database, wait a moment, and start it again."""
        assert self.server is not None
        self.is_wanted = False
        begun = time.monotonic()
        self.server.stop(immediate=True)
        time.sleep(self.away)
        self.server.start()
        self.seconds = round(time.monotonic() - begun, 1)


def measure(
    folder: Path, database: str, server: PostgresServer | None, options: argparse.Namespace
) -> dict[str, Any]:
    """Let a fleet execute runs, and compare.

    Args:
        folder: For logs and marks.
        database: The database's address.
        server: What serves it, if it is to be restarted.
        options: See the command line.
    """
    wrong: list[str] = []
    rest = Rest(server, options.restart_database, options.away)
    words = ["--database", database, "--lease", str(options.lease), "--concurrency", str(options.concurrency)]
    with model_process("benchmarks.fleet") as (url, _), Engine(database) as engine:
        fleet = open_fleet(folder, "benchmarks.fleet:agents", url, words)
        try:
            for _ in range(options.workers):
                fleet.start()
            fleet.wait_until_ready(options.workers)
            engine.tasks()  # the benchmark process itself is ready
            begun = time.monotonic()
            handles = [engine.submit("worker", f"Run {number}") for number in range(options.runs)]
            watch(fleet, handles, engine, options, rest)
            seconds = time.monotonic() - begun
            while any(each.frozen_until for each in fleet.workers):
                time.sleep(LOOK_SECONDS)
                fleet.wake()
            if fleet.frozen:
                time.sleep(LATE_SECONDS)  # the workers that were resumed last try to write
            fleet.wait_until_ready(len(fleet.workers))
            fleet.end(wrong)
        finally:
            fleet.close()
        statuses, done_by = Counter[str](), Counter[str]()
        for info in (each.info() for each in handles):
            statuses[info.status] += 1
            done_by[info.worker] += 1
            if (info.status, info.content) != ("completed", DONE):
                wrong.append(f"{info.run_id} ended as {info.status}: {info.content} {info.error}")
    store: SessionStore = PostgresStore(database) if server else SqliteStore(folder / "d.sqlite")
    counts = compare_runs(store, folder / "marks", [each.run_id for each in handles], wrong)
    found = {
        "workers": options.workers,
        "runs": options.runs,
        "statuses": dict(statuses),
        "done_by": sorted(done_by.values()),
        "kills": len(fleet.killed),
        "freezes": len(fleet.frozen),
        "database_away": rest.seconds,
        "seconds": round(seconds, 1),
        "runs_a_second": round(options.runs / seconds, 2),
        **counts,
        **_takeovers(store, fleet.killed),
        **_late(store, fleet),
    }
    if rest.is_wanted:
        wrong.append("the database was not restarted")
    if isinstance(store, PostgresStore):
        store.close()
    return {**found, "wrong": wrong}


def _after(store: SessionStore, run_id: str, moment: float) -> float | None:
    """Seconds until the first record of another attempt; None if there was none."""
    times = [each.time for each in store.read(run_id).records if each.type == "run" and each.time > moment]
    return times[0] - moment if times else None


def _takeovers(store: SessionStore, events: Sequence[Event]) -> dict[str, Any]:
    each_run = [[_after(store, run_id, event.time) for run_id in event.runs] for event in events]
    times = [sorted(one for one in found if one is not None) for found in each_run]
    first, every = [one[0] for one in times if one], [one for found in times for one in found]
    return {
        "kills_that_met_runs": sum(bool(each.runs) for each in events),
        "runs_of_the_killed": sum(len(each.runs) for each in events),
        "takeover_first_run": _summed_up(first),
        "takeover_each_run": _summed_up(every),
    }


def _late(store: SessionStore, fleet: Fleet) -> dict[str, int]:
    found = [_after(store, run_id, event.time) for event in fleet.frozen for run_id in event.runs]
    return {
        "runs_of_the_frozen": len(found),
        "of_these_taken_over": sum(each is not None for each in found),
        "late_writers_refused": fleet.refused(),
    }


def _summed_up(times: Sequence[float]) -> dict[str, float]:
    if not times:
        return {}
    return {"median": round(statistics.median(times), 2), "max": round(max(times), 2)}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--kill-every", type=float, default=3.0, help="seconds; 0 for never")
    parser.add_argument("--most-kills", type=int, default=1_000_000)
    parser.add_argument("--freeze", action="store_true", help="freeze each second one instead")
    parser.add_argument("--restart-database", action="store_true", help="let it crash half way")
    parser.add_argument("--away", type=float, default=AWAY_SECONDS, help="seconds until it comes back")
    parser.add_argument("--database", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--lease", type=float, default=3.0)
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds without any run ending")
    parser.add_argument(
        "--no-fsync", action="store_true", help="for tests: PostgreSQL may lie about the disk"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="a folder for the logs, which are kept there")
    parser.add_argument("--model", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.database == "sqlite" and (options.freeze or options.restart_database):
        parser.error(
            "SQLite is one machine: a frozen worker keeps its runs, and there is no server to restart."
        )
    options.say = lambda text: print(text, file=sys.stderr, flush=True)
    return options


def main() -> int:
    """Parse the command line, let the fleet execute runs, and print the results."""
    if sys.argv[1:2] == ["--zygote"]:
        be_zygote(sys.argv[2:])
        return 0
    options = _options()
    if options.model:
        be_model()
        return 0
    with contextlib.ExitStack() as stack:
        folder = Path(options.keep or stack.enter_context(tempfile.TemporaryDirectory()))
        if options.database == "sqlite":
            found = measure(folder, f"sqlite:///{folder / 'd.sqlite'}", None, options)
        else:
            server = stack.enter_context(PostgresServer(fsync=not options.no_fsync))
            found = measure(folder, server.url, server, options)
    print(json.dumps(found, indent=1))
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
