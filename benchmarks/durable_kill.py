"""Workers of durable runs on one SQLite file are killed at random moments: what happens twice, what is lost?

    python -m benchmarks.durable_kill --kills 300

Three workers work at the same time. Each kill is a SIGKILL of one of them; the others take its runs over, and
a new one is started. Each run makes calls of tools that leave marks when they begin and when they have taken
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

from pure_agent_loop import Agent, tool
from pure_agent_loop.durable import Engine, Handle
from pure_agent_loop.llm.messages import to_wire
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.sessions import Record, SessionStore, SqliteStore
from pure_agent_loop.sessions.transcript import read_resume_point
from pure_agent_loop.testing import ScriptedServer, call, check_history

ROUNDS = [[("put", 1)], [("put", 2), ("look", 3)], [("again", 4), ("put", 5)], [("put", 6)], [("again", 7)]]
CALLS = [each for one in ROUNDS for each in one]
DONE = "Done."
TOOL_SECONDS = 0.02
WORKERS, AT_ONCE, PATIENCE = 3, 6, 120.0


def next_answer(messages: Sequence[dict[str, Any]]) -> Any:
    """What the model says; the task says which run it is, and so do the numbers in its calls."""
    start = max(at for at, each in enumerate(messages) if str(each.get("content")).startswith("Run "))
    number = int(messages[start]["content"].split()[1])
    rounds = sum(1 for each in messages[start:] if each.get("tool_calls"))
    return [call(name, n=number * 100 + n) for name, n in ROUNDS[rounds]] if rounds < len(ROUNDS) else DONE


def make_agent(url: str, marks: Path) -> Agent:
    """An agent with three tools, of which only one may be repeated."""
    handle = os.open(marks, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def work(name: str, n: int) -> str:
        os.write(handle, f"start {name} {n}\n".encode())
        time.sleep(TOOL_SECONDS)
        os.write(handle, f"end {name} {n}\n".encode())
        return f"{name} {n} is done"

    @tool
    def put(n: int) -> str:
        """Put a thing in its place."""
        return work("put", n)

    @tool(read_only=True)
    def look(n: int) -> str:
        """Look at a thing."""
        return work("look", n)

    @tool(idempotent=True)
    def again(n: int) -> str:
        """Do what can be repeated."""
        return work("again", n)

    client = OpenAIClient("scripted", api_key="k", base_url=url)
    return Agent(llm=client, tools=[put, look, again])


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
    """Processes that work, of which one at a time is killed."""

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
        """Kill one of two that work; a new one begins meanwhile."""
        self._wait_for(2)
        os.kill(self._ready.pop(rng.randrange(2)), signal.SIGKILL)
        self._start()

    def close(self) -> None:
        """Kill them all."""
        self._wait_for(WORKERS)
        for pid in self._ready:
            os.kill(pid, signal.SIGKILL)
        assert self._zygote.stdin is not None
        self._zygote.stdin.close()
        self._zygote.wait(30)


def kill_workers(folder: Path, kills: int, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Kill so often, let everything end, and compare.

    Args:
        folder: Where everything is kept.
        kills: How often.
        seed: Of the random moments.
        say: Told how far it is.
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
        store: Where their sessions are.
        marks_path: The file of marks.
        run_ids: The runs, in the order of their numbers.
        wrong: Gets a line for each thing that is not as it must be.
    """
    counts: Counter[str] = Counter(attempts=0, ambiguous=0, reruns=0, steps=0)
    marks = Counter(marks_path.read_text().splitlines())
    for number, run_id in enumerate(run_ids):
        if not store.exists(run_id):
            wrong.append(f"{run_id} has no session")
            continue
        records = store.read(run_id).records
        counts["attempts"] += sum(each.type == "run" for each in records)
        wrong += [f"{run_id}: {each}" for each in _repeated(records)]
        messages = to_wire(read_resume_point(records).messages)
        wrong += [f"{run_id}: {each}" for each in check_history(messages)]
        told = {each["tool_call_id"]: each["content"] for each in messages if each["role"] == "tool"}
        made = [one for each in messages for one in each.get("tool_calls") or ()]
        names = [(one["function"]["name"], json.loads(one["function"]["arguments"])["n"]) for one in made]
        if names != [(name, number * 100 + n) for name, n in CALLS]:
            wrong.append(f"{run_id}: these calls were made: {names}")
        for one, (name, n) in zip(made, names, strict=True):
            _compare(name, n, told[one["id"]], marks, counts, wrong)
    return counts


def _repeated(records: Sequence[Record]) -> list[str]:
    """Calls that were begun again though their result was recorded."""
    done: set[str] = set()
    found = []
    for each in records:
        key = str(each.data.get("key"))
        if each.type in ("intent", "outcome"):
            found += [f"{each.type} of {key} after its outcome"] if key in done else []
        if each.type == "outcome":
            done.add(key)
    return found


def _compare(
    name: str, n: int, text: str, marks: Counter[str], counts: Counter[str], wrong: list[str]
) -> None:
    starts, ends = marks[f"start {name} {n}"], marks[f"end {name} {n}"]
    fine = text == f"{name} {n} is done"
    counts["steps"] += 1
    if name == "again":
        counts["reruns"] += starts - 1
        right = fine and ends >= 1
    elif fine:
        right = starts == ends == 1
    else:
        counts["ambiguous"] += 1
        right = ENGLISH.tool_interrupted in text and starts <= 1
    if not right:
        wrong.append(f"{name} {n}: {starts} starts, {ends} ends; {text!r}")


def main() -> int:
    """Read the command line, kill, and print what was seen."""
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
