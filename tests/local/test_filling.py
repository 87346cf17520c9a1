"""The arguments of any tool: which are asked for, and what each may be."""

import pytest

from pure_agent_loop.local.examples import read_tools
from pure_agent_loop.local.filling import narrow, tidied, without_doubles

NUMBER, TEXT = {"type": "number"}, {"type": "string"}


def spec(required=None, **properties):
    needed = list(properties) if required is None else required
    parameters = {"type": "object", "properties": properties, "required": needed}
    return read_tools([{"function": {"name": "any_tool", "parameters": parameters}}])[0]


def test_each_number_goes_to_the_argument_whose_name_is_nearest():
    tool = spec(height={"type": "integer"}, width={"type": "integer"})
    found = narrow(tool, "Draw a box with a width of 20 and a height of 10.")
    assert found == {"height": {"enum": [10]}, "width": {"enum": [20]}}


def test_else_numbers_are_taken_in_order():
    found = narrow(spec(a=NUMBER, b=NUMBER, c=NUMBER), "Solve it for 5, 20 and -25")
    assert [p["enum"] for p in found.values()] == [[5], [20], [-25]]


def test_lists_are_taken_in_order_and_not_as_single_numbers():
    numbers = {"type": "array", "items": {"type": "integer"}}
    found = narrow(spec(a=numbers, b=numbers, n={"type": "integer"}), "Compare [1, 2] and [3, 4] in 7 steps")
    assert found == {"a": {"enum": [[1, 2]]}, "b": {"enum": [[3, 4]]}, "n": {"enum": [7]}}


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Rooms in Rome", ["city"]),
        ("Rooms in Rome with breakfast", ["city", "breakfast"]),
        ("A double room in Rome", ["city", "kind"]),
        ("Rooms in Rome for 3 nights", ["city", "nights"]),
        ("How many nights are there in Rome?", ["city"]),
    ],
)
def test_optional_arguments_are_asked_for_only_if_the_question_speaks_of_them(question, names):
    tool = spec(
        ["city"],
        city=TEXT,
        breakfast={"type": "boolean"},
        kind={"type": "string", "enum": ["single", "double"]},
        nights={"type": "integer"},
    )
    assert list(narrow(tool, question)) == names


def test_a_value_of_an_enum_that_is_named_is_the_one():
    kinds = {"type": "string", "enum": ["one_way", "round_trip"]}
    assert narrow(spec(kind=kinds), "Book a round trip")["kind"] == {"enum": ["round_trip"]}
    assert narrow(spec(kind=kinds), "Book a flight")["kind"] == {"enum": ["one_way", "round_trip"]}


def test_dates_come_in_the_form_the_description_asks_for():
    day = {"type": "string", "description": "The day, YYYY-MM-DD."}
    assert narrow(spec(day=day), "On July 4th, 2024 please")["day"] == {"enum": ["2024-07-04"]}


def test_a_text_keeps_to_its_pattern():
    code = {"type": "string", "pattern": "^[A-Z]{3}$"}
    assert narrow(spec(code=code), "Fly to OSL please")["code"] == {"enum": ["OSL"]}
    assert narrow(spec(code=code), "fly north")["code"] == code
    assert "enum" in narrow(spec(code={"type": "string", "pattern": "("}), "fly north")["code"]


def test_what_has_no_simple_type_is_left_as_it_is():
    union = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert narrow(spec(x=union), "anything")["x"] == {"anyOf": union["anyOf"]}


def test_values_come_out_in_the_tools_types():
    tool = spec(a=NUMBER, b={"type": "array", "items": NUMBER}, c={"type": "array", "items": TEXT}, d=TEXT)
    got = tidied(tool, {"a": 3, "b": [1, 2], "c": ["x", "x", "y"], "d": "z"})
    assert got == {"a": 3.0, "b": [1.0, 2.0], "c": ["x", "y"], "d": "z"}
    assert isinstance(got["a"], float)


def test_one_piece_for_two_texts_is_asked_again():
    tool = spec(work=TEXT, artist=TEXT)
    properties = {"work": {"enum": ["David", "Rodin"]}, "artist": {"enum": ["David", "Rodin"]}}
    assert without_doubles(tool, properties, {"work": "David", "artist": "Rodin"}) is None
    again = without_doubles(tool, properties, {"work": "David", "artist": "David"})
    assert again == {"work": {"enum": ["David"]}, "artist": {"enum": ["Rodin"]}}


def test_two_texts_may_be_the_same_if_there_is_nothing_else():
    properties = {"a": {"enum": ["x"]}, "b": {"enum": ["x"]}}
    assert without_doubles(spec(a=TEXT, b=TEXT), properties, {"a": "x", "b": "x"}) is None
