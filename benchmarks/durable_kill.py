"""Kill workers of durable runs on one SQLite file at random moments: which calls are repeated or lost?

    python -m benchmarks.durable_kill --kills 300

Three workers run at the same time. Each kill is a SIGKILL of one of them; the other workers take over its
runs, and a new worker is started. Each run makes calls of tools that leave marks when they begin and when
they have taken
effect. At the end each run is compared with its marks and with its session.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pure_agent_loop import Agent
from pure_agent_loop.durable import Engine, Handle
from pure_agent_loop.llm.messages import to_wire
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.sessions import Record, SessionStore, SqliteStore
from pure_agent_loop.sessions.transcript import read_resume_point
from pure_agent_loop.testing import ScriptedServer, call, check_history
from pure_agent_loop.testing.killed_work import check_calls, file_mark, make_tools, told

ROUNDS = [[("put", 1)], [("put", 2), ("look", 3)], [("again", 4), ("put", 5)], [("put", 6)], [("again", 7)]]
CALLS = [each for one in ROUNDS for each in one]
DONE = "Done."
TOOL_SECONDS = 0.01  # before and after a call takes effect
WORKERS, AT_ONCE, PATIENCE = 3, 6, 120.0


def next_answer(messages: Sequence[dict[str, Any]]) -> Any:
    """The model's script; the task and the numbers in the calls identify the run."""
    start = max(at for at, each in enumerate(messages) if str(each.get("content")).startswith("Run "))
    number = int(messages[start]["content"].split()[1])
    rounds = sum(1 for each in messages[start:] if each.get("tool_calls"))
    return [call(name, n=number * 100 + n) for name, n in ROUNDS[rounds]] if rounds < len(ROUNDS) else DONE


def make_agent(url: str, marks: Path) -> Agent:
    """An agent with three tools, of which only one may be repeated."""
    client = OpenAIClient("scripted", api_key="k", base_url=url)
    return Agent(llm=client, tools=make_tools(file_mark(str(marks)), TOOL_SECONDS))


def be_zygote(database: str, url: str, marks: Path) -> None:
    """Import everything once, then fork a worker for each line that comes in, and print its id."""
    import dbos  # noqa: F401 - before the fork

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    for _ in sys.stdin:
        pid = os.fork()
        if pid:
            continue
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            Engine(database, agents={"worker": make_agent(url, marks)}).run_worker(
                lambda _: print(os.getpid(), flush=True)
            )
        finally:
            os._exit(0)


class Workers:
    """Worker processes, of which one at a time is killed."""

    def __init__(self, database: str, url: str, marks: Path) -> None:
        words = [sys.executable, "-m", "benchmarks.durable_kill", "--zygote", database, url, str(marks)]
        self._zygote = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._ready: list[int] = []
        for _ in range(WORKERS):
            self._start()
        self._wait_for(1)

    def _start(self) -> None:
        assert self._zygote.stdin is not None
        self._zygote.stdin.write("fork\n")
        self._zygote.stdin.flush()

    def _wait_for(self, count: int) -> None:
        assert self._zygote.stdout is not None
        while len(self._ready) < count:
            self._ready.append(int(self._zygote.stdout.readline()))

    def kill(self, rng: random.Random) -> None:
        """Kill one of two running workers, and start a new one."""
        self._wait_for(2)
        os.kill(self._ready.pop(rng.randrange(2)), signal.SIGKILL)
        self._start()

    def close(self) -> None:
        """Kill all workers."""
        self._wait_for(WORKERS)
        for pid in self._ready:
            os.kill(pid, signal.SIGKILL)
        assert self._zygote.stdin is not None
        self._zygote.stdin.close()
        self._zygote.wait(30)


def kill_workers(folder: Path, kills: int, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Kill workers a number of times, let all runs end, and compare.

    Args:
        folder: The folder of all files.
        kills: Number of kills.
        seed: Seed of the random moments.
        say: Function called with the progress.
    """
    database, marks = f"sqlite:///{folder / 'd.sqlite'}", folder / "marks"
    rng, handles, wrong = random.Random(seed), list[Handle](), list[str]()
    with ScriptedServer(handler=lambda request: next_answer(request.messages)) as server:
        workers = Workers(database, server.base_url, marks)
        try:
            with Engine(database) as engine:
                for count in range(kills):
                    while len(engine.tasks("running")) + len(engine.tasks("pending")) < AT_ONCE:
                        handles.append(engine.submit("worker", f"Run {len(handles)}"))
                    time.sleep(rng.uniform(0, 0.5))
                    workers.kill(rng)
                    say(f"{count + 1} kills, {len(handles)} runs")
                results = [each.result(PATIENCE) for each in handles]
        finally:
            workers.close()
    for info in results:
        if (info.status, info.content) != ("completed", DONE):
            wrong.append(f"{info.run_id} ended as {info.status}: {info.content} {info.error}")
    with contextlib.closing(sqlite3.connect(folder / "d.sqlite")) as connection:
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            wrong.append("the database is damaged")
    counts = compare_runs(SqliteStore(folder / "d.sqlite"), marks, [each.run_id for each in handles], wrong)
    return {"kills": kills, "runs": len(handles), **counts, "wrong": wrong}


def compare_runs(
    store: SessionStore, marks_path: Path, run_ids: Sequence[str], wrong: list[str]
) -> Counter[str]:
    """Compare runs with the marks of their tools.

    Args:
        store: The store of their sessions.
        marks_path: The file of marks.
        run_ids: The runs, in the order of their numbers.
        wrong: List to which a line per violation is added.
    """
    counts: Counter[str] = Counter(attempts=0, ambiguous=0, reruns=0, steps=0)
    marks = marks_path.read_text().splitlines()
    for number, run_id in enumerate(run_ids):
        if not store.exists(run_id):
            wrong.append(f"{run_id} has no session")
            continue
        records = store.read(run_id).records
        counts["attempts"] += sum(each.type == "run" for each in records)
        wrong += [f"{run_id}: {each}" for each in _repeated(records)]
        messages = to_wire(read_resume_point(records).messages)
        wrong += [f"{run_id}: {each}" for each in check_history(messages)]
        made = [one for each in messages for one in each.get("tool_calls") or ()]
        names = [(one["function"]["name"], json.loads(one["function"]["arguments"])["n"]) for one in made]
        if names != [(name, number * 100 + n) for name, n in CALLS]:
            wrong.append(f"{run_id}: these calls were made: {names}")
        counts["steps"] += len(names)
        seen, found = check_calls(told(messages), marks)
        counts.update(seen)
        wrong += found
    return counts


def _repeated(records: Sequence[Record]) -> list[str]:
    """Return the calls that were started again although their result was recorded."""
    done: set[str] = set()
    found = []
    for each in records:
        key = str(each.data.get("key"))
        if each.type in ("intent", "outcome"):
            found += [f"{each.type} of {key} after its outcome"] if key in done else []
        if each.type == "outcome":
            done.add(key)
    return found


def main() -> int:
    """Parse the command line, kill workers, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--zygote", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.zygote:
        be_zygote(options.zygote[0], options.zygote[1], Path(options.zygote[2]))
        return 0
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = kill_workers(
            Path(folder), options.kills, options.seed, lambda text: print(text, file=sys.stderr, flush=True)
        )
    print(json.dumps({**found, "seconds": round(time.monotonic() - begun, 1)}))
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
