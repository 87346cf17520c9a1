"""Servers that refuse something, each in the words of a real one: learned once, said once, kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pure_agent_loop import Agent, OpenAIClient, Profile, RetryConfig, tool
from pure_agent_loop.llm.profiles import DEFAULT_TEMPERATURE, DefaultFloat
from pure_agent_loop.testing import ScriptedServer, ServerRequest, answer, call, check_history, status

from .talk import HI, TOOLS, client_of, get_answer, get_error

pytestmark = pytest.mark.usefixtures("transport")

ECHO = ["reasoning_content"]
Refusal = Callable[[dict[str, Any]], str | None]


@tool
def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


def has(field: str, words: str) -> Refusal:
    """Refuse a request that has this field."""
    return lambda body: words if field in body else None


def roles(*wanted: str) -> Callable[[dict[str, Any]], bool]:
    return lambda body: " ".join(wanted) in " ".join(m["role"] for m in body["messages"])


def schema_has(keyword: str, words: str) -> Refusal:
    return lambda body: words if f'"{keyword}"' in json.dumps(body.get("tools") or []) else None


def _turns(body: dict[str, Any]) -> str | None:
    words = (
        "After the optional system message, conversation roles must alternate user/assistant/user/assistant"
    )
    return words if roles("user", "user")(body) else None


def _after_tool(body: dict[str, Any]) -> str | None:
    return "Unexpected role 'user' after role 'tool'" if roles("tool", "user")(body) else None


def _no_null(body: dict[str, Any]) -> str | None:
    words = "messages.2.content: Input should be a valid string [input=None]"
    return words if any(m["content"] is None for m in body["messages"]) else None


def _one_call(body: dict[str, Any]) -> str | None:
    many = any(len(m.get("tool_calls") or ()) > 1 for m in body["messages"])
    return "This model only supports single tool-calls at once!" if many else None


def _ids(body: dict[str, Any]) -> str | None:
    ids = [c["id"] for m in body["messages"] for c in m.get("tool_calls") or ()]
    words = "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."
    return words if any(len(each) != 9 or not each.isalnum() for each in ids) else None


def _echo(body: dict[str, Any]) -> str | None:
    words = "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2"
    lacking = [m for m in body["messages"] if m.get("tool_calls") and not m.get("reasoning_content")]
    return words if lacking else None


def _needs_stream(body: dict[str, Any]) -> str | None:
    words = "This model only support stream mode, please enable the stream parameter to access the model."
    return None if body.get("stream") else words


def _no_system(body: dict[str, Any]) -> str | None:
    return "System role not supported" if roles("system")(body) else None


SETTINGS: dict[str, Any] = {
    "top_p": 0.9,
    "max_tokens": 50,
    "parallel_tool_calls": True,
    "reasoning_effort": "low",
}
REFUSALS: dict[str, Refusal] = {
    "OpenAI o-series, max_tokens": has(
        "max_tokens",
        "Unsupported parameter: 'max_tokens' is not supported with this model. "
        "Use 'max_completion_tokens' instead.",
    ),
    "OpenAI o-series, temperature": has(
        "temperature",
        "Unsupported value: 'temperature' does not support 0.2 with this model. "
        "Only the default (1) value is supported.",
    ),
    "OpenAI, stream": has("stream", "Your organization must be verified to stream this model."),
    "Azure, old": has("stream_options", "Unrecognized request argument supplied: stream_options"),
    "Mistral, extra field": has(
        "stream_options",
        '[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]',
    ),
    "Claude, both": lambda body: (
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        if {"temperature", "top_p"} <= set(body)
        else None
    ),
    "Google, schema": schema_has(
        "additionalProperties",
        'Invalid JSON payload received. Unknown name "additionalProperties" at '
        "'tools[0].function_declarations[0].parameters': Cannot find field.",
    ),
    "Cerebras, schema": schema_has(
        "default", "tools.0.function.parameters: keyword 'default' is not supported."
    ),
    "Gemma, system": _no_system,
    "Mistral, turns": _turns,
    "Mistral, ids": _ids,
    "TGI, null content": _no_null,
    "Llama, single calls": _one_call,
    "Kimi, thinking back": _echo,
    "DeepSeek, thinking back": lambda body: (
        "The `reasoning_content` in the thinking mode must be passed back to the API."
        if _echo(body)
        else None
    ),
    "QwQ, stream only": _needs_stream,
}
OF_CHOICES: dict[str, Refusal] = {
    "OpenAI o-series, temperature": has(
        "temperature",
        "Unsupported value: 'temperature' does not support 0.2 with this model. "
        "Only the default (1) value is supported.",
    ),
    "OpenAI, old": has("parallel_tool_calls", "Unrecognized request argument supplied: parallel_tool_calls"),
    "Google, unknown name": has(
        "parallel_tool_calls",
        'Invalid JSON payload received. Unknown name "parallel_tool_calls": Cannot find field.',
    ),
    "serde, unknown field": has(
        "top_p", "unknown field `top_p`, expected one of `messages`, `model`, `temperature`, `max_tokens`"
    ),
    "xAI, on this model": has("top_p", "Argument not supported on this model: top_p"),
    "Bedrock, deprecated": has("top_p", "`top_p` is deprecated for this model."),
    "Groq, unsupported property": has("top_p", "property 'top_p' is unsupported"),
    "Groq, effort": has("reasoning_effort", "`reasoning_effort` is not supported with this model"),
    "xAI, camel case": has("reasoning_effort", "Model grok-4 does not support parameter reasoningEffort."),
}


class Strict:
    """Plays a two-step task with two calls, and refuses what it does not take."""

    def __init__(self, refuse: Refusal) -> None:
        self.refuse = refuse
        self.refused: list[str] = []
        self.problems: list[str] = []

    def __call__(self, request: ServerRequest) -> Any:
        self.problems += check_history(request.messages, extra_keys=ECHO)
        words = self.refuse(request.body)
        if words is not None:
            self.refused.append(words)
            return status(400, words)
        if request.messages[-1]["role"] == "user" and not any(m["role"] == "tool" for m in request.messages):
            return answer(call("add", a=1), call("add", a=2, b=3), reasoning="Both at once.")
        return "3 and 5" if len(self.results(request)) >= 2 else "too few results"

    @staticmethod
    def results(request: ServerRequest) -> list[str]:
        return [m["content"] for m in request.messages if m["role"] == "tool"]


HISTORY = [
    {"role": "user", "content": "Hello."},
    {"role": "user", "content": "Are you there?"},
]


@pytest.mark.parametrize("refuse", REFUSALS.values(), ids=REFUSALS)
def test_agent_learns_once_and_continues(refuse: Refusal):
    strict = Strict(refuse)
    with ScriptedServer(handler=strict, extra_keys=ECHO) as server:
        settings = {**SETTINGS, "stream": False} if refuse is _needs_stream else dict(SETTINGS)
        agent = Agent(
            "m",
            "k",
            server.base_url,
            tools=[add],
            retry=RetryConfig(max_retries=0),
            tool_mode="native",
            **settings,
        )
        talk = agent.conversation()
        talk.messages = HISTORY
        notices = []
        for task in ("Add.", "And again?", "Thanks."):
            events = list(talk.send_stream_sync(task))
            notices += [e.content for e in events if "From now on" in str(e.content)]
            end = events[-1].data
            assert (end["content"], end["stop_reason"]) == ("3 and 5", "completed")
    assert notices
    assert len(notices) == len(set(notices)) == len(strict.refused)  # each lesson is drawn once
    assert strict.problems == []


@pytest.mark.parametrize("refuse", OF_CHOICES.values(), ids=OF_CHOICES)
def test_explicit_option_is_never_left_out(refuse: Refusal):
    strict = Strict(refuse)
    with ScriptedServer(handler=strict) as server:
        agent = Agent("m", "k", server.base_url, tools=[add], temperature=0.2, tool_mode="native", **SETTINGS)
        for _ in range(2):  # nothing was learned either
            result = agent.run("Add.")
            refused = next(name for name in ("temperature", *SETTINGS) if refuse({name: 1}))
            assert result.stop_reason == "error"
            assert f"The server rejected {refused}, set by this program." in str(result.state.failure)
            assert strict.refused[-1] in str(result.state.failure)
        assert len(strict.refused) == len(server.requests) == 2


def test_the_default_temperature_is_left_out_and_another_one_is_not():
    refuse = has("temperature", "Unsupported parameter: 'temperature' is not supported with this model.")
    for given, reason in (
        ({}, "completed"),
        ({"temperature": 0.7}, "completed"),
        ({"temperature": 0.6}, "error"),
    ):
        with ScriptedServer(handler=Strict(refuse)) as server:
            agent = Agent("m", "k", server.base_url, tools=[add], **given)
            assert agent.run("Add.").stop_reason == reason
    with ScriptedServer(handler=Strict(refuse)) as server:
        client = client_of(server)
        assert Agent(llm=client, tools=[add]).run("Add.").stop_reason == "completed"
        assert Agent(llm=client, tools=[add]).run("Add.").stop_reason == "completed"
        assert Agent(llm=client, tools=[add], temperature=0.1).run("Add.").stop_reason == "error"


def test_user_after_tool_is_learned_where_it_happens():
    strict = Strict(_after_tool)
    with ScriptedServer(handler=strict) as server:
        agent = Agent("m", "k", server.base_url, tools=[add], limits=None)
        history = [
            {"role": "user", "content": "Add."},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": "1"},
        ]
        result = agent.run("And now?", history)
        assert result.stop_reason == "completed"
        assert len(strict.refused) == 1
        assert [m["role"] for m in server.requests[-1].messages][-3:] == ["tool", "assistant", "user"]
    assert [m["role"] for m in result.messages][2:4] == ["tool", "user"]  # the history itself stays as it was


def test_thinking_goes_back_only_where_it_is_demanded_and_only_in_the_round():
    def model(request: ServerRequest) -> Any:
        last = request.messages[-1]
        if last["role"] == "user":
            return answer(call("add", a=1), reasoning=f"thinking about {last['content']}")
        return answer("done", reasoning="that was all")

    with ScriptedServer(handler=model, extra_keys=ECHO) as server:
        plain = Agent("m", "k", server.base_url, tools=[add])
        plain.run("one")
        assert not any("reasoning_content" in m for r in server.requests for m in r.messages)
        client = client_of(server, profile=Profile("mine", reasoning_echo="reasoning_content"))
        talk = Agent(llm=client, tools=[add]).conversation()
        talk.send_sync("one")
        talk.send_sync("two")
        sent = [m.get("reasoning_content") for m in server.requests[-1].messages if m["role"] == "assistant"]
    assert sent == [None, None, "thinking about two"]
    assert not any("meta" in m or "reasoning_content" in m for m in talk.messages)


def test_a_history_with_thinking_in_it_is_read_and_not_sent():
    thought = {"role": "assistant", "content": "hm", "reasoning_content": "deep"}
    with ScriptedServer(["fine"]) as server:
        Agent("m", "k", server.base_url).run("go on", [{"role": "user", "content": "hi"}, thought])
        assert "deep" not in json.dumps(server.requests[0].messages)


def test_a_thinking_level_that_a_model_does_not_know_is_an_error():
    refusal = status(400, "`reasoning_effort` must be one of `none` or `default`")
    profile = Profile("effort", thinking={"reasoning_effort": "{level}"})
    with ScriptedServer([refusal]) as server:
        client = client_of(server, thinking_level="high", profile=profile)
        error = get_error(client)
        assert len(server.requests) == 1
    assert "rejected reasoning_effort" in str(error)
    assert "thinking_level='off'" in str(error)
    assert error.kind == "bad_request"


def test_learned_profile_can_be_pasted():
    with ScriptedServer(
        [status(400, "Unsupported parameter: 'temperature' is not supported"), "hi"]
    ) as server:
        client = client_of(server)
        get_answer(client, temperature=DefaultFloat(DEFAULT_TEMPERATURE))
    code = client.profile.to_code()
    assert code == "Profile('any other server', refuses=('temperature',))"
    assert eval(code, {"Profile": Profile}) == client.profile


NOT_LEARNED = [
    "Invalid 'temperature': must be between 0 and 2",
    "max_tokens is too large: 90000. This model supports at most 16384 completion tokens.",
    "Invalid value for 'tools[0].function.name'",
    "The model `m` does not exist",
    "unknown model m. temperature was 0.2",
    "unknown field `thinkin`, expected one of `messages`, `model`, `temperature`, `max_tokens`",
    "max_tokens is too large: 90000; an unsupported value",
    "Invalid value for temperature: not allowed above 1",
    "The user is not allowed to access this model",
    "messages[2].content: Field required",
    "messages: at least one message is required",
    "",
]


@pytest.mark.parametrize("words", NOT_LEARNED)
def test_error_that_is_not_a_rejection_is_raised_without_a_retry(words: str):
    with ScriptedServer([status(400, words)]) as server:
        client = client_of(server, model="grok-temperature-reasoning")
        error = get_error(client, tools=TOOLS, temperature=0.2, max_tokens=90000, user="ann")
        assert len(server.requests) == 1
    assert error.kind == "bad_request"


def test_repeated_rejection_ends_after_one_adaptation():
    refuse = status(400, "Unsupported parameter: 'temperature', 'top_p' are not supported")
    with ScriptedServer(handler=lambda request: refuse) as server:
        get_error(client_of(server), temperature=DefaultFloat(DEFAULT_TEMPERATURE), top_p=0.5)
        assert len(server.requests) == 2


def test_the_users_extra_body_is_the_last_word():
    refuse = status(400, "Unsupported parameter: 'temperature' is not supported")
    with ScriptedServer(handler=lambda request: refuse) as server:
        get_error(client_of(server), extra_body={"temperature": 0.2})
        assert all(request.body["temperature"] == 0.2 for request in server.requests)


def test_a_profile_in_one_line():
    profile = Profile("mine", refuses=["temperature"], system_role="user", streaming=False)
    with ScriptedServer(["hi"]) as server:
        Agent("m", "k", server.base_url, profile=profile, system_prompt="Be brief.").run("Hello.")
        body = server.requests[0].body
    assert body == {"model": "m", "messages": [{"role": "user", "content": "Be brief.\n\nHello."}]}
    client = OpenAIClient("m", "k", "https://models.example/v1", profile=profile)
    assert client.request_body(HI, None, {"temperature": 1}, stream=True) == {"model": "m", "messages": HI}
