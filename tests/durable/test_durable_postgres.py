"""A fleet on PostgreSQL: who is killed, frozen and woken."""

from __future__ import annotations

import json
import os
import signal

import psycopg
import pytest
from tests.durable.fleet import Fleet, name_of
from tests.postgres_server import PostgresServer

from pure_agent_loop import Agent
from pure_agent_loop.durable import DurableError, Engine
from pure_agent_loop.sessions import PostgresStore
from pure_agent_loop.testing import ScriptedLLM


@pytest.fixture(scope="module")
def server():
    with PostgresServer() as server:
        yield server


@pytest.fixture
def shared(server, tmp_path):
    with Fleet(tmp_path, server.url) as fleet:
        yield fleet


def two_workers(shared):
    """Two workers that are ready, by name."""
    starting = [shared.begin("--lease", "2"), shared.begin("--lease", "2")]
    return {name_of(shared.ready(each)): each for each in starting}


def test_the_runs_of_a_killed_and_of_a_frozen_worker_go_on_elsewhere(shared, until):
    workers = two_workers(shared)
    frozen_run = shared.engine.submit("worker", "wait 1, put 2")
    until(lambda: "start 1" in shared.marks())
    sleeper = workers[frozen_run.info().worker]
    os.kill(sleeper.pid, signal.SIGSTOP)
    assert frozen_run.result(60).content == "Did 2."
    assert workers[frozen_run.info().worker] is not sleeper
    assert shared.marks() == ["start 1", "start 2", "end 2"]
    records = PostgresStore(shared.database).read(frozen_run.run_id).records
    os.kill(sleeper.pid, signal.SIGCONT)
    shared.gate.touch()
    until(lambda: "end 1" in shared.marks())  # the tool of the one that was woken ends too late

    other = next(each for each in workers.values() if each is not sleeper)
    shared.end(other, signal.SIGKILL)
    after = shared.engine.submit("worker", "put 3")
    assert after.result(60).content == "Did 1."
    assert workers[after.info().worker] is sleeper  # it goes on with other work
    assert PostgresStore(shared.database).read(frozen_run.run_id).records == records
    assert "1 has waited" not in json.dumps([each.data for each in records])
    assert frozen_run.info().content == "Did 2."


def test_runs_of_a_worker_whose_interpreter_hangs_are_taken_over(shared, until):
    workers = two_workers(shared)
    run = shared.engine.submit("worker", "freeze 1, put 2")
    until(lambda: "start 1" in shared.marks())
    hanging = workers[run.info().worker]
    assert run.result(60).content == "Did 2."
    assert workers[run.info().worker] is not hanging
    assert shared.marks() == ["start 1", "start 2", "end 2"]  # the hanging call is not made again


def test_cost_of_a_tenant_is_limited_over_all_workers(shared):
    def run(tenant):
        return shared.engine.submit("limited", "put 1", metadata={"tenant": tenant}).result(60)

    shared.start()
    assert run("a").status == "completed"
    shared.end(shared.workers[0], signal.SIGKILL)
    shared.start()  # it has made no request yet
    refused = run("a")
    assert (refused.status, refused.stop_reason, refused.tokens) == ("failed", "budget", 0)
    assert "limits.max_cost_per_day_by['tenant'] is reached" in refused.error
    assert run("b").status == "completed"


def test_the_runs_of_a_killed_worker_are_taken_over(shared, until):
    starting = [shared.begin(), shared.begin()]
    workers = {name_of(shared.ready(each)): each for each in starting}
    handle = shared.engine.submit("careful", "wait 1, put 2")
    (question,) = handle.result(60).questions
    handle.answer(question.call_id, "allow")
    until(lambda: "start 1" in shared.marks())
    shared.end(workers[handle.info().worker], signal.SIGKILL)
    (question,) = until(lambda: handle.info().questions)
    assert question.args == {"n": 2}
    handle.answer(question.call_id, "deny")
    assert until(lambda: (found := handle.info()).has_ended and found).status == "completed"
    assert shared.marks() == ["start 1"]


def test_missing_database_rights_are_named_and_suffice(server):
    url = server.new_database()
    name = url.partition("@/")[2].partition("?")[0]
    poor = url.replace("//postgres@", "//poor@")
    agents = {"worker": Agent(llm=ScriptedLLM(["Hello."]))}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE poor LOGIN")
        with pytest.raises(DurableError, match=r"GRANT CREATE ON DATABASE name TO role.*pal_durable"):
            Engine(poor).schedules.list()
        connection.execute(f"GRANT CREATE ON DATABASE {name} TO poor")
    with Engine(poor, agents=agents) as engine:
        assert engine.submit("worker", "go").result(60).content == "Hello."
