"""Which model an agent uses: an address that is given wins over a name that looks embedded."""

from __future__ import annotations

import pytest

from pure_agent_loop import Agent, ConfigError, OpenAIClient
from pure_agent_loop.runs.choose import settle
from pure_agent_loop.testing import ScriptedServer

NAMES = ["local", "local:smollm2-135m", "models/x.gguf"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", ["argument", "environment", "client"])
def test_an_address_wins_over_a_name_that_looks_embedded(monkeypatch, name, way):
    with ScriptedServer(["hello"]) as server:
        if way == "environment":
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
            agent = Agent(name)
        elif way == "argument":
            agent = Agent(name, base_url=server.base_url)
        else:
            agent = Agent(llm=OpenAIClient(name, base_url=server.base_url))
        result = agent.run("hi")
        assert result.content == "hello"
        assert server.requests[0].body["model"] == name
        if way != "client":
            assert f"Model: {name} at {server.base_url}, as configured." in [e.content for e in result.events]


@pytest.mark.parametrize("name", ["gpt-x", "local", "x.gguf", "a:b"])
def test_a_prefix_says_the_protocol(name, monkeypatch):
    with ScriptedServer(["hello"]) as server:
        agent = Agent(f"openai:{name}", base_url=server.base_url)
        assert agent.run("hi").content == "hello"
        assert server.requests[0].body["model"] == name
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert Agent(f"openai:{name}").llm.base_url == "https://api.openai.com/v1"


@pytest.mark.parametrize("base_url", [None, "http://127.0.0.1:9/v1"])
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("anthropic:claude-x", r"base_url='https://api.anthropic.com/v1' .* model='claude-x'"),
        ("anthropic:", "model='NAME'"),
        ("responses:gpt-x", "Use chat completions: model='gpt-x'"),
        ("openai:", "write openai:NAME"),
    ],
)
def test_a_protocol_that_nobody_speaks_here_is_refused_in_one_line(model, words, base_url):
    with pytest.raises(ConfigError, match=words) as caught:
        Agent(model, "k", base_url)
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=words):
        settle(None, base_url, {"PAL_MODEL": model})
