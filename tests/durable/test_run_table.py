"""The table of runs: lists and turns among many runs, and databases that lack it."""

from __future__ import annotations

import contextlib
import json

import pytest

from pure_agent_loop import Agent, ConfigError
from pure_agent_loop.durable import Engine, TableEngine
from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.health import measure
from pure_agent_loop.durable.run_table import RunTable
from pure_agent_loop.durable.values import WORKFLOW
from pure_agent_loop.testing import ScriptedLLM

MANY = 100_000
_NUMBERS = f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MANY})"
_ADD_WORKFLOWS = f"""
INSERT INTO {{workflows}} (workflow_uuid, status, name, created_at, updated_at) {_NUMBERS}
SELECT 'old' || n, 'SUCCESS', '{WORKFLOW}', n, n FROM numbers
"""
_ADD_RUNS = f"""
INSERT INTO @runs (run, agent, session, place, status, created, attempts, progress, max_attempts) {_NUMBERS}
SELECT 'old' || n, 'a', 's', n, 'completed', n / 1000.0, 1, 0, 0 FROM numbers
"""
_SMALL = {"SCAN agents", "SCAN workflow_status USING INDEX idx_workflow_status_pending"}  # not of all runs
_OLD_TURNS = (
    "CREATE TABLE @turns (run TEXT PRIMARY KEY, session TEXT NOT NULL, place INTEGER NOT NULL)",
    "DELETE FROM @runs",
    "DELETE FROM @migrations",
)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres").new_database()
    return f"sqlite:///{tmp_path / 'd.sqlite'}"


class Recording(Database):
    """A database that keeps its queries."""

    def __init__(self, url):
        super().__init__(url)
        self.asked = []

    def rows(self, statement, *values):
        self.asked.append((statement, values))
        return super().rows(statement, *values)


@pytest.fixture
def engine(url):
    with Engine(url) as engine:
        assert engine.queue.carrier
        engine.queue.register_agents(dict.fromkeys(("a", "rare"), "model m"))
        yield engine


def end(engine, run_id, reason="completed"):
    """Store what a worker stores of a run that has stopped."""
    table, outcome = engine.database.runs_table, {"stop_reason": reason, "questions": [], "open_calls": []}
    engine.queue.runs.note_status(run_id, reason)
    change = engine.database.change
    change(f"UPDATE {table} SET status = 'SUCCESS' WHERE workflow_uuid = ?", run_id)
    outputs = table.replace("_status", "_output")
    change(f"DELETE FROM {outputs} WHERE workflow_uuid = ?", run_id)
    change(
        f"INSERT INTO {outputs} (workflow_uuid, output) VALUES (?, ?)", run_id, json.dumps({"value": outcome})
    )


def rows_read(database, statement, values):
    """Rows that PostgreSQL reads for a query, those included that it throws away."""
    plan = database.rows(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *values)[0][0]

    def count(node):
        read = sum(node.get(key, 0) for key in ("Actual Rows", "Rows Removed by Filter"))
        return read * node["Actual Loops"] + sum(count(child) for child in node.get("Plans", ()))

    return count(plan[0]["Plan"])


@pytest.fixture
def crowded(engine):
    """Among many finished runs: one that waits, and two of one session that are pending."""
    engine.database.change(_ADD_WORKFLOWS.format(workflows=engine.database.runs_table))
    engine.database.change(_ADD_RUNS)
    for name in ("waits", "first", "second"):
        engine.submit("rare", "t", run_id=name, session_id="one" if name != "waits" else "two")
    end(engine, "waits", "waiting_permission")
    engine.database.change(
        "ANALYZE" if engine.database.is_sqlite else f"ANALYZE {engine.database.runs_table}, pal_durable.runs"
    )
    return engine


def test_lists_and_turns_read_no_runs_that_they_do_not_return(crowded):
    database = Recording(crowded.database.url)
    runs = RunTable(database)
    assert runs.select("waiting_permission", None, None, 100, 0) == ["waits"]
    assert runs.select("pending", None, None, 100, 0) == ["second", "first"]
    assert runs.select("failed", None, None, 100, 0) == runs.select("cancelled", "rare", None, 9, 0) == []
    assert runs.select(None, "rare", None, 2, 1) == ["first", "waits"]
    assert runs.select(None, None, "one", 100, 0) == ["second", "first"]
    assert runs.select("completed", None, None, 2, 1) == [f"old{MANY - 1}", f"old{MANY - 2}"]
    assert runs.ahead("second") == ("first", False)
    assert runs.ahead("first") is None
    assert runs.release() == runs.release("one") == []
    assert runs.running_by_worker() == {}
    for statement, values in list(database.asked):
        if database.is_sqlite:
            plan = [str(row[3]) for row in database.rows(f"EXPLAIN QUERY PLAN {statement}", *values)]
            assert {line for line in plan if line.startswith("SCAN")} <= _SMALL, statement
        else:
            assert rows_read(database, statement, values) < 100, statement
    database.close()


def test_counts_and_metrics_are_those_of_all_runs(crowded):
    assert crowded.counts() == {"completed": MANY, "waiting_permission": 1, "pending": 2}
    assert measure(crowded.database)["pal_queue_depth"] == {(("queue", "model m"),): 2}


def test_parked_runs_are_released_in_their_order(engine):
    names = ["one", "two", "three"]
    for name in names:
        engine.submit("a", "t", run_id=name, session_id="s")
    park = f"UPDATE {engine.database.runs_table} SET queue_name = 'parked' WHERE workflow_uuid = ?"
    for name in names[1:]:
        engine.database.change(park, name)
    runs = engine.queue.runs
    assert runs.release() == runs.release("s") == []
    end(engine, "one", "waiting_permission")
    assert runs.release() == runs.release("s") == []
    assert engine.handle("three").info().details["run_ahead"] == "one"
    end(engine, "one")
    assert runs.release("s") == ["two"]
    assert runs.release("s") == runs.release() == []
    engine.handle("two").cancel()
    assert [engine.handle(name).info().details.get("run_ahead") for name in names] == [None] * 3


@pytest.mark.parametrize("interrupted", [False, True])
def test_database_of_an_older_version_keeps_its_runs_and_their_order(engine, url, interrupted):
    for name in ("done", "asks", "begun", "late", "early"):
        engine.submit("a", "t", run_id=name, session_id="s" if name != "done" else "other")
    end(engine, "done")
    end(engine, "asks", "waiting_permission")
    for statement in _OLD_TURNS:
        engine.database.change(statement)
    for place, name in ((4, "begun"), (7, "early")):  # these had taken their turns
        engine.database.change("INSERT INTO @turns VALUES (?, 's', ?)", name, place)
    if interrupted:
        engine.queue.runs.add_missing([engine.queue.find_runs(workflow_ids=["begun"])[0]])
    engine.close()
    engine = Engine(url)
    assert engine.counts() == {"completed": 1, "waiting_permission": 1, "pending": 3}
    assert [info.run_id for info in engine.tasks("waiting_permission", session_id="s")] == ["asks"]
    order = engine.database.rows("SELECT run FROM @runs WHERE session = 's' ORDER BY place")
    assert [run for (run,) in order] == ["begun", "early", "asks", "late"]
    assert engine.handle("late").info().details["run_ahead"] == "begun"
    engine.queue.carrier.adopt_runs()  # as a second process may do at the same time
    assert engine.database.rows("SELECT COUNT(*) FROM @runs") == [(5,)]
    engine.close()


def test_run_that_an_older_version_has_executed_is_listed_and_lets_others_pass(engine):
    for name in ("old", "next"):
        engine.submit("a", "t", run_id=name, session_id="s")
    end(engine, "old")
    for status in ("", "waiting_permission"):  # an older version does not store it
        engine.queue.runs.note_status("old", status)
        assert engine.queue.take_turn("next") == ""
    engine.queue.runs.note_status("old", "")
    assert [info.run_id for info in engine.tasks("completed")] == ["old"]
    assert engine.tasks("failed") == []
    assert engine.counts() == {"pending": 1}
    engine.queue.note_outcomes()
    assert engine.counts() == {"completed": 1, "pending": 1}


def test_runs_resumed_by_two_answers_keep_the_status_of_the_end(engine):
    engine.submit("a", "t", run_id="r")
    runs = engine.queue.runs
    assert runs.begin_attempt("r", 0) == (1, 0)
    end(engine, "r", "waiting_permission")
    runs.resume("r")
    assert runs.attempts(["r"]) == {"r": 0}  # an answer is progress
    end(engine, "r")
    runs.resume("r")
    assert [info.run_id for info in engine.tasks("completed")] == ["r"]


def test_attempts_are_counted_since_the_last_progress(engine):
    engine.submit("a", "t", run_id="r", max_attempts=7)
    runs = engine.queue.runs
    assert [runs.begin_attempt("r", progress) for progress in (0, 0, 1, 1)] == [
        (1, 7),
        (2, 7),
        (1, 7),
        (2, 7),
    ]
    runs.end_attempt("r")
    assert runs.begin_attempt("r", 1) == (2, 7)
    assert engine.handle("r").info().attempts == 2
    assert measure(engine.database)["pal_run_attempts"] == {(("agent", "a"),): 2}


def test_table_engine_refuses_agents_with_sessions_of_their_own(tmp_path):
    agent = Agent(llm=ScriptedLLM([]), sessions=tmp_path / "sessions")
    url = f"sqlite:///{tmp_path / 'd.sqlite'}"
    with contextlib.closing(TableEngine(url, agents=lambda: {"a": agent})) as engine:
        for use in (engine.register, lambda: engine.worker("s")):
            with pytest.raises(ConfigError, match=r"agents\['a'\] has sessions=.* a TableEngine"):
                use()
