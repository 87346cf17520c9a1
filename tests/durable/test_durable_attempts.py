"""Runs that end the process of each worker: they are repeated a few times, alone, and then killed."""

from __future__ import annotations

import contextlib
import subprocess

import pytest
from tests.durable.fleet import PATIENCE, Fleet

from pure_agent_loop import ConfigError

_AGENTS = """
import asyncio, os, signal
from pure_agent_loop import Agent, RunContext, tool
from tests.durable.durable_agents import agents as those, mark

def die(name):
    mark(name)
    os.kill(os.getpid(), signal.SIGKILL)

@tool
def poison(n: int) -> str:
    "End the process, as memory that is used up does."
    die("tool")

@tool
async def hang(n: int) -> str:
    "Hang."
    mark("hang")
    await asyncio.sleep(3600)

def prompt():
    die("prompt")

def deps(context: RunContext):
    if context.session_id == "deps":
        die("deps")

def agents():
    worker = those()["worker"]
    def agent(**more):
        return Agent(llm=worker.llm, tools=[*worker.tools, poison, hang], **more)
    return {name: agent() for name in ("deps", "tool", "innocent")} | {"prompt": agent(system_prompt=prompt)}
"""
POISONS = {"prompt": "put 1", "deps": "put 2", "tool": "put 3, poison 1, poison 2, poison 3, poison 4"}


@pytest.fixture
def supervised(tmp_path):
    (tmp_path / "poisonous.py").write_text(_AGENTS)
    with Fleet(tmp_path) as fleet:
        yield fleet


def restart_until(fleet, condition, *words):
    """Start the worker again after each death, as a supervisor does; return the number of deaths."""
    deaths, worker = 0, fleet.workers[-1] if fleet.workers else None
    while not condition():
        with contextlib.suppress(subprocess.TimeoutExpired):
            if worker is None or worker.wait(0.1) is not None:
                deaths += worker is not None
                worker = fleet.begin("--deps", "poisonous:deps", *words, agents="poisonous:agents")
    return deaths


def test_runs_that_end_their_process_are_killed_after_three_attempts(supervised):
    fleet = supervised
    fleet.start("--deps", "poisonous:deps", agents="poisonous:agents")
    engine, most = fleet.engine, {"prompt": 2, "deps": 2, "tool": None}
    poisons = {
        name: engine.submit(name, task, run_id=name, max_attempts=most[name])
        for name, task in POISONS.items()
    }
    deaths = restart_until(fleet, lambda: all(each.info().attempts for each in poisons.values()))
    innocent = fleet.engine.submit("innocent", "put 9")
    deaths += restart_until(
        fleet, lambda: all(each.info().has_ended for each in (innocent, *poisons.values()))
    )
    assert innocent.info().content == "Did 1."
    assert fleet.marks().count("start 9") == fleet.marks().count("end 9") == 1
    assert innocent.info().attempts == 1
    infos = {name: handle.info() for name, handle in poisons.items()}
    assert {info.status for info in infos.values()} == {"killed"}, infos
    # Another one may have ended the process in which it made its first attempt.
    maximum = {"prompt": 2, "deps": 2, "tool": 4}
    assert all(0 < fleet.marks().count(name) <= number for name, number in maximum.items())
    assert fleet.marks().count("start 3") == 1  # progress, not done again
    assert infos["prompt"].steps == infos["deps"].steps == 0
    assert infos["tool"].steps > 1
    assert (
        f"the process died in 3 attempts without progress, the last time in step {infos['tool'].steps}"
        in (infos["tool"].error)
    )
    assert deaths <= 8


def test_graceful_restarts_are_no_attempts(supervised, until):
    fleet, handle = supervised, None
    for number in (1, 2):
        fleet.start("--grace", "0.1", "--max-attempts", "1", agents="poisonous:agents")
        handle = handle or fleet.engine.submit("innocent", "hang 1, hang 2, put 3")
        until(lambda number=number: fleet.marks().count("hang") == number)
        assert handle.info().attempts == 1
        fleet.end(fleet.workers[-1])
    fleet.start("--max-attempts", "1", agents="poisonous:agents")
    assert handle.result(PATIENCE).content == "Did 3."


def test_number_of_attempts_is_set_where_the_worker_starts(supervised):
    fleet = supervised
    fleet.start("--max-attempts", "1", agents="poisonous:agents")
    handle = fleet.engine.submit("tool", "poison 1")
    assert restart_until(fleet, lambda: handle.info().has_ended, "--max-attempts", "1") == 1
    assert "1 attempts" in handle.info().error
    shown = fleet.pal("tasks", "show", handle.run_id).stdout
    assert "status     killed" in shown
    with pytest.raises(ConfigError, match="max_attempts=0 must be at least 1"):
        fleet.engine.submit("tool", "poison 1", max_attempts=0)
