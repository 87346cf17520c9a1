"""What a server adds to an answer or a call goes back to it, and to nobody else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_client_conformance import ScriptedServer
from llm_client_conformance.quirks import Expected, Quirk, RawBody
from pure_agent_loop import Agent, BaseLLMClient, LLMResponse, RetryConfig, tool
from pure_agent_loop.llm.extra import joined
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions import JsonlStore

SIGN = {"vendor": {"seal": "c2VhbA==", "parts": [None, 0, {"x": ""}]}}
FUNCTION = {"name": "add", "arguments": '{"a": 1, "b": 2}'}
CALL = {"index": 0, "id": "c1", "type": "function", "function": FUNCTION}
SECOND = {
    "index": 1,
    "id": "c2",
    "type": "function",
    "function": {"name": "add", "arguments": '{"a": 3, "b": 4}'},
}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {
        "id": "x",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def streamed(*deltas: dict[str, Any], finish: str = "tool_calls") -> RawBody:
    chunks = [*map(chunk, deltas), chunk({}, finish)]
    body = "".join(f"data: {json.dumps(one)}\n\n" for one in chunks) + "data: [DONE]\n\n"
    return RawBody(Quirk("", "", body.encode(), Expected()))


def whole(message: dict[str, Any], finish: str = "tool_calls") -> RawBody:
    data = {
        "id": "x",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    return RawBody(Quirk("", "", json.dumps(data).encode(), Expected(), "application/json"))


SAID = streamed({"role": "assistant", "content": "3"}, finish="stop")


def serving(*steps: Any) -> ScriptedServer:
    return ScriptedServer(list(steps), check=False)


def agent_at(server: ScriptedServer, model: str = "m-1", **options: Any) -> Agent:
    options = {"tools": [add], "retry": RetryConfig(max_retries=0), **options}
    return Agent(model=model, api_key="k", base_url=server.base_url, **options)


def answers(request: Any) -> list[dict[str, Any]]:
    return [message for message in request.messages if message["role"] == "assistant"]


FORMS = {
    "with the call": (streamed({"tool_calls": [{**CALL, "seal": SIGN}]}), {"seal": SIGN}),
    "behind it": (
        streamed({"tool_calls": [CALL]}, {"tool_calls": [{"index": 0, "seal": SIGN}]}),
        {"seal": SIGN},
    ),
    "before it": (
        streamed({"tool_calls": [{"index": 0, "seal": SIGN}]}, {"tool_calls": [CALL]}),
        {"seal": SIGN},
    ),
    "in its function": (
        streamed({"tool_calls": [{**CALL, "function": {**FUNCTION, "mark": "m"}}]}),
        {"function": {**FUNCTION, "mark": "m"}},
    ),
    "in pieces": (
        streamed(
            {"tool_calls": [{**CALL, "seal": {"text": "ab", "kind": "k"}}]},
            {"tool_calls": [{"index": 0, "seal": {"text": "cd", "kind": "k"}}]},
        ),
        {"seal": {"text": "abcd", "kind": "k"}},
    ),
    "whole": (
        whole({"role": "assistant", "content": None, "tool_calls": [{**CALL, "seal": SIGN}]}),
        {"seal": SIGN},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_field_of_a_call_comes_back_with_it(form):
    answer, wanted = FORMS[form]
    with serving(answer, SAID) as server:
        result = agent_at(server).run("1 + 2?")
        assert result.stop_reason == "completed"
        [message] = answers(server.requests[1])
    [call] = message["tool_calls"]
    assert call == {name: value for name, value in {**CALL, **wanted}.items() if name != "index"}


def test_only_the_signed_one_of_several_calls_is_signed():
    with serving(streamed({"tool_calls": [{**CALL, "seal": SIGN}, SECOND]}), SAID) as server:
        agent_at(server).run("both?")
        [message] = answers(server.requests[1])
    assert [call.get("seal") for call in message["tool_calls"]] == [SIGN, None]


def test_fields_of_the_message_come_back_joined_and_empty_ones_do_not():
    pieces = [
        {"steps": [{"type": "t", "index": 0, "form": "v1", "text": "Let "}], "note": None, "refusal": None},
        {"steps": [{"type": "t", "index": 0, "form": "v1", "text": "me"}], "list": []},
        {
            "steps": [
                {"type": "t", "index": 0, "form": "v1", "sign": "s=="},
                {"type": "sealed", "index": 0, "data": "d"},
            ]
        },
    ]
    with serving(streamed(*pieces, {"tool_calls": [CALL]}), SAID) as server:
        agent_at(server).run("1 + 2?")
        [message] = answers(server.requests[1])
    assert set(message) == {"role", "content", "tool_calls", "steps"}
    assert message["steps"] == [
        {"type": "t", "index": 0, "form": "v1", "text": "Let me", "sign": "s=="},
        {"type": "sealed", "index": 0, "data": "d"},
    ]


def test_a_message_without_calls_is_signed_too_and_through_messages_of_the_result():
    with serving(whole({"role": "assistant", "content": "hi", "seal": SIGN}, "stop"), SAID) as server:
        agent = agent_at(server)
        first = agent.run("hello")
        handed = json.loads(json.dumps(first.messages))  # as somebody keeps them in a database
        agent.run("and?", messages=handed)
        [message, *_] = answers(server.requests[1])
    assert message == {"role": "assistant", "content": "hi", "seal": SIGN}


def test_another_model_does_not_get_them_and_the_first_one_gets_them_again():
    signed = whole(
        {"role": "assistant", "content": None, "tool_calls": [{**CALL, "seal": SIGN}], "mark": "m"}
    )
    with serving(signed, SAID, SAID, SAID) as server:
        one, other = agent_at(server), agent_at(server, "m-2")
        first = one.run("1 + 2?")
        second = other.run("again", messages=first.messages)
        third = one.run("and again", messages=second.messages)
        assert third.stop_reason == "completed"
        foreign, own = answers(server.requests[2])[0], answers(server.requests[3])[0]
    assert "mark" not in foreign
    assert "seal" not in foreign["tool_calls"][0]
    assert own["mark"] == "m"
    assert own["tool_calls"][0]["seal"] == SIGN


def test_another_server_does_not_get_them():
    signed = whole(
        {"role": "assistant", "content": None, "tool_calls": [{**CALL, "seal": SIGN}], "mark": "m"}
    )
    with serving(signed, SAID) as server, serving(SAID) as elsewhere:
        first = agent_at(server).run("1 + 2?")
        agent_at(elsewhere).run("again", messages=first.messages)
        [message, _] = answers(elsewhere.requests[0])
    assert set(message) == {"role", "content", "tool_calls"}
    assert set(message["tool_calls"][0]) == {"id", "type", "function"}


def test_a_session_keeps_them(tmp_path):
    signed = whole(
        {"role": "assistant", "content": None, "tool_calls": [{**CALL, "seal": SIGN}], "mark": "m"}
    )
    with serving(signed, SAID, SAID) as server:
        agent_at(server, sessions=JsonlStore(tmp_path)).run("1 + 2?", session_id="s")
        agent_at(server, sessions=JsonlStore(tmp_path)).run("and?", session_id="s")  # read from the disk
        message = answers(server.requests[2])[0]
        kept = SessionManager(tmp_path).load("s").messages
    assert message["tool_calls"][0]["seal"] == SIGN
    assert message["mark"] == "m"
    assert any(m.get("mark") == "m" for m in kept)


class Wrapper(BaseLLMClient):
    """Somebody's own client around another one; it knows nothing of `meta`."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def chat(self, messages: Any, tools: Any = None, **kwargs: Any) -> LLMResponse:
        response: LLMResponse = await self._inner.chat(messages, tools, **kwargs)
        return response


def test_they_pass_through_a_client_around_another():
    signed = whole(
        {"role": "assistant", "content": None, "tool_calls": [{**CALL, "seal": SIGN}], "mark": "m"}
    )
    with serving(signed, SAID) as server:
        agent = Agent(llm=Wrapper(agent_at(server)._kit.client), tools=[add])
        assert agent.run("1 + 2?").stop_reason == "completed"
        [message] = answers(server.requests[1])
    assert message["tool_calls"][0]["seal"] == SIGN
    assert message["mark"] == "m"


def test_rejected_history_part_is_left_out_from_then_on():
    signed = whole(
        {"role": "assistant", "content": None, "tool_calls": [{**CALL, "seal": SIGN}], "mark": "m"}
    )

    def strict(request: Any) -> Any:
        if len(request.messages) < 3:
            return signed
        for number, message in enumerate(request.messages):
            for name in message:
                if name == "mark":
                    return refusal(f"Unknown parameter: 'messages[{number}].mark'.")
            for call in message.get("tool_calls", ()):
                if "seal" in call:
                    return refusal(f"messages.{number}.tool_calls.0.seal: Extra inputs are not permitted")
        return SAID

    with ScriptedServer(handler=strict, check=False) as server:
        result = agent_at(server).run("1 + 2?")
    assert result.stop_reason == "completed"
    told = [event.content for event in result.events if event.type == "notice"]
    assert any("mark in messages is left out" in words for words in told)


def refusal(words: str) -> Any:
    from pure_agent_loop import LLMError

    return LLMError(words, kind="bad_request", status=400)


@pytest.mark.parametrize(
    ("pieces", "wanted"),
    [
        (["ab", "cd"], "abcd"),
        (["same", "same"], "same"),
        (["ab", "cd", "abcd"], "abcd"),
        ([{"a": "x", "n": 1}, {"a": "y", "n": 2}], {"a": "xy", "n": 2}),
        ([["a"], ["b"]], ["a", "b"]),
        # Blocks without an index: one goes on until nothing is missing in it.
        (
            [
                [{"type": "t", "t": "a", "s": ""}],
                [{"type": "t", "t": "b", "s": ""}],
                [{"type": "t", "t": "", "s": "z"}],
                [{"type": "t", "t": "c", "s": ""}],
            ],
            [{"type": "t", "t": "ab", "s": "z"}, {"type": "t", "t": "c", "s": ""}],
        ),
        (
            [[{"url": "a", "title": "A"}], [{"url": "b", "title": "B"}]],
            [{"url": "a", "title": "A"}, {"url": "b", "title": "B"}],
        ),
        (
            [
                [{"type": "e", "id": "1", "index": 0, "data": "d"}],
                [{"type": "e", "id": "2", "index": 0, "data": "f"}],
            ],
            [
                {"type": "e", "id": "1", "index": 0, "data": "d"},
                {"type": "e", "id": "2", "index": 0, "data": "f"},
            ],
        ),
    ],
)
def test_pieces_are_joined(pieces, wanted):
    assert joined(pieces) == wanted
