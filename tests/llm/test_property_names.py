"""Names of properties that a server refuses: replaced everywhere, and restored in responses cut anywhere."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.llm.property_names import PLAIN_NAME, PropertyNames, fits, names_in
from pure_agent_loop.llm.values import Delta, ToolCallDelta

SCHEMA = {
    "type": "object",
    "properties": {
        "$a": {"$ref": "#/$defs/b c"},
        "@a": {"type": "string", "description": "said"},
        "a": {"type": "array", "items": {"anyOf": [{"properties": {"größe": {"const": {"größe": 1}}}}]}},
        "x" * 70: {"type": "string"},
    },
    "required": ["$a", "a"],
    "dependentRequired": {"@a": ["$a"]},
    "$defs": {"b c": {"type": "object", "properties": {"d": {"enum": ["$a"]}}}},
}
VALUES = {"$a": {"d": "$a"}, "@a": 'a "$a" here', "a": [{"größe": {"größe": 1}}], "x" * 70: "\\"}
NAMES = PropertyNames(PLAIN_NAME, SCHEMA)


def sent(values):
    """Return arguments as the model writes them, by the names that it was given."""
    message = {
        "role": "assistant",
        "tool_calls": [{"id": "1", "function": {"arguments": json.dumps(values)}}],
    }
    return NAMES.in_message(message)["tool_calls"][0]["function"]["arguments"]


def test_schema_has_other_names_that_fit_and_stay_distinct():
    written = NAMES.in_schema(SCHEMA)
    names = list(names_in(written))
    assert all(fits(name, PLAIN_NAME) for name in names)
    assert len(set(names)) == len(set(names_in(SCHEMA))) == 6
    first, second = list(written["properties"])[:2]
    assert written["required"] == [first, "a"]
    assert written["dependentRequired"] == {second: [first]}
    assert written["properties"][second]["description"] == "said (@a)"
    assert "#/$defs/b c" in json.dumps(written)


@pytest.mark.parametrize("pattern", ["[a-z0-9_]{1,20}", "[a-zA-Z0-9_.-]{1,64}", PLAIN_NAME])
def test_replacement_fits_the_pattern(pattern):
    names = list(names_in(PropertyNames(pattern, SCHEMA).in_schema(SCHEMA)))
    assert all(fits(name, pattern) for name in names)


@given(st.lists(st.integers(1, 200), max_size=12))
def test_streamed_arguments_have_their_own_names_wherever_they_are_cut(sizes):
    text, restorer = sent(VALUES), NAMES.restorer(also_text=True)
    pieces = []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    deltas = [Delta(piece, tool_calls=(ToolCallDelta(3, arguments=piece),)) for piece in [*pieces, text]]
    restored = [*map(restorer.take, deltas), restorer.finish()]
    arguments = "".join(part.arguments for delta in restored for part in delta.tool_calls)
    assert json.loads(arguments) == json.loads("".join(delta.text for delta in restored)) == VALUES


def test_arguments_in_one_object_have_their_own_names():
    part = ToolCallDelta(0, arguments=json.loads(sent(VALUES)))
    [restored] = NAMES.restorer(also_text=False).take(Delta(tool_calls=(part,))).tool_calls
    assert restored.arguments == VALUES
