"""The page survives runs that end their process: `pal serve` executes durable runs in a child process."""

from __future__ import annotations

import logging
import os
import queue
import re
import select
import signal
import sys
from logging.handlers import QueueHandler
from pathlib import Path

import httpx2
import pytest
from tests.server.conftest import OWNER, events_of
from tests.server.pal_serve import PATIENCE, Page

from pure_agent_loop import Agent, ConfigError
from pure_agent_loop.durable import Schedule, WorkerProcess
from pure_agent_loop.server import Serving, Settings, create_app, uvicorn_config
from pure_agent_loop.testing import ScriptedLLM


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    page = Page(tmp_path_factory.mktemp("page"))
    yield page
    page.close()


def wait_for_end(pid: int) -> None:
    """Wait until a process that another one has started has ended."""
    handle = os.pidfd_open(pid)
    readable, _, _ = select.select([handle], [], [], PATIENCE)
    os.close(handle)
    assert readable


@pytest.mark.parametrize(
    ("session", "how", "code", "shown"),
    [
        (None, "exit", 3, "exit status 3"),
        (None, "segfault", -signal.SIGSEGV, "signal 11 (SIGSEGV)"),
        (None, "killed", -signal.SIGKILL, "signal 9 (SIGKILL)"),
        ("needy", "live", 4, "exit status 4"),
    ],
)
def test_run_that_ends_its_process_does_not_end_the_page(page, session, how, code, shown):
    page.worker()
    said = len(page.lines)
    run = page.engine.submit("helper", how, max_attempts=1, session_id=session)
    page.until(rf"ended: {re.escape(shown)}\. Its runs: {run.run_id}\.", after=said)
    done = run.result(PATIENCE)
    assert (done.status, done.exit_code) == ("killed", code)
    assert done.error.endswith(shown)
    assert page.process.poll() is None
    with httpx2.Client(base_url=page.url, headers={"Authorization": f"Bearer {OWNER}"}) as client:
        begun = client.post("/api/runs", json={"text": "live"}).json()
        assert events_of(client, begun["id"])[-1]["data"]["state"] == "completed"


def test_schedule_whose_run_ends_its_process(page):
    page.worker()
    said = len(page.lines)
    page.engine.schedules.add(Schedule("deadly", "helper", "exit", every=1))
    try:
        page.until(r"ended: exit status 3", after=said)
        page.worker(after=said)
    finally:
        page.engine.schedules.remove("deadly")
    assert page.process.poll() is None


def test_page_answers_while_a_tool_holds_the_interpreter(page):
    page.worker()
    said = len(page.lines)
    os.mkfifo(hangs := Path(page.environment["PAL_TEST_FOLDER"]) / "hangs")
    run = page.engine.submit("helper", "hang", max_attempts=1)
    worker = int(hangs.read_text())  # the tool writes into it, then hangs
    assert httpx2.get(f"{page.url}/ready").status_code == 200
    assert run.status() == "running"  # nobody takes a run from a worker that holds its lock
    os.kill(worker, signal.SIGKILL)
    page.until(r"ended: signal 9", after=said)
    assert run.result(PATIENCE).status == "killed"


def test_worker_ends_with_the_page(tmp_path):
    page = Page(tmp_path)
    worker = page.worker()
    page.process.kill()
    page.until("stopped; unfinished runs")
    wait_for_end(worker)
    page.close()


def test_page_stops_its_worker(tmp_path):
    page = Page(tmp_path)
    page.worker()
    page.close()  # waits for the end of its log, which its worker holds too
    assert page.process.returncode == 0
    assert sum("stopped" in line for line in page.lines) == 2


def test_signal_that_comes_as_soon_as_the_server_is_ready(tmp_path):
    unhandled: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: unhandled.append(number))
    try:
        app = create_app(Agent(llm=ScriptedLLM([])), OWNER, folder=tmp_path)
        config = uvicorn_config(app, Settings(), "127.0.0.1", 0)
        Serving(config, 1.0, ready=lambda: os.kill(os.getpid(), signal.SIGTERM)).run()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert unhandled == []  # else the command would end by the signal, and leave its worker alone


def test_worker_that_cannot_start_is_tried_again_later_and_later(tmp_path):
    said: queue.Queue[logging.LogRecord] = queue.Queue()
    handler = QueueHandler(said)
    logging.getLogger("pure_agent_loop").addHandler(handler)
    try:
        with WorkerProcess([sys.executable, "-c", "exit(7)"], f"sqlite:///{tmp_path / 'd.sqlite'}"):
            lines = [said.get(timeout=PATIENCE).getMessage() for _ in range(2)]
    finally:
        logging.getLogger("pure_agent_loop").removeHandler(handler)
    assert [line.partition("ended: ")[2] for line in lines] == [
        f"exit status 7. Its runs: -. The next one starts in {seconds} s." for seconds in (1, 2)
    ]


def test_worker_receives_the_database(tmp_path):
    os.mkfifo(told := tmp_path / "told")
    code = f"import os; open({str(told)!r}, 'w').write(os.environ.get('PAL_DATABASE', ''))"
    url = f"sqlite:///{tmp_path / 'd.sqlite'}"
    with WorkerProcess([sys.executable, "-c", code], url):
        assert told.read_text() == url


def test_worker_program_must_exist(tmp_path):
    for command in ([], [str(tmp_path / "missing")]):
        with pytest.raises(ConfigError, match="must begin with a program that exists"):
            WorkerProcess(command, f"sqlite:///{tmp_path / 'd.sqlite'}")
