"""Wake-ups on a real PostgreSQL: no polls, few connections, and no work lost with a notification."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from contextlib import closing
from types import SimpleNamespace

import dbos
import psycopg
import pytest
import sqlalchemy
from tests.durable.fleet import Fleet
from tests.postgres_server import PostgresServer

from pure_agent_loop import Agent, tool
from pure_agent_loop.durable import DurableError, Engine, Rate
from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.listener import LONG_SECONDS, RUNS, SCHEDULES, WORK, ChangeWatch
from pure_agent_loop.durable.taking import Wakeable, check_engine
from pure_agent_loop.testing import ScriptedLLM, call

LISTENERS = "SELECT pid FROM pg_stat_activity WHERE application_name ~ 'listener$' AND datname = ?"
CONNECTIONS = "SELECT application_name FROM pg_stat_activity WHERE application_name ~ '^pure-agent-loop'"
BEATS = 4
WINDOWS = 4  # in which it has to become idle
BACKLOG = 8  # at one per look, more than the patience of `until`
FORKS = """
import os, sys
from pure_agent_loop.durable import Engine
from pure_agent_loop.durable.listener import RUNS, WORK

ME = "SELECT pg_backend_pid()"
engine = Engine(sys.argv[1])
engine.register()
database = engine.database
log = engine.sessions.open("s") if sys.argv[2:] else None
with database.listener.watch(RUNS, "r") as watch:
    print(watch.wait())
    mine = [database.rows(ME) for _ in range(9)]  # of all connections of the pool
    told, tell = os.pipe()
    if os.fork() == 0:
        with database.listener.watch(WORK, "w") as other:
            is_woken = other.wait()
        engine.sessions.open("t").append("user", {})
        lines = database.rows(ME) not in mine, is_woken, list(engine.tasks()) == []
        os.write(tell, repr(lines).encode())
        engine.close()
        os._exit(0)
    os.close(tell)
    os.wait()
    print(os.read(told, 100).decode())
    is_same = database.rows(ME) in mine
    database.listener.send(RUNS, "r")
    print(watch.wait(), is_same, database.listener.connections)
    if log is not None:
        log.append("user", {})
        assert engine.sessions.holder("s").is_alive
engine.close()
"""
REFUSAL = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no heartbeat'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON pure_agent_loop.owners FOR EACH ROW EXECUTE FUNCTION refuse()
"""
_LINE = re.compile(r"^(\d+) ([\d.]+) LOG: +(?:statement|execute [^:]*): *(.*)", re.MULTILINE)


@pytest.fixture
def database(postgres):
    with closing(Database(postgres.new_database())) as database:
        database.prepare()
        yield database


@pytest.fixture
def other(database):
    """The same database, as another process sees it."""
    with closing(Database(database.url)) as other:
        other.prepare()
        yield other


def listeners(database):
    """Return the server processes of the listeners, seen on a connection of another kind."""
    name = database.url.rpartition("@/")[2].partition("?")[0]
    return [pid for (pid,) in database.rows(LISTENERS, name)]


def cut(database):
    """End the connections of all listeners of a database; return their processes."""
    cut = listeners(database)
    for pid in cut:
        database.rows("SELECT pg_terminate_backend(?)", pid)
    return cut


def test_those_who_wait_for_a_topic_are_woken_from_another_process(database, other):
    with database.listener.watch(RUNS, "one") as one, database.listener.watch(RUNS, "two") as two:
        assert one.wait()
        assert two.wait()
        other.listener.send(RUNS, "one")
        assert one.wait()
        other.listener.send(RUNS, "two")
        assert two.wait()
        assert not one.wait(0.0)
    with database.listener.watch(WORK) as everything:
        assert everything.wait()
        other.listener.send(WORK, SCHEDULES)
        assert everything.wait()


def test_those_who_wait_look_again_after_a_new_connection(database, other, until):
    with database.listener.watch(RUNS, "r") as watch, other.listener.watch(WORK, "w") as second:
        assert watch.wait()
        assert second.wait()
        first = cut(other)
        assert len(first) == 2
        assert watch.wait()
        assert second.wait()
        assert until(lambda: len(now := listeners(other)) == 2 and not {*now} & {*first})
        other.listener.send(RUNS, "r")
        assert watch.wait()


def test_waits_in_an_event_loop_are_woken_too(database, other):
    async def main():
        with database.listener.watch(RUNS, "r") as watch:
            await watch.wait_in_loop()
            waiting = asyncio.create_task(watch.wait_in_loop())
            await asyncio.sleep(0)
            other.listener.send(RUNS, "r")
            await waiting

    asyncio.run(asyncio.wait_for(main(), LONG_SECONDS / 2))


def test_many_changes_are_sent_in_few_transactions(database, other):
    sent = []
    other.listener._notify, notify = lambda batch: sent.append(batch) or notify(batch), other.listener._notify
    with database.listener.watch(RUNS, "last") as watch:
        assert watch.wait()
        for number in range(1000):
            other.listener.send(RUNS, f"run {number % 10}")
        other.listener.send(RUNS, "last")
        assert watch.wait()
    assert len(sent) <= 10
    assert sum(map(len, sent)) <= 11 * len(sent)


def test_probe_does_not_wait_for_the_pool(database):
    database.rows("SELECT 1")
    lent = database.transaction(lambda _: database.transaction(lambda _: database.ask("SELECT 1")))
    assert lent == [[(1,)]]


def test_queue_is_looked_into_at_intervals_only_while_runs_wait_for_its_rate():
    watch = ChangeWatch(1000.0)
    stop = Wakeable(watch, lambda: True)
    assert not stop.wait(0.001)  # DBOS's interval
    assert not stop.wait(0.001)
    idle = Wakeable(watch, lambda: False)
    waits = threading.Thread(target=idle.wait, args=(0.001,))
    waits.start()
    waits.join(0.1)
    assert waits.is_alive()  # it sleeps longer than DBOS's interval
    idle.set()
    waits.join()
    assert idle.wait(0.001)
    assert idle.is_set()


def test_backlog_is_worked_off_at_the_rate_while_no_run_ends(postgres, until):
    begun, may_end = [], threading.Event()

    @tool
    def hold() -> str:
        """Wait."""
        begun.append(1)
        may_end.wait()
        return ""

    steps = [call("hold")] * BACKLOG + ["Done."] * BACKLOG
    agents = {"worker": Agent(llm=ScriptedLLM(steps), tools=[hold])}
    rates = {"scripted": Rate(1, 0.5)}
    url = postgres.new_database()
    with Engine(url) as client:  # submits before the worker begins, which then has one notification
        client.queue.register_agents({"worker": "model scripted"})
        for number in range(BACKLOG):
            client.submit("worker", "go", run_id=f"run-{number}")
    with Engine(url, agents=agents, rates=rates, concurrency=BACKLOG) as engine:
        runs = [engine.handle(f"run-{number}") for number in range(BACKLOG)]
        try:
            until(lambda: len(begun) == BACKLOG)
        finally:
            may_end.set()
        assert {run.result(60).status for run in runs} == {"completed"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a forked child")
@pytest.mark.parametrize("more", [[], ["a session"]])
def test_forked_child_of_a_client_has_its_own_connections_and_listener(database, more):
    quiet = "ignore:This process:DeprecationWarning"  # newer versions of Python warn of forks beside threads
    done = subprocess.run(
        [sys.executable, "-W", quiet, "-c", FORKS, database.url, *more],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("True\n(True, True, True)\nTrue True 1\n", "")


def test_session_opens_although_its_first_heartbeat_fails_and_the_next_ones_follow(database, until):
    """The store's heartbeat is on the listener's connection."""
    store = database.sessions()
    store.list()
    newest = "SELECT max(beat)::text FROM pure_agent_loop.owners"
    with psycopg.connect(database.url, autocommit=True) as admin:
        admin.execute(REFUSAL)
        with store.open("s") as log:
            log.append("user", {"text": "hello"})
            [(first,)] = database.rows(newest)
            admin.execute("DROP FUNCTION refuse CASCADE")
            until(lambda: database.rows(newest) > [(first,)])
    store.close()


def test_failing_heartbeat_is_logged_and_ends_neither_the_connection_nor_the_others(database, until, caplog):
    good, bad = [], []

    def write(execute):
        execute("INSERT INTO pal_durable.cancelled VALUES (%s)", (f"r{len(good)}",))
        good.append(len(bad))
        return 0.1

    def fail(execute):
        bad.append(len(good))
        execute("SELECT 1 / 0")

    database.listener.keep(write)
    with pytest.raises(psycopg.errors.DivisionByZero):
        database.listener.keep(fail)
    until(lambda: len(bad) > 3 and good[-1] > 2)
    assert database.listener.connections == 1
    database.listener.end(fail)
    database.listener.end(write)
    assert database.rows("SELECT count(*) FROM @cancelled") == [(len(good),)]
    assert [each.message for each in caplog.records if "heartbeat" in each.message] == [
        "A heartbeat failed and will be retried: division by zero"
    ]


@pytest.mark.parametrize(
    ("module", "engine"),
    [
        (SimpleNamespace(), SimpleNamespace()),
        (SimpleNamespace(_queue=SimpleNamespace(queue_worker_thread=lambda queue: None)), SimpleNamespace()),
        (dbos, SimpleNamespace(background_thread_stop_events=[])),
    ],
)
def test_another_version_of_dbos_is_refused_by_name(module, engine):
    with pytest.raises(DurableError, match=r"queue_worker_thread.*Install dbos 3\.4"):
        check_engine(module, engine)


def test_reader_waits_without_asking(postgres):
    """A waiting `result` and a reader of events ask when their run changes, not when others do."""
    agents = {"worker": Agent(llm=ScriptedLLM(["Hello."]))}
    asked = []
    with Engine(postgres.new_database(), agents=agents) as reader, Engine(reader.database.url) as client:
        reader.register()
        reader.stop()
        handle = reader.submit("worker", "go", run_id="waits")
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(handle.result().status)),
            threading.Thread(target=lambda: asyncio.run(read(handle, found))),
        ]

        def note(_connection, _cursor, statement, *_):
            asked.append(statement)

        sqlalchemy.event.listen(reader.database.engine, "before_cursor_execute", note)
        for thread in threads:
            thread.start()
        for number in range(20):  # takes longer than many polls
            client.submit("worker", "go", run_id=f"other-{number}")
            client.handle(f"other-{number}").cancel()
        client.handle("waits").cancel()
        for thread in threads:
            thread.join()
    assert found == ["cancelled", "cancelled"]
    assert len(asked) <= 12  # before, during and after the wait; a hash may be that of another run


async def read(handle, found):
    assert [event async for event in handle.events()] == []
    found.append(handle.status())


@pytest.fixture(scope="module")
def logging_server():
    settings = {"log_statement": "'all'", "log_line_prefix": "'%p %n '"}
    with PostgresServer(settings=settings) as server:
        yield server


@pytest.fixture
def fleet(logging_server, tmp_path):
    with Fleet(tmp_path, logging_server.new_database()) as fleet:
        yield fleet


def commits_a_second(log, me):
    """Return the rate in a log of statements by the server's clock, without those of this process."""
    inside, ends = set(), []
    for pid, at, statement in _LINE.findall(log):
        if int(pid) in me or statement.startswith("ROLLBACK"):
            inside.discard(pid)
        elif statement.startswith("BEGIN"):
            inside.add(pid)
        elif statement.startswith("COMMIT") or pid not in inside:
            inside.discard(pid)
            ends.append(float(at))
    return (len(ends) - 1) / (ends[-1] - ends[0])


def test_idle_worker_makes_less_than_a_commit_a_second_on_few_connections(logging_server, fleet, until):
    fleet.start()
    runs = [fleet.engine.submit("worker", f"wait {number}") for number in range(4)]
    until(lambda: len(fleet.marks()) == 4)
    mine = [pid for (pid,) in fleet.engine.database.rows("SELECT pg_backend_pid()")]
    fleet.engine.close()
    with psycopg.connect(fleet.database, autocommit=True) as watching:
        assert 2 <= len(watching.execute(CONNECTIONS).fetchall()) <= 4  # with four runs at once
        fleet.gate.touch()
        assert {run.result(60).status for run in runs} == {"completed"}
        fleet.engine.close()
        log = logging_server.folder / "log"

        def beats(start):
            return log.read_text().count("INSERT INTO pal_durable.workers", start)

        def rate():
            start = len(log.read_text())
            until(lambda: beats(start) >= BEATS)
            return commits_a_second(log.read_text()[start:], set(mine))

        assert any(rate() < 1 for _ in range(WINDOWS))  # it looks often after a run
        assert 2 <= len(watching.execute(CONNECTIONS).fetchall()) <= 4


def test_work_is_done_while_listeners_are_cut_and_without_a_notification(logging_server, fleet, until):
    fleet.start()
    cut(fleet.engine.database)
    assert fleet.engine.submit("worker", "put 1").result(60).content == "Did 1."
    fleet.engine.queue.register_agents({"far": "model nobody"})
    lost = fleet.engine.submit("far", "put 2")
    workflows = fleet.engine.database.runs_table
    fleet.engine.database.change(
        f"UPDATE {workflows} SET queue_name = 'model scripted' WHERE status = 'ENQUEUED'"
    )
    assert until(lambda: lost.info().worker)  # found by the slow look
