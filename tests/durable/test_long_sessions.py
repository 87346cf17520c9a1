"""Long sessions: a run reads its own records and the newest base, whatever else the session holds."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from pure_agent_loop import Agent, tool
from pure_agent_loop.durable.attempt import Attempt
from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.run_queue import RunQueue
from pure_agent_loop.sessions import PostgresStore, SqliteStore
from pure_agent_loop.sessions.transcript import read_resume_point
from pure_agent_loop.stop_reasons import SUSPENDED
from pure_agent_loop.testing import ScriptedLLM, call

SHORT, LONG = 10, 300  # runs of a session
_FETCHED = """
SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables
WHERE schemaname = 'pure_agent_loop' AND relname = 'records'
"""


class Counting:
    """A store that counts the records which it gives to runs."""

    count = 0

    def open(self, session_id, *, create=True, tail=False, **options):
        log = super().open(session_id, create=create, tail=tail, **options)
        self.count += len(log.records)
        return log

    def read(self, session_id, *, tail=False):
        loaded = super().read(session_id, tail=tail)
        self.count += len(loaded.records)
        return loaded


class CountingSqlite(Counting, SqliteStore):
    pass


class CountingPostgres(Counting, PostgresStore):
    pass


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres").new_database()
    return f"sqlite:///{tmp_path / 'd.sqlite'}"


@pytest.fixture
def open_store(url):
    stores = []

    def make():
        is_sqlite = url.startswith("sqlite")
        path = url.removeprefix("sqlite:///")
        stores.append(CountingSqlite(path) if is_sqlite else CountingPostgres(url))
        return stores[-1]

    yield make
    for store in stores:
        getattr(store, "close", int)()


@pytest.fixture
def queue(url):
    queue = RunQueue(Database(url))
    assert queue.carrier
    yield queue
    queue.close()


async def in_thread(work, *values):
    return await asyncio.to_thread(work, *values)


def attempt(queue, store, agent, run_id, session_id="s"):
    """Execute a durable run of a session; return its outcome."""
    queue.database.transaction(lambda change: queue.runs.add(change, run_id, "a", session_id, 0.0))
    takeover = not queue.database.is_sqlite
    return asyncio.run(
        Attempt(queue, store, agent, run_id, "Next.", session_id, in_thread, takeover=takeover).work()
    )


def fetched(url):
    """Rows of sessions that PostgreSQL has read so far."""
    with psycopg.connect(url) as connection:
        return int(connection.execute(_FETCHED).fetchone()[0])


def test_a_run_reads_as_much_in_a_long_session_as_in_a_short_one(url, open_store, queue):
    store, counts, rows = open_store(), {}, {}
    for number in range(1, LONG + 1):
        agent = Agent(llm=ScriptedLLM([f"Answer {number}."]), sessions=store)
        assert agent.run(f"Task {number}.", session_id="s").content == f"Answer {number}."
        if number in (SHORT, LONG):
            llm, place = ScriptedLLM(["Done."]), open_store()
            before = 0 if queue.database.is_sqlite else fetched(url)
            assert attempt(queue, place, Agent(llm=llm), f"run {number}")["content"] == "Done."
            queue.stop(f"run {number}", "s", "completed")
            if not queue.database.is_sqlite:
                place.close()  # its connections report what they have read
                rows[number] = fetched(url) - before
            counts[number] = place.count
            tasks = [m["content"] for m in llm.requests[0].messages if m["role"] == "user"]
            assert tasks[-2:] == [f"Task {number}.", "Next."]
            assert len(tasks) == number + (1 if number == SHORT else 2)
    whole = store.read("s").records
    assert len(whole) > 1800
    assert counts[LONG] < 2 * counts[SHORT] < 300
    if rows:
        assert rows[LONG] < 3 * rows[SHORT]
    tail = store.read("s", tail=True).records
    points = [read_resume_point(records, "s") for records in (whole, tail)]
    states = [point.to_state().to_dict() for point in points]
    assert states[0] == states[1]
    assert points[0].effects == points[1].effects == {}


def test_a_run_that_ended_before_its_process_died_is_not_done_again(open_store, queue):
    store, text = open_store(), "x" * 70_000
    outcome = attempt(queue, store, Agent(llm=ScriptedLLM([text])), "r")
    assert store.read("s", tail=True).records[0].type == "base"
    assert attempt(queue, store, Agent(llm=ScriptedLLM([])), "r") == outcome
    assert outcome["content"] == text


def test_a_run_that_waited_while_a_person_went_far_starts_again(open_store, queue):
    @tool
    def put() -> str:
        """Put."""
        return "It is put."

    def agent(*script):
        return Agent(llm=ScriptedLLM(list(script)), tools=[put], permission_mode="ask")

    store = open_store()
    assert attempt(queue, store, agent(call("put")), "r")["stop_reason"] == SUSPENDED
    person = Agent(llm=ScriptedLLM(["x" * 70_000]), sessions=store)
    person.run("Something else.", session_id="s")
    assert store.read("s", tail=True).records[0].type == "base"
    queue.database.change("INSERT INTO @answers (run, step, call, verdict) VALUES ('r', 1, 'call_1', '{}')")
    outcome = attempt(queue, store, agent(call("put")), "r")
    assert outcome["stop_reason"] == SUSPENDED
    assert queue.answers("r") == {}


def test_an_interrupted_run_resumes_behind_a_base(open_store, queue):
    store, made = open_store(), []
    attempt(queue, store, Agent(llm=ScriptedLLM(["x" * 70_000])), "long")
    queue.stop("long", "s", "completed")

    @tool
    def put() -> str:
        """Put."""
        made.append("put")
        return "It is put."

    def agent(*script):
        return Agent(llm=ScriptedLLM(list(script)), tools=[put], sessions=store)

    whole = open_store()
    run = agent(call("put"), "Done.").prepare("Next.", session_id="s")
    run.wait_sync()
    cut = [record for record in store.read("s").records if record.type == "outcome"][-1]
    records = store.read("s").records
    with whole.open("cut") as log:
        log.adopt(records[: records.index(cut) + 1])
    llm = ScriptedLLM(["Done."])
    resumed = Agent(llm=llm, tools=[put], sessions=open_store()).run(None, session_id="cut")
    assert (resumed.content, made) == ("Done.", ["put"])
    assert [m["role"] for m in llm.requests[0].messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "tool",
    ]
