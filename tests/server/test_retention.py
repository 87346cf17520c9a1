"""Retention: a server deletes, each day, what was not used for some days."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import time

import pytest
from tests.durable.fleet import older
from tests.server.conftest import events_of
from tests.server.test_coming_back import begin

from pure_agent_loop import Agent, ConfigError
from pure_agent_loop.audit import history
from pure_agent_loop.durable import Engine
from pure_agent_loop.server import create_app
from pure_agent_loop.server.settings import Settings
from pure_agent_loop.session import prune
from pure_agent_loop.sessions import JsonlStore, SqliteStore
from pure_agent_loop.testing import ScriptedLLM

DAY = 86_400.0
OLD = time.time() - 3 * DAY
LIMITS = {"keep_days": 2}


def until(condition):
    """Wait for what a server does by itself."""
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.1)


def finished(client, text="hello"):
    run = begin(client, text)
    assert events_of(client, run["id"])[-1]["type"] in ("run_end", "run_state")
    return run["session"]


def age(folder, session):
    """Let a session, and all that a server has of it, be three days old."""
    (written,) = (folder / "sessions").glob("*.jsonl")
    written.unlink()
    store = JsonlStore(folder / "sessions", now=lambda: OLD)
    Agent(llm=ScriptedLLM(["one"]), sessions=store).run("hello", session_id=session)
    path = folder / "server/runs.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(f"{json.dumps({**line, **_old(line)})}\n" for line in lines))
    for file in (folder / "server/events").iterdir():
        os.utime(file, (OLD, OLD))


def _old(line):
    return {"updated": OLD} if "updated" in line else {}


def test_unused_sessions_are_deleted_at_the_start_and_not_again_that_day(serve):
    server = serve(["one", "two", "three"], limits=LIMITS)
    with server.client() as client:
        old = finished(client)
    server.kill()
    age(server.folder, old)
    server.start()
    with server.client() as client:
        assert client.get(f"/api/sessions/{old}").status_code == 200  # the day has begun with the first start
        server.kill()
        os.utime(server.folder / "server/retention", (OLD, OLD))
        server.start()
    with server.client() as client:
        until(lambda: client.get(f"/api/sessions/{old}").status_code == 404)
        until(lambda: not [*(server.folder / "server/events").iterdir()])
        assert client.get("/api/runs").json()["runs"] == []
        new = finished(client)
        assert client.get(f"/api/sessions/{new}").status_code == 200
    (call,) = history(server.folder / "audit", tool="delete_session")
    assert call.args == {"session": old, "unused_days": 2}


def test_one_of_several_servers_deletes_from_a_database(serve, tmp_path):
    url = f"sqlite:///{tmp_path / 'runs.sqlite'}"
    first = serve(["one"], database=url, limits=LIMITS)
    with first.client() as client:
        old = finished(client)
    first.kill()
    with sqlite3.connect(tmp_path / "runs.sqlite") as database:
        database.execute("UPDATE pal_limits SET ledger = '{}' WHERE name = 'retention'")
        database.create_function("older", 2, older)
        database.execute("UPDATE records SET time = ?, line = older(line, ?)", (OLD, 3 * DAY))
        database.execute("UPDATE workflow_status SET updated_at = ?", (OLD * 1000,))
    database.close()
    others = [serve(["x"], database=url, limits=LIMITS, executes=False) for _ in range(2)]
    with Engine(url) as engine:
        until(lambda: not engine.sessions.exists(old))
        assert engine.tasks() == []
    said = [(server.folder / "stderr").read_text() for server in others]
    assert sum("was deleted" in text for text in said) <= 1


def test_session_used_during_the_deletion_is_kept(tmp_path):
    old, new = JsonlStore(tmp_path, now=lambda: OLD), JsonlStore(tmp_path)
    for name in ("a", "b"):
        Agent(llm=ScriptedLLM(["one"]), sessions=old).run("hello", session_id=name)
    names = {"a", "b"}

    def delete(session):
        (other,) = names - {session}
        Agent(llm=ScriptedLLM(["two"]), sessions=new).run("again", session_id=other)
        new.delete(session)

    (deleted,) = prune(new, 2, time.time(), delete)
    assert {info.id for info in new.list()} == names - {deleted}


class FailingAudit:
    """An audit log on a full disk."""

    def begin(self, call):
        raise OSError("the disk is full")

    def end(self, *_):
        raise AssertionError


@pytest.mark.parametrize("has_engine", [False, True])
def test_deletion_that_fails_is_tried_again_within_an_hour(has_engine, tmp_path, caplog):
    url = f"sqlite:///{tmp_path / 'runs.sqlite'}" if has_engine else None
    place = (
        SqliteStore(tmp_path / "runs.sqlite", now=lambda: OLD)
        if has_engine
        else JsonlStore(tmp_path / "sessions", now=lambda: OLD)
    )
    Agent(llm=ScriptedLLM(["one"]), sessions=place).run("hello", session_id="old")
    agent = Agent(llm=ScriptedLLM([]), audit=FailingAudit())
    where = {"database": url, "executes": False} if has_engine else {"sessions": tmp_path / "sessions"}
    app = create_app(agent, token="x" * 20, folder=tmp_path / "own", keep_days=2, **where)

    async def served():
        async with app.router.lifespan_context(app):
            await asyncio.to_thread(until, lambda: "the disk is full" in caplog.text)

    asyncio.run(served())
    if url is None:
        begun = (tmp_path / "own/retention").stat().st_mtime
    else:
        begun = json.loads(ledger_of(tmp_path / "runs.sqlite"))["begun"]
    assert begun + DAY < time.time() + 3600


def ledger_of(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT ledger FROM pal_limits WHERE name = 'retention'").fetchone()[0]


def test_days_must_be_positive():
    for days in (0, -1, True, "2"):
        with pytest.raises(ConfigError, match="keep_days"):
            Settings(keep_days=days)
