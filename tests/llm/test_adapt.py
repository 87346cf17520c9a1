"""A history in the form one provider wants: still valid, nothing lost, the history itself unchanged."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop import ConfigError, Profile
from pure_agent_loop.llm.adapt import (
    adapt_content,
    adapt_fields,
    adapt_messages,
    adapt_tools,
    short_id,
    simplify_schema,
)
from pure_agent_loop.llm.messages import repair_history
from pure_agent_loop.testing import check_history

PLAIN = Profile("plain")
TEXTS = st.sampled_from(["hi", "你好", "", "a\nb"])
CALLS = st.lists(st.sampled_from(["a", "b", "call_1", "abcdefghi"]), max_size=3)
MESSAGES = st.lists(
    st.one_of(
        st.builds(lambda text: {"role": "user", "content": text}, TEXTS),
        st.builds(lambda text: {"role": "user", "content": text, "meta": {"synthetic": True}}, TEXTS),
        st.builds(lambda ids, text, thought: _asking(ids, text, thought), CALLS, TEXTS, TEXTS),
    ),
    max_size=8,
)
PROFILES = st.builds(
    Profile,
    name=st.just("p"),
    reasoning_echo=st.sampled_from(["", "reasoning_content"]),
    echo_scope=st.sampled_from(["round", "history"]),
    system_role=st.sampled_from(["", "system", "developer", "user"]),
    alternates=st.booleans(),
    user_after_tool=st.booleans(),
    parallel_calls=st.booleans(),
    null_content=st.booleans(),
    call_id_length=st.sampled_from([None, 9, 40]),
)


def _asking(ids: list[str], text: str, thought: str) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if thought:
        message["meta"] = {"reasoning": thought}
    return {**message, "tool_calls": calls} if calls else message


@given(history=MESSAGES, profile=PROFILES)
def test_any_history_stays_valid_and_keeps_its_results(history: list[Any], profile: Profile):
    fixed, _ = repair_history([{"role": "system", "content": "Be brief."}, *history], "lost")
    before = copy.deepcopy(fixed)
    adapted = adapt_messages(adapt_content(fixed, profile), profile)
    assert check_history(adapted, extra_keys=["reasoning_content"]) == []
    assert fixed == before
    results = [m["content"] for m in adapted if m["role"] == "tool"]
    assert results == [m["content"] for m in before if m["role"] == "tool"]
    said = json.dumps(adapted, ensure_ascii=False)
    assert all(json.dumps(m["content"], ensure_ascii=False)[1:-1] in said for m in before if m["content"])
    pairs = list(pairwise(adapted))
    if not profile.user_after_tool:
        assert not any(a["role"] == "tool" and b["role"] == "user" for a, b in pairs)
    if profile.alternates:
        assert not any(a["role"] == b["role"] == "user" for a, b in pairs)
    if not profile.parallel_calls:
        assert all(len(m.get("tool_calls", [])) < 2 for m in adapted)


@given(history=MESSAGES)
def test_a_plain_profile_only_takes_meta_off(history: list[Any]):
    fixed, _ = repair_history(history, "lost")
    assert adapt_messages(fixed, PLAIN) == [{k: m[k] for k in m if k != "meta"} for m in fixed]


@pytest.mark.parametrize("given_id", ["", "call_1", "abcdefghi", "é" * 9, "x" * 80, "\ud800"])
def test_ids_have_the_length_wanted_and_are_always_the_same(given_id: str):
    short = short_id(given_id, 9)
    assert len(short) == 9
    assert short.isascii()
    assert short.isalnum()
    assert short == short_id(given_id, 9)
    assert short_id("abcdefghi", 9) == "abcdefghi"


SCHEMA = {
    "type": "object",
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/Node"}, "n": {"type": "integer"}},
        },
    },
    "properties": {
        "node": {"$ref": "#/$defs/Node", "description": "A node."},
        "kind": {"const": "fast"},
        "when": {"anyOf": [{"type": "null"}, {"type": "string", "format": "date"}], "default": None},
        "default": {"type": "string", "default": "x"},
    },
    "required": ["node"],
    "additionalProperties": False,
}


def test_keywords_are_removed_or_said_in_another_way():
    words = frozenset({"$ref", "$defs", "const", "anyOf", "format", "default", "additionalProperties"})
    assert simplify_schema(SCHEMA, words) == {
        "type": "object",
        "properties": {
            "node": {
                "type": "object",
                "properties": {"next": {"type": "object"}, "n": {"type": "integer"}},
                "description": "A node.",
            },
            "kind": {"enum": ["fast"]},
            "when": {"type": "string"},
            "default": {"type": "string"},  # the name of a property is no keyword
        },
        "required": ["node"],
    }
    assert simplify_schema(SCHEMA, frozenset()) == SCHEMA
    assert simplify_schema({"allOf": [{"type": "object"}, {"title": "T"}]}, frozenset({"allOf"})) == {
        "type": "object",
        "title": "T",
    }


def test_tools_are_left_alone_unless_something_is_ruled_out():
    tools = [{"type": "function", "function": {"name": "f", "description": "F.", "parameters": SCHEMA}}]
    assert adapt_tools(tools, PLAIN) is tools
    adapted = adapt_tools(tools, Profile("p", schema_without=["additionalProperties"]))
    assert "additionalProperties" not in adapted[0]["function"]["parameters"]
    assert "additionalProperties" in SCHEMA


@pytest.mark.parametrize(
    ("profile", "body", "expected"),
    [
        (
            Profile("p", output_limit_field="max_completion_tokens"),
            {"max_tokens": 5},
            {"max_completion_tokens": 5},
        ),
        (Profile("p", output_limit_field="max_tokens"), {"max_completion_tokens": 5}, {"max_tokens": 5}),
        (
            Profile("p", output_limit_field="max_tokens"),
            {"max_tokens": 4, "max_completion_tokens": 5},
            {"max_tokens": 4},
        ),
        (Profile("p", refuses=["top_p"]), {"top_p": 1, "n": 1}, {"n": 1}),
    ],
)
def test_fields(profile: Profile, body: dict[str, Any], expected: dict[str, Any]):
    adapt_fields(body, profile)
    assert body == expected


@pytest.mark.parametrize("wrong", [{"refuses": "temperature"}, {"schema_without": "title"}, {"url": "("}])
def test_impossible_profile_error_names_the_fix(wrong: dict[str, Any]):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Profile("p", **wrong)
