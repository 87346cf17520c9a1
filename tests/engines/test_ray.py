"""Durable runs on a real Ray cluster: the contract of carriers, and actors that are killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from functools import partial

import pytest
from tests.engines.ray_cluster import Tally, cluster, ray_place

from pure_agent_loop import Agent, ConfigError
from pure_agent_loop.durable import Engine
from pure_agent_loop.durable.listener import RUNS
from pure_agent_loop.ray import RayEngine
from pure_agent_loop.testing import CARRIER_RULES, ScriptedLLM, carrier_contract

KILLS = int(os.environ.get("PAL_KILLS", "3"))
CALLS, WIDTH = 8, 2


@pytest.fixture(scope="module")
def ray():
    with cluster() as module:
        yield module


@pytest.mark.parametrize("rule", CARRIER_RULES)
def test_ray_keeps_the_rule(ray, rule):
    carrier_contract(ray_place, rules=[rule], kills=KILLS, calls=100)


def test_ray_keeps_the_rules_on_postgres(ray, postgres):
    @contextlib.contextmanager
    def carrier(folder):
        with ray_place(folder, postgres.new_database(), lease=2.0) as place:
            yield place

    rules = ["killed at a write", "answered elsewhere", "parallel calls"]
    carrier_contract(carrier, rules=rules, kills=max(1, KILLS // 2))


def test_end_of_a_run_wakes_its_readers_and_an_agent_has_its_name_in_the_engine(ray, postgres, tmp_path):
    with ray_place(tmp_path, postgres.new_database()) as place:
        with place.client.queue.database.listener.watch(RUNS, "run0") as watch:
            watch.wait()  # the connection listens
            handle = place.client.submit("put", "run0: 1 calls in rounds of 1 for put", run_id="run0")
            assert watch.wait(), "nothing was reported"
        assert handle.result(timeout=60).status == "completed"

        async def first_event():
            async with contextlib.aclosing(handle.events()) as events:
                return await events.__anext__()

        assert asyncio.run(first_event()).data["agent"] == "put"


def kill_actor(ray, engine, run_id, pid):
    """As Ray does it: hard, and without a restart by Ray itself, since a session's actor has none."""
    ray.kill(engine.actor(run_id), no_restart=False)


def kill_process(ray, engine, run_id, pid):
    os.kill(pid, signal.SIGKILL)


def kill_keeper(ray, engine, run_id, pid):
    os.kill(ray.get(engine.actor().status.remote())["pid"], signal.SIGKILL)


def next_moment(tally, handles, number):
    """Wait for more effects, or the end of all runs: then empty."""
    if len(tally.lines()) >= number:
        return [True]
    return [] if not all(handle.info().has_ended for handle in handles) else [False]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_killed_actors_repeat_and_lose_nothing(ray, kind, request, tmp_path):
    url = request.getfixturevalue("postgres").new_database() if kind == "postgres" else ""
    ways, killed = [kill_actor, kill_process, kill_actor, kill_process, kill_keeper], 0
    with ray_place(tmp_path, url, lease=2.0) as place:
        tally = Tally(place.client, tmp_path)
        while killed < KILLS:
            handles = [tally.submit(CALLS, WIDTH) for _ in range(3)]
            while not all(handle.info().has_ended for handle in handles) and killed < KILLS:
                seen = len(tally.lines())
                if tally.until(partial(next_moment, tally, handles, seen + 2)) == [False]:
                    break
                run_id, _, pid = tally.lines()[-1].split()
                with contextlib.suppress(ProcessLookupError, ValueError, ray.exceptions.RayActorError):
                    ways[killed % len(ways)](ray, place.client, run_id, int(pid))
                    killed += 1
        doubled, lost, stranded, unknown = tally.check(CALLS)
    print(f"{killed} kills, {len(tally.handles)} runs, {unknown} calls unknown")
    assert (doubled, lost, stranded) == (0, 0, 0)
    assert unknown <= WIDTH * killed


def test_a_tool_that_ends_its_process_is_reported_and_not_called_again(ray, tmp_path):
    with ray_place(tmp_path) as place:
        info = place.client.submit("leaver", "leaver: go", run_id="leaver").result(timeout=60)
        assert info.status == "completed"
        tally = Tally(place.client, tmp_path)
        assert [line.split()[1] for line in tally.lines()] == ["0", "1", "2"]
        assert len({line.split()[2] for line in tally.lines()}) == 2


def test_an_actor_ends_when_its_run_waits(ray, tmp_path):
    with ray_place(tmp_path) as place:
        handle = place.client.submit("ask", "run0: 1 calls in rounds of 1 for put", run_id="run0")
        assert handle.result(timeout=60).status == "waiting_permission"

        def is_gone():
            try:
                place.client.actor("run0")
            except ValueError:
                return True

        Tally(place.client, tmp_path).until(is_gone)
        handle.answer(handle.questions[0].call_id, "allow")
        tally = Tally(place.client, tmp_path)
        tally.until(lambda: handle.info().has_ended)
        assert len(tally.lines()) == 1


def test_runs_of_a_cluster_that_ended_are_found_by_the_next_engine(ray, tmp_path):
    with ray_place(tmp_path) as place:
        tally = Tally(place.client, tmp_path)
        tally.submit(40)
        tally.until(tally.lines)
    assert not tally.handles[0].info().has_ended  # handed back by the engine's end
    with ray_place(tmp_path):
        assert tally.check(40) == (0, 0, 0, 0)


def test_a_database_has_one_engine(ray, tmp_path):
    url = f"sqlite:///{tmp_path / 'd.sqlite'}"
    with ray_place(tmp_path), Engine(url) as other, pytest.raises(ConfigError, match="RayEngine"):
        other.tasks()
    other_url = f"sqlite:///{tmp_path / 'e.sqlite'}"
    with Engine(other_url, agents={"a": Agent(llm=ScriptedLLM(["Done."]))}) as engine:
        engine.submit("a", "Go.").result(timeout=60)
    with RayEngine(other_url) as client, pytest.raises(ConfigError, match="Engine"):
        client.tasks()


def test_address_of_another_cluster_is_refused(ray, tmp_path):
    with (
        pytest.raises(ConfigError, match=r"address='127\.0\.0\.1:1'"),
        ray_place(tmp_path, address="127.0.0.1:1"),
    ):
        pass


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"lease": 0}, "lease"),
        ({"grace": -1}, "grace"),
        ({"namespace": ""}, "namespace"),
        ({"agents": {"a": 1}}, "agents"),
        ({"actor_options": {"max_task_retries": 3}}, "max_task_retries"),
    ],
)
def test_invalid_option_is_refused_by_name(options, name):
    with pytest.raises(ConfigError, match=name):
        RayEngine("sqlite:///d.sqlite", **options)
