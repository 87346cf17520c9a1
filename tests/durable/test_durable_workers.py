"""Several workers, and what becomes of runs when one ends, in whatever way."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from tests.benchmark_runs import run_benchmark

from pure_agent_loop.sessions import SqliteStore

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("PAL_DURABLE_KILLS", "10"))
OWN = """
from tests.durable.durable_agents import agents as those

VERSION = {version}


def agents():
    return those()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked, to be killed by the dozen")
def test_killed_anywhere_no_step_is_lost_or_done_twice():
    done = run_benchmark("durable_kill", "--kills", str(KILLS), timeout=900)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    print(found)
    assert found["wrong"] == []
    assert found["kills"] == KILLS
    assert found["attempts"] > found["runs"]  # else no kill has met a run


def test_two_workers_share_a_file_and_do_each_step_once(fleet):
    for worker in [fleet.begin("--concurrency", "2"), fleet.begin("--concurrency", "2")]:
        fleet.ready(worker)
    handles = [fleet.engine.submit("worker", f"put {n}1, put {n}2") for n in range(1, 9)]
    assert {each.result(60).content for each in handles} == {"Did 2."}
    expected = {f"{word} {n}{step}": 1 for n in range(1, 9) for step in (1, 2) for word in ("start", "end")}
    assert Counter(fleet.marks()) == expected
    with closing(sqlite3.connect(fleet.folder / "d.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
        kept = connection.execute("SELECT DISTINCT serialization FROM workflow_status").fetchall()
        assert kept == [("pal_json",)]  # nothing is pickled


def test_messages_of_one_session_are_done_in_their_order_by_two_workers(fleet):
    for worker in [fleet.begin("--concurrency", "2"), fleet.begin("--concurrency", "2")]:
        fleet.ready(worker)
    handles = [fleet.engine.submit("worker", f"put {n}", session_id="chat") for n in range(1, 6)]
    handles += [fleet.engine.submit("worker", "put 9")]  # of another session
    results = [each.result(60) for each in handles]
    records = SqliteStore(fleet.folder / "d.sqlite").read("chat").records
    tasks = [record.data["task"] for record in records if record.type == "run"]
    assert tasks == [f"put {n}" for n in range(1, 6)]
    assert {(info.status, info.attempts) for info in results} == {("completed", 1)}
    assert (results[-1].steps, results[-1].tokens, results[-1].cost) == (2, 30, None)


def test_changed_code_resumes_old_runs_without_repeating_an_unclear_call(fleet, until):
    module = fleet.folder / "my_agents.py"
    module.write_text(OWN.format(version=1))
    fleet.start(agents="my_agents:agents")
    handle = fleet.engine.submit("worker", "put 1, wait 2, put 3")
    until(lambda: "start 2" in fleet.marks())
    fleet.end(fleet.workers[0], signal.SIGKILL)
    assert handle.status() == "running"  # nobody knows yet
    module.write_text(OWN.format(version=2) + "\n\ndef more():\n    return None\n")
    fleet.start(agents="my_agents:agents")
    assert handle.result(60).content == "Did 3."
    assert fleet.marks() == ["start 1", "end 1", "start 2", "start 3", "end 3"]
    records = SqliteStore(fleet.folder / "d.sqlite").read(handle.run_id).records
    told = json.dumps([each.data for each in records if each.type == "messages"])
    assert "1 is put" in told
    assert "2 has waited" not in told
    assert "Unknown" in told


def test_sigterm_lets_a_tool_end_and_hands_the_run_over(fleet, until):
    fleet.start()
    handle = fleet.engine.submit("worker", "wait 1, put 2")
    until(lambda: "start 1" in fleet.marks())
    first = fleet.workers[0]
    first.send_signal(signal.SIGTERM)
    fleet.gate.touch()
    assert first.wait(60) == 0
    assert fleet.marks() == ["start 1", "end 1"]
    assert handle.status() == "pending"
    fleet.start()
    assert handle.result(60).content == "Did 2."
    assert fleet.marks() == ["start 1", "end 1", "start 2", "end 2"]
    asked = [each["content"] for each in fleet.server.requests[-1].messages if each["role"] == "user"]
    assert asked == ["wait 1, put 2"]  # the task was given once


def test_limits_of_a_model_hold(fleet, until):
    fleet.start("--concurrency", "1", "--rate", "another=1/3600")
    limited = [fleet.engine.submit("other", f"put {n}") for n in (1, 2)]
    assert limited[0].result(60).status == "completed"
    one_by_one = [fleet.engine.submit("worker", f"wait {n}") for n in (3, 4, 5)]
    until(lambda: "start 3" in fleet.marks())
    first = fleet.engine.submit("worker", "put 6", priority=1)
    assert len(fleet.engine.tasks("running")) == 1
    fleet.gate.touch()
    assert all(each.result(60).status == "completed" for each in [*one_by_one, first])
    assert fleet.marks()[2:] == [f"{word} {n}" for n in (3, 4, 5, 6) for word in ("start", "end")]
    assert limited[1].status() == "pending"
    assert "start 2" not in fleet.marks()


def test_mistake_is_reported_without_a_traceback(fleet):
    unknown = fleet.pal("submit", "--agent", "helper", "put 1")
    assert unknown.returncode == 2
    assert "No worker has used" in unknown.stderr
    address = fleet.pal("tasks", "--database", "mysql://me:secret@host/name")
    assert address.returncode == 2
    assert "sqlite:///PATH" in address.stderr
    away = fleet.pal("tasks", "--database", "postgresql://me:secret@127.0.0.1:1/name")
    assert away.returncode == 1
    assert "postgresql://me:***@127.0.0.1:1/name is unavailable" in away.stderr
    module = fleet.pal("worker", "--agents", "no_such_module:agents")
    assert module.returncode == 2
    assert "no_such_module" in module.stderr
    for done in (unknown, address, away, module):
        assert "Traceback" not in done.stderr
        assert "secret" not in done.stderr
