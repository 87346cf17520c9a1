"""JSON that a model wrote: which call it spells, and whether arguments could fit."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.llm.tool_modes.recover import could_fit, end_of_json, items_in, name_and_arguments

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "kind": {"enum": ["a", 1]}},
    "required": ["name"],
    "additionalProperties": False,
}
TREE = {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "object", "properties": {"sub": {"$ref": "#"}}}}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ({"name": "Ann", "age": 7, "kind": 1}, PERSON),
        ({"name": "Ann", "age": "7"}, PERSON),
        ({"name": "Ann", "age": 7.0}, PERSON),
        ("7.5", {"type": "number"}),
        ("True", {"type": "boolean"}),
        (None, {"type": ["string", "null"]}),
        ([1, 2], {"type": "array", "items": {"type": "integer"}}),
        ([1, "a"], {"type": "array", "items": [{"type": "integer"}]}),
        ({"x1": 1}, {"patternProperties": {"^x": {}}, "additionalProperties": False}),
        ({"a": 1}, {"properties": None, "required": None}),
        ({"a": 1}, {"properties": {"a": True}}),
        (1, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (1, {"type": "of another standard"}),
        (1, {"$ref": "https://example.com/schema"}),
        (1, {"$ref": "#/nowhere"}),
        (1, {"$ref": "#"}),
        (1, {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        (1, True),
        ({"sub": {"sub": {}}}, TREE),
    ],
)
def test_fitting_value_is_accepted(value, schema):
    assert could_fit(value, schema)


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ({}, PERSON),
        ({"name": 7}, PERSON),
        ({"name": "Ann", "age": "old"}, PERSON),
        ({"name": "Ann", "age": 7.5}, PERSON),
        ({"name": "Ann", "age": True}, PERSON),
        ({"name": "Ann", "kind": "b"}, PERSON),
        ({"name": "Ann", "more": 1}, PERSON),
        ({"more": "a"}, {"additionalProperties": {"type": "integer"}}),
        (["a"], {"items": {"type": "integer"}}),
        ({"a": 1}, {"properties": {"a": False}}),
        (1, {"oneOf": [{"type": "string"}, {"type": "null"}]}),
        (1, {"allOf": [{"type": "integer"}, {"type": "string"}]}),
        (2, {"const": 1}),
        ("maybe", {"type": "boolean"}),
        (1, False),
        ({"sub": {"sub": 1}}, TREE),
    ],
)
def test_misfitting_value_is_rejected(value, schema):
    assert not could_fit(value, schema)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"name": "f", "arguments": {"a": 1}}, ("f", {"a": 1})),
        ({"tool": "f", "parameters": {"a": 1}}, ("f", {"a": 1})),
        ({"action": "f", "action_input": "x"}, ("f", "x")),
        ({"type": "function", "function": {"name": "f", "arguments": "{}"}}, ("f", "{}")),
        ({"function": "f", "args": {}}, ("f", {})),
        ({"f": {"a": 1}}, ("f", {"a": 1})),
        ({"name": "f"}, ("f", None)),
        ({"name": "Ann", "age": 7}, None),
        ({"f": 1}, None),
        ({"a": {}, "b": {}}, None),
        (["f"], None),
    ],
)
def test_spellings_of_a_call(value, expected):
    assert name_and_arguments(value) == expected


@given(JSON, st.text(max_size=5))
def test_the_end_of_json_is_found(value, behind):
    text = json.dumps([value])
    assert end_of_json(text + behind, 0) == len(text)
    assert all(end_of_json(text[:cut], 0) is None for cut in range(len(text)))


def test_the_items_of_a_list_or_a_wrapper():
    assert items_in([1, 2]) == [1, 2]
    assert items_in({"tool_calls": [1]}) == [1]
    assert items_in({"name": "f"}) == [{"name": "f"}]
