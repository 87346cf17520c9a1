"""Profiles of providers: what each gets for a thinking level, and what its usage says of the cache."""

import pytest

from pure_agent_loop import Agent, ConfigError, OpenAIClient, RetryConfig
from pure_agent_loop.llm.profiles import Profile, profile_for
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.testing import ScriptedServer, answer, call
from pure_agent_loop.testing.faults import status

PROVIDERS = {
    "DeepSeek": ("https://api.deepseek.com/v1", "deepseek-v4"),
    "DashScope": ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "qwen3"),
    "Kimi": ("https://api.moonshot.ai/v1", "kimi-k2.6"),
    "Kimi K3": ("https://api.moonshot.cn/v1", "kimi-k3.1"),
    "GLM": ("https://api.z.ai/api/paas/v4", "glm-4.7"),
    "GLM 5.2": ("https://api.z.ai/api/paas/v4", "glm-5.2"),
    "GLM 5.3": ("https://open.bigmodel.cn/api/paas/v4", "glm-5.3"),
    "MiniMax": ("https://api.minimaxi.com/v1", "minimax-m3"),
    "Mistral": ("https://api.mistral.ai/v1", "mistral-large"),
    "Groq and xAI": ("https://api.x.ai/v1", "grok-4.20-reasoning"),
    "Grok 4.3": ("https://api.x.ai/v1", "grok-4.3"),
    "Grok 4.5 and later": ("https://api.x.ai/v1", "grok-4.7"),
    "Qwen3 at Groq": ("https://api.groq.com/openai/v1", "qwen/qwen3-32b"),
    "gpt-oss at Groq and Cerebras": ("https://api.cerebras.ai/v1", "gpt-oss-120b"),
    "Cerebras": ("https://api.cerebras.ai/v1", "qwen-3.8-27b"),
    "Ollama": ("http://127.0.0.1:11434/v1", "qwen3"),
    "Gemini": ("https://generativelanguage.googleapis.com/v1beta/openai", "gemini-3-pro"),
    "OpenRouter": ("https://openrouter.ai/api/v1", "x"),
}


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_is_known_by_its_address(name):
    profile = profile_for(*PROVIDERS[name])
    assert profile.name == name
    assert profile.thinking_fields("high")
    assert profile.thinking_fields("off") == {}


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("DeepSeek", {"thinking": {"type": "disabled"}}),
        ("DashScope", {"enable_thinking": False}),
        ("OpenRouter", {"reasoning": {"enabled": False}}),
        ("GLM 5.2", {"thinking": {"type": "disabled"}}),
        ("Grok 4.3", {"reasoning_effort": "none"}),
        ("Qwen3 at Groq", {"reasoning_effort": "none"}),
        ("Ollama", {"reasoning_effort": "none"}),
        ("Gemini", {"reasoning_effort": "none"}),
        ("Kimi K3", {}),
    ],
)
def test_thinking_is_switched_off_where_that_is_possible(name, fields):
    assert profile_for(*PROVIDERS[name]).thinking_fields("none") == fields


ALWAYS_THINK = {
    "GLM 5.3": PROVIDERS["GLM 5.3"],
    "Grok 4.5 and later": PROVIDERS["Grok 4.5 and later"],
    "gpt-oss at Groq and Cerebras": PROVIDERS["gpt-oss at Groq and Cerebras"],
    "MiniMax M2": ("https://api.minimax.io/v1", "MiniMax-M2.1"),
}


@pytest.mark.parametrize("name", ALWAYS_THINK)
def test_a_model_that_always_thinks_rejects_the_level_none(name):
    url, model = ALWAYS_THINK[name]
    with pytest.raises(ConfigError, match=f"thinking_level='none': {name} always thinks"):
        OpenAIClient(model, "k", url, "none")
    assert profile_for(url, model).thinking_fields("off") == {}


def test_a_level_that_a_model_lacks_is_an_error():
    glm = profile_for("https://api.z.ai/v1", "glm-5.3")
    assert glm.thinking_fields("high")["reasoning_effort"] == "high"
    with pytest.raises(ConfigError, match=r"'medium': GLM 5\.3 has no such level\. Use 'low' or 'high'"):
        glm.thinking_fields("medium")


def test_a_client_leaves_thinking_to_the_model_unless_a_level_is_set():
    url, model = PROVIDERS["GLM 5.2"]
    question = [{"role": "user", "content": "q"}]
    unset, off = (OpenAIClient(model, "k", url, *level, prepared=False) for level in ([], ["none"]))
    assert "thinking" not in unset.request_body(question, None, {}, True)
    assert off.request_body(question, None, {}, True)["thinking"] == {"type": "disabled"}


def test_thinking_of_all_rounds_goes_back_to_deepseek():
    profile = profile_for(*PROVIDERS["DeepSeek"])

    def look() -> str:
        """Look."""
        return "seen"

    items = [answer(call("look"), reasoning="first"), "a", answer(call("look"), reasoning="second"), "b"]
    with ScriptedServer(items, extra_keys=["reasoning_content"]) as server:
        agent = Agent(llm=OpenAIClient("m", "k", server.base_url, profile=profile), tools=[look])
        conversation = agent.conversation()
        conversation.send_sync("one")
        conversation.send_sync("two")
        sent = server.requests[-1].messages
    assert [m["reasoning_content"] for m in sent if m.get("tool_calls")] == ["first", "second"]


def test_a_switch_that_a_server_rejects_is_left_out():
    refusal = status(400, "Unrecognized request argument supplied: thinking", kind="invalid_request_error")
    profile = Profile("mine", thinking_off={"thinking": {"type": "disabled"}})
    with ScriptedServer([refusal, "a"]) as server:
        agent = Agent(llm=OpenAIClient("m", "k", server.base_url, "none", profile=profile))
        assert agent.run("q").output == "a"
        assert ["thinking" in request.body for request in server.requests] == [True, False]


def test_an_invalid_call_that_groq_rejects_itself_is_tried_again():
    words = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
    refusal = status(400, words, kind="invalid_request_error", error_code="tool_use_failed")
    with ScriptedServer([refusal, "a"]) as server:
        agent = Agent(
            llm=OpenAIClient("m", "k", server.base_url), retry=RetryConfig(base_delay=0.001, jitter=0)
        )
        assert agent.run("q").output == "a"


@pytest.mark.parametrize(
    ("report", "cached"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 3}}, 3),
        ({"prompt_cache_hit_tokens": 4}, 4),
        ({"cached_tokens": 5}, 5),
        ({"num_cached_tokens": 6}, 6),
        ({"prompt_tokens_details": {"cached_tokens": 30}}, 10),
        ({}, None),
    ],
)
def test_cached_tokens_are_read_in_every_form(report, cached):
    usage = TokenUsage.from_openai({"prompt_tokens": 10, "completion_tokens": 1, **report}).checked()
    assert usage.cached_tokens == cached
