"""What an operator sees of a worker: its log, its health, and what it says of a database that is away."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
from tests.durable.fleet import Fleet, name_of
from tests.postgres_server import PostgresServer

PATIENCE = 60.0
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO   |WARNING|ERROR  ) \S.*\n")


class Log:
    """The lines of a process on standard error, as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.lines = process, list[str]()

    def until(self, wanted: str) -> str:
        """Read up to a line with these words in it."""
        patience = threading.Timer(PATIENCE, self.process.kill)
        patience.start()
        try:
            while not (self.lines and wanted in self.lines[-1]):
                line = self.process.stderr.readline()
                assert line, f"{wanted!r} was not said: {''.join(self.lines)}"
                self.lines.append(line)
        finally:
            patience.cancel()
        return self.lines[-1]

    def rest(self) -> list[str]:
        """All lines, when the process has ended."""
        self.lines += self.process.communicate(timeout=PATIENCE)[1].splitlines(keepends=True)
        return self.lines


def asked(url: str) -> tuple[int, str]:
    """Status and text of a page."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_log_of_text_has_time_and_level_on_each_line(fleet):
    worker = fleet.begin()
    log = Log(worker)
    name = name_of([log.until("queues")])
    done = fleet.engine.submit("worker", "put 1").result(PATIENCE)
    log.until(f"Run {done.run_id}: completed after ")
    failed = fleet.engine.submit("worker", "what?").result(PATIENCE)
    said = log.until(f"Run {failed.run_id}: error after")
    assert " ERROR " in said
    assert f"pal tasks show {failed.run_id}" in said
    worker.send_signal(signal.SIGTERM)
    lines = log.rest()
    assert worker.returncode == 0
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert name in lines[0]
    assert "stopped; unfinished runs were returned" in lines[-1]


def test_a_log_of_json_has_an_object_for_each_event(fleet, until):
    worker = fleet.begin("--log-format", "json")
    log = Log(worker)
    log.until("worker_started")
    run = fleet.engine.submit("worker", "wait 1").run_id
    until(lambda: fleet.marks() == ["start 1"])
    fleet.gate.touch()
    log.until("run_ended")
    worker.send_signal(signal.SIGTERM)
    lines = [json.loads(line) for line in log.rest()]
    events = {line["event"]: line for line in lines}
    assert list(events) == [
        "worker_started",
        "run_claimed",
        "run_ended",
        "worker_stopping",
        "worker_stopped",
    ]
    assert events["worker_started"]["database"] == fleet.database
    assert events["worker_started"]["queues"] == "model another, model scripted"
    assert events["worker_started"]["version"]
    assert events["run_claimed"].items() >= {"level": "info", "run": run, "agent": "worker"}.items()
    assert events["run_ended"].items() >= {"run": run, "reason": "completed", "steps": 2}.items()
    assert events["run_ended"]["seconds"] > 0


def test_quiet_log_has_only_errors(fleet, until):
    worker = fleet.begin("--log-level", "error", "--log-format", "json")
    until(lambda: fleet.engine.queue.agents())
    done = fleet.engine.submit("worker", "put 1").result(PATIENCE)
    failed = fleet.engine.submit("worker", "what?").result(PATIENCE)
    worker.send_signal(signal.SIGTERM)
    (line,) = [json.loads(line) for line in Log(worker).rest()]
    assert (done.status, line["event"], line["run"]) == ("completed", "run_failed", failed.run_id)


def test_end_of_a_worker_is_logged(fleet, monkeypatch):
    monkeypatch.setenv("PAL_LANG", "zh")
    monkeypatch.setenv("PAL_MODLE", "misspelt")
    missing = fleet.pal("worker", "--agents", "no_such:agents", "--log-format", "json")
    (warned, line) = map(json.loads, missing.stderr.splitlines())
    assert warned.keys() == {"time", "level", "event", "message", "name"}
    assert (missing.returncode, line["level"]) == (2, "error")
    assert "no_such" in line["message"]
    assert line["message"].isascii()
    monkeypatch.delenv("PAL_MODLE")
    monkeypatch.delenv("PAL_LANG")
    away = ("--database", "postgresql://me:secret@127.0.0.1:1/name")
    there = ("--agents", "tests.durable.durable_agents:agents")
    refused = fleet.pal("worker", *there, *away)
    assert refused.returncode == 1
    assert "postgresql://me:***@127.0.0.1:1/name is unavailable" in refused.stderr
    assert LINE.fullmatch(refused.stderr)
    for done in (missing, refused):
        assert "Traceback" not in done.stderr
        assert "secret" not in done.stderr


def test_health_of_a_worker(fleet, until):
    worker = fleet.begin("--health", "0", "--concurrency", "1", "--grace", "60")
    log = Log(worker)
    url = re.search(r"http://127\.0\.0\.1:\d+", log.until("health checks"))[0]
    assert asked(f"{url}/live") == (200, "live\n")
    assert asked(f"{url}/ready") == (200, "ready\n")
    assert asked(f"{url}/other")[0] == 404

    def measured():
        status, text = asked(f"{url}/metrics")
        assert status == 200
        return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

    assert measured()['pal_queue_depth{queue="model another"}'] == "0"
    runs = [fleet.engine.submit("worker", f"wait {number}") for number in (1, 2, 3)]
    until(lambda: fleet.marks())
    values = measured()
    assert values['pal_queue_depth{queue="model scripted"}'] == "2"
    assert values['pal_queue_running{queue="model scripted"}'] == "1"
    assert values['pal_runs{state="running"}'] == "1"
    assert values['pal_runs_started_total{agent="worker"}'] == "1"
    assert (values["pal_workers"], values["pal_database_up"]) == ("1", "1")
    worker.send_signal(signal.SIGTERM)
    until(lambda: asked(f"{url}/ready") == (503, "stopping\n"))
    assert asked(f"{url}/live")[0] == 200
    fleet.gate.touch()
    log.rest()
    assert worker.returncode == 0
    assert len(runs) == 3


def test_usage_of_a_run_is_counted_once_when_it_has_ended(fleet):
    log = Log(fleet.begin("--health", "0"))
    url = re.search(r"http://127\.0\.0\.1:\d+", log.until("health checks"))[0]
    run = fleet.engine.submit("careful", "put 1")
    waiting = run.result(PATIENCE)
    log.until(f"Run {run.run_id}: waiting_permission")
    assert 'pal_tokens_total{agent="careful"}' not in asked(f"{url}/metrics")[1]
    run.answer(waiting.questions[0].call_id, "allow")
    done = run.result(PATIENCE)
    log.until(f"Run {run.run_id}: completed")
    text = asked(f"{url}/metrics")[1]
    assert f'pal_tokens_total{{agent="careful"}} {done.tokens}\n' in text
    assert 'pal_unpriced_runs_total{agent="careful"} 1\n' in text
    assert done.cost is None


def test_a_field_of_the_log_is_a_value_and_no_part_of_a_sentence(fleet, monkeypatch):
    monkeypatch.setenv("PAL_LANG", "zh")
    worker = fleet.begin("--health", "0", "--log-format", "json")
    log = Log(worker)
    address = json.loads(log.until("worker_health"))
    assert asked(f"{address['url']}/live") == (200, "live\n")
    started = json.loads(log.lines[0])
    assert started.keys() == {
        *("time", "level", "event", "message", "worker", "version", "database", "agents", "queues")
    }
    assert started["message"].isascii()


def test_an_address_of_health_that_is_taken_is_said_at_once(fleet):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        there = ("--agents", "tests.durable.durable_agents:agents")
        done = fleet.pal("worker", *there, "--health", f"127.0.0.1:{port}")
    assert done.returncode == 2
    assert f"--health 127.0.0.1:{port} cannot be used: " in done.stderr
    wrong = fleet.pal("worker", "--health", "here:there")
    assert wrong.returncode == 2


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_database_that_is_away_and_comes_back_is_said_once(tmp_path, until, form):
    with PostgresServer() as server, Fleet(tmp_path, server.url) as fleet:
        worker = fleet.begin("--health", "0", "--log-format", form)
        log = Log(worker)
        url = re.search(r"http://127\.0\.0\.1:\d+", log.until("health checks"))[0]
        run = fleet.engine.submit("worker", "wait 1, put 2")
        until(lambda: fleet.marks() == ["start 1"])
        server.stop(immediate=True)
        log.until("is unreachable: ")
        status, text = asked(f"{url}/ready")
        assert (status, "is unavailable" in text) == (503, True)
        assert asked(f"{url}/live")[0] == 200
        assert "pal_database_up 0" in asked(f"{url}/metrics")[1]
        server.start()
        log.until("is back after ")
        until(lambda: asked(f"{url}/ready")[0] == 200)
        fleet.gate.touch()
        assert run.result(PATIENCE).status == "completed"
        worker.send_signal(signal.SIGTERM)
        said = log.rest()
        assert worker.returncode == 0
        lost = [line for line in said if "is unreachable: " in line]
        assert len(lost) == len([line for line in said if "is back after " in line])
        assert len(lost) <= 2
        assert "Traceback" not in "".join(said)
