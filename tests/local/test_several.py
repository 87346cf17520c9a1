"""How many calls a question asks for, and with what: words and values only."""

import pytest

from pure_agent_loop.local.examples import read_tools
from pure_agent_loop.local.several import Request, lacking, requests_in

NUMBER, TEXT = {"type": "number"}, {"type": "string"}
NUMBERS = {"type": "array", "items": NUMBER}


def schema(tool, description="", required=None, **properties):
    parameters = {"type": "object", "properties": properties}
    parameters["required"] = list(properties) if required is None else required
    return {
        "type": "function",
        "function": {"name": tool, "description": description, "parameters": parameters},
    }


def spec(*args, **kwargs):
    return read_tools([schema(*args, **kwargs)])[0]


AREA = spec("circle_area", "Calculate the area of a circle.", radius=NUMBER)
WEATHER = spec("get_weather", "Get the weather forecast of a city.", city=TEXT)
TRIANGLE = spec("triangle_area", "Calculate the area of a triangle.", base=NUMBER, height=NUMBER)
MEAN = spec("mean", "Calculate the mean of numbers.", numbers=NUMBERS)
DISTANCE = spec("get_distance", "Get the distance between two cities.", city1=TEXT, city2=TEXT)
GROWTH = spec(
    "future_value",
    "Calculate the future value of a stock.",
    stock=TEXT,
    rate=NUMBER,
    years={"type": "integer"},
)
FACTORIAL = spec("factorial", "Calculate the factorial of a number.", number={"type": "integer"})
OFFERED = [WEATHER, FACTORIAL, DISTANCE]


def texts(question, tool):
    return [request.text for request in requests_in(question, [tool], tool)]


@pytest.mark.parametrize(
    ("tool", "question", "wanted"),
    [
        (
            AREA,
            "What is the area of circles with radius 5, 10 and 15?",
            [f"What is the area of circles with radius {r}?" for r in (5, 10, 15)],
        ),
        (
            WEATHER,
            "Tell me the weather in Paris, Rome and Oslo.",
            [f"Tell me the weather in {city}." for city in ("Paris", "Rome", "Oslo")],
        ),
        (
            WEATHER,
            "Tell me the weather in Rome, Italy and Oslo, Norway.",
            ["Tell me the weather in Rome, Italy.", "Tell me the weather in Oslo, Norway."],
        ),
        (
            TRIANGLE,
            "Area of the triangle with base 3 and height 4, and of the one with base 5 and height 6?",
            [
                "Area of the triangle with base 3 and height 4?",
                "Area of the triangle with base of the one with base 5 and height 6?",
            ],
        ),
        (
            GROWTH,
            "What is the future value for Acme at 3 % over 5 years and for Bolt at 4 % over 10 years?",
            [
                "What is the future value for Acme at 3 % over 5 years",
                "What is the future value for for Bolt at 4 % over 10 years?",
            ],
        ),
        (
            DISTANCE,
            "Distance between Rome and Oslo, then between Lima and Cairo?",
            ["Distance between Rome and Oslo?", "Distance between between Lima and Cairo?"],
        ),
    ],
)
def test_each_value_or_group_of_values_is_a_question_of_its_own(tool, question, wanted):
    assert texts(question, tool) == wanted


@pytest.mark.parametrize(
    ("tool", "question"),
    [
        (AREA, "What is the area of a circle with radius 5?"),
        (MEAN, "What is the mean of 5, 10 and 15?"),
        (TRIANGLE, "Area of a triangle with base 3 and height 4?"),
        (DISTANCE, "What is the distance between Rome and Oslo?"),
        (WEATHER, "Will it rain in Denver, Colorado?"),
        (WEATHER, "What is the weather in Oslo or Bergen?"),
        (WEATHER, "I am in Oslo. What will the weather be tomorrow?"),
        (
            spec("save", "Save a group.", name=TEXT, data={"type": "object"}),
            "Save a group of Ann, Bob and Carl.",
        ),
        (
            spec("plot", "Plot data.", data=NUMBERS, bins=NUMBER),
            "Plot the data: 5, 10, 15 and set the bins to 3.",
        ),
    ],
)
def test_what_one_call_takes_is_one_question(tool, question):
    assert texts(question, tool) == [question]


def test_values_that_belong_together_one_by_one():
    days = spec("forecast", "Get the weather of a city.", city=TEXT, days={"type": "integer"})
    assert texts("Weather of Rome and Oslo for 3 and 5 days respectively?", days) == [
        "Weather of Rome for 3 days respectively?",
        "Weather of Oslo for 5 days respectively?",
    ]


def test_pairs_go_before_groups_if_the_question_says_so():
    rank = spec("get_rank", "Get the rank of a team.", team=TEXT, league=TEXT)
    assert texts("What is the rank of Ajax and Celtic in Alpha and Beta respectively?", rank) == [
        "What is the rank of Ajax in Alpha respectively?",
        "What is the rank of Celtic in Beta respectively?",
    ]


@pytest.mark.parametrize(
    "question",
    [
        "Get the weather forecast for Oslo. Then calculate the factorial of 8.",
        "Get the weather forecast for Oslo; also calculate the factorial of 8.",
        "Get the weather forecast for Oslo and calculate the factorial of 8.",
        "1. Get the weather forecast for Oslo.\n2. Calculate the factorial of 8.",
        '"First, get the weather forecast for Oslo. Second, calculate the factorial of 8."',
    ],
)
def test_each_part_finds_its_own_tool(question):
    found = requests_in(question, OFFERED, WEATHER)
    assert [request.tool.name for request in found] == ["get_weather", "factorial"]
    assert ["Oslo" in request.text for request in found] == [True, False]
    assert ["8" in request.text for request in found] == [False, True]


def test_a_part_may_ask_for_several_calls_itself():
    found = requests_in(
        "Get the weather forecast of Rome and Oslo. Then calculate the factorial of 8.", OFFERED, WEATHER
    )
    assert [request.tool.name for request in found] == ["get_weather", "get_weather", "factorial"]


def test_a_sentence_without_values_is_no_request_for_another_tool():
    question = "Get the weather forecast of Oslo. I want to know it for the distance between two cities."
    assert requests_in(question, OFFERED, WEATHER) == [Request(WEATHER, question)]


def test_what_a_part_does_not_say_is_to_be_found_elsewhere():
    assert lacking(GROWTH, "Then do it for Bolt over 10 years at 4 %.") == ()
    assert lacking(WEATHER, "Then the weather there.") == ("city",)
    assert lacking(AREA, "And the area of this circle?") == ("radius",)
    assert lacking(WEATHER, "The weather of Oslo for the same city.") == ("city",)


def test_a_long_list_is_not_a_call_each():
    question = "Tell me the weather in " + ", ".join(f"Town{chr(65 + i)}" for i in range(12)) + " and Oslo."
    assert texts(question, WEATHER) == [question]
