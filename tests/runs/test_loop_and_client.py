"""`ReactLoop` around a client of this package: its model, its tools, its words, its rules."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.helpers import E

from pure_agent_loop import (
    Agent,
    AIClient,
    CancelToken,
    ConfigError,
    LLMResponse,
    PermissionRules,
    ReactLoop,
    SessionManager,
    prompts_for,
    tool,
)
from pure_agent_loop.llm.base import model_of
from pure_agent_loop.runs.choose import AvailableClient, Choice
from pure_agent_loop.testing import ScriptedLLM, call

pytestmark = pytest.mark.anyio


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def delete(name: str) -> str:
    """Delete."""
    return f"deleted {name}"


def steps(*names):
    return ScriptedLLM([*(call(name, **args) for name, args in names), "done"])


@pytest.mark.parametrize("kind", [AIClient, Agent])
async def test_its_client_and_its_tools_are_used_for_more_than_one_round(kind):
    llm = steps(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4}))
    loop = ReactLoop(kind(llm=llm, tools=[add], temperature=0.25))
    assert await loop.run("go") == "done"
    assert [m["content"] for m in llm.requests[-1].messages if m["role"] == "tool"] == ["3", "7"]
    assert llm.requests[0].options["temperature"] == 0.25


async def test_other_tools_and_other_settings_take_their_place():
    llm = steps(("delete", {"name": "x"}))
    loop = ReactLoop(AIClient(llm=llm, tools=[add]), [delete], llm_kwargs={"temperature": 1.0})
    assert await loop.run("go") == "done"
    assert [each["function"]["name"] for each in llm.requests[0].tools] == ["delete"]
    assert llm.requests[0].options["temperature"] == 1.0


async def test_the_rules_of_its_agent_hold():
    llm = steps(("delete", {"name": "x"}))
    agent = Agent(llm=llm, tools=[delete], permission_rules=PermissionRules(deny=["delete"]))
    await ReactLoop(agent, permission_mode="bypass").run("go")
    (text,) = [m["content"] for m in llm.requests[-1].messages if m["role"] == "tool"]
    assert "deleted" not in text


async def test_language_mode_and_token():
    llm = steps(("add", {"a": "no", "b": 1}))
    assert await ReactLoop(llm, [add], language="zh").run("go") == "done"
    (text,) = [m["content"] for m in llm.requests[-1].messages if m["role"] == "tool"]
    assert "执行失败" in text
    assert "Error" not in text
    llm = steps(("delete", {"name": "x"}))
    run = ReactLoop(llm, [delete], permission_mode="plan").run("go")
    assert await run == "done"
    (text,) = [m["content"] for m in llm.requests[-1].messages if m["role"] == "tool"]
    assert "deleted" not in text
    token = CancelToken()
    token.cancel("enough")
    events = [event async for event in ReactLoop(steps(), cancel_token=token).run("go")]
    assert events[-1].data["stop_reason"] == "cancelled"
    with pytest.raises(ConfigError, match="permission_mode"):
        ReactLoop(steps(), permission_mode="never")
    with pytest.raises(ConfigError, match="session_id"):
        ReactLoop(steps(), session_id=5)


async def test_a_session_is_kept_and_gone_on_with(tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path))
    llm = ScriptedLLM(["one", "two"])
    loop = ReactLoop(llm, session_id="s-1")
    assert (await loop.run("first"), await loop.run("second")) == ("one", "two")
    assert [m["content"] for m in llm.requests[1].messages[1:]] == ["first", "one", "second"]
    assert SessionManager().exists("s-1")


async def test_parts_of_the_last_run():
    loop = ReactLoop(steps(("add", {"a": 1, "b": 2})), [add])
    assert loop.parts == []
    run = loop.run("go")
    seen = [{part.state for part in loop.parts} async for event in run if event.type is E.PART]
    assert {"running"} in [states - {"completed"} for states in seen]
    assert [(part.type, part.tool, part.state) for part in loop.parts] == [
        ("tool", "add", "completed"),
        ("text", "", "completed"),
    ]


@pytest.mark.parametrize("key", ["k", ""])
def test_nothing_is_started_before_the_first_request(monkeypatch, tmp_path, key):
    """Without a key neither: no server is looked for, and no embedded model fetched or started."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "data"))
    if key:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    before = {*threading.enumerate()}  # of earlier tests, some of which may end meanwhile
    made = [AIClient(), Agent(), ReactLoop(AIClient(base_url="http://127.0.0.1:9/v1"))]
    started = {*threading.enumerate()} - before
    assert (len(made), started, (tmp_path / "data").exists()) == (3, set(), False)


async def test_a_model_that_is_at_hand_is_chosen_once_and_named():
    chosen = []

    def choose():
        chosen.append(1)
        return Choice(ScriptedLLM(["one", "two", "three"]), "scripted", "scripted, at hand")

    agent = Agent(llm=AvailableClient(choose))
    assert (chosen, model_of(agent.llm)) == ([], "")
    notices = [event.data async for event in agent.arun_stream("go") if event.type is E.NOTICE]
    assert (chosen, notices) == ([1], [{"message": "Model: scripted, at hand.", "model": "scripted"}])
    results = await asyncio.gather(agent.arun("go"), agent.arun("go"))
    assert ({result.content for result in results}, chosen) == ({"two", "three"}, [1])


async def test_a_choice_that_fails_is_made_again_by_the_next_run():
    choices = [None, Choice(ScriptedLLM(["done"]), "scripted", "at hand")]

    def choose():
        choice = choices.pop(0)
        if choice is None:
            raise ConfigError("No model is configured.")
        return choice

    agent = Agent(llm=AvailableClient(choose))
    assert "No model" in (await agent.arun("go")).error
    assert (await agent.arun("go")).content == "done"


async def test_a_model_that_is_at_hand_is_asked_as_it_would_be_without_the_choice():
    class Judge(ScriptedLLM):
        async def chat(self, messages, tools=None, **kwargs):
            return LLMResponse("yes", [], None, {"logprobs": kwargs})

    at_hand = AvailableClient(lambda: Choice(Judge([]), "scripted", "at hand"))
    assert (await at_hand.chat([], None, top_logprobs=3)).raw == {"logprobs": {"top_logprobs": 3}}


@pytest.mark.parametrize("model", ["local", "local:some", "./not/there.gguf"])
def test_an_agent_with_an_embedded_model_starts_nothing(model, monkeypatch, tmp_path):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "data"))
    before = threading.enumerate()
    assert isinstance(Agent(model=model).llm, AvailableClient)
    assert (threading.enumerate(), (tmp_path / "data").exists()) == (before, False)


async def test_the_first_run_says_that_an_embedded_model_is_not_there(tmp_path):
    result = await Agent(model=str(tmp_path / "none.gguf")).arun("go")
    assert (result.stop_reason, "none.gguf" in result.error) == ("error", True)


async def test_react_loop_begins_in_its_language():
    llm = ScriptedLLM(["好"])
    await ReactLoop(llm, language="zh").run("做事")
    assert llm.requests[0].messages[0]["content"] == prompts_for("zh").system_prompt
