"""Schemas from elsewhere take a form that servers of models accept, and say the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop import ConfigError, Tool, tool
from pure_agent_loop.schema.mended import mended_schema

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def field(schema, **more):
    return mended_schema({"type": "object", "properties": {"a": schema}, **more})["properties"]["a"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": ["array", "null"]}, {"type": ["array", "null"], "items": {}}),
        ({"anyOf": [{"type": "array"}, TEXT]}, {"anyOf": [{"type": "array", "items": {}}, TEXT]}),
        ({"type": "array", "items": True}, {"type": "array", "items": {}}),
        (
            {"type": "array", "items": [TEXT, NUMBER], "additionalItems": False},
            {"type": "array", "prefixItems": [TEXT, NUMBER], "items": {"anyOf": [TEXT, NUMBER]}},
        ),
        (
            {"additionalProperties": {"type": "array"}},
            {"additionalProperties": {"type": "array", "items": {}}},
        ),
        (True, {}),
        (False, {"not": {}}),
        (None, {}),
        ("string", TEXT),
        ({"type": "any"}, {}),
        ({"type": "Int"}, NUMBER),
        ({"type": ["string"]}, TEXT),
        ({"type": 5, "description": "x"}, {"description": "x"}),
        ({"enum": ["a", "a", None, 1, True]}, {"enum": ["a", None, 1, True]}),
        ({"type": "string", "enum": []}, TEXT),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
        ({"$ref": "http://127.0.0.1:9/x", "description": "x"}, {"description": "x"}),
        ({"$ref": "#/properties/a"}, {}),
        ({"type": "object", "properties": [1], "required": "a"}, {"type": "object"}),
    ],
)
def test_rejected_construct_is_replaced(schema, expected):
    assert field(schema) == expected


def test_references_to_definitions_stay_and_others_are_written_out():
    definitions = {"L": {"type": "array"}, "Tree": {"properties": {"down": {"$ref": "#/$defs/Tree"}}}}
    made = mended_schema(
        {
            "properties": {
                "a": {"$ref": "#/$defs/L"},
                "b": {"$ref": "#/properties/c"},
                "c": {"type": "list", "items": {"$ref": "#/$defs/Tree"}},
                "d": {"$ref": "#/$defs/Nowhere"},
            },
            "$defs": definitions,
        }
    )
    known = made["properties"]
    assert (made["type"], known["a"], known["d"]) == ("object", {"$ref": "#/$defs/L"}, {})
    assert known["b"] == known["c"] == {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    assert made["$defs"] == {**definitions, "L": {"type": "array", "items": {}}}


@pytest.mark.parametrize("key", ["anyOf", "oneOf", "allOf"])
def test_a_choice_at_the_top_is_one_object_and_words(key):
    branches = [{"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, {"$ref": "#/definitions/B"}]
    second = {"properties": {"a": NUMBER, "b": TEXT}, "required": ["b"]}
    made = mended_schema({key: branches, "definitions": {"B": second}})
    assert made["properties"] == {"a": {"anyOf": [TEXT, NUMBER]}, "b": TEXT}
    assert (made["type"], key in made, key in made["description"]) == ("object", False, True)
    assert made.get("required", []) == (["a", "b"] if key == "allOf" else [])


def test_required_name_gets_a_property_and_top_reference_is_inlined():
    schema = {
        "$ref": "#/$defs/A",
        "$defs": {"A": {"type": "object", "required": ["x", "x"], "properties": {}}},
    }
    made = mended_schema(schema)
    assert (made["properties"], made["required"], "$ref" in made) == ({"x": {}}, ["x"], False)


@pytest.mark.parametrize("kind", ["string", ["array", "null"]])
def test_schema_that_is_not_an_object_is_rejected(kind):
    with pytest.raises(ConfigError, match=r"Tool 'odd': .* must be an object"):
        Tool(lambda: 1, name="odd", parameters={"type": kind})


def test_a_schema_in_itself_is_refused_and_one_that_grows_is_bounded():
    schema = {"type": "object"}
    schema["properties"] = {"a": schema}
    with pytest.raises(ConfigError, match="more than 100 levels"):
        Tool(lambda: 1, name="odd", parameters=schema)
    fields = {f"a{n}": {"anyOf": [{"$ref": f"#/properties/a{n + 1}"}] * 2} for n in range(40)}
    assert len(json.dumps(mended_schema({"properties": fields}))) < 100_000


def test_argument_names_are_not_schema_keywords():
    known = {
        "items": TEXT,
        "type": NUMBER,
        "required": {"type": "array", "items": TEXT},
        "enum": TEXT,
        "$ref": TEXT,
    }
    schema = {"type": "object", "properties": known, "required": ["type"]}
    assert mended_schema(schema) == schema


def test_tuple_of_a_function_has_items():
    @tool
    def place(point: tuple[int, int]) -> str:
        """Place."""
        return "x"

    assert "items" in place.parameters["properties"]["point"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "array", "#/$defs/a", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "items",
                    "required",
                    "enum",
                    "anyOf",
                    "oneOf",
                    "allOf",
                    "$ref",
                    "$defs",
                    "not",
                    "a",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(["properties", "$defs", "anyOf", "allOf", "required", "$ref"]), JSON))
def test_any_schema_is_mended_and_then_stable(schema):
    made = mended_schema(schema)
    assert made["type"] == "object"
    assert isinstance(made["properties"], dict)
    assert not {"anyOf", "oneOf", "allOf", "not", "enum"} & made.keys()
    again = mended_schema(made)
    assert again["properties"].keys() == made["properties"].keys()
