"""Writers to PostgreSQL that are killed, or frozen; `test_postgres` starts this as a process of its own.

It has imported everything and started nothing, so that forking is safe: each writer is a child, and looks
first at what the one before has left. Prints what was seen, as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg  # noqa: F401 - imported before the forks, not in each of them
from tests.sessions.kills import forked

from pure_agent_loop.errors import SessionLockedError
from pure_agent_loop.sessions import PostgresStore, Record
from pure_agent_loop.sessions.stores.postgres import PostgresLog

LEASE = 0.5
MAX_SECONDS = 0.04  # a writer is killed within


def write(url: str, session_id: str, acks: Path, ready: int) -> None:
    """Append until killed, or until refused. What append returned is said behind it."""
    handle = os.open(acks, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    log = open_when_free(PostgresStore(url, lease=LEASE, connections=2), session_id)
    for each in wrong_with(log.records, acks):
        os.write(handle, f"{each}\n".encode())
    os.write(ready, b".")
    number = 0
    try:
        while True:
            number += 1
            record = log.append("step", {"text": "x" * 500}, durable=number % 2 == 0)
            os.write(handle, f"{record.id}\n".encode())
    except SessionLockedError:
        os.write(handle, b"refused\n")


def open_when_free(store: PostgresStore, session_id: str) -> PostgresLog:
    while True:
        try:
            return store.open(session_id)
        except SessionLockedError:  # noqa: PERF203 - until it is free
            time.sleep(0.002)


def started(url: str, session_id: str, acks: Path) -> int:
    """A writer that has begun."""
    ready, tell = os.pipe()
    pid = forked(write, url, session_id, acks, tell)
    os.close(tell)
    os.read(ready, 1)
    os.close(ready)
    return pid


def wrong_with(records: Sequence[Record], acks: Path) -> list[str]:
    said, ids = acks.read_text().split(), [record.id for record in records]
    lost = {each for each in said if each.isdecimal()} - set(ids)
    return [f"lost-{each}" for each in lost] + (["twice"] if ids != sorted(set(ids)) else [])


def kill_writers(url: str, folder: Path, kills: int) -> dict[str, Any]:
    """One session; its writer is killed at a random moment, again and again."""
    rng, acks = random.Random(1), folder / "acks"
    for _ in range(kills):
        pid = started(url, "killed", acks)
        time.sleep(rng.uniform(0, MAX_SECONDS))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    with PostgresStore(url, lease=LEASE) as store, open_when_free(store, "killed") as log:
        wrong = wrong_with(log.records, acks)
        said = acks.read_text().split()
        return {
            "wrong": wrong + [each for each in said if not each.isdecimal()],
            "appended": len(said),
            "recorded": len(log.records),
        }


def take_over(url: str, session_ids: list[str]) -> None:
    """Take sessions whose writers are frozen, and write into every other one."""
    store = PostgresStore(url, lease=LEASE, connections=2)
    for number, session_id in enumerate(session_ids):
        with open_when_free(store, session_id) as log:
            if number % 2:
                log.append("taken", {}, durable=True)


def freeze_writers(url: str, folder: Path, count: int) -> dict[str, Any]:
    """Each in a session of its own: frozen, its session taken over, and woken."""
    writers = {f"frozen-{number}": 0 for number in range(count)}
    for session_id in writers:
        writers[session_id] = started(url, session_id, folder / session_id)
    for pid in writers.values():
        os.kill(pid, signal.SIGSTOP)
    os.waitpid(forked(take_over, url, list(writers)), 0)
    for pid in writers.values():
        os.kill(pid, signal.SIGCONT)
    ended = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in writers.values()]
    store, wrong, refused = PostgresStore(url, connections=2), [], 0
    for session_id in writers:
        lines = (folder / session_id).read_text().split()
        refused += lines[-1] == "refused"
        records = store.read(session_id).records
        wrong += wrong_with(records, folder / session_id)
        kinds = [record.type for record in records]
        wrong += [f"{session_id}: late"] if "taken" in kinds[:-1] else []
    return {"wrong": wrong, "refused": refused, "ended": ended}


if __name__ == "__main__":
    kinds = {"kill": kill_writers, "freeze": freeze_writers}
    print(json.dumps(kinds[sys.argv[1]](sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))))
