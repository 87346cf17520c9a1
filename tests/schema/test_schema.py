"""From annotations to JSON Schema and back from JSON arguments to Python values."""

# ruff: noqa: UP007, UP045, RUF013 - the old spellings Optional, Union and `x: int = None` are tested here

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import json
import sqlite3
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.schema.build import ToolArgumentError, build_schema
from pure_agent_loop.schema.signature import check_signature


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Place:
    """Somewhere on Earth."""

    city: str
    zip: int = 0


class Person(BaseModel):
    """Somebody."""

    name: str
    home: Place


class Options(typing_extensions.TypedDict, total=False):
    fast: bool


@dataclasses.dataclass
class Node:
    value: int
    children: list[Node] = dataclasses.field(default_factory=list)


def search(query: str, limit: int = 10, tags: list[str] = [], exact: bool = False) -> str:  # noqa: B006 - a list
    """Search the documentation.

    Everything is searched.

    Args:
        query: What to look for.
        limit: How many at most.

    Returns:
        The hits.
    """
    return query


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    found = build_schema(function).parameters["properties"]
    assert isinstance(found, dict)
    return found


def validated(function: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
    return build_schema(function).validate(arguments)


def problem(function: Callable[..., Any], **arguments: Any) -> str:
    with pytest.raises(ToolArgumentError) as caught:
        build_schema(function).validate(arguments)
    return str(caught.value)


def refusal(function: Callable[..., Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        build_schema(function)
    return str(caught.value)


DECORATOR = """
def loud(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper
"""
NAMES = st.sampled_from(["query", "limit", "tags", "exact"]) | st.text(max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


class TestDescription:
    def test_a_plain_function(self) -> None:
        schema = build_schema(search)
        assert schema.description == "Search the documentation.\n\nEverything is searched."
        assert schema.parameters == {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for."},
                "limit": {"type": "integer", "default": 10, "description": "How many at most."},
                "tags": {"type": "array", "items": {"type": "string"}, "default": []},
                "exact": {"type": "boolean", "default": False},
            },
            "required": ["query"],
            "additionalProperties": False,
        }

    def test_no_parameters(self) -> None:
        def now() -> str:
            return ""

        schema = build_schema(now)
        assert schema.description == ""
        assert schema.parameters == {
            "type": "object",
            "properties": {},
            "required": [],
            "additionalProperties": False,
        }
        assert schema.validate({}) == {}

    @pytest.mark.parametrize(
        ("annotation", "expected"),
        [
            (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
            (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}),
            (Color, {"enum": ["red", "blue"], "type": "string"}),
            (dict[str, int], {"additionalProperties": {"type": "integer"}, "type": "object"}),
            (list[list[float]], {"items": {"items": {"type": "number"}, "type": "array"}, "type": "array"}),
            (datetime.date, {"format": "date", "type": "string"}),
            (Any, {}),
            (Annotated[int, Field(ge=1)], {"minimum": 1, "type": "integer"}),
            (
                tuple[int, str],
                {
                    "maxItems": 2,
                    "minItems": 2,
                    "prefixItems": [{"type": "integer"}, {"type": "string"}],
                    "type": "array",
                    "items": {},  # OpenAI refuses an array without
                },
            ),
        ],
    )
    def test_types(self, annotation: Any, expected: dict[str, Any]) -> None:
        def take(value):
            return value

        take.__annotations__ = {"value": annotation}
        assert properties(take)["value"] == expected

    def test_definitions_are_written_where_they_are_used(self) -> None:
        def invite(person: Person, options: Options, color: Color = Color.RED) -> None: ...

        parameters = build_schema(invite).parameters
        text = json.dumps(parameters)
        assert "$ref" not in text
        assert "$defs" not in text
        assert '"title"' not in text
        person = parameters["properties"]["person"]
        assert person["description"] == "Somebody."
        place = person["properties"]["home"]
        assert place["properties"] == {"city": {"type": "string"}, "zip": {"default": 0, "type": "integer"}}
        assert place["required"] == ["city"]
        assert parameters["properties"]["color"]["default"] == "red"

    def test_keyword_next_to_a_reference_is_kept(self) -> None:
        @dataclasses.dataclass
        class Paint:
            color: Annotated[Color, Field(description="which one")] = Color.BLUE

        def paint(value):
            return value

        paint.__annotations__ = {"value": Paint}
        assert properties(paint)["value"]["properties"]["color"] == {
            "default": "blue",
            "description": "which one",
            "enum": ["red", "blue"],
            "type": "string",
        }

    def test_union_with_a_discriminator(self) -> None:
        class Cat(BaseModel):
            kind: Literal["cat"]

        class Dog(BaseModel):
            kind: Literal["dog"]

        def feed(value):
            return value

        feed.__annotations__ = {"value": Annotated[Union[Cat, Dog], Field(discriminator="kind")]}
        assert "$defs" not in json.dumps(build_schema(feed).parameters)
        assert len(properties(feed)["value"]["oneOf"]) == 2
        assert problem(feed, value={"kind": "cow"}).startswith("value: ")

    def test_recursive_types_keep_their_reference(self) -> None:
        def walk(tree: Annotated[Node, "where to start"]) -> None: ...

        parameters = build_schema(walk).parameters
        assert parameters["properties"]["tree"] == {"$ref": "#/$defs/Node", "description": "where to start"}
        assert parameters["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}

    def test_inlining_does_not_explode(self) -> None:
        kinds: list[Any] = [int]
        for level in range(30):
            fields = [("left", kinds[-1]), ("right", kinds[-1])]
            kinds.append(dataclasses.make_dataclass(f"Level{level}", fields))

        def take(value):
            return value

        take.__annotations__ = {"value": kinds[-1]}
        parameters = build_schema(take).parameters
        assert len(json.dumps(parameters)) < 20_000
        assert parameters["properties"]["value"] == {"$ref": "#/$defs/Level29"}

    def test_a_parameter_may_be_called_title_or_schema_or_ref(self) -> None:
        def take(
            title: str, schema: dict[str, Any], copy: bool, model_x: int, json: str, _x: int
        ) -> None: ...

        assert list(properties(take)) == ["title", "schema", "copy", "model_x", "json", "_x"]
        arguments = {"title": "a", "schema": {"title": 1}, "copy": True, "model_x": 1, "json": "{}", "_x": 1}
        assert validated(take, **arguments) == arguments

    def test_where_a_description_comes_from(self) -> None:
        def take(
            a: Annotated[int, "from Annotated"],
            b: Annotated[int, Field(description="from Field")],
            c: int,
            d: Person,
            e: Annotated[int, typing_extensions.Doc("from Doc")],
            f: int = Field(5, description="from the default", ge=1),
        ) -> None:
            """Take.

            Args:
                a: docstring
                b: docstring
                c: docstring
                f: docstring
            """

        found = {name: schema.get("description") for name, schema in properties(take).items()}
        assert found == {
            "a": "from Annotated",
            "b": "from Field",
            "c": "docstring",
            "d": "Somebody.",
            "e": "from Doc",
            "f": "from the default",
        }

    def test_a_field_as_default_value(self) -> None:
        def take(a: int = Field(description="needed"), b: int = Field(5, ge=1)) -> None: ...

        assert build_schema(take).parameters["required"] == ["a"]
        assert validated(take, a=1) == {"a": 1, "b": 5}
        assert problem(take, a=1, b=0) == "b: should be greater than or equal to 1, got 0"

    def test_defaults_without_a_json_form_are_left_out(self) -> None:
        def take(a: Any = object(), b: float = float("inf"), c: Path = Path("x")) -> None: ...  # noqa: B008 - defaults

        found = properties(take)
        assert "default" not in found["a"]
        assert "default" not in found["b"]
        assert found["c"]["default"] == "x"


class TestCallables:
    def test_bound_method_callable_object_and_async(self) -> None:
        class Weather:
            """A weather service."""

            def today(self, city: str) -> str:
                """Say what it is like."""
                return city

            async def __call__(self, city: str, days: int = 1) -> str:
                """Forecast."""
                return city

        assert build_schema(Weather().today).parameters["required"] == ["city"]
        assert build_schema(Weather().today).description == "Say what it is like."
        assert build_schema(Weather()).description == "Forecast."
        assert list(properties(Weather())) == ["city", "days"]
        assert check_signature(Weather()).name == "weather"

    def test_argument_bound_by_a_partial_is_hidden(self) -> None:
        def fetch(token: str, url: str, retries: int = 3) -> str:
            """Fetch."""
            return url

        bound = functools.partial(fetch, "secret", retries=5)
        schema = build_schema(bound)
        assert list(schema.parameters["properties"]) == ["url"]
        assert schema.description == "Fetch."
        assert check_signature(bound).name == "fetch"
        assert bound(**schema.validate({"url": "x"})) == "x"
        assert "unknown argument 'token'" in problem(bound, url="x", token="mine")

    def test_a_decorated_function(self) -> None:
        def paint(color: Color, query: str) -> None: ...

        # The decorator lives in another module, where the names in the annotations mean nothing.
        elsewhere = {"functools": functools}
        exec(DECORATOR, elsewhere)
        assert validated(elsewhere["loud"](paint), color="red", query="x") == {
            "color": Color.RED,
            "query": "x",
        }

    def test_types_of_the_enclosing_function(self) -> None:
        def define() -> Any:
            @dataclasses.dataclass
            class Inner:
                x: int

            Mode = Literal["a", "b"]  # noqa: N806 - a type

            def take(inner: Inner, mode: Mode, many: list[Inner]) -> None: ...

            return check_signature(take)

        schema = build_schema(define())
        assert schema.parameters["properties"]["mode"]["enum"] == ["a", "b"]
        found = schema.validate({"inner": {"x": "1"}, "mode": "a", "many": [{"x": 2}]})
        assert (found["inner"].x, found["many"][0].x) == (1, 2)

    def test_types_defined_later(self) -> None:
        names: dict[str, Any] = {}
        exec("def take(thing: 'Thing', things: 'list[Thing]') -> None: ...", names)
        signature = check_signature(names["take"])
        names["Thing"] = Color
        assert build_schema(signature).validate({"thing": "red", "things": ["blue"]}) == {
            "thing": Color.RED,
            "things": [Color.BLUE],
        }

    def test_text_inside_a_generic(self) -> None:
        def take(value):
            return value

        take.__annotations__ = {"value": list["Color"]}
        assert validated(take, value=["red"]) == {"value": [Color.RED]}

    def test_typing_typed_dict_on_every_python(self) -> None:
        class Inner(typing.TypedDict):
            n: int

        class Outer(typing.TypedDict, total=False):
            """Outer."""

            one: Inner
            many: list[Inner]
            maybe: Optional[Inner]

        def take(value):
            return value

        take.__annotations__ = {"value": dict[str, Annotated[Outer, "x"]]}
        Outer.__annotations__.update(one=Inner, many=list[Inner], maybe=Optional[Inner])
        inner = {"one": {"n": "1"}, "many": [{"n": 2}], "maybe": None}
        assert validated(take, value={"a": inner}) == {
            "value": {"a": {"one": {"n": 1}, "many": [{"n": 2}], "maybe": None}}
        }
        assert properties(take)["value"]["additionalProperties"]["description"] == "Outer."
        assert problem(take, value={"a": {"one": {}}}) == "value.a.one.n: field required"


class TestRefusals:
    def test_every_parameter_without_annotation_is_named(self) -> None:
        def bad(query, limit=10, *, flag: bool = False): ...

        message = refusal(bad)
        assert "'bad'" in message
        assert "'query', 'limit'" in message
        assert "def bad(query: str, limit: int = 10, flag: bool = False) -> str" in message

    def test_an_unbound_method(self) -> None:
        class Weather:
            def today(self, city: str) -> str:
                return city

        assert "bound method: tool(obj.today)" in refusal(Weather.today)

    def test_parameters_that_have_no_name(self) -> None:
        def stars(*items: int, **more: int) -> None: ...
        def only(a: int, /) -> None: ...

        assert "*items and **more" in refusal(stars)
        assert "functools.wraps" in refusal(stars)
        assert "'a'" in refusal(only)
        assert "'/'" in refusal(only)

    def test_no_signature(self) -> None:
        assert "signature cannot be read" in refusal(dict)
        assert "signature cannot be read" in refusal(5)

    def test_types_without_a_json_form(self) -> None:
        def query(sql: str, connection: sqlite3.Connection) -> None: ...
        def call(back: Callable[[int], int]) -> None: ...

        message = refusal(query)
        assert "'query'" in message
        assert "'connection'" in message
        assert "sqlite3.Connection" in message
        assert "functools.partial" in message
        assert "errors.pydantic.dev" not in message
        assert "Callable[[int], int]" in refusal(call)

    def test_names_that_do_not_exist(self) -> None:
        def take(value):
            return value

        take.__annotations__ = {"value": "Missing"}
        message = refusal(take)
        assert "'value'" in message
        assert "'Missing'" in message
        assert "TYPE_CHECKING" in message


class TestValidation:
    def test_coercion(self) -> None:
        def take(n: int, text: str, flag: bool, color: Color, place: Place, when: datetime.date) -> None: ...

        found = validated(
            take, n="7", text=5, flag="true", color="blue", place={"city": "Rome"}, when="2024-02-29"
        )
        assert found == {
            "n": 7,
            "text": "5",
            "flag": True,
            "color": Color.BLUE,
            "place": Place("Rome"),
            "when": datetime.date(2024, 2, 29),
        }

    def test_missing_argument_stays_missing(self) -> None:
        assert validated(search, query="x") == {"query": "x"}

    def test_the_arguments_are_not_changed(self) -> None:
        arguments = {"query": "x", "limit": None, "tags": '["a"]'}
        build_schema(search).validate(arguments)
        assert arguments == {"query": "x", "limit": None, "tags": '["a"]'}

    def test_null_for_an_optional_parameter_means_left_out(self) -> None:
        assert validated(search, query="x", limit=None) == {"query": "x"}
        assert problem(search, query=None) == "query: should be a valid string, got null"

    def test_none_as_default_allows_null(self) -> None:
        def take(a: int = None, b: Annotated[int, Field(ge=1)] = None) -> None: ...

        assert validated(take, a=None, b=None) == {"a": None, "b": None}
        assert problem(take, b=0).startswith("b: should be greater")

    def test_a_list_or_object_as_its_json_text(self) -> None:
        def take(place: Place, tags: list[str], text: str) -> None: ...

        found = validated(take, place='{"city": "Rome"}', tags='["a"]', text='["a"]')
        assert found == {"place": Place("Rome"), "tags": ["a"], "text": '["a"]'}
        message = problem(take, place='{"zip": 1}', tags="a, b", text="")
        assert message == "place.city: field required; tags: should be a valid list, got 'a, b'"

    def test_all_problems_in_one_line(self) -> None:
        def weather(city: str, days: int, unit: Literal["C", "F"] = "C") -> None: ...

        message = problem(weather, days="x", unit="K", foo=1)
        assert message == (
            "city: field required; days: should be a valid integer, got 'x'; "
            "unit: should be 'C' or 'F', got 'K'; unknown argument 'foo' (did you mean 'city'?)"
        )

    def test_unknown_arguments(self) -> None:
        assert problem(search, query="a", limt=3) == "unknown argument 'limt' (did you mean 'limit'?)"
        assert (
            problem(search, query="a", zzz=3) == "unknown argument 'zzz' (known: query, limit, tags, exact)"
        )
        assert problem(lambda: None, a=1) == "unknown argument 'a' (this tool takes none)"

    def test_places_inside_values(self) -> None:
        def take(
            people: list[Person], place: Place, either: Union[int, list[int]], pair: tuple[int, str]
        ): ...

        people = [{"name": "A", "home": {"city": "Rome", "zip": "x"}}]
        message = problem(take, people=people, place={"city": "Rome", "zap": 1}, either={"a": 1}, pair=[1])
        assert message.split("; ") == [
            "people[0].home.zip: should be a valid integer, got 'x'",
            "place: unknown field 'zap'",
            "either: should be a valid integer or should be a valid list, got {'a': 1}",
            "pair[1]: field required",
        ]

    def test_the_message_is_short_however_much_is_wrong(self) -> None:
        message = problem(search, query=["x" * 10_000], tags=[{}] * 100, **{f"no{i}": i for i in range(100)})
        assert len(message) < 1_500
        assert "more problems" in message
        assert "pydantic" not in message

    def test_message_is_encodable_for_any_arguments(self) -> None:
        message = problem(search, query="a", **{"\ud800": [{"\ud800": "\ud800"}]})
        assert b"got '\\ud800'" in message.encode()

    def test_a_validator_may_say_why(self) -> None:
        class Even(BaseModel):
            n: int

            def model_post_init(self, context: Any) -> None:
                if self.n % 2:
                    raise ValueError("n must be even")

        def take(value):
            return value

        take.__annotations__ = {"value": Even}
        assert problem(take, value={"n": 3}).startswith("value: n must be even")

    def test_the_error_is_one_of_ours(self) -> None:
        assert issubclass(ToolArgumentError, PureAgentLoopError)

    @given(st.dictionaries(NAMES, VALUES, max_size=4))
    def test_any_json_object_is_accepted_or_refused_in_words(self, arguments: dict[str, Any]) -> None:
        result, message = arguments, b""
        try:
            result = SEARCH.validate(arguments)
        except ToolArgumentError as error:
            message = str(error).encode()
        assert message or isinstance(result["query"], str)


SEARCH = build_schema(search)


def test_checking_a_signature_does_not_load_pydantic() -> None:
    code = (
        "import sys, pure_agent_loop.schema.build as s\n"
        "def f(a: int, b: 'tuple[str, ...]' = ()): 'Doc.'\n"
        "s.check_signature(f)\n"
        "assert 'pydantic' not in sys.modules\n"
        "s.build_schema(f)\n"
        "assert 'pydantic' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
