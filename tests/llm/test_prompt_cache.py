"""What requests hold for the server's prompt cache: a key for the conversation, and marks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from pure_agent_loop import Agent, OpenAIClient
from pure_agent_loop.llm.profiles import Profile, profile_for
from pure_agent_loop.llm.responses.client import ResponsesClient
from pure_agent_loop.testing import ScriptedServer
from pure_agent_loop.testing.faults import status
from tests.helpers import add

TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
SYSTEM: dict[str, Any] = {"role": "system", "content": "Be brief."}
ASKED: dict[str, Any] = {"role": "user", "content": "What is 1 + 2?"}


def called(number: int) -> list[dict[str, Any]]:
    """A step of a history: a call and its result."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": "3"},
    ]


def body_of(
    client: Any, messages: list[dict[str, Any]], tools: Any = TOOLS, **options: Any
) -> dict[str, Any]:
    body: dict[str, Any] = client.request_body(messages, tools, options, True)
    return body


@pytest.mark.parametrize("make", [OpenAIClient, ResponsesClient])
def test_the_steps_of_a_conversation_at_openai_share_a_key(make: Any) -> None:
    client = make("gpt-5", "sk-x", "https://api.openai.com/v1")
    first, second, other = (
        body_of(client, [{"role": "system", "content": system}, asked, *rest])["prompt_cache_key"]
        for system, asked, rest in (
            ("At 12:00", ASKED, []),
            ("At 12:01", ASKED, called(1)),
            ("At 12:00", {**ASKED, "content": "And 4?"}, []),
        )
    )
    assert first == second != other
    assert len(first) <= 64  # the API's limit
    assert "1 + 2" not in first


def test_questions_without_tools_share_the_key_of_their_system_prompt() -> None:
    client = OpenAIClient("gpt-5", "sk-x", "https://api.openai.com/v1")
    keys = {
        body_of(client, [SYSTEM, {**ASKED, "content": question}], None)["prompt_cache_key"]
        for question in "ab"
    }
    assert len(keys) == 1


@pytest.mark.parametrize("make", [OpenAIClient, ResponsesClient])
def test_a_callers_key_wins(make: Any) -> None:
    client = make("gpt-5", "sk-x", "https://api.openai.com/v1")
    assert body_of(client, [ASKED], prompt_cache_key="mine")["prompt_cache_key"] == "mine"
    assert body_of(client, [ASKED], extra_body={"prompt_cache_key": "e"})["prompt_cache_key"] == "e"


@pytest.mark.parametrize(
    "client",
    [
        OpenAIClient("gpt-5", "sk-x", "https://api.openai.com.evil.example/v1"),
        OpenAIClient("gpt-5", "sk-x", "https://llm.example/v1"),
        OpenAIClient("gpt-5", "sk-x", "https://api.openai.com/v1", profile=Profile("x", cache_key=False)),
        ResponsesClient("gpt-5", "sk-x", "https://llm.example/v1"),
    ],
)
def test_no_key_goes_to_servers_that_are_not_known_to_take_one(client: Any) -> None:
    assert "prompt_cache_key" not in body_of(client, [ASKED])


def test_a_server_that_rejects_the_key_is_asked_without() -> None:
    refusal = status(400, "Unrecognized request argument supplied: prompt_cache_key")
    with ScriptedServer([refusal, "3"]) as server:
        client = OpenAIClient("m", "k", server.base_url, profile=Profile("x", cache_key=True))
        assert Agent(llm=client, tools=[add]).run("What is 1 + 2?").content == "3"
    assert ["prompt_cache_key" in request.body for request in server.requests] == [True, False]


def marked(messages: list[dict[str, Any]]) -> list[int]:
    return [
        number
        for number, message in enumerate(messages)
        if isinstance(message["content"], list)
        and any("cache_control" in part for part in message["content"])
    ]


@pytest.mark.parametrize(
    ("url", "model", "marks"),
    [
        ("https://openrouter.ai/api/v1", "anthropic/claude-sonnet-5", True),
        ("https://openrouter.ai/api/v1", "google/gemini-3-pro", False),  # a mark near the end costs double
        ("https://dashscope.aliyuncs.com/compatible-mode/v1", "qwen3-max", True),
        ("https://dashscope.aliyuncs.com/compatible-mode/v1", "deepseek-v4", False),
        ("https://api.openai.com/v1", "gpt-5", False),
    ],
)
def test_marks_go_to_the_models_that_take_them(url: str, model: str, marks: bool) -> None:
    assert profile_for(url, model).cache_marks is marks


def test_the_system_prompt_the_end_and_points_between_are_marked() -> None:
    client = OpenAIClient("m", "k", "http://127.0.0.1:1/v1", profile=Profile("x", cache_marks=True))
    history = [SYSTEM, ASKED, *(message for number in range(40) for message in called(number))]
    kept = [dict(message) for message in history]
    numbers = marked(body_of(client, history)["messages"])
    assert history == kept
    assert numbers[0] == 0
    assert numbers[-1] == len(history) - 1
    assert len(numbers) == 4
    blocks = [right - left for left, right in pairwise(numbers[1:])]
    assert all(15 <= count < 20 for count in blocks)  # the server looks 20 back
    later = marked(body_of(client, [*history, *called(40)])["messages"])
    assert any(0 < new - old <= 20 for new in later for old in numbers[1:])


def test_a_question_that_nothing_follows_is_not_marked_nor_one_with_own_marks() -> None:
    client = OpenAIClient("m", "k", "http://127.0.0.1:1/v1", profile=Profile("x", cache_marks=True))
    assert marked(body_of(client, [SYSTEM, ASKED], None)["messages"]) == []
    own = {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}
    assert marked(body_of(client, [SYSTEM, own, *called(1)])["messages"]) == [1]
