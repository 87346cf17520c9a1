"""A server that leaves the runs of its engine to workers elsewhere."""

from __future__ import annotations

import contextlib
import time

import pytest
from playwright.sync_api import expect
from tests.server.conftest import events_of
from tests.server.test_coming_back import begin

from pure_agent_loop import Agent, ConfigError
from pure_agent_loop.durable import Engine
from pure_agent_loop.durable.database import Database
from pure_agent_loop.errors import LLMError
from pure_agent_loop.server import create_app
from pure_agent_loop.testing import ScriptedLLM


def test_runs_of_a_server_without_work_are_executed_elsewhere(serve, tmp_path):
    url = f"sqlite:///{tmp_path / 'runs.sqlite'}"
    server = serve(["from the server"], database=url, executes=False)
    with server.client() as client:
        run = begin(client, "hello")
        assert client.get("/api/fleet").json()["workers"] == []
        agent = Agent(llm=ScriptedLLM(["from elsewhere"]))
        with Engine(url, agents={"helper": agent}):
            assert events_of(client, run["id"])[-1]["data"]["state"] == "completed"
        assert client.get(f"/api/runs/{run['id']}").json()["content"] == "from elsewhere"


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    """The address of a database, and a function that makes the last heartbeats older."""
    url = f"sqlite:///{tmp_path / 'runs.sqlite'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").url

    def let_pass(seconds):
        with contextlib.closing(Database(url)) as opened:
            opened.change("UPDATE @workers SET seen = seen - ?", seconds)

    return url, let_pass


def test_a_killed_worker_is_not_counted_and_a_failed_run_says_why(serve, visit, database):
    url, let_pass = database
    server = serve([], database=url, executes=False)
    worker = serve([LLMError("no such key", kind="auth")], database=url)
    guest = visit(server)
    with server.client() as client:
        begin(client, "hello")
        guest.page.get_by_role("button", name="Operator").click()
        row = guest.page.locator(".fleet tr", has_text="hello")
        expect(row.locator(".why")).to_contain_text("The key was refused (401).")
        (alive,) = client.get("/api/fleet").json()["workers"]
        assert (alive["alive"], time.time() - alive["seen"] < 60) == (True, True)
        workers = guest.page.locator(".tiles li").nth(3)
        expect(workers).to_have_text("1Workers")
        worker.kill()
        let_pass(120)
        (gone,) = client.get("/api/fleet").json()["workers"]
        assert (gone["alive"], gone["host"]) == (False, alive["host"])
        expect(workers).to_have_text("0Workers · 1 gone")
        expect(guest.page.locator(".fleet")).to_contain_text("gone since")


def test_server_without_work_needs_a_database():
    with pytest.raises(ConfigError, match="needs an engine"):
        create_app(Agent(llm=ScriptedLLM([])), executes=False)
