"""Agents that work together in durable runs: their worker dies in the middle, and another one goes on."""

from __future__ import annotations

import pytest
from tests.durable.fleet import Fleet

from pure_agent_loop.testing import ScriptedServer, call

AGENTS = """
import os

from pure_agent_loop import Agent
from pure_agent_loop.llm.openai_client import OpenAIClient
from tests.durable.durable_agents import put, wait


def agent(name, **options):
    client = OpenAIClient(name, api_key="k", base_url=os.environ["PAL_TEST_SERVER"])
    return Agent(llm=client, name=name, system_prompt=name, **options)


def agents():
    billing = agent("billing", tools=[put, wait])
    helper = agent("helper", tools=[put, wait])
    return {
        "triage": agent("triage", tools=[put], handoffs=[billing]),
        "lead": agent("lead", tools=[helper]),
    }
"""
SCRIPTS = {
    "triage": [call("put", n=1), call("transfer_to_billing")],
    "billing": [None, None, call("wait", n=2), "end"],
    "lead": [call("helper", input="work"), "end"],
    "helper": [call("put", n=1), call("wait", n=2), "helped"],
}


def serve(request):
    """The next line of the agent's script, by the results it has seen."""
    return SCRIPTS[request.body["model"]][sum(each["role"] == "tool" for each in request.messages)]


@pytest.fixture
def fleet(tmp_path):
    fleet = Fleet(tmp_path)
    fleet.server = ScriptedServer(handler=serve)
    (tmp_path / "our_agents.py").write_text(AGENTS)
    with fleet:
        yield fleet


@pytest.mark.parametrize("name", ["triage", "lead"])
def test_killed_worker_in_the_second_agent_is_replaced(fleet, until, name):
    fleet.start(agents="our_agents:agents")
    handle = fleet.engine.submit(name, "Go.", session_id="together")
    until(lambda: "start 2" in fleet.marks())
    fleet.workers[0].kill()
    fleet.workers[0].wait(60)
    fleet.gate.touch()
    fleet.start(agents="our_agents:agents")
    info = handle.result(60)
    assert (info.status, info.content) == ("completed", "end"), info
    assert fleet.marks() == ["start 1", "end 1", "start 2"]  # nobody knows what became of it
    sessions = {each.id for each in fleet.engine.sessions.list()}
    assert len(sessions) == (1 if name == "triage" else 2)


@pytest.mark.parametrize("name", ["triage", "lead"])
def test_stopped_worker_hands_over_to_another(fleet, until, name):
    fleet.start(agents="our_agents:agents")
    handle = fleet.engine.submit(name, "Go.")
    until(lambda: "start 2" in fleet.marks())
    fleet.gate.touch()
    assert fleet.end(fleet.workers[0]) == 0
    fleet.start(agents="our_agents:agents")
    info = handle.result(60)
    assert (info.status, info.content) == ("completed", "end"), info
    assert fleet.marks() == ["start 1", "end 1", "start 2", "end 2"]
