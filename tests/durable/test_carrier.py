"""The contract of carriers, for DBOS on both databases."""

from __future__ import annotations

import contextlib
import os
import threading

import pytest
from tests.durable.fleet import Fleet

from pure_agent_loop import Agent, tool
from pure_agent_loop.durable import Engine
from pure_agent_loop.durable.carrier import DbosCarrier
from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.run_queue import RunQueue
from pure_agent_loop.testing import (
    CARRIER_RULES,
    CarrierPlace,
    ScriptedLLM,
    call,
    carrier_agents,
    carrier_contract,
)

PATIENCE = 60.0
KILLS = int(os.environ.get("PAL_KILLS", "6"))


def agents():
    """The agents of a worker; its home lies in the folder of the contract."""
    return carrier_agents(os.environ["PAL_TEST_FOLDER"])


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("rule", CARRIER_RULES)
def test_dbos_keeps_the_rule(rule, kind, request, monkeypatch):
    @contextlib.contextmanager
    def carrier(folder):
        monkeypatch.setenv("PAL_TEST_FOLDER", str(folder))
        url = request.getfixturevalue("postgres").new_database() if kind == "postgres" else ""
        with Fleet(folder, url) as fleet:

            def revive():
                if not fleet.workers or fleet.workers[-1].poll() is not None:
                    fleet.start(agents="tests.durable.test_carrier:agents")

            yield CarrierPlace(fleet.engine, revive)

    carrier_contract(carrier, rules=[rule], kills=KILLS, calls=300)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_run_that_is_cancelled_while_it_is_handed_over_stays_cancelled(kind, request, tmp_path):
    url = request.getfixturevalue("postgres").new_database() if kind == "postgres" else ""
    url, gate, begun = url or f"sqlite:///{tmp_path / 'd.sqlite'}", threading.Event(), threading.Event()

    @tool
    def wait() -> str:
        """Wait for the test."""
        begun.set()
        gate.wait(PATIENCE)
        return "waited"

    class Slow(DbosCarrier):
        """Another process cancels the run after this one has read the list."""

        def list(self, **criteria):
            found = super().list(**criteria)
            handle.cancel()
            return found

    agent = Agent(llm=ScriptedLLM([call("wait"), "Done."], strict=False), tools=[wait])
    with Engine(url, agents={"a": agent}) as engine:
        handle = engine.submit("a", "Go.")
        assert begun.wait(PATIENCE)
        database = Database(url)
        queue = RunQueue(database, carrier=Slow(database))
        assert queue.hand_over(handle.info().worker) == [handle.run_id]
        gate.set()
        assert handle.status() == "cancelled"
        queue.close()
