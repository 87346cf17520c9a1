"""What the description of an argument says about its values."""

import re

import pytest

from pure_agent_loop.local.examples import read_tools
from pure_agent_loop.local.filling import narrow, wanted_arguments
from pure_agent_loop.local.pieces import pieces
from pure_agent_loop.local.told import (
    coded_values,
    formed_values,
    is_place,
    offered_texts,
    place_pattern,
    places,
    said_type,
)
from pure_agent_loop.local.values import read_months, read_times, without_times

TEXT, INTEGER = {"type": "string"}, {"type": "integer"}


def told(description, **schema):
    return {"type": "string", "description": description, **schema}


def spec(required=None, **properties):
    needed = list(properties) if required is None else required
    parameters = {"type": "object", "properties": properties, "required": needed}
    return read_tools([{"function": {"name": "any_tool", "parameters": parameters}}])[0]


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("at 4:30 in the afternoon", ["16:30"]),
        ("from 10am to 12 p.m.", ["10:00", "12:00"]),
        ("at 12 AM or 7 in the morning", ["00:00", "07:00"]),
        ("at 19:05 on 3 June", ["19:05"]),
        ("in 20 minutes", []),
    ],
)
def test_times_come_in_the_form_the_description_asks_for(text, times):
    assert read_times(text, "When, as HH:MM.") == times
    assert read_times(text, "When.") == []


def test_a_day_and_a_time_come_in_one_text_where_both_are_asked_for():
    asked = told("Begin, as YYYY-MM-DD HH:MM:SS")
    assert formed_values("on March 19, 2024 at 1:00 p.m.", asked) == ["2024-03-19 13:00:00"]
    assert formed_values("on March 19, 2024", asked) == []


def test_times_are_no_numbers_of_anything_else():
    assert without_times("6 seats at 8:30 pm").strip() == "6 seats at"
    tool = spec(["at"], at=told("As HH:MM."), seats={**INTEGER, "description": "Number of seats."})
    assert wanted_arguments(tool, "Are there seats at 8:30 pm?") == ["at"]
    assert wanted_arguments(tool, "Are there 6 seats at 8:30 pm?") == ["at", "seats"]


def test_months_and_years_are_read_as_numbers():
    assert read_months("May I come in March?") == [5, 3]
    tool = spec(["month"], month=INTEGER, year={**INTEGER, "description": "Default is 1999."})
    assert narrow(tool, "Visitors in June 2020") == {"month": {"enum": [6]}, "year": {"enum": [2020]}}


def test_numbers_that_stand_for_things_are_found_by_their_names():
    shelf = {**INTEGER, "description": "Shelf. Example: 1 for Poems, 2 for Travel books."}
    assert coded_values("Put it with the travel books", shelf) == [2]
    assert coded_values("Put it away", shelf) == []
    tool = spec(["title"], title=TEXT, shelf=shelf)
    assert wanted_arguments(tool, "Put 'Ada' away in 3 days") == ["title"]
    assert narrow(tool, "Put 'Ada' with the poems")["shelf"] == {"enum": [1]}


def test_texts_that_the_description_offers_go_before_pieces():
    fuel = told("Type of fuel. Possible values: 'gas', 'diesel'.")
    assert offered_texts(fuel) == ["gas", "diesel"]
    assert offered_texts(told("Such as 'gas' or 'diesel'.")) == []
    assert narrow(spec(fuel=fuel), "A gas-powered car")["fuel"] == {"enum": ["gas"]}


@pytest.mark.parametrize(
    ("description", "wanted"),
    [
        ("The city and state, e.g. San Francisco, CA", True),
        ("Where, in the form 'City, State'.", True),
        ("Where, such as 'Paris, France'", True),
        ("The platform, e.g. Xbox, Playstation, PC", False),
        ("The rank of the card (e.g. Ace, Two, King)", False),
        ("The name of the city", False),
    ],
)
def test_a_description_can_ask_for_a_place_with_its_state(description, wanted):
    assert is_place(told(description)) is wanted


def test_places_with_their_state_go_before_pieces():
    city = told("City, e.g. Austin, TX")
    assert places("From 2 Oak Street, Salem, OR to Rome") == ["2 Oak Street, Salem, OR"]
    assert narrow(spec(city=city), "Rooms in Salem, OR please")["city"] == {"enum": ["Salem, OR"]}
    both = narrow(spec(start=city, end=city), "Drive from Salem, OR to Boise")
    assert both["start"]["enum"][:1] == ["Salem, OR"]
    assert "Boise" in both["end"]["enum"]


def test_what_may_stand_behind_a_place_depends_on_the_description():
    states = place_pattern("St. Paul", told("e.g. Austin, TX"))
    assert re.search(states, "St. Paul, MN")
    assert not re.search(states, "St. Paul, France")
    countries = place_pattern("Nice", told("City, State (e.g. Austin, TX) or City, Country"))
    assert re.search(countries, "Nice, France")
    assert re.search(countries, "Nice, CA")


def test_types_that_a_schema_of_texts_only_tells_in_words():
    assert said_type(told("Whether. This is Java boolean type parameter.")) == "boolean"
    assert said_type(told("An integer value.")) == "integer"
    assert said_type(told("A name.")) is None
    deep, size = told("Deep? A boolean value."), told("Size. An integer type parameter.")
    assert narrow(spec(deep=deep, size=size), "Make a deep copy of 12 parts") == {
        "deep": {"enum": ["true"]},
        "size": {"enum": ["12"]},
    }
    assert narrow(spec(deep=deep), "Make a copy")["deep"] == {"enum": ["true", "false"]}


def test_each_quoted_text_goes_to_the_argument_whose_words_are_nearest():
    tool = spec(table=TEXT, column=TEXT)
    found = narrow(tool, "Sort by the column 'age' of the table 'people'")
    assert found == {"table": {"enum": ["people"]}, "column": {"enum": ["age"]}}


def test_a_quoted_value_of_an_enum_is_no_text_of_another_argument():
    tool = spec(kind={"type": "string", "enum": ["fast", "slow"]}, train=TEXT)
    assert narrow(tool, "A 'fast' train to Rome")["train"]["enum"] != ["fast"]


@pytest.mark.parametrize(
    ("question", "piece"),
    [
        ("Read https://example.org/a-b.json?x=1 for me", "https://example.org/a-b.json?x=1"),
        ("Write to jo.doe@example.org today", "jo.doe@example.org"),
        ("Data of the user with ID U123-4 please", "U123-4"),
        ("我想创建'Hub'吗", "Hub"),
        ("Say this: all is well here", "all is well here"),
    ],
)
def test_pieces_that_belong_together_stay_whole(question, piece):
    assert piece in pieces(question)


def test_a_sentence_ends_a_name():
    found = pieces("I am in New York. Can you find J. Doe?")
    assert "New York" in found
    assert "J. Doe" in found
    assert not any("Can" in piece for piece in found)


def test_a_choice_between_yes_and_no_as_texts_is_a_switch():
    kids = {"type": "string", "enum": ["True", "False", "dontcare"]}
    tool = spec(["city"], city=TEXT, for_kids=kids)
    assert wanted_arguments(tool, "Parks in Rome") == ["city"]
    assert narrow(tool, "Parks in Rome for kids")["for_kids"] == {"enum": ["True"]}


def test_numbers_of_an_enum_are_taken_from_the_question():
    seats = {"type": "integer", "enum": [1, 2, 3], "description": "Number of passengers."}
    tool = spec(["city"], city=TEXT, seats=seats)
    assert narrow(tool, "A bus to Rome for two passengers")["seats"] == {"enum": [2]}
    assert "seats" not in narrow(tool, "A bus to Rome")
