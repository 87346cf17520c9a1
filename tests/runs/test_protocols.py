"""A model named with its protocol: for an agent, and for the command."""

import re
from typing import get_args

import pytest
from tests.llm.protocols.typed import HAS_TYPES

from llm_client_conformance.protocols import GeminiServer, MessagesServer, ResponsesServer
from pure_agent_loop import Agent, AnthropicClient, ConfigError, OpenAIClient, ResponsesClient
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.runs import Endpoint, plan_model
from pure_agent_loop.runs.choose import RESPONSES_ONLY, choose_model

NAME = "anthropic:claude-opus-4-6"


def test_an_agent_speaks_the_protocol():
    with MessagesServer(["hello"], api_key="k") as server:
        result = Agent(NAME, "k", server.base_url).run("hi")
    assert result.output == "hello"
    assert server.requests[0].body["model"] == "claude-opus-4-6"
    assert "thinking" not in server.requests[0].body


def test_an_agent_speaks_the_responses_protocol():
    with ResponsesServer(["hello"], api_key="k") as server:
        assert Agent("responses:gpt-5", "k", server.base_url).run("hi").output == "hello"
        assert "reasoning" not in server.requests[0].body
    plan = plan_model("responses:gpt-5", None, {"OPENAI_API_KEY": "o"})
    assert plan == Endpoint("responses:gpt-5", "https://api.openai.com/v1", "o", plan.why)


def test_an_agent_speaks_the_gemini_protocol():
    with GeminiServer(["hello"], api_key="k") as server:
        assert Agent("gemini:gemini-3-pro", "k", server.base_url).run("hi").output == "hello"
        assert server.requests[0].path.startswith("/v1/models/gemini-3-pro:")


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("gpt-5-pro", {}, ResponsesClient),
        ("o3-pro-2025-06-10", {"base_url": "https://eu.api.openai.com/v1"}, ResponsesClient),
        ("openai:gpt-5-pro", {}, OpenAIClient),
        ("gpt-5-pro", {"base_url": "https://openrouter.example/v1"}, OpenAIClient),
        ("gpt-5-pro", {"profile": Profile("mine")}, OpenAIClient),
        ("gpt-5", {}, OpenAIClient),
        ("gpt-5-pro-of-mine", {}, OpenAIClient),
    ],
)
def test_models_without_chat_completions_get_the_responses_protocol(name, settings, expected, monkeypatch):
    client = choose_model(name, "k", **settings, prepared=False).client
    assert isinstance(client, expected)
    assert client.model == name.removeprefix("openai:")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://other.example/v1")
    if "base_url" not in settings:
        assert isinstance(choose_model(name, "k", **settings, prepared=False).client, OpenAIClient)


def test_the_list_of_these_models_is_that_of_the_sdk():
    if not HAS_TYPES:
        return
    from openai.types import ChatModel, ResponsesModel

    named = {name for part in get_args(ResponsesModel)[1:] for name in get_args(part)} - {
        *get_args(ChatModel)
    }
    assert {re.sub(r"-\d{4}-\d\d-\d\d$", "", name) for name in named} <= RESPONSES_ONLY


@pytest.mark.parametrize("variable", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_the_command_finds_the_keys_of_google(variable):
    plan = plan_model("gemini:gemini-3-pro", None, {variable: "g", "OPENAI_API_KEY": "o"})
    assert isinstance(plan, Endpoint)
    assert (plan.base_url, plan.api_key) == ("https://generativelanguage.googleapis.com", "g")
    with pytest.raises(ConfigError, match="No API key"):
        plan_model("gemini:gemini-3-pro", "https://x.example", {variable: "g"})


def test_the_default_leaves_thinking_to_the_model_and_off_is_refused(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    client = Agent("anthropic:claude-fable-5-2").llm
    assert isinstance(getattr(client, "inner", client), AnthropicClient)
    with pytest.raises(ConfigError, match="always thinks"):
        Agent("anthropic:claude-fable-5-2", thinking_level="none")


def test_a_profile_of_chat_completions_is_refused():
    with pytest.raises(ConfigError, match="AnthropicClient"):
        Agent(NAME, "k", profile=Profile("mine"))


def test_a_name_is_needed():
    with pytest.raises(ConfigError, match="anthropic:NAME"):
        Agent("anthropic:", "k")


@pytest.mark.parametrize(
    ("environ", "base_url", "expected"),
    [
        ({"ANTHROPIC_API_KEY": "a"}, None, ("https://api.anthropic.com", "a")),
        ({"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "https://o.example"}, None,
         ("https://api.anthropic.com", "a")),
        ({"ANTHROPIC_API_KEY": "a", "ANTHROPIC_BASE_URL": "https://g.example"}, None,
         ("https://g.example", "a")),
        ({"PAL_API_KEY": "p", "ANTHROPIC_API_KEY": "a"}, "https://x.example", ("https://x.example", "p")),
        ({"ANTHROPIC_API_KEY": "a"}, "http://127.0.0.1:1", ("http://127.0.0.1:1", "not-needed")),
    ],
)  # fmt: skip
def test_the_command_finds_server_and_key(environ, base_url, expected):
    plan = plan_model(NAME, base_url, environ)
    assert isinstance(plan, Endpoint)
    assert (plan.model, plan.base_url, plan.api_key) == (NAME, *expected)


@pytest.mark.parametrize(
    ("environ", "base_url"),
    [({"OPENAI_API_KEY": "o"}, None), ({"ANTHROPIC_API_KEY": "a"}, "https://x.example")],
)
def test_a_key_never_goes_to_another_vendor(environ, base_url):
    with pytest.raises(ConfigError, match="No API key"):
        plan_model(NAME, base_url, environ)
