"""A person goes on in the session of a durable run, and reads what schedules have left there."""

from __future__ import annotations

import asyncio

import pytest
from tests.durable.fleet import Fleet

from pure_agent_loop import Agent, Inbox
from pure_agent_loop.durable import Schedule, to_session
from pure_agent_loop.testing import ScriptedLLM


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """A fleet with one worker, on each kind of database."""
    url = request.getfixturevalue("postgres").url if request.param == "postgres" else ""
    with Fleet(tmp_path, url) as fleet:
        fleet.start()
        yield fleet


def ask(fleet, *words):
    """What ``pal run`` says about a session of the database."""
    model = ("--base-url", fleet.server.base_url, "--model", "m", "--no-tools", "--no-audit")
    return fleet.pal("run", "--database", fleet.database, *model, *words)


def delivered(fleet, until, session):
    schedules = fleet.engine.schedules
    schedules.add(
        Schedule("note", "worker", "put 1", every=86_400, deliver=to_session(session)), replace=True
    )
    run_id = schedules.run_now("note")
    until(lambda: (last := schedules.get("note").last) is not None and last.state == "delivered")
    return run_id


def said(request, words):
    return [each["content"] for each in request.messages if words in str(each["content"])]


def test_answers_of_schedules_reach_a_person_once(place, until):
    run_id = delivered(place, until, "chat")
    for task in ("beat", "thank you"):
        done = ask(place, "--session", "chat", task)
        assert done.returncode == 0, done.stderr
        (notice,) = said(place.server.requests[-1], run_id)
        assert "Did 1." in notice
    assert "to resume: pal run --resume chat --database " in done.stderr
    assert place.engine.database.rows("SELECT run FROM @notices WHERE session = 'chat'") == []


def test_person_continues_a_finished_durable_run(place):
    run = place.engine.submit("worker", "put 1, put 2").result(60)
    done = ask(place, "--resume", run.run_id, "what have you done?")
    assert (done.returncode, done.stdout) == (0, "Did 2.\n"), done.stderr
    roles = [each["role"] for each in place.server.requests[-1].messages]
    facts, task = ["user"], ["user"]
    assert roles == ["system", *task, *["assistant", "tool"] * 2, "assistant", *facts, *task]
    shown = place.pal("sessions", "show", "--database", place.database, run.run_id)
    assert "what have you done?" in shown.stdout
    listed = place.pal_json("sessions", "list", "--database", place.database)["sessions"]
    assert run.run_id in [each["id"] for each in listed]
    assert "password" not in done.stderr


def test_from_python(place, until):
    run_id = delivered(place, until, "python")
    with pytest.raises(LookupError):
        place.engine.bring_notices("python", Inbox())  # nobody has begun the session yet
    llm, inbox = ScriptedLLM(["Good morning."]), Inbox()

    async def talk():
        agent = Agent(llm=llm)
        run = agent.prepare("hello", session_id="python", sessions=place.engine.sessions, inbox=inbox)
        place.engine.bring_notices("python", inbox)
        return await run.wait()

    assert asyncio.run(talk()).content == "Good morning."
    assert len(said(llm.requests[-1], run_id)) == 1


def test_the_variable_means_the_same_for_every_command(fleet):
    assert fleet.environment["PAL_DATABASE"] == fleet.database
    model = ("--base-url", fleet.server.base_url, "--model", "m", "--no-tools", "--no-audit")
    done = fleet.pal("run", *model, "beat")
    assert done.returncode == 0, done.stderr
    (session,) = [each.id for each in fleet.engine.sessions.list()]
    assert f"to resume: pal run --resume {session} " in done.stderr
    assert fleet.pal("run", "--continue", *model, "thank you").returncode == 0
    assert [each["id"] for each in fleet.pal_json("sessions")["sessions"]] == [session]
    assert "thank you" in fleet.pal("sessions", "show").stdout
    assert session in fleet.pal("cost", "--by", "session").stdout


def test_invalid_options_are_rejected(fleet):
    assert (
        "--database needs a session: add --session ID"
        in fleet.pal("run", "--database", fleet.database, "--no-session", "hi").stderr
    )
    wrong = fleet.pal("run", "--database", "mysql://x", "--session", "a", "hi")
    assert (wrong.returncode, "Use sqlite:///PATH" in wrong.stderr) == (2, True)
    fleet.engine.sessions.open("a").close()
    refused = fleet.pal("sessions", "repair", "--database", fleet.database, "a")
    assert (refused.returncode, "cannot be repaired" in refused.stderr) == (2, True)
    assert fleet.pal("sessions", "show", "--database", fleet.database, "b").returncode != 0
