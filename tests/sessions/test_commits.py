"""Which records of a run share a commit, and what is on the disk when something is acted on."""

from __future__ import annotations

import asyncio
from itertools import groupby

import psycopg
import pytest

from pure_agent_loop import Agent, tool
from pure_agent_loop.durable.attempt import Guard, GuardedLog, HandedBackError
from pure_agent_loop.sessions import JsonlStore, PostgresStore, SqliteStore
from pure_agent_loop.sessions.transcript import ResumePoint, SessionJournal
from pure_agent_loop.testing import ScriptedLLM, call

STEPS, CALLS = 5, 3
_COMMITS = "SELECT line::json->>'type', xmin::text FROM pure_agent_loop.records ORDER BY number"


@pytest.fixture(params=["jsonl", "sqlite", "postgres"])
def store(request, tmp_path):
    if request.param == "postgres":
        with PostgresStore(request.getfixturevalue("postgres").new_database()) as store:
            yield store
    else:
        yield JsonlStore(tmp_path) if request.param == "jsonl" else SqliteStore(tmp_path / "s.sqlite")


@tool
async def put(n: int) -> str:
    """Put a thing in its place."""
    return f"{n} is put"


def test_a_step_takes_three_commits_however_many_calls_it_makes(postgres):
    url = postgres.new_database()
    script = [[call("put", n=10 * step + n) for n in range(CALLS)] for step in range(STEPS)]
    with PostgresStore(url) as store:
        agent = Agent(llm=ScriptedLLM([*script, "Done."]), tools=[put], sessions=store)
        assert agent.run("Go.", session_id="s").content == "Done."
    with psycopg.connect(url) as connection:
        rows = connection.execute(_COMMITS).fetchall()
    commits = [[kind for kind, _ in group] for _, group in groupby(rows, key=lambda row: row[1])]
    begun, ended, prepared = ["intent"] * CALLS, ["outcome"] * CALLS, ["parts", "messages", "state"]
    assert commits[:2] == [["run"], ["messages", "state"]]
    # A machine that is slower than the time for which a response waits writes it alone.
    together = [commit for commit in commits[2:] if commit != ["answer"]]
    assert [each for each in together if each[:1] != ["answer"]].count(begun) + together.count(
        ["answer", *begun]
    ) == STEPS
    assert together.count(ended) == STEPS
    assert together.count(prepared) == STEPS + 1
    assert ["answer", *begun] in together
    assert commits[-2:] == [["answer"], prepared]  # a response without calls waits for nothing


def test_whatever_acts_on_a_response_finds_it_recorded(store):
    found = []

    def newest():
        return store.read("s").records[-1].type

    def permit(name, args, context):
        found.append(newest())
        return "allow"

    @tool
    async def look() -> str:
        """Look."""
        found.append(newest())
        return "Seen."

    llm = ScriptedLLM([call("look"), "Done."])
    agent = Agent(llm=llm, tools=[look], sessions=store, can_use_tool=permit)
    assert agent.run("Go.", session_id="s").content == "Done."
    assert found == ["answer", "intent"]


def test_a_response_is_written_although_nothing_follows_it(store):
    response = asyncio.run(ScriptedLLM([call("put", n=1)]).chat([{"role": "user", "content": "Go."}]))

    async def respond():
        return response

    async def main():
        journal = SessionJournal(log, ResumePoint(), lambda _: None)
        assert await journal.effect("1:model", respond) is response
        while not store.read("s").records:
            await asyncio.sleep(0.01)

    with store.open("s") as log:
        asyncio.run(main())
    assert [record.type for record in store.read("s").records] == ["answer"]


def test_a_worker_that_stops_begins_no_call_and_keeps_the_response(store):
    guard = Guard(is_draining=True)
    with store.open("s") as log:
        guarded = GuardedLog(log, "r", guard)
        with pytest.raises(HandedBackError):
            guarded.append_all(
                [("state", {"stop_reason": "x"}), ("answer", {}), ("intent", {}), ("intent", {})]
            )
        with pytest.raises(HandedBackError):
            guarded.append("intent", {})
    assert [record.type for record in store.read("s").records] == ["state", "answer"]


def test_records_of_a_commit_follow_each_other(store):
    with store.open("s") as log:
        first = log.append("user", {"n": 0})
        records = [first, *log.append_all([("user", {"n": 1}), ("user", {"n": 2})], durable=True)]
    assert list(store.read("s").records) == records
    assert [record.parent for record in records] == [None, *(record.id for record in records[:-1])]
