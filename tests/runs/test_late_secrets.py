"""Secrets that come into the environment after an agent was made."""

from __future__ import annotations

import asyncio
from collections import UserDict

import pytest

from pure_agent_loop import Agent, ReactLoop, tool
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.testing import ScriptedLLM, answer, call

EARLY, LATE, NEW = "q9w8e7r6t5", "a1s2d3f4g5", "z6x7c8v9b0"


@tool
def look() -> str:
    """Look."""
    return f"{EARLY} {LATE} {NEW}"


def script():
    return ScriptedLLM([call("look"), answer(f"Seen: {LATE}.")])


@pytest.fixture
def environment(monkeypatch):
    monkeypatch.setenv("EARLY_KEY", EARLY)
    monkeypatch.delenv("LATE_KEY", raising=False)
    return monkeypatch


def test_a_key_that_is_set_between_two_runs_is_removed(environment, tmp_path):
    llm = ScriptedLLM([call("look"), answer("Seen."), call("look"), answer(f"Seen: {LATE}.")])
    agent = Agent(llm=llm, tools=[look], sessions=JsonlStore(tmp_path))
    agent.run("Look.", session_id="first")
    environment.setenv("LATE_KEY", LATE)
    result = agent.run("Look.", session_id="second")
    assert llm.requests[-1].messages[-1]["content"] == (
        f"[secret:EARLY_KEY removed] [secret:LATE_KEY removed] {NEW}"
    )
    assert result.content == "Seen: [secret:LATE_KEY removed]."
    files = [each.read_text(encoding="utf-8") for each in tmp_path.rglob("*second*") if each.is_file()]
    assert files
    assert not any(LATE in each for each in files)


def test_a_loop_of_the_first_kind_knows_it_too(environment):
    llm = script()
    loop = ReactLoop(llm, [look])
    environment.setenv("LATE_KEY", LATE)
    assert LATE not in str(asyncio.run(_result(loop)))
    assert "[secret:LATE_KEY removed]" in str(llm.requests[-1].messages)


async def _result(loop):
    return await loop.run("Look.")


def test_known_state_is_kept(environment):
    llm = script()
    agent = Agent(llm=llm, tools=[look])
    environment.delenv("EARLY_KEY")
    environment.setenv("LATE_KEY", LATE)
    agent.run("Look.")
    assert EARLY not in str(llm.requests)


def test_nothing_is_made_again_for_nothing():
    env = {"EARLY_KEY": EARLY}
    redactor = Redactor(env=env)
    env["HOME"] = "/home/somebody"
    assert redactor.as_of_now() is redactor
    env["EARLY_KEY"] = LATE
    new = redactor.as_of_now()
    assert new.as_of_now() is new
    assert redactor.as_of_now() is new
    assert new.redact_known(f"{EARLY} {LATE}") == "[secret:EARLY_KEY removed] [secret:EARLY_KEY removed]"
    assert redactor.redact_known(LATE) == LATE


class Leaving(UserDict):
    """Loses a name while it is read, as `os.environ` may by another thread."""

    def __iter__(self):
        names = list(self.data)
        self.data.pop("GONE_KEY", None)
        return iter(names)


def test_variable_removed_during_redaction_is_not_an_error():
    redactor = Redactor(env=Leaving(GONE_KEY=EARLY, LATE_KEY=LATE))
    assert redactor.as_of_now().redact_known(f"{EARLY} {LATE}") == f"{EARLY} [secret:LATE_KEY removed]"
