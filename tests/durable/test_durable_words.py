"""What a person sees of durable runs on the command line."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from pure_agent_loop.testing import ScriptedServer, call

PATIENCE = 60


def until_said(process, wanted):
    """Read what a process says, up to a line with these words in it. One that is silent is ended."""
    said, patience = "", threading.Timer(PATIENCE, process.kill)
    patience.start()
    try:
        while wanted not in said:
            line = process.stderr.readline()
            assert line, f"{wanted!r} was not said: {said}"
            said += line
    finally:
        patience.cancel()
    return said


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_worker_logs_its_work_and_exits_at_the_second_ctrl_c(fleet, until):
    worker = fleet.begin("--grace", "30")
    until_said(worker, "queues")
    run = fleet.engine.submit("worker", "wait 1")
    until_said(worker, f"Run {run.run_id}: running, agent worker.")
    until(lambda: fleet.marks() == ["start 1"])
    worker.send_signal(signal.SIGINT)
    until_said(worker, "stopping; running tools get 30 s to finish (Ctrl-C again stops now)")
    worker.send_signal(signal.SIGINT)
    assert worker.wait(PATIENCE) == 130
    assert fleet.marks() == ["start 1"]


def test_a_list_without_runs_says_so(fleet):
    assert fleet.engine.tasks() == []  # which creates the database
    assert fleet.pal("tasks").stderr == "pal: No durable runs yet.\n"
    assert "no matching runs in " in fleet.pal("tasks", "--agent", "worker").stderr


def test_worker_logs_the_outcome_of_a_run(fleet):
    worker = fleet.begin()
    until_said(worker, "queues")
    run = fleet.engine.submit("worker", "put 1")
    until_said(worker, f"Run {run.run_id}: completed after ")
    failed = fleet.engine.submit("worker", "what?").result(PATIENCE)
    until_said(worker, f" s: {failed.error} For details: pal tasks show {failed.run_id}, pal logs")
    assert f"    worker: what?\n    {failed.error[:40]}" in fleet.pal("tasks").stdout


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_ctrl_c_while_waiting_states_that_the_run_continues(fleet):
    fleet.start()
    waiting = subprocess.Popen(
        [sys.executable, "-m", "pure_agent_loop", "submit", "--agent", "worker", "--wait", "wait 1"],
        env=fleet.environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    until_said(waiting, "pal: run ")
    waiting.send_signal(signal.SIGINT)
    said = until_said(waiting, "the run continues; to follow it: pal logs -f ")
    waiting.stderr.close()
    assert waiting.wait(PATIENCE) == 130
    fleet.gate.touch()
    assert fleet.engine.handle(said.split()[-1]).result(PATIENCE).status == "completed"


def test_proposed_command_names_the_given_database(working):
    there = ("--database", working.database)
    submitted = working.pal("submit", "--agent", "worker", "put 60", *there)
    assert f"pal logs -f {submitted.stdout.strip()} {' '.join(there)}\n" in submitted.stderr
    asks = working.pal("submit", "--agent", "careful", "--id", "asks", "--wait", "put 61", *there)
    assert asks.returncode == 4
    assert asks.stderr.endswith("pal: waiting_permission\n")
    for said in (
        asks.stderr,
        working.pal("tasks", *there).stdout,
        working.pal("logs", "asks", *there).stderr,
    ):
        assert re.search(rf"pal answer asks \S+ allow {' '.join(there)}\n", said)
    working.pal("schedule", "add", "once", "--every", "1d", "--agent", "worker", "--prompt", "put 62")
    run = working.pal("schedule", "run", "once", *there)
    assert run.stderr.endswith(f"pal logs -f {run.stdout.strip()} {' '.join(there)}\n")


def test_resume_command_is_printed(working):
    for number in (63, 64):
        done = working.pal("submit", "--agent", "worker", "--session", "ours", "--wait", f"put {number}")
        assert done.returncode == 0, done.stderr
    assert 'pal run --resume ours "..."' in done.stderr  # PAL_DATABASE means the same to `pal run`
    there = ("--database", working.database)
    done = working.pal("submit", "--agent", "worker", "--session", "ours", "--wait", "put 67", *there)
    assert f'pal run --resume ours {" ".join(there)} "..."' in done.stderr
    assert working.engine.sessions.exists("ours")


def test_runs_stand_below_each_other_whatever_their_ids(working):
    for name in ("older", "a", "an-id-that-is-longer-than-those-of-runs"):
        working.pal("submit", "--agent", "worker", "--id", name, "--wait", "put 65")
    listed = working.pal("tasks", "-n", "2")
    heads = [line for line in listed.stdout.splitlines() if not line.startswith(" ")]
    assert len(heads) == 2
    assert len({re.search(r"  \d{4}-", head).start() for head in heads}) == 1
    assert "    worker: put 65\n" in listed.stdout
    assert "more runs: pal tasks -n 4" in listed.stderr


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone cannot be set")
def test_times_are_in_utc(working, monkeypatch):
    working.pal("submit", "--agent", "worker", "--id", "timed", "--wait", "put 66")
    with monkeypatch.context() as place:
        place.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        logs = working.pal("logs", "timed").stdout
    time.tzset()
    first = json.loads(working.pal("logs", "timed", "--json").stdout.splitlines()[0])
    assert logs.startswith(time.strftime("%H:%M:%S", time.gmtime(first["timestamp"])))


def test_a_schedule_says_its_times_as_they_were_given(working):
    for every, shown in (("90", "90s"), ("30m", "30m"), ("36h", "36h"), ("2d", "2d")):
        words = ("--every", every, "--agent", "worker", "--prompt", "put 67", "--replace")
        working.pal("schedule", "add", "rhythm", *words)
        assert re.search(rf"^rhythm +every {shown} +worker$", working.pal("schedule", "list").stdout, re.M)
        lines = working.pal("schedule", "show", "rhythm").stdout.splitlines()
        assert f"every        {shown}" in lines
        assert any(re.fullmatch(r"next +\d{4}-\d\d-\d\dT\S+", line) for line in lines)


def test_a_task_that_is_missing_is_asked_for_with_the_right_command(working):
    assert 'pal submit "your question"' in working.pal("submit", "--agent", "worker").stderr


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        ("tests.durable.durable_agents:mark", "missing 1 required positional argument: 'text'"),
        ("sys:exit", "cannot be loaded. SystemExit"),
        ("tests/durable/durable_agents.py:agents", "names a file"),
        ("durable_agents.py:agents", "names a file"),
        ("tests.durable.durable_agents:MARKS", "is str. It must be an Agent"),
    ],
)
def test_agents_that_cannot_be_had(fleet, agents, words):
    done = fleet.pal("worker", "--agents", agents)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert "internal error" not in done.stderr


def test_a_schedule_without_its_agent_is_refused_with_the_names_there_are(working):
    done = working.pal("schedule", "add", "nobodys", "--every", "1d", "--prompt", "put 68")
    assert done.returncode == 2
    assert "Unknown agent 'default'. Known agents: careful, limited, other, worker." in done.stderr


def test_without_agents_there_is_one_that_looks_and_is_written_down(fleet, monkeypatch):
    with ScriptedServer([call("list_dir", path="."), "Nothing here."]) as server:
        monkeypatch.setenv("PAL_BASE_URL", server.base_url)
        monkeypatch.setenv("PAL_MODEL", "scripted")
        until_said(fleet.begin(agents=None), "queues")
        run = fleet.engine.submit("default", "look around").result(PATIENCE)
    assert run.content == "Nothing here."
    (entry,) = fleet.pal_json("audit", "list")["calls"]
    assert (entry["tool"], entry["session"]) == ("list_dir", run.session_id)
