"""Tools that a model's server runs, given to an agent in the protocol's shape."""

from __future__ import annotations

from typing import Any

import pytest

import llm_client_conformance as kit
from llm_client_conformance.protocols import GeminiServer, MessagesServer, ResponsesServer
from pure_agent_loop import (
    Agent,
    AnthropicClient,
    BaseLLMClient,
    ConfigError,
    Fallback,
    GeminiClient,
    LLMResponse,
    OpenAIClient,
    ResponsesClient,
    tool,
)
from pure_agent_loop.loop import ReactLoop
from pure_agent_loop.subagents import AgentDefinition, SubagentManager
from pure_agent_loop.testing import ScriptedLLM, call
from tests.helpers import check_result

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
CLIENTS: dict[str, tuple[Any, Any, str, dict[str, Any]]] = {
    "Messages": (MessagesServer, AnthropicClient, "claude-opus-4-6", SEARCH),
    "Responses": (ResponsesServer, ResponsesClient, "gpt-5.2", {"type": "web_search"}),
    "Gemini": (GeminiServer, GeminiClient, "gemini-3-flash", {"googleSearch": {}}),
}


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.mark.parametrize("protocol", CLIENTS)
def test_each_request_has_them_behind_the_functions(protocol):
    server_class, client_class, model, server_tool = CLIENTS[protocol]
    with server_class([kit.call("add", a=1, b=2), "3"]) as server:
        agent = Agent(llm=client_class(model, "k", server.base_url), tools=[server_tool, add])
        result = agent.run("1 + 2?")
    assert result.content == "3", result.error
    for request in server.requests:
        assert len(request.body["tools"]) == 2
        assert request.body["tools"][-1] == server_tool
    explanation = agent.explain("1 + 2?")
    assert server_tool in explanation.request["tools"]
    assert explanation.estimated_tokens > agent.explain("1 + 2?", tools=[add]).estimated_tokens


def test_chat_completions_too_for_servers_that_have_some():
    search = {"type": "web_search", "web_search": {"enable": True}}
    request = (
        Agent(llm=OpenAIClient("m", "k", "http://127.0.0.1:1/v1"), tools=[search, add]).explain("x").request
    )
    assert [each["type"] for each in request["tools"]] == ["function", "web_search"]
    assert "server_tools" not in request


def test_they_are_the_only_tools():
    with MessagesServer(["Found."]) as server:
        agent = Agent(llm=AnthropicClient("claude-opus-4-6", "k", server.base_url), tools=[SEARCH])
        assert agent.run("Look.").content == "Found."
    assert server.requests[0].body["tools"] == [SEARCH]


def test_a_run_has_its_own():
    llm = ScriptedLLM(["a", "b", "c"])
    agent = Agent(llm=llm, tools=[SEARCH, add])
    agent.run("x")
    agent.run("x", tools=[add])
    with agent.override(tools=[{"type": "web_fetch"}]):
        agent.run("x")
    given = [request.options.get("server_tools") for request in llm.requests]
    assert given == [[SEARCH], None, [{"type": "web_fetch"}]]


class Plain(BaseLLMClient):
    async def chat(self, messages: Any, tools: Any = None, **kwargs: Any) -> LLMResponse:
        return LLMResponse("ok")


def test_a_client_that_cannot_send_them_is_refused():
    wanted = "'web_search_20250305'.* Plain cannot send it"
    with pytest.raises(ConfigError, match=wanted):
        Agent(llm=Plain(), tools=[SEARCH])
    with pytest.raises(ConfigError, match="Fallback cannot send it"):
        Agent(llm=Fallback([ScriptedLLM(["x"], strict=False), Plain()]), tools=[SEARCH])
    with pytest.raises(ConfigError, match=wanted):
        ReactLoop(Plain(), tool_registry=[SEARCH])
    agent = Agent(llm=ScriptedLLM(["x"], strict=False), tools=[SEARCH])
    with pytest.raises(ConfigError, match=wanted):
        agent.run("x", model=Plain())
    with pytest.raises(ConfigError, match="not JSON"):
        Agent(llm=ScriptedLLM([]), tools=[{"type": "x", "y": object()}])


def test_a_dict_that_is_neither_is_refused():
    for wrong in ({"name": "x", "func": print}, {"type": "function", "name": "x"}, {"x": 1}):
        with pytest.raises(ConfigError, match="A tool dict needs the keys"):
            Agent(llm=ScriptedLLM([]), tools=[wrong])


def test_a_subagent_has_none_and_an_agent_as_a_tool_its_own():
    helper = AgentDefinition(name="helper", description="Helps.", prompt="Help.", tools=[])
    asks = [call("task", agent="helper", prompt="go"), "helped", call("other", input="go"), "done"]
    llm, inner = ScriptedLLM(asks), ScriptedLLM(["found"])
    other = Agent(llm=inner, name="other", description="Looks.", tools=[{"type": "own"}])
    agent = Agent(llm=llm, tools=[SEARCH, other], subagents=SubagentManager([helper]))
    check_result(agent.run("x"))
    given = [request.options.get("server_tools") for request in llm.requests]
    assert given == [[SEARCH], None, [SEARCH], [SEARCH]]
    assert inner.requests[0].options["server_tools"] == [{"type": "own"}]


def test_an_agent_with_handoffs_keeps_them():
    llm, target = ScriptedLLM([call("transfer_to_other")]), ScriptedLLM(["done"])
    other = Agent(llm=target, name="other", description="Looks.", tools=[{"type": "own"}])
    agent = Agent(llm=llm, name="first", tools=[SEARCH], handoffs=[other])
    assert agent.run("x").content == "done"
    assert llm.requests[0].options["server_tools"] == [SEARCH]
    assert target.requests[0].options["server_tools"] == [{"type": "own"}]
