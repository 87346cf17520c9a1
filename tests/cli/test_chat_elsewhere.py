"""One session in two places: each says so, shows what the other adds, and writes nothing after a deletion."""

from __future__ import annotations

import pytest
from tests.cli.conversations import idle, leave, without_facts
from tests.cli.screens import CTRL_C, ENTER

from pure_agent_loop.sessions import JsonlStore


@pytest.fixture
def store(pal):
    return JsonlStore(f"{pal.env['PAL_HOME']}/sessions")


def test_session_open_in_two_terminals_is_announced_in_both(chat, pal, store):
    screen = chat(["answer one", "answer two", "answer three", "answer four"])
    screen.type("first" + ENTER)
    screen.until("answer one")
    idle(screen)
    (info,) = store.list()
    done = pal("run", "-r", info.id, "intruder")
    assert done.stdout == "answer two\n"
    assert f"pal sessions fork {info.id}" in done.stderr
    screen.until("Added to this session elsewhere")
    screen.until("intruder")
    screen.until("answer two")
    screen.type("second" + ENTER)
    screen.until("answer three")
    messages = without_facts(screen.server.requests[-1].body["messages"])
    asked = [message["content"] for message in messages if message["role"] == "user"]
    assert asked == ["first", "intruder", "second"]
    leave(screen)
    assert "pal sessions fork" not in pal("run", "-c", "later").stderr
    assert not list(store.folder.glob("*.open"))


def test_session_deleted_elsewhere_is_not_written_on(chat, pal, store):
    screen = chat(["answer one", "answer two"])
    screen.type("first" + ENTER)
    screen.until("answer one")
    idle(screen)
    (info,) = store.list()
    pal("sessions", "delete", "--yes", info.id)
    screen.until("was deleted elsewhere")
    screen.type("second" + ENTER)
    screen.until("answer two")
    idle(screen)
    leave(screen)
    (new,) = store.list()
    assert new.id != info.id
    messages = without_facts(screen.server.requests[-1].body["messages"])
    asked = [message["content"] for message in messages if message["role"] == "user"]
    assert asked == ["second"]


def test_question_sent_into_a_session_just_deleted_returns_to_the_input(chat, pal):
    screen = chat(["answer one"], "chat", "--database", f"sqlite:///{pal.workspace.parent}/db")
    screen.until("/ commands")
    screen.type("first" + ENTER)
    screen.until("answer one")
    idle(screen)
    listed = pal("sessions", "list", "--database", f"sqlite:///{pal.workspace.parent}/db").stdout
    database = f"sqlite:///{pal.workspace.parent}/db"
    pal("sessions", "delete", "--yes", listed.split()[-1], "--database", database)
    screen.type("second" + ENTER)
    screen.until("was deleted elsewhere")
    screen.until("> second")
    assert len(screen.server.requests) == 1
    screen.type(CTRL_C)
    leave(screen)
