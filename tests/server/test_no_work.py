"""A server that leaves the runs of its engine to workers elsewhere."""

from __future__ import annotations

import pytest
from tests.server.conftest import events_of
from tests.server.test_coming_back import begin

from pure_agent_loop import Agent, ConfigError
from pure_agent_loop.durable import Engine
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


def test_server_without_work_needs_a_database():
    with pytest.raises(ConfigError, match="needs an engine"):
        create_app(Agent(llm=ScriptedLLM([])), executes=False)
