"""Payloads of any JSON shape: read, or refused with `LLMError`, never lost."""

from __future__ import annotations

import json
from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.completions import parse_chunk, parse_completion
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import TokenUsage

from .streams import calls, event, fragment, read, said, stream

HELLO = said("stop", content="hello")


@pytest.mark.parametrize(
    "extra",
    [
        {"choices": []},
        {"choices": None},
        {"choices": [None]},
        {},
        {"object": "ping"},
        {"choices": [{}]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {}}]},
        {"choices": [{"delta": {"role": "assistant"}, "finish_reason": ""}]},
        {"choices": [{"delta": {"content": None, "tool_calls": None, "function_call": None}}]},
        {"choices": [{"delta": {"content": "", "tool_calls": []}, "finish_reason": "null"}]},
        {"choices": [{"delta": {"tool_calls": [None]}}]},
        {"choices": [{"delta": {"content": []}}]},
        {"choices": [], "usage": None},
        {"choices": [], "usage": {}},
        {"choices": [], "error": None},
        {"choices": [], "error": {}},
    ],
    ids=json.dumps,
)
def test_chunks_that_say_nothing(extra: Any):
    response = read(stream(extra, HELLO, extra))
    assert (response.content, response.tool_calls, response.usage) == ("hello", [], None)
    with pytest.raises(LLMError, match="ended early"):
        read(stream(extra))


@pytest.mark.parametrize(
    "bad",
    [
        {"choices": "hello"},
        {"choices": 5},
        {"choices": ["hello"]},
        {"choices": [["hello"]]},
        {"choices": [{"delta": "hello"}]},
        {"choices": [{"delta": ["hello"]}]},
        {"choices": [{"delta": {"content": 5}}]},
        {"choices": [{"delta": {"tool_calls": "f"}}]},
        {"choices": [{"delta": {"tool_calls": ["f"]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": 5}]}}]},
        {"choices": [{"delta": {"function_call": "f"}}]},
        [],
        [1, 2],
        "hello",
        None,
        5,
    ],
    ids=json.dumps,
)
def test_unreadable_source_is_an_error(bad: Any):
    with pytest.raises(LLMError, match="The server sent") as caught:
        read(stream(bad, HELLO))
    assert caught.value.kind == "incomplete"


@pytest.mark.parametrize(
    ("delta", "content", "reasoning"),
    [
        ({"content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]}, "hello", None),
        ({"content": ["hel", "lo"]}, "hello", None),
        ({"content": {"type": "text", "text": "hello"}}, "hello", None),
        ({"content": [{"type": "image_url"}, {"text": None}, {"text": {"value": 1}}]}, None, None),
        ({"refusal": "I will not."}, "I will not.", None),
        ({"content": "hello", "reasoning_content": "hm"}, "hello", "hm"),
        ({"content": "hello", "reasoning": "hm"}, "hello", "hm"),
        ({"content": "hello", "reasoning": "hm", "reasoning_content": "hm"}, "hello", "hm"),
        ({"content": "hello", "reasoning_content": None, "reasoning": "hm"}, "hello", "hm"),
        ({"content": [{"type": "thinking", "thinking": [{"text": "hm"}]}, {"text": "hello"}]}, "hello", "hm"),
        ({"content": [{"type": "thinking", "thinking": "hm"}, {"text": "hello"}]}, "hello", "hm"),
    ],
)
def test_where_text_and_reasoning_stand(delta: Any, content: str | None, reasoning: str | None):
    for response in (
        read(stream(said("stop", **delta))),
        LLMResponse.from_openai({"choices": [{"message": delta, "finish_reason": "stop"}]}),
    ):
        assert (response.content, response.reasoning_content) == (content, reasoning)


@pytest.mark.parametrize(
    "call",
    [
        fragment("f", '{"a": 1}', index=0, id="x", type="function"),
        fragment("f", {"a": 1}, index=0),
        fragment("f", '{"a": 1}', index="0", id=17),
        fragment("f", '{"a": 1}', index=True),
        fragment("f", '{"a": 1}', index=None, id=None),
        fragment("f", '{"a": 1}', index=0.0, id=""),
        {"name": "f", "arguments": '{"a": 1}'},
        {"function": "f", "arguments": {"a": 1}},
    ],
    ids=json.dumps,
)
def test_how_a_call_is_written(call: Any):
    for written in ([call], call):
        response = read(stream(said(tool_calls=written), said("tool_calls")))
        assert calls(response) == [("f", {"a": 1})]
        assert response.tool_calls[0].id
        whole = {"choices": [{"message": {"content": None, "tool_calls": written}, "finish_reason": "stop"}]}
        assert calls(LLMResponse.from_openai(whole)) == [("f", {"a": 1})]


def test_indexes_as_text_tell_calls_apart():
    body = stream(
        said(tool_calls=[fragment("f", "", index="0"), fragment("f", "", index="1")]),
        said(tool_calls=[fragment(None, '{"a": 2}', index="1"), fragment(None, '{"a": 1}', index="0")]),
        said("stop"),
    )
    assert calls(read(body)) == [("f", {"a": 1}), ("f", {"a": 2})]


def test_legacy_function_call():
    body = stream(
        said(function_call={"name": "f", "arguments": ""}),
        said(function_call={"arguments": '{"a":'}),
        said(function_call={"arguments": "1}"}),
        said("function_call"),
    )
    response = read(body)
    assert (calls(response), response.finish_reason) == ([("f", {"a": 1})], "tool_calls")


@pytest.mark.parametrize("arguments", ['{"a":1,"a":2}', '{"b":{"a":1,"a":2}}', '{"a":NaN}', '{"a":1e999}'])
def test_objects_as_arguments_are_as_strictly_read_as_text(arguments: str):
    payload = b'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments": %s}}]}}]}'
    body = b"data: " + payload % arguments.encode() + b"\n\n" + stream(said("stop"))
    assert read(body).tool_calls[0].invalid


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}, TokenUsage(3, 4, 7)),
        ({"prompt_tokens": 3, "completion_tokens": 4}, TokenUsage(3, 4, 7)),
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 0}, TokenUsage(3, 4, 7)),
        ({"prompt_tokens": 3.0, "completion_tokens": None, "total_tokens": 3}, TokenUsage(3, 0, 3)),
        ({"prompt_tokens": None}, None),
        ({"prompt_tokens": "many"}, None),
        ({"prompt_tokens": True}, None),
        ({"prompt_tokens": -1, "completion_tokens": 2}, None),  # then estimated
        ("a lot", None),
        ([1], None),
        (5, None),
        ({"total_tokens": 9, "prompt_cache_hit_tokens": 2}, TokenUsage(0, 0, 9, cached_tokens=0)),
        (
            {
                "prompt_tokens": 3,
                "completion_tokens": 4,
                "completion_tokens_details": {"reasoning_tokens": 1},
                "prompt_tokens_details": {"cached_tokens": 0},
            },
            TokenUsage(3, 4, 7, 1, 0),
        ),
        (
            {"prompt_tokens": 3, "completion_tokens_details": "x", "prompt_tokens_details": []},
            TokenUsage(3, 0, 3),
        ),
    ],
)
def test_usage(usage: Any, expected: TokenUsage | None):
    assert read(stream({**HELLO, "usage": usage})).usage == expected
    assert read(stream(HELLO, {"choices": [], "usage": usage})).usage == expected
    in_the_choice = {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop", "usage": usage}]}
    assert read(stream(in_the_choice)).usage == expected


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"1e999", b"9" * 400])
def test_numbers_that_are_no_counts(number: bytes):
    usage = read(event(HELLO) + b'data: {"usage": {"prompt_tokens": %s}}\n\n' % number).usage
    assert usage is None or usage.prompt_tokens == 10**400 - 1


def test_a_last_chunk_that_repeats_everything_is_not_read_twice():
    summary = {
        "choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}],
        "usage": {"total_tokens": 3},
    }
    response = read(stream(said(content="hel"), said(content="lo"), summary))
    assert (response.content, response.finish_reason) == ("hello", "stop")
    assert response.usage == TokenUsage(0, 0, 3)
    assert read(stream(summary)).content == "hello"


@pytest.mark.parametrize(
    "choice", [{"message": {"content": "hello"}}, {"message": {"content": "hello"}, "finish_reason": 5}]
)
def test_a_whole_completion_needs_no_reason_to_end(choice: Any):
    response = LLMResponse.from_openai({"choices": [choice]})
    assert (response.content, response.finish_reason) == ("hello", "stop")


def test_a_whole_completion_that_says_it_is_not_finished():
    with pytest.raises(LLMError, match="ended early"):
        LLMResponse.from_openai({"choices": [{"message": {"content": "hel"}, "finish_reason": None}]})


@pytest.mark.parametrize(
    "data", [{}, {"choices": []}, {"choices": None}, {"choices": [None]}, {"usage": {}}, None, 5, "x", []]
)
def test_a_completion_without_choices(data: Any):
    with pytest.raises(LLMError, match="has no choices") as caught:
        LLMResponse.from_openai(data)
    assert caught.value.kind == "incomplete"


def test_objects_of_the_sdk():
    from openai.types.chat import ChatCompletion

    call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    message = {"role": "assistant", "content": "hi", "tool_calls": [call], "reasoning_content": "hm"}
    usage = {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "total_tokens": 7,
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    data = {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": None}],
        "usage": usage,
    }
    completion = ChatCompletion.model_validate(data)
    response = LLMResponse.from_openai(completion)
    assert response == LLMResponse(**{**_fields(LLMResponse.from_openai(data)), "raw": completion})
    assert calls(response) == [("f", {"a": 1})]
    assert response.usage == TokenUsage(3, 4, 7, 2)
    assert (response.content, response.reasoning_content) == ("hi", "hm")


def _fields(response: LLMResponse) -> dict[str, Any]:
    names = ("content", "tool_calls", "usage", "raw", "reasoning_content", "finish_reason")
    return {name: getattr(response, name) for name in names}


@pytest.mark.parametrize("kind", [SimpleNamespace, MagicMock])
def test_other_objects_with_the_same_attributes(kind: Any):
    function = kind(arguments='{"a": 1}')
    function.name = "f"
    call = kind(id="x", function=function)
    message = kind(content="hi", tool_calls=[call], reasoning_content=None)
    usage = kind(prompt_tokens=3, completion_tokens=4, total_tokens=7)
    response = LLMResponse.from_openai(kind(choices=[kind(message=message)], usage=usage))
    assert (response.content, calls(response)) == ("hi", [("f", {"a": 1})])
    assert response.usage == TokenUsage(3, 4, 7)
    assert response.finish_reason == "tool_calls"


KEYS = """choices delta message content text thinking tool_calls function name arguments index id code type
function_call finish_reason usage prompt_tokens error detail status reasoning refusal"""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=4)
    ),
    max_leaves=25,
)


@given(JSON, JSON)
def test_no_shape_raises_anything_but_llm_error(value: Any, delta: Any):
    shapes = (value, {"choices": [{"delta": delta}]}, {"choices": [{"message": delta}]}, {"error": delta})
    for data in shapes:
        for parse in (parse_chunk, parse_completion, LLMResponse.from_openai):
            with suppress(LLMError):
                parse(data)
        with suppress(LLMError):
            read(stream(data, HELLO))
