"""Two runs in one session: each ends with its own answer."""

from __future__ import annotations

import asyncio

import pytest

from pure_agent_loop import Agent, tool
from pure_agent_loop.durable import Engine
from pure_agent_loop.durable.attempt import Attempt
from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.database import Database
from pure_agent_loop.sessions import SqliteStore
from pure_agent_loop.testing import ScriptedLLM, call

PATIENCE = 60.0


def by_task(messages, tools, options):
    """Do what was asked last, and say what that was."""
    task = [each["content"] for each in messages if each["role"] == "user"][-1]
    wants = task.startswith("do") and messages[-1]["role"] == "user"
    return call("do", what=task) if wants else f"This was: {task}"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_run_that_waits_does_not_take_the_answer_of_the_one_that_went_on(kind, tmp_path, request):
    done = []

    @tool
    def do(what: str) -> str:
        """Do something."""
        done.append(what)
        return "done"

    agent = Agent(llm=ScriptedLLM(by_task), tools=[do], permission_mode="ask")
    url = f"sqlite:///{tmp_path / 'd.sqlite'}"
    if kind == "postgres":
        url = request.getfixturevalue("postgres").url
    with Engine(url, agents={f"shared-{kind}": agent}) as engine:
        first = engine.submit(f"shared-{kind}", "do one thing", session_id=f"chat-{kind}")
        (question,) = first.result(PATIENCE).questions
        second = engine.submit(f"shared-{kind}", "another question", session_id=f"chat-{kind}")
        assert second.result(PATIENCE).content == "This was: another question"

        first.answer(question.call_id, "allow")  # what was asked about is no longer to be done
        (again,) = first.result(PATIENCE).questions
        assert done == []
        first.answer(again.call_id, "allow")
        info = first.result(PATIENCE)
    assert (info.status, info.content, done) == ("completed", "This was: do one thing", ["do one thing"])


class Frozen(SqliteStore):
    """Seen by a worker that is frozen between looking at a session and opening it."""

    meanwhile = None

    def exists(self, session_id):
        found, meanwhile = super().exists(session_id), self.meanwhile
        if meanwhile is not None:
            self.meanwhile = None
            meanwhile()
        return found


@pytest.mark.parametrize("ends", [True, False])
def test_a_worker_that_was_frozen_before_it_opened_the_session_does_not_begin_again(ends, tmp_path):
    done = []

    @tool
    def do(what: str) -> str:
        """Do something."""
        done.append(what)
        if not ends and len(done) == 1:
            raise KeyboardInterrupt  # as if that process had ended there
        return "done"

    database = Database(f"sqlite:///{tmp_path / 'd.sqlite'}")
    client = Client(database)
    store, agent = Frozen(database.path), Agent(llm=ScriptedLLM(by_task), tools=[do])

    async def in_thread(work, *values):
        return await asyncio.to_thread(work, *values)

    def attempt(store):
        return Attempt(client, store, agent, "r", "do it", "s", in_thread).work()

    def elsewhere():
        try:
            asyncio.run(attempt(SqliteStore(database.path)))
        except KeyboardInterrupt:
            assert not ends

    store.meanwhile = elsewhere
    found = asyncio.run(attempt(store))
    client.close()
    assert (found["content"], found["stop_reason"]) == ("This was: do it", "completed")
    assert done == ["do it"]  # where nobody knows whether it was done, the model is told
    runs = [each for each in store.read("s").records if each.type == "run"]
    assert [isinstance(each.data.get("task"), str) for each in runs] == [True, *([] if ends else [False])]
