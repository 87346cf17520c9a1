"""The support desk as people use it: in a browser, approved in three ways, and killed in between."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys

import httpx2
import pytest

from pure_agent_loop.testing import ScriptedServer
from tests import forked
from tests.docs.example_scripts import EXAMPLES, SCRIPTS
from tests.processes import running
from tests.server.browser import chromium
from tests.serving import free_port

TOKEN = "only-for-this-example"
PATIENCE = 60_000  # milliseconds


class Desk:
    """The application as a process, in a folder of its own; it can be killed and started again."""

    def __init__(self, folder, model):
        self.port = free_port()
        self.folder, self.url = folder, f"http://127.0.0.1:{self.port}"
        self.env = environment(folder, model)

    def start(self):
        command = [sys.executable, "-m", "uvicorn", "--no-access-log", "--port", str(self.port)]
        command += ["--app-dir", str(EXAMPLES / "support_desk"), "app:app"]
        self.process = subprocess.Popen(
            command, cwd=self.folder, env=self.env, stderr=subprocess.PIPE, text=True
        )
        for line in self.process.stderr:
            if "Uvicorn running" in line:
                return self
        raise AssertionError("the application did not start")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)
        self.process.stderr.close()

    def refunds(self):
        path = self.folder / "refunds.txt"
        return path.read_text().splitlines() if path.exists() else []


def environment(folder, model):
    ours = ("OPENAI_", "PAL_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**env, "OPENAI_BASE_URL": model, "OPENAI_API_KEY": "k", "PAL_HOME": str(folder / "home")}


def pal(folder, env, *words):
    command = [sys.executable, "-m", "pure_agent_loop", *words]
    done = forked.run(command, cwd=folder, env=env, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def desk(tmp_path):
    with ScriptedServer(SCRIPTS["support_desk/story"]) as model:
        desk = Desk(tmp_path, model.base_url).start()
        yield desk
        desk.kill()


@pytest.fixture
def visit(browser):
    """A function that opens a page in a window of its own; at the end no script may have failed."""
    errors = []
    with contextlib.ExitStack() as windows:

        def opened(url):
            context = windows.enter_context(browser.new_context())
            page = context.new_page()
            page.set_default_timeout(PATIENCE)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(url)
            return page

        yield opened
    assert errors == []


def on_our_page(desk, visit):
    staff = visit(f"{desk.url}/staff#token={TOKEN}")
    staff.get_by_role("button", name="allow").click()
    staff.get_by_text("refund: allowed").wait_for()
    assert "token" not in staff.url


def on_the_page_that_comes_with_it(desk, visit):
    staff = visit(f"{desk.url}/agents/#token={TOKEN}")
    staff.locator("button.waits").click()  # in the head: how many calls wait
    staff.locator(".inbox").get_by_role("button", name="Allow", exact=True).click()
    staff.locator("button.waits").wait_for(state="detached")


def at_a_terminal(desk, _):
    (waiting,) = json.loads(pal(desk.folder, desk.env, "sessions", "waiting", "--json"))["sessions"]
    call_id = waiting["questions"][0]["call_id"]
    pal(desk.folder, desk.env, "sessions", "answer", waiting["id"], call_id, "allow")


@pytest.mark.parametrize("approve", [on_our_page, on_the_page_that_comes_with_it, at_a_terminal])
def test_a_refund_happens_once_over_a_closed_tab_and_a_kill(desk, visit, approve):
    customer = visit(desk.url)
    customer.get_by_role("textbox").fill("The lamp of order 7 is broken.")
    customer.get_by_role("button", name="Send").click()
    customer.get_by_text("A colleague looks at it.").wait_for()
    ticket = customer.url
    customer.close()
    left_open = visit(ticket)
    left_open.get_by_text("A colleague looks at it.").wait_for()
    desk.kill()
    left_open.get_by_text("Reconnecting").wait_for()
    desk.start()
    with httpx2.Client(base_url=desk.url) as stranger:
        assert stranger.get("/agents/api/questions").status_code == 401
        assert stranger.get("/tickets/not-a-ticket").status_code == 404
    assert desk.refunds() == []

    approve(desk, visit)
    for tab in (left_open, visit(ticket)):
        tab.get_by_text("Your 30.00 are on their way.").wait_for()
    assert desk.refunds() == ["order 7: 30.00"]


def test_worker_example_fires_due_schedules_and_ends_cleanly(tmp_path):
    (tmp_path / "repo").mkdir()
    with ScriptedServer(["Found: nothing."]) as model:
        env = {**environment(tmp_path, model.base_url), "PAL_DATABASE": f"sqlite:///{tmp_path}/care.sqlite"}
        command = [sys.executable, str(EXAMPLES / "code_care" / "care.py"), "work"]
        with running(command, forked.Popen, cwd=tmp_path, env=env) as worker:
            while not (tmp_path / "care.sqlite").exists() or "nightly" not in pal(
                tmp_path, env, "schedule", "list", "--json"
            ):
                assert worker.poll() is None
            pal(tmp_path, env, "schedule", "run", "nightly")
            while '"delivered"' not in pal(tmp_path, env, "schedule", "show", "nightly", "--json"):
                assert worker.poll() is None
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0
    assert "Found: nothing." in (tmp_path / "report.md").read_text()
