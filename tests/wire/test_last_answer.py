"""The last answer without tools, at servers that refuse a history with calls and no tools."""

from __future__ import annotations

from typing import Any

import pytest

from pure_agent_loop import Agent, LoopLimits
from pure_agent_loop.testing import ScriptedServer, ServerRequest, call, status
from tests.helpers import add

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
