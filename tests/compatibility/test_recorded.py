"""What commit a892dbe wrote is read, resumed and verified: nothing runs twice, nothing is asked twice."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from pure_agent_loop.audit import AuditLog, history, verify
from pure_agent_loop.durable import Engine
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions import JsonlStore, SqliteStore
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.testing import check_history
from tests.compatibility import agents as made
from tests.compatibility.record import settings_in_force

RECORDED = Path(__file__).parent / "a892dbe"
ANSWERS = {
    "finished": "14 are paid.",
    "typed": '{"value": 5, "why": "2 + 3"}',
    "compacted": "Added.",
    "delegating": "The adder did it.",
}


@pytest.fixture(autouse=True)
def marks():
    made.MARKS.clear()
    return made.MARKS


@pytest.fixture
def recorded(tmp_path):
    """A copy, as resuming writes."""
    return shutil.copytree(RECORDED, tmp_path / "recorded")


@pytest.fixture
def sessions(recorded):
    return JsonlStore(str(recorded / "sessions"))


def restored(statements: Path) -> Path:
    """The database that a text of statements makes."""
    path = statements.with_suffix(".sqlite")
    with sqlite3.connect(path) as database:
        database.executescript(statements.read_text(encoding="utf-8"))
    return path


def test_every_session_is_read_whole(sessions):
    for info in SessionManager(sessions).list():
        content = sessions.read(info.id)
        assert content.records, info.id
        assert not content.problems, info.id
        check_history(SessionManager(sessions).load(info.id).messages)


@pytest.mark.parametrize("name", ANSWERS)
def test_finished_session_repeats_its_answer_and_accepts_a_new_task(sessions, marks, name):
    agent = getattr(made, name)(sessions=sessions)
    again = agent.run(None, session_id=name)
    assert (again.stop_reason, again.content) == ("completed", ANSWERS[name])
    assert marks == []
    following = agent.run("Task: begin", session_id=name)
    assert (following.stop_reason, following.content) == ("completed", ANSWERS[name])
    assert marks


@pytest.mark.parametrize("name", ["finished", "typed", "waiting", "external", "compacted", "delegating"])
def test_a_session_replays_without_a_difference(sessions, marks, name):
    """The loop asks for the same effects, by the same keys, and sends the same requests."""
    report = replay_session(sessions.read(name).records)
    assert report.difference is None
    assert report.runs
    assert marks == []


def test_questions_are_still_pending_and_only_the_allowed_call_runs(sessions, marks):
    manager = SessionManager(sessions)
    assert [question.args for question in manager.questions("waiting")] == [{"amount": 5}, {"amount": 7}]
    for question, verdict in zip(manager.questions("waiting"), ["allow", "deny"], strict=True):
        manager.answer("waiting", question.call_id, verdict)
    result = made.waiting(sessions=sessions).run(None, session_id="waiting")
    assert result.stop_reason == "completed"
    assert sorted(marks) == ["add 2 3", "pay 5"]  # no call runs while one is undecided; both run at once


def test_answers_of_the_old_version_hold(sessions, marks):
    result = made.waiting(sessions=sessions).run(None, session_id="answered")
    assert (result.stop_reason, sorted(marks)) == ("completed", ["add 2 3", "pay 5"])


def test_a_result_from_elsewhere_arrives(sessions, marks):
    manager = SessionManager(sessions)
    (open_call,) = manager.open_calls("external")
    manager.give_result("external", open_call.id, "done by hand")
    result = made.external(sessions=sessions).run(None, session_id="external")
    assert (result.stop_reason, result.content, marks) == ("completed", "It came.", [])


def test_a_killed_run_resumes_and_its_calls_run_once(sessions, marks):
    result = made.killed(sessions=sessions).run(None, session_id="killed")
    assert (result.stop_reason, result.content) == ("completed", "It went on.")
    assert marks == []  # two were finished, and the outcome of the third is unknown
    contents = [message["content"] for message in result.messages if message["role"] == "tool"]
    assert contents[:2] == ["5", "5 paid"]


@pytest.mark.parametrize("name", ["finished", "waiting"])
def test_sqlite_holds_the_same(recorded, marks, name):
    store = SqliteStore(str(restored(recorded / "sessions.sql")))
    manager = SessionManager(store)
    for question in manager.questions(name) if name == "waiting" else []:
        manager.answer(name, question.call_id, "allow")
    result = getattr(made, name)(sessions=store).run(None, session_id=name)
    assert result.stop_reason == "completed"
    assert sorted(marks) == ([] if name == "finished" else ["add 2 3", "pay 5", "pay 7"])


def test_the_audit_log_is_verified_and_continued(recorded):
    log = AuditLog(str(recorded / "audit"))
    report = verify(log)
    assert (report.ok, report.first_problem, report.lines) == (True, None, 6)
    assert [entry.tool for entry in history(log)] == ["add", "add", "pay"]
    made.audited(str(recorded / "audit")).run("Task: begin")
    assert (verify(log).ok, verify(log).lines) == (True, 12)


def test_an_engine_takes_its_database_over(recorded, marks):
    url = f"sqlite:///{restored(recorded / 'engine.sql')}"
    with Engine(url, agents={"finished": made.finished(), "waiting": made.waiting()}) as engine:
        assert engine.handle("finished").result(60).content == ANSWERS["finished"]
        assert engine.handle("pending").result(60).content == ANSWERS["finished"]
        assert sorted(marks) == ["add 2 3", "add 4 5", "pay 14"]
        del marks[:]
        handle = engine.handle("waiting")
        for question, verdict in zip(handle.questions, ["deny", "allow"], strict=True):
            handle.answer(question.call_id, verdict)
        assert handle.result(60).status == "completed"
        assert sorted(marks) == ["add 2 3", "pay 7"]


@pytest.mark.parametrize("profile", [[], ["-P", "careful"]])
def test_recorded_settings_keep_their_meaning(recorded, profile):
    expected = json.loads((recorded / f"settings{''.join(profile)}.json").read_text(encoding="utf-8"))
    current = json.loads(settings_in_force(recorded, *profile))
    assert expected["settings"].items() <= current["settings"].items()
