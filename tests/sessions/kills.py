"""Runs that are killed and resumed until they are done; `test_kill` starts this as a process of its own.

It has imported everything and started nothing, so that forking is safe. One child is the model's server; each
other one is a run, or what is left of it. Prints what was seen, as JSON.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pure_agent_loop import Agent
from pure_agent_loop.errors import SessionNotFoundError
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.sessions import JsonlStore, Record, SqliteStore
from pure_agent_loop.sessions.store import BaseLog
from pure_agent_loop.testing import ScriptedServer, check_history
from pure_agent_loop.testing.killed_work import (
    CALLS,
    DONE,
    ROUNDS,
    TASK,
    check_calls,
    file_mark,
    make_tools,
    next_answer,
    told,
)

TOOL_SECONDS = 0.001
STEPS = len(ROUNDS) + 1
LATE = ("anyio._backends._asyncio", "h11", "openai", "sniffio", "sqlite3")  # imported by the first run, else
MAX_RUNS = 200  # of one session
START = 0.5  # of the time that a run takes, until it has begun to work
PATIENCE = 20  # kills after which a run gets twice the time: the machine may have become slower


def serve(tell: int) -> None:
    """Be the server until killed. It refuses an invalid history, and a run ends with an error then."""
    server = ScriptedServer(handler=lambda request: next_answer(request.messages))
    server.start()
    os.write(tell, server.base_url.encode())
    signal.pause()


def forked(work: Any, *args: Any) -> int:
    """Do something in a child, which never comes back."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work(*args)
        code = 0
    except BaseException as error:
        sys.stderr.write(f"a child failed: {error!r}\n")
    finally:
        os._exit(code)


class Session:
    """One session, and all that is known about it from outside."""

    def __init__(self, folder: Path, kind: str, number: int, client: OpenAIClient) -> None:
        self.id, self.client, self.kind, self.folder = f"{kind}-{number}", client, kind, folder
        self.marks, self.acks = folder / f"{self.id}.marks", folder / f"{self.id}.acks"
        self.result = folder / f"{self.id}.json"
        self.kills = self.runs = 0
        self.seconds = 0.0
        self.wrong: list[str] = []

    def store(self) -> JsonlStore | SqliteStore:
        if self.kind == "jsonl":
            return JsonlStore(self.folder / "files")
        return SqliteStore(self.folder / f"{self.id}.sqlite")

    def records(self) -> list[Record]:
        with contextlib.suppress(SessionNotFoundError):
            return self.store().read(self.id).records
        return []

    def go(self, ready: int, task: str | None) -> None:
        """In a child: begin, or go on."""
        acknowledge, append = file_mark(str(self.acks)), BaseLog._append

        def reported(log: BaseLog, *args: Any, **options: Any) -> list[Record]:
            records = append(log, *args, **options)
            acknowledge("".join(f"{record.id}\n" for record in records))
            return records

        BaseLog._append = reported  # type: ignore[method-assign]  # told of each record
        agent = Agent(
            llm=self.client,
            tools=make_tools(file_mark(str(self.marks)), TOOL_SECONDS),
            sessions=self.store(),
        )
        os.write(ready, b".")
        result = agent.run(task, session_id=self.id)
        told_last = {"messages": result.messages, "content": result.content, "reason": result.stop_reason}
        saved = {**told_last, "steps": result.steps, "tokens": result.usage.total_tokens}
        self.result.with_suffix(".new").write_text(json.dumps(saved))
        self.result.with_suffix(".new").rename(self.result)

    def left(self) -> float:
        """About how much of the work is still to be done, from 0 to 1."""
        return 1 - sum(record.type == "answer" for record in self.records()) / STEPS

    def run(self, seconds: float | None) -> None:
        """One run in a child, killed after so many seconds."""
        is_new = not any(record.type == "run" for record in self.records())
        ready, tell = os.pipe()
        pid = forked(self.go, tell, TASK if is_new else None)
        os.close(tell)
        os.read(ready, 1)
        os.close(ready)
        begun = time.monotonic()
        self.runs += 1
        if seconds is not None:
            time.sleep(seconds)
            os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self.seconds = time.monotonic() - begun
        self._check_acknowledged()
        if code == -signal.SIGKILL:
            self.kills += not self.result.exists()  # else it came too late
        elif code != 0:
            self.wrong.append(f"run {self.runs} ended with {code}")

    def _check_acknowledged(self) -> None:
        said = self.acks.read_text().split() if self.acks.exists() else []
        lost = set(said) - {record.id for record in self.records()}
        if lost:
            self.wrong.append(f"lost after run {self.runs}: {sorted(lost)}")

    def check(self) -> Counter[str]:
        """Look at everything once it is done."""
        counts: Counter[str] = Counter(kills=self.kills, runs=self.runs)
        if not self.result.exists():
            self.wrong.append("it did not finish")
            return counts
        found = json.loads(self.result.read_text())
        self.wrong += check_history(found["messages"])
        end = (found["content"], found["reason"], found["steps"])
        if end != (DONE, "completed", STEPS):
            self.wrong.append(f"it ended with {end}")
        texts = told(found["messages"])
        if list(texts) != CALLS:
            self.wrong.append(f"these calls were made: {list(texts)}")
        seen, wrong = check_calls(texts, self.marks.read_text().splitlines())
        self.wrong += wrong
        if self._outcomes() != texts:
            self.wrong.append(f"recorded outcomes: {self._outcomes()}")
        return counts + seen

    def _outcomes(self) -> dict[tuple[str, int], str]:
        """What is recorded about each call; nothing was begun again once its outcome was."""
        calls: dict[str, tuple[str, int]] = {}
        outcomes: dict[tuple[str, int], str] = {}
        for record in self.records():
            key = record.data.get("key", "")
            if record.type == "intent":
                calls[key] = (record.data["tool"], record.data["args"]["n"])
            if record.type in ("intent", "outcome") and calls.get(key) in outcomes:
                self.wrong.append(f"{record.type} of {key} after its outcome")
            if record.type == "outcome":
                outcomes[calls[key]] = record.data["value"]["text"]
        return outcomes


def main(folder: Path, kills: int, seconds: float, seed: int) -> None:
    """Kill runs so many times, or until the seconds are used where they are not 0."""
    for name in LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    told_url, tell = os.pipe()
    server = forked(serve, tell)
    url = os.read(told_url, 200).decode()
    client = OpenAIClient("scripted", api_key="k", base_url=url)  # has no connections yet
    assert threading.active_count() == 1  # nothing was started
    gc.freeze()  # what is there already need not be copied for each child
    rng, totals, wrong, took = random.Random(seed), Counter[str](), [], {}
    ends = time.monotonic() + seconds
    try:
        number = 0
        while totals["kills"] < kills or time.monotonic() < ends:
            number += 1
            session = Session(folder, ("jsonl", "sqlite")[number % 2], number, client)
            if session.kind not in took:  # this one is not killed
                session.run(None)
                took[session.kind] = session.seconds
            while not session.result.exists() and session.runs < MAX_RUNS and not session.wrong:
                left = kills - totals["kills"] - session.kills
                span = took[session.kind] * (START + (1 - START) * session.left())
                span *= 1 + session.runs / PATIENCE
                is_killed = left > 0 or time.monotonic() < ends
                session.run(rng.uniform(0, span) if is_killed else None)
                if session.runs == 1 and session.result.exists():
                    took[session.kind] = min(took[session.kind], session.seconds)
            totals += session.check()
            totals["sessions"] += 1
            wrong += [f"{session.id}: {each}" for each in session.wrong]
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
    print(json.dumps({**totals, "wrong": wrong}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
