"""Every argument that says where sessions are kept takes the same things."""

from __future__ import annotations

import asyncio
import io
from types import SimpleNamespace

import pytest

from pure_agent_loop import Agent, ConfigError
from pure_agent_loop.assistant import AgentLoop
from pure_agent_loop.server import create_app
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.testing import ScriptedLLM

PLACES = {"folder": str, "path": lambda path: path, "store": JsonlStore, "manager": SessionManager}


@pytest.mark.parametrize("kind", PLACES)
def test_sessions_are_kept_wherever_one_says_it(tmp_path, kind):
    place = PLACES[kind](tmp_path)
    agent = Agent(llm=ScriptedLLM(["One.", "Two.", "Three."]), sessions=place)
    agent.run("1", session_id="s")
    agent.run("2", session_id="t", sessions=place)
    agent.clone(name="other").run("3", session_id="u")
    assert {info.id for info in SessionManager(place).list()} == {"s", "t", "u"}
    assert AgentLoop(ScriptedLLM([]), tmp_path, session_manager=place).sessions.exists("s")
    bare = agent.clone(sessions=None)
    app = create_app(bare, token="x" * 20, folder=tmp_path / "own", sessions=place)

    async def served():
        async with app.router.lifespan_context(app):
            return app.state.service.hub.sessions.exists("t")

    assert asyncio.run(served())


@pytest.mark.parametrize("place", [5, JsonlStore, io.StringIO(), [], SimpleNamespace(store=None)])
def test_object_without_a_store_interface_is_rejected(tmp_path, place):
    agent = Agent(llm=ScriptedLLM(["One."]))
    for refused in (
        lambda: Agent(llm=ScriptedLLM([]), sessions=place),
        lambda: agent.prepare("1", session_id="s", sessions=place),
        lambda: AgentLoop(ScriptedLLM([]), tmp_path, session_manager=place),
        lambda: create_app(agent, token="x" * 20, folder=tmp_path, sessions=place),
        lambda: SessionManager(place),
    ):
        with pytest.raises(ConfigError, match="cannot store sessions"):
            refused()
