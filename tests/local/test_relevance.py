"""Whether a question calls for a tool, and for which: words and numbers only."""

import pytest

from pure_agent_loop.local.examples import read_tools
from pure_agent_loop.local.relevance import THRESHOLD, best_tool, content_words, missing_numbers, relevance

NUMBER, TEXT = {"type": "number"}, {"type": "string"}


def schema(name, description="", required=None, **properties):
    parameters = {"type": "object", "properties": properties}
    parameters["required"] = list(properties) if required is None else required
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = read_tools(
    [
        schema("get_weather", "Get the weather forecast of a city.", city=TEXT),
        schema("get_news", "Get the newest headlines about a topic.", topic=TEXT),
        schema("convert_currency", "Convert money from one currency to another.", amount=NUMBER, to=TEXT),
    ]
)


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("What will the weather be like in Oslo?", "get_weather"),
        ("Show me the headlines about football in Spain.", "get_news"),
        ("Convert 20 units of the Swiss currency to Yen.", "convert_currency"),
        ("Who wrote Hamlet?", None),
        ("Hello there!", None),
        ("", None),
        ("查一下奥斯陆的天气", None),
    ],
)
def test_shared_words_decide_whether_and_which(question, name):
    found = best_tool(question, TOOLS)
    assert (found.name if found else None) == name


def test_without_tools_there_is_nothing_to_choose():
    assert best_tool("What is the weather in Oslo?", []) is None


def test_chinese_is_compared_by_characters():
    tools = read_tools(
        [schema("weather", "查询城市的天气预报", city=TEXT), schema("news", "查询新闻", topic=TEXT)]
    )
    weather, news = relevance("上海的天气预报怎么样？", tools)
    assert weather > news


def test_words_that_all_tools_share_do_not_decide():
    tools = read_tools(
        [
            schema("cone_volume", "Volume of a cone.", radius=NUMBER),
            schema("cone_mass", "Mass of a cone.", radius=NUMBER),
        ]
    )
    found = best_tool("What is the mass of a cone of radius 4?", tools)
    assert found
    assert found.name == "cone_mass"


def test_a_tool_that_needs_more_numbers_than_there_are_loses():
    tool = read_tools([schema("triangle_area", "Area of a triangle.", base=NUMBER, height=NUMBER)])
    with_numbers = relevance("What is the area of a triangle with base 3 and height 4?", tool)[0]
    without = relevance("What is the area of a triangle in general?", tool)[0]
    assert with_numbers >= THRESHOLD > without
    assert missing_numbers("base 3", tool[0]) == 0.5


def test_endings_and_filling_words_do_not_count():
    assert content_words("Calculate the distances between cities") == content_words("distance city")


def test_a_tool_without_schema_and_description_can_be_scored():
    assert len(relevance("ping the host", read_tools([schema("ping"), {"function": {"name": "x"}}]))) == 2


def test_what_is_done_tells_tools_for_one_matter_apart():
    tools = read_tools(
        [
            schema("cancel_cab", "Cab for a trip to an address.", address=TEXT),
            schema("reserve_cab", "Cab for a trip to an address.", address=TEXT),
        ]
    )
    for question, name in (
        ("Book me a cab to 5 Elm Road", "reserve_cab"),
        ("Remove the cab to 5 Elm Road", "cancel_cab"),
    ):
        found = best_tool(question, tools)
        assert found
        assert found.name == name


def test_what_is_done_does_not_make_a_tool_fit():
    assert best_tool("Find out who I am", read_tools([schema("find_cab", "Cab for a trip.")])) is None


def test_a_value_that_a_tool_offers_counts_for_it():
    kinds = {"type": "string", "enum": ["pizza", "soup"]}
    tools = read_tools([schema("order", "Place it.", what=kinds), schema("cancel", "Drop it.", number=TEXT)])
    pizza, other = relevance("Two pizzas for Ann, please", tools)
    assert pizza >= THRESHOLD > other


def test_a_note_that_all_tools_share_decides_nothing():
    note = " Note: it is written in the language Lua."
    tools = read_tools(
        [schema("cone", "Volume of a cone." + note), schema("cube", "Volume of a cube." + note)]
    )
    assert best_tool("Volume of a cube of 3 meters, said in the language of Rome", tools).name == "cube"
