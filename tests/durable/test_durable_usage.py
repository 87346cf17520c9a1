"""What answers that broke off have taken is counted in durable runs, whatever becomes of their workers."""

from __future__ import annotations

import signal

import pytest
from tests.durable.fleet import PATIENCE, Fleet

from pure_agent_loop import LoopLimits
from pure_agent_loop.testing import Gate, Reset, ScriptedServer, answer, call, deltas

LONG = "word " * 400
LOST = 300  # tokens of a request that holds LONG, at least


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request, tmp_path):
    url = request.getfixturevalue("postgres").url if request.param == "postgres" else ""
    fleet = Fleet(tmp_path, url)
    fleet.held = Gate()
    tries = []

    def breaking(asked):
        """Break the first try of each step off behind half an answer."""
        messages = asked.messages
        if messages[-1]["content"].endswith("HOLD"):
            return deltas("half of it", fleet.held)
        tries.append(len(messages))
        if tries.count(len(messages)) == 1:
            return deltas("half of it", Reset())
        if "tool" in [message["role"] for message in messages]:
            return answer("Done.")
        return call("wait", n=1)

    fleet.server = ScriptedServer(handler=breaking)
    with fleet:
        yield fleet


def test_broken_answers_count_also_after_the_death_of_a_worker(fleet, until):
    first = fleet.begin()
    fleet.ready(first)
    handle = fleet.engine.submit("worker", LONG)
    until(lambda: "start 1" in fleet.marks())
    fleet.end(first, signal.SIGKILL)
    fleet.start()
    info = handle.result(PATIENCE)
    assert (info.status, info.content) == ("completed", "Done.")
    assert len(fleet.server.requests) == 4
    assert info.details["tokens"] > 4 * LOST  # the server said two, and two are estimated


def test_broken_answers_count_in_a_limit(fleet):
    fleet.start()
    fleet.gate.touch()
    info = fleet.engine.submit("worker", LONG, limits=LoopLimits(max_tokens=2 * LOST)).result(PATIENCE)
    assert info.stop_reason == "token_limit", info
    assert info.details["tokens"] > 2 * LOST
    assert len(fleet.server.requests) < 4


def test_an_answer_that_was_cancelled_counts_in_its_session(fleet, until):
    fleet.start()
    handle = fleet.engine.submit("worker", f"{LONG} HOLD")
    until(lambda: fleet.server.requests)
    assert handle.cancel().status == "cancelled"

    def usage():
        states = [
            each.data for each in fleet.engine.sessions.read(handle.run_id).records if each.type == "state"
        ]
        return states[-1]["usage"] if states and states[-1]["stop_reason"] == "cancelled" else None

    found = until(usage)
    assert (found["estimated"], found["prompt_tokens"] > LOST) == (True, True)
