"""Runs that leave, each killed at another statement; `test_detached_runs` starts this as a process.

It has imported everything and started nothing, so that forking is safe. Each child counts the statements that
its connections to SQLite execute from the moment it begins to leave, and kills itself at one of them: before
a transaction, within it, before its commit, and after it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sqlite3
import sys
import traceback
from pathlib import Path
from typing import Any

import dbos  # noqa: F401 - imported before the fork
import sqlalchemy.dialects.sqlite  # noqa: F401 - likewise

from pure_agent_loop import Agent, tool
from pure_agent_loop.durable import Engine, SessionCopy, to_file
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.testing import ScriptedLLM, call

CALLS = 3


def next_answer(messages, tools, options):
    """Some calls, one after the other, then their results and the tasks; a task is the name of the case."""
    tasks = [each["content"] for each in messages if each["role"] == "user"]
    results = [each["content"] for each in messages if each["role"] == "tool"]
    if len(results) == CALLS:
        return " | ".join([*results, *tasks])
    return call("do", case=tasks[0], n=len(results) + 1)


def agent_with(effects, then=None):
    """An agent whose calls append a line to a file, and may wait after that."""

    @tool
    async def do(case: str, n: int) -> str:
        """Do one thing."""
        handle = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, f"{case} {n}\n".encode())
        os.close(handle)
        if then is not None:
            await then()
        return f"did {n}"

    return Agent(llm=ScriptedLLM(next_answer), tools=[do])


def leave(folder: Path, case: str, number: int, *, dies_after: bool) -> None:
    """In a child: begin, and leave during the first call; die at a statement, or after the hand-over."""
    counted = itertools.count(1)
    begun, counts = asyncio.Event(), False

    def count(_: str) -> None:
        if counts and next(counted) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(*args, connect=sqlite3.connect, **options):
        connection = connect(*args, **options)
        connection.set_trace_callback(count)
        return connection

    sqlite3.connect = sqlite3.dbapi2.connect = watched

    async def main() -> str:
        nonlocal counts
        engine = Engine(f"sqlite:///{folder / 'd.sqlite'}")
        engine.counts()  # it has connected, and created its tables

        async def hold() -> None:
            begun.set()
            await (asyncio.Event().wait() if case.startswith("cut") else engine_takes.wait())

        engine_takes = asyncio.Event()
        agent = agent_with(folder / "effects", hold)
        is_copy = case.startswith("copy")
        sessions = JsonlStore(folder / "sessions") if is_copy else engine.sessions
        run = agent.prepare(case, session_id=case, sessions=sessions)
        ending = asyncio.create_task(run.wait())
        await begun.wait()
        counts = True
        grace = 0.0 if case.startswith("cut") else None
        target = SessionCopy(engine) if is_copy else engine
        leaving = run.detach(target, "worker", to_file(folder / f"{case}.answer"), grace=grace)
        left = asyncio.create_task(leaving)
        while run._leave.hand_over is None:
            await asyncio.sleep(0.001)
        engine_takes.set()
        await left
        if dies_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return (await ending).stop_reason

    assert asyncio.run(main()) == "backgrounded"


def forked(*args: Any, **options: Any) -> int:
    """Return how a child that leaves has ended."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        leave(*args, **options)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def main(folder: Path, kind: str) -> None:
    """Kill one run after the other, until one is not killed at a statement; kill another after all."""
    number, code = 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        number += 1
        code = forked(folder, f"{kind}-{number}", number, dies_after=False)
    killed = forked(folder, f"{kind}-{number + 1}", 0, dies_after=True)
    print(number + 1, code, killed)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
