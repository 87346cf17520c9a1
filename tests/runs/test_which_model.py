"""Which model an agent uses: an address that is given wins over a name that looks embedded."""

from __future__ import annotations

import pytest

from pure_agent_loop import Agent, OpenAIClient
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
