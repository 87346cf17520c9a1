"""What goes over the wire: the bodies and options of requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.addresses import is_loopback
from pure_agent_loop.llm.http_client import encode_body
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.llm.profiles import (
    DEFAULT_TEMPERATURE,
    PROFILES,
    THINKING_LEVELS,
    DefaultFloat,
    Profile,
    profile_for,
    register,
)
from pure_agent_loop.testing import ScriptedServer, call

from .talk import HI, TOOLS, WAYS, client_of, get_answer

pytestmark = pytest.mark.usefixtures("transport")

OPENAI = "https://api.openai.com/v1"
ANY = "https://models.example/v1"


def thinking(model: str, url: str, level: str) -> dict[str, Any]:
    """The fields a thinking level brings, and whether the temperature stays."""
    client = OpenAIClient(model, "k", url, level)
    body = client.request_body(HI, None, {"temperature": DefaultFloat(DEFAULT_TEMPERATURE)}, stream=False)
    assert body.pop("model") == model
    assert body.pop("messages") == HI
    body.pop("prompt_cache_key", None)
    return body


@pytest.mark.parametrize(
    ("model", "url", "expected"),
    [
        ("gpt-4o-mini", OPENAI, {"temperature": 0.7, "thinking": {"type": "enabled"}}),
        ("o1-preview", OPENAI, {"reasoning_effort": "high"}),
        ("o3", OPENAI, {"reasoning_effort": "high"}),
        ("o4-mini", OPENAI, {"reasoning_effort": "high"}),
        ("gpt-5-nano", OPENAI, {"reasoning_effort": "high"}),
        ("gpt-5.1", ANY, {"reasoning_effort": "high"}),
        ("gpt-5-chat-latest", OPENAI, {"temperature": 0.7, "thinking": {"type": "enabled"}}),
        ("o1x", OPENAI, {"temperature": 0.7, "thinking": {"type": "enabled"}}),
        (
            "deepseek-chat",
            "https://api.deepseek.com",
            {"temperature": 0.7, "thinking": {"type": "enabled"}, "reasoning_effort": "high"},
        ),
        (
            "qwen3-max",
            "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            {"temperature": 0.7, "enable_thinking": True},
        ),
        ("any/model", "https://openrouter.ai/api/v1", {"temperature": 0.7, "reasoning": {"effort": "high"}}),
    ],
)
def test_thinking_by_profile(model: str, url: str, expected: dict[str, Any]):
    assert thinking(model, url, "high") == expected
    gone = {"reasoning_effort", "thinking", "enable_thinking", "reasoning"}
    assert thinking(model, url, "off") == {key: v for key, v in expected.items() if key not in gone}


@pytest.mark.parametrize("level", [level for level in THINKING_LEVELS if level not in ("off", "none")])
def test_every_level_reaches_the_wire(level: str):
    assert thinking("o3", OPENAI, level) == {"reasoning_effort": level}


def test_an_unknown_level_is_refused_when_it_is_given():
    with pytest.raises(ConfigError, match="thinking_level='huge'"):
        OpenAIClient("m", "k", ANY, "huge")
    with pytest.raises(ConfigError, match="thinking_level='huge'"):
        OpenAIClient("m", "k", ANY).request_body(HI, None, {"thinking_level": "huge"}, stream=False)


def test_a_level_of_one_request_wins():
    body = OpenAIClient("o3", "k", OPENAI, "low").request_body(
        HI, None, {"thinking_level": "high"}, stream=False
    )
    assert body["reasoning_effort"] == "high"
    assert "thinking_level" not in body


def test_custom_profile():
    before = list(PROFILES)
    try:
        register(
            Profile("mine", url=r"models\.example", thinking={"think": "{level}"}, refuses=["stream_options"])
        )
        client = OpenAIClient("m", "k", ANY, "low")
        assert client.request_body(HI, None, {}, stream=True) == {
            "model": "m",
            "messages": HI,
            "stream": True,
            "think": "low",
        }
    finally:
        PROFILES[:] = before
    given = OpenAIClient("m", "k", ANY, profile=Profile("given", refuses=["temperature"]))
    assert "temperature" not in given.request_body(HI, None, {"temperature": 1}, stream=False)
    assert profile_for(ANY, "m").name == "any other server"


def test_the_whole_body_of_a_plain_and_a_streamed_request():
    with ScriptedServer(["a", "b"]) as server:
        client = client_of(server)
        options = {"temperature": 0.5, "max_tokens": 10, "top_p": None, "tools": TOOLS}
        get_answer(client, "plain", **options)
        get_answer(client, "stream", **options)
        plain, streamed = (request.body for request in server.requests)
    expected = {"model": "m", "messages": HI, "tools": TOOLS, "temperature": 0.5, "max_tokens": 10}
    assert plain == expected
    assert streamed == {**expected, "stream": True, "stream_options": {"include_usage": True}}
    assert list(plain) == ["model", "messages", "tools", "temperature", "max_tokens"]


@pytest.mark.parametrize("way", WAYS)
def test_headers_and_query(way: str):
    with ScriptedServer(["a"], api_key="k") as server:
        get_answer(
            client_of(server, default_headers={"X-Mine": "1"}),
            way,
            extra_headers={"X-Once": "2"},
            extra_query={"api-version": "7"},
            timeout=30,
        )
        request = server.requests[0]
    assert request.path.endswith("/v1/chat/completions?api-version=7")
    assert (request.headers["x-mine"], request.headers["x-once"]) == ("1", "2")
    assert request.headers["authorization"] == "Bearer k"
    assert request.headers["content-type"] == "application/json"
    assert set(request.body) <= {"model", "messages", "stream", "stream_options"}


def test_extra_body_comes_last_and_the_users_fields_win():
    with ScriptedServer(["a"]) as server:
        get_answer(
            client_of(server, thinking_level="high"),
            thinking={"type": "disabled"},
            temperature=0.1,
            seed=1,
            extra_body={"seed": 2, "guided": {"json": True}, "stop": None},
        )
        body = server.requests[0].body
    assert body["thinking"] == {"type": "disabled"}
    assert (body["temperature"], body["seed"], body["guided"], body["stop"]) == (0.1, 2, {"json": True}, None)
    assert "extra_body" not in body


def test_extra_body_reaches_even_a_reasoning_model():
    client = OpenAIClient("o3", "k", OPENAI)
    options = {"temperature": 0.7, "extra_body": {"temperature": 1}}
    assert client.request_body(HI, None, options, stream=False)["temperature"] == 1


def test_a_server_that_must_not_be_asked_for_a_stream():
    with ScriptedServer(["a", "b"]) as server:
        assert get_answer(client_of(server), "stream", stream=False).content == "a"
        assert get_answer(client_of(server), "plain", stream=True).content == "b"
        for request in server.requests:
            assert "stream" not in request.body
            assert "stream_options" not in request.body


def test_the_history_is_not_changed_by_sending_it():
    history = [*HI, {"role": "assistant", "content": "x\ud800"}, {"role": "user", "content": "and?"}]
    before = json.dumps(history)
    with ScriptedServer(["a"]) as server:
        get_answer(client_of(server), messages=history)
        assert [message["content"] for message in server.requests[0].messages] == ["hi", "x\ufffd", "and?"]
    assert json.dumps(history) == before


@pytest.mark.parametrize("way", WAYS)
def test_a_history_of_five_megabytes(way: str):
    text = "naïve 😀 " * 500_000
    with ScriptedServer(["a"]) as server:
        assert get_answer(client_of(server), way, messages=[{"role": "user", "content": text}]).content == "a"
        assert server.requests[0].messages[0]["content"] == text


def test_bodies_are_strict_json_whatever_is_in_them():
    loop: dict[str, Any] = {}
    loop["me"] = loop
    odd = {"a": "\ud83d\ude00 \ud800", "b": float("nan"), "c": {1, 2}, "d": b"\xff", "e": object(), "f": loop}
    for body in ({"x": odd["b"]}, {"x": odd["a"]}, odd):
        json.loads(encode_body(body).decode(), parse_constant=lambda name: pytest.fail(name))
    assert json.loads(encode_body({"x": odd["a"]})) == {"x": "😀 \ufffd"}


def test_calls_and_results_go_back_as_they_are():
    history = [
        *HI,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "x", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "x", "content": "1"},
    ]
    with ScriptedServer([call("add", a=2)]) as server:
        response = get_answer(client_of(server), messages=history, tools=TOOLS)
        assert server.requests[0].messages == history
    assert [c.arguments for c in response.tool_calls] == [{"a": 2}]


# -- keys and addresses ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://127.9.9.9/v1", True),
        ("http://localhost:11434/v1", True),
        ("http://models.localhost/v1", True),
        ("http://[::1]:8080/v1", True),
        ("http://0.0.0.0:8000/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://localhost.example.com/v1", False),
        ("http://192.168.1.2/v1", False),
        ("http://[::1", False),
        ("", False),
    ],
)
def test_loopback(url: str, expected: bool):
    assert is_loopback(url) is expected


def test_a_server_here_needs_no_key():
    with ScriptedServer(["a"]) as server:
        assert get_answer(OpenAIClient("m", base_url=server.base_url)).content == "a"
        assert server.requests[0].headers["authorization"] == "Bearer not-needed"


def test_a_server_elsewhere_needs_one():
    with pytest.raises(ConfigError) as caught:
        OpenAIClient("m").prepare()
    text = str(caught.value)
    for word in ("https://api.openai.com/v1", "api_key=", "OPENAI_API_KEY", "11434", "model='local'"):
        assert word in text


def test_key_and_address_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    with ScriptedServer(["a", "b"], api_key="from-env") as server:
        monkeypatch.setenv("OPENAI_API_KEY", " from-env\n")
        monkeypatch.setenv("OPENAI_BASE_URL", f" {server.base_url}\n")
        assert get_answer(OpenAIClient("m")).content == "a"
        monkeypatch.setenv("OPENAI_API_KEY", "other")
        assert get_answer(OpenAIClient("m", "from-env")).content == "b"


@pytest.mark.parametrize("key", ["se\ncret", "se\x00cret", "sécret", "se\u200bcret"])
def test_invalid_key_is_refused_and_not_shown(key: str):
    with pytest.raises(ConfigError) as caught:
        OpenAIClient("m", key, ANY)
    assert "api_key" in str(caught.value)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000/v1",
        "localhost:11434",
        "ftp://x/v1",
        "http://",
        "http://[::1",
        "/v1",
        "http://host:99999/v1",
        "http://host/a\nb/v1",
    ],
)
def test_invalid_base_url_is_refused(url: str):
    with pytest.raises(ConfigError, match="base_url"):
        OpenAIClient("m", "k", url)


def test_settings_the_sdk_does_not_know():
    with pytest.raises(ConfigError, match="nonsense"):
        OpenAIClient("m", "k", ANY, nonsense=1)
