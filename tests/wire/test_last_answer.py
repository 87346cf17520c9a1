"""The last answer without tools, at servers that refuse a history with calls and no tools."""

from __future__ import annotations

from typing import Any

import pytest

from pure_agent_loop import Agent, AIClient, LoopLimits
from pure_agent_loop.testing import ScriptedServer, ServerRequest, call, status
from tests.helpers import add

pytestmark = pytest.mark.usefixtures("transport")

WAYS: dict[str, dict[str, Any]] = {
    "a limit": {"limits": LoopLimits(max_turns=1)},
    "a single round": {"mode": "single"},
    "with a choice of the caller": {"limits": LoopLimits(max_turns=1), "tool_choice": "required"},
}


def picky(request: ServerRequest) -> Any:
    body = request.body
    if any(message.get("tool_calls") for message in request.messages):
        if not body.get("tools"):
            return status(400, "tools must be set where the messages hold tool_calls")
        return "3." if body.get("tool_choice") == "none" else call("add", a=1, b=2)
    return call("add", a=1, b=2)


@pytest.mark.parametrize("way", WAYS)
def test_a_history_with_calls_keeps_its_tools(way: str):
    with ScriptedServer(handler=picky) as server:
        result = Agent("m", "k", server.base_url, tools=[add], tool_mode="native", **WAYS[way]).run("go")
        first, last = server.requests
    assert result.content.startswith("3.")
    assert first.body["tools"] == last.body["tools"]
    assert "parallel_tool_calls" not in last.body


def test_without_calls_in_the_history_nothing_speaks_of_tools():
    with ScriptedServer(["hello"]) as server:
        limits = LoopLimits(max_seconds=1e-9)
        Agent("m", "k", server.base_url, tools=[add], tool_choice="auto", limits=limits).run("go")
        assert not {"tools", "tool_choice"} & set(server.requests[0].body)


def test_a_server_that_does_not_know_tool_choice_is_asked_without_it():
    def old(request: ServerRequest) -> Any:
        if "tool_choice" in request.body:
            return status(400, "Unrecognized request argument supplied: tool_choice")
        return "3." if any(m["role"] == "tool" for m in request.messages) else call("add", a=1, b=2)

    with ScriptedServer(handler=old) as server:
        limits = LoopLimits(max_turns=1)
        result = Agent("m", "k", server.base_url, tools=[add], limits=limits).run("go")
        assert len(server.requests) == 3
    assert result.content.startswith("3.")


OLD = [
    {"role": "user", "content": "1 + 2?"},
    {
        "role": "assistant",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "add", "arguments": "{}"}},
            {"id": "b", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}},
        ],
    },
    *({"role": "tool", "tool_call_id": each, "content": "3"} for each in "abc"),
]


@pytest.mark.parametrize("tool_mode", ["auto", "native", "json", "text"])
@pytest.mark.parametrize("facade", [Agent, AIClient])
def test_agent_without_tools_continues_a_history_with_calls(tool_mode: str, facade: Any):
    with ScriptedServer(handler=picky) as server:
        agent = facade("m", "k", server.base_url, tool_mode=tool_mode)
        result = agent.run("And 2 + 2?", OLD) if tool_mode in ("auto", "native") else None
        body = agent.explain("And 2 + 2?", OLD).request
    if result is not None:
        assert (result.content, result.stop_reason) == ("3.", "completed")
        assert [each["function"]["name"] for each in body["tools"]] == ["add", "look"]
        assert body["tool_choice"] == "none"
    else:  # there the calls are put into words
        assert not {"tools", "tool_choice"} & set(body)


@pytest.mark.parametrize("words", ["Used earlier", "此前的对话中使用过"])
def test_error_for_removed_tools(words: str):
    language = "en" if words.startswith("U") else "zh"
    explained = Agent("m", "k", "http://127.0.0.1:9/v1", language=language).explain("go", OLD)
    assert explained.request["tools"][0]["function"]["description"].startswith(words)


def test_call_of_a_removed_tool_is_answered_and_the_run_continues():
    def stubborn(request: ServerRequest) -> Any:
        return call("add", a=1, b=1) if request.messages[-1]["role"] == "user" else "2."

    with ScriptedServer(handler=stubborn) as server:
        result = Agent("m", "k", server.base_url).run("go", OLD)
    assert (result.content, result.stop_reason) == ("2.", "completed")
