"""Small fleets on a real PostgreSQL, by the benchmark that also does the large ones."""

from __future__ import annotations

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.benchmark_runs import run_benchmark
from tests.postgres_server import PostgresServer
from tests.serving import free_port

from pure_agent_loop import Agent
from pure_agent_loop.durable import DurableError, Engine
from pure_agent_loop.durable.attempt import Attempt
from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.run_queue import RunQueue
from pure_agent_loop.sessions import PostgresStore
from pure_agent_loop.testing import ScriptedLLM

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked, to be there soon")


def run_fleet(*words: str) -> dict[str, Any]:
    sizes = ["--workers", "2", "--runs", "8", "--no-fsync", "--concurrency", "1"]
    done = run_benchmark("fleet", *sizes, *words)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    print(found)
    assert found["wrong"] == []
    assert done.returncode == 0, done.stderr
    assert found["statuses"] == {"completed": 8}
    return found


def test_a_worker_is_killed_and_the_database_crashes_and_no_run_is_lost():
    found = run_fleet("--kill-every", "0.3", "--most-kills", "1", "--restart-database", "--away", "0.5")
    assert found["kills"] == found["kills_that_met_runs"] == 1
    assert found["runs_of_the_killed"] == 1
    assert found["database_away"] > 0


def test_a_run_outlasts_a_database_that_is_away_for_longer_than_its_patience(tmp_path, caplog):
    async def in_thread(work, *values):
        return await asyncio.to_thread(work, *values)

    with PostgresServer() as server, PostgresStore(server.url, patience=0.1) as store:
        queue, agent = RunQueue(Database(server.url)), Agent(llm=ScriptedLLM(["Done."]))
        assert not store.exists("s")  # it has answered once
        assert queue.carrier
        queue.database.transaction(lambda change: queue.runs.add(change, "r", "a", "s", 0.0))
        server.stop(immediate=True)

        async def main():
            words = (queue, store, agent, "r", "Do it.", "s")
            work = asyncio.create_task(Attempt(*words, in_thread, takeover=True).work())
            while not work.done() and "waits for its database" not in caplog.text:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(server.start)
            return await work

        found = asyncio.run(main())
        queue.close()
    assert found["error"] == ""
    assert (found["stop_reason"], found["content"]) == ("completed", "Done.")


def test_lost_database_is_reported_to_the_client_and_waits_survive_it():
    async def events_of(handle):
        return [event async for event in handle.events()]

    port = free_port()  # DBOS waits for a server that refuses connections over TCP
    over_tcp = {"listen_addresses": "'127.0.0.1'", "port": str(port)}
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    with PostgresServer(settings=over_tcp) as server, Engine(url) as client, ThreadPoolExecutor(2) as threads:
        client.queue.register_agents({"worker": "model scripted"})
        handle = client.submit("worker", "put 1")
        result, events = threads.submit(handle.result), threads.submit(asyncio.run, events_of(handle))
        server.stop(immediate=True)
        with pytest.raises(DurableError, match="is unavailable"):
            client.tasks()
        with pytest.raises(TimeoutError, match="its database is unavailable"):
            handle.result(timeout=0.01)
        server.start()
        handle.cancel()
        assert result.result().status == "cancelled"
        assert events.result() == []
