"""Tools given as dicts with a JSON Schema: their arguments are checked as those of functions are."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from pure_agent_loop import tool
from pure_agent_loop.tool import as_tool

FIELDS = {
    "n": {"type": "integer"},
    "price": {"type": ["number", "null"]},
    "colour": {"type": "string", "enum": ["red", "blue"]},
    "items": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string"}}}},
    "free": {},
}
SCHEMA = {"type": "object", "properties": FIELDS, "required": ["n"]}
GIVEN = as_tool({"name": "given", "parameters": SCHEMA, "function": lambda **arguments: repr(arguments)})


def result(arguments, tool=GIVEN):
    return asyncio.run(tool.execute(arguments))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"n": "many"}, "n: should be a valid integer, got 'many'"),
        ({"n": 1.5}, "n: should be a valid integer, got 1.5"),
        ({"n": True}, "n: should be a valid integer, got True"),
        ({"n": None}, "n: should be a valid integer, got null"),
        ({"n": 1, "price": "free"}, "price: should be a valid number, got 'free'"),
        ({"n": 1, "colour": "green"}, "colour: should be 'red', 'blue', got 'green'"),
        ({"n": 1, "colour": 1}, "colour: should be a valid string, got 1"),
        ({"n": 1, "items": {"id": "a"}}, "items: should be a valid list"),
        ({"n": 1, "items": [{"id": "a"}, {"id": 2}]}, "items[1].id: should be a valid string, got 2"),
        ({}, "n: field required"),
    ],
)
def test_value_of_another_type_or_choice_is_rejected_by_name(arguments, problem):
    assert problem in result(arguments)


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        ({"n": 1, "price": None, "colour": None}, {"n": 1, "price": None, "colour": None}),
        ({"n": 1.0, "price": 2}, {"n": 1.0, "price": 2}),
        ({"n": "7", "items": '[{"id": "a"}]'}, {"n": 7, "items": [{"id": "a"}]}),
        ({"n": 1, "colour": "red", "free": "7", "other": [1]}, None),
    ],
)
def test_value_that_fits_reaches_the_function(arguments, received):
    assert result(arguments) == repr(received or arguments)


def test_problem_of_a_given_schema_is_in_the_language_of_the_run():
    from pure_agent_loop.prompts import prompts_for

    outcome = asyncio.run(GIVEN.invoke({"n": "many"}, prompts_for("zh")))
    assert "given" in outcome.text
    assert "执行失败" in outcome.text


@tool
def look(path: Path, more: list[Path] | None = None) -> str:
    """Look at files."""
    return repr([path, more])


@pytest.mark.parametrize("arguments", [{"path": 5}, {"path": 1.5}, {"path": "a", "more": ["b", 5]}])
def test_number_for_a_path_is_rejected(arguments):
    assert re.search(
        "should be a path, which is a string, got|is not a valid path, got", result(arguments, look)
    )


def test_text_for_a_path_is_a_path():
    assert result({"path": "a", "more": ["5"]}, look) == repr([Path("a"), [Path("5")]])
