"""Each kind of type becomes a schema, and what a model wrote for it becomes a value of it."""

from __future__ import annotations

import datetime
import enum
import functools
import itertools
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, Union

import pytest
from pydantic import BaseModel, Field

from pure_agent_loop import ConfigError
from pure_agent_loop.llm.values import Delta, ToolCallDelta
from pure_agent_loop.output.form import OutputForm
from pure_agent_loop.output.json_text import PartialReader, json_values
from pure_agent_loop.schema.build import ToolArgumentError


@dataclass
class City:
    """A town with people.

    Args:
        name: What it is called.
    """

    name: str
    people: int = 0


class Trip(TypedDict):
    to: str
    days: int


class Person(BaseModel):
    name: str = Field(alias="fullName")
    born: datetime.date
    friends: list[Person] = []


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


def book(city: str, nights: int = 1) -> City:
    """Book a hotel."""
    return City(city, nights)


def trip(to: str, days: int) -> Trip:
    """Plan a trip."""
    return {"to": to, "days": days}


GOOD: dict[str, tuple[Any, str, Any]] = {
    "a dataclass": (City, '{"name": "Oslo", "people": 7}', City("Oslo", 7)),
    "its default": (City, '{"name": "Oslo"}', City("Oslo")),
    "a TypedDict": (Trip, '{"to": "Rome", "days": 3}', {"to": "Rome", "days": 3}),
    "a model with an alias": (
        Person,
        '{"fullName": "Ada", "born": "1815-12-10", "friends": []}',
        Person(fullName="Ada", born=datetime.date(1815, 12, 10)),
    ),
    "a Literal, wrapped": (Literal["a", "b"], '{"response": "a"}', "a"),
    "a Literal as a word": (Literal["a", "b"], " b\n", "b"),
    "an enum": (Mood, '{"response": "good"}', Mood.GOOD),
    "a whole number": (int, "42", 42),
    "a truth": (bool, '{"response": true}', True),
    "a list, bare": (list[City], '[{"name": "Oslo"}]', [City("Oslo")]),
    "a set": (set[int], '{"response": [1, 2, 2]}', {1, 2}),
    "a dict": (dict[str, int], '{"a": 1}', {"a": 1}),
    "a union": (
        Union[City, Trip],  # noqa: UP007 - as older code writes it
        '{"response": {"to": "Rome", "days": 1}}',
        {"to": "Rome", "days": 1},
    ),
    "None of a union": (City | None, "null", None),
    "a list of types": ([City, int], '{"response": 3}', 3),
    "text of a union": ([City, str], "I do not know.", "I do not know."),
    "bounds": (Annotated[int, Field(ge=1)], '{"response": 1}', 1),
    "a fence": (City, 'Here it is:\n```json\n{"name": "Oslo"}\n```\nBye.', City("Oslo")),
    "the last of several": (City, 'Not {"name": 5} but {"name": "Oslo"}', City("Oslo")),
}


@pytest.mark.parametrize("name", GOOD)
def test_an_answer_becomes_a_value_and_comes_back_from_a_record(name):
    kind, text, value = GOOD[name]
    form = OutputForm(kind)
    assert form.schema["type"] == "object"
    found = form.read(text)
    assert (found.value, found.function) == (value, None)
    assert form.load(form.dump(found.value)) == value


BAD: dict[str, tuple[Any, str, list[str]]] = {
    "a field is missing": (Trip, '{"to": "Rome"}', ["days: field required"]),
    "of another type": (Trip, '{"to": "Rome", "days": "many"}', ["days: ", "'many'"]),
    "no JSON": (City, "Oslo is nice.", ["not JSON in the required form", '"name"']),
    "another word": (Literal["a", "b"], "c", ["not JSON in the required form", '"a"']),
    "not a number": (int, '{"response": "x"}', ["valid integer"]),
    "out of bounds": (Annotated[int, Field(ge=1)], "0", ["greater than or equal to 1"]),
    "nothing": (City, "", ["not JSON in the required form"]),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_answer_is_reported(name):
    kind, text, words = BAD[name]
    with pytest.raises(ToolArgumentError) as caught:
        OutputForm(kind).read(text)
    assert [word for word in words if word not in str(caught.value)] == []


def test_a_function_takes_the_answer_as_its_arguments():
    form = OutputForm(book)
    assert form.schema["description"] == "Book a hotel."
    found = form.read('{"city": "Rome", "nights": "2"}')
    assert (found.value, found.function) == ({"city": "Rome", "nights": 2}, book)
    assert form.load(form.dump(City("Rome", 2))) == City("Rome", 2)


def test_one_of_several_functions_and_types_is_named():
    form = OutputForm([book, functools.partial(trip, to="Rome"), City])
    assert len(form.schema["properties"]["response"]["anyOf"]) == 3
    plain = form.dump(City("Oslo"), "City")
    assert form.load(plain) == City("Oslo")


def test_unknown_member_is_answered_with_the_known_ones():
    form = OutputForm([book, City])
    found = form.read('{"response": {"name": "book", "arguments": {"city": "Rome"}}}')
    assert (found.value, found.function) == ({"city": "Rome"}, book)
    assert form.read('{"name": "City", "arguments": {"name": "Oslo"}}').value == City("Oslo")
    with pytest.raises(ToolArgumentError, match="book, City"):
        form.read('{"name": "sell", "arguments": {}}')


@pytest.mark.parametrize("kind", ["City", object(), lambda x: x, [], [City, City, book], print])
def test_type_without_form_is_rejected(kind):
    with pytest.raises(ConfigError):
        OutputForm(kind)


def test_a_class_inside_of_a_function_can_name_another():
    @dataclass
    class Leg:
        to: str

    @dataclass
    class Route:
        legs: list[Leg]

    assert OutputForm(Route).read('{"legs": [{"to": "Rome"}]}').value == Route([Leg("Rome")])


def test_a_schema_is_strict_only_if_a_strict_server_takes_it():
    def is_strict(kind: Any) -> bool:
        return OutputForm(kind).response_format["json_schema"].get("strict", False)

    assert is_strict(Trip)
    assert is_strict(list[Trip])
    assert not is_strict(City)  # a default: one may be left out
    assert not is_strict(dict[str, int])
    assert not is_strict(Annotated[int, Field(ge=1)])


def test_a_recursive_type_keeps_its_definitions_where_references_lead():
    class Node(BaseModel):
        name: str
        children: list[Node] = []

    schema = OutputForm(Node).schema
    assert "Node" in schema["$defs"]


def read_in_pieces(text: str, size: int, *, wrapped: bool = False) -> list[Any]:
    reader = PartialReader(wrapped=wrapped)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return [each for piece in pieces for each in reader.feed(Delta(piece))]


def test_a_partial_object_only_grows():
    found = read_in_pieces('```json\n{"name": "Oslo", "list": [1, 22]}\n```', 3)
    assert found[0] == {}
    assert found[-1] == {"name": "Oslo", "list": [1, 22]}
    for earlier, later in itertools.pairwise(found):
        assert set(earlier) <= set(later)
    assert read_in_pieces('{"response": [1, 2]}', 2, wrapped=True)[-1] == [1, 2]
    assert read_in_pieces("no JSON here", 2) == []


def test_a_partial_object_is_read_from_a_call_of_the_final_tool():
    reader = PartialReader(wrapped=False)
    parts = [
        ToolCallDelta(0, "c", "add", '{"a": 1}'),
        ToolCallDelta(1, "d", "final_result", '{"na'),
        ToolCallDelta(1, None, None, 'me": "Os'),
        ToolCallDelta(1, None, None, 'lo"}'),
    ]
    found = [each for part in parts for each in reader.feed(Delta(tool_calls=(part,)))]
    assert found == [{}, {"name": "Os"}, {"name": "Oslo"}]


def test_a_text_full_of_brackets_is_read_in_no_time():
    assert json_values("[" * 100_000) == []
    assert json_values("{" * 100_000 + "}") == []
