"""Which model an agent uses: an address that is given wins over a name that looks embedded."""

from __future__ import annotations

import pytest

from pure_agent_loop import (
    Agent,
    AnthropicClient,
    ConfigError,
    Fallback,
    GeminiClient,
    Limiter,
    OpenAIClient,
    ResponsesClient,
    RunContext,
)
from pure_agent_loop.runs.choose import Search, plan_model
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer

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


def test_an_agent_that_names_no_model_downloads_none(monkeypatch, tmp_path):
    pytest.importorskip("xllamacpp")
    monkeypatch.setenv("PAL_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="pal model pull smollm2-135m"):
        Agent().run("hi").raise_for_error()
    assert not list(tmp_path.rglob("*.gguf"))


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
        ("anthropic:", "Write anthropic:NAME"),
        ("responses:", "Write responses:NAME"),
        ("openai:", "Write openai:NAME"),
    ],
)
def test_unknown_protocol_is_rejected_in_one_line(model, words, base_url):
    with pytest.raises(ConfigError, match=words) as caught:
        Agent(model, "k", base_url)
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=words):
        plan_model(None, base_url, {"PAL_MODEL": model})


def test_at_openai_an_unknown_prefix_is_refused_and_elsewhere_part_of_the_name(monkeypatch):
    for key in ("k", None):
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        with pytest.raises(
            ConfigError, match=r"model='mistral:x': 'mistral' is not a model prefix.* anthropic, "
        ):
            Agent("mistral:x", key)
    with pytest.raises(ConfigError, match="PAL_MODEL='mistral:x': 'mistral' is not a model prefix"):
        plan_model(None, None, {"PAL_MODEL": "mistral:x", "OPENAI_API_KEY": "k"})
    assert Agent("ft:gpt-4o-mini:us::7p4l", "k").llm.model == "ft:gpt-4o-mini:us::7p4l"
    assert Agent("llama3:8b", base_url="http://127.0.0.1:9/v1").llm.model == "llama3:8b"
    assert isinstance(plan_model("llama3:8b", None, {}), Search)


def test_agent_without_a_key_fails_at_its_first_request(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    agent = Agent(model="gpt-4o-mini", base_url="https://api.openai.com/v1")
    with agent.override(llm=ScriptedLLM(["hi"])):
        assert agent.run("q").content == "hi"
    assert agent.clone(name="other").run("q").stop_reason == "error"
    result = agent.run("q")
    assert result.stop_reason == "error"
    assert "No API key for https://api.openai.com/v1. Pass api_key=..., or set OPENAI_API_KEY" in result.error


ELSEWHERE = "https://models.example"
WITHOUT_KEY = {
    "OPENAI_API_KEY": lambda: OpenAIClient("gpt-5", base_url=ELSEWHERE),
    "OPENAI_API_KEY ": lambda: ResponsesClient("gpt-5", base_url=ELSEWHERE),
    "ANTHROPIC_API_KEY": lambda: AnthropicClient("claude-sonnet-5", base_url=ELSEWHERE),
    "GEMINI_API_KEY": lambda: GeminiClient("gemini-2.5-flash", base_url=ELSEWHERE),
    "OPENAI_API_KEY  ": lambda: Fallback(["gpt-4o-mini", OpenAIClient("m", "k", ELSEWHERE)]),
    "ANTHROPIC_API_KEY ": lambda: Fallback([ScriptedLLM(["hi"]), "anthropic:claude-sonnet-5"]),
    "ANTHROPIC_API_KEY  ": lambda: Limiter(Fallback([ScriptedLLM(["hi"]), "anthropic:m"]), requests=60),
    "OPENAI_API_KEY   ": lambda: Limiter("gpt-4o-mini", requests=60),
}


@pytest.mark.parametrize("variable", WITHOUT_KEY)
def test_client_created_without_a_key_asks_for_it_at_its_first_request(monkeypatch, variable):
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
    ):
        monkeypatch.delenv(name, raising=False)
    agent = Agent(llm=WITHOUT_KEY[variable]())
    with agent.override(llm=ScriptedLLM(["hi"])):
        assert agent.run("q").content == "hi"
    for _ in range(2):
        result = agent.run("q")
        assert result.stop_reason == "error"
        assert "No API key for https://" in result.error
        assert variable.strip() in result.error


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize(
    "group", [lambda client: client, lambda client: Limiter(Fallback([client]), requests=9)]
)
def test_key_that_is_set_during_a_run_is_sent_and_redacted(monkeypatch, group, shown):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    key = "sk-comes-later-0123456789"

    def prompt(_: RunContext[None]) -> str:
        monkeypatch.setenv("OPENAI_API_KEY", key)
        return "Answer."

    with ScriptedServer([f"The key is {key}."], api_key=key) as server:
        url = server.base_url.replace("127.0.0.1", "127.1")  # a name, which may belong to another machine
        agent = Agent(
            llm=group(OpenAIClient("m", base_url=url)), system_prompt=prompt, redact=Redactor(env={})
        )
        events = list(agent.run_stream("q")) if shown else agent.run("q").events
    assert [event.content for event in events if event.type == "loop_end"] == [
        "The key is [secret:api_key removed]."
    ]
    assert key not in str(events)


def test_a_key_that_comes_later_is_used_and_is_a_secret(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ScriptedServer(["the key is sk-comes-later-0123456789"]) as server:
        # An address that is not of this machine is not reached here; what stands for a key there is none.
        client = OpenAIClient("m", base_url="https://api.openai.com/v1", prepared=False)
        assert not client.has_key
        monkeypatch.setenv("OPENAI_API_KEY", "sk-comes-later-0123456789")
        client.prepare()
        assert client.has_key
        assert "sk-comes-later-0123456789" in client.secrets.values()
        assert "sk-comes-later" not in Agent(model="m", base_url=server.base_url).run("q").content
