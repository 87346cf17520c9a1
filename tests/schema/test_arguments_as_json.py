"""Arguments are read as the JSON that a model wrote, also where a type is strict about Python's."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import pathlib
import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import pytest
import typing_extensions
from pydantic import BaseModel, ConfigDict, Field, Strict
from pydantic import dataclasses as strict_dataclasses

from pure_agent_loop import Agent, ConfigError, tool
from pure_agent_loop.testing import ScriptedLLM


class Level(enum.IntEnum):
    LOW = 1


class Place(enum.Enum):
    HERE = (1, 2)


class Colour(enum.Enum):
    RED = "red"


@strict_dataclasses.dataclass(config=ConfigDict(strict=True))
class Slot:
    at: datetime.time


class Row(NamedTuple):
    day: Annotated[datetime.date, Strict()]


class Entry(typing_extensions.TypedDict):
    size: Annotated[decimal.Decimal, Strict()]


class Days(BaseModel):
    """Strict as a whole: the oldest pydantic cannot mark a dict or a set of others alone."""

    model_config = ConfigDict(strict=True)
    counts: dict[datetime.date, int]
    red: set[Colour] | None


class Strictest(BaseModel):
    model_config = ConfigDict(strict=True)
    slots: Sequence[Slot]
    level: Level | None
    wait: datetime.timedelta
    names: frozenset[Colour]
    kind: Literal[1, "a", True]


STRICTEST = {"slots": [{"at": "10:00"}], "level": 1, "wait": "PT3S", "names": ["red"], "kind": 1}
DAY = datetime.date(2031, 1, 2)
CASES: list[tuple[Any, Any, Any]] = [
    (Annotated[Level, Strict()], 1, Level.LOW),
    (Annotated[bytes, Strict()], "x", b"x"),
    (Annotated[pathlib.Path, Strict()], "/x", pathlib.Path("/x")),
    (Annotated[uuid.UUID, Strict()] | None, str(uuid.UUID(int=5)), uuid.UUID(int=5)),
    (dict[str, Annotated[tuple[int, ...], Strict()]], {"a": [1]}, {"a": (1,)}),
    (Days, {"counts": {"2031-01-02": 1}, "red": ["red"]}, Days(counts={DAY: 1}, red={Colour.RED})),
    (list[Entry], [{"size": 1.5}], [{"size": decimal.Decimal("1.5")}]),
    (Row, ["2031-01-02"], Row(DAY)),
    (Slot, {"at": "10:00"}, Slot(datetime.time(10))),
    (Annotated[int, Strict()], 3.0, 3),
    (list[Annotated[int, Field(strict=True)]], [1.0, 2], [1, 2]),
]


def taking(kind):
    calls = []

    def take(value):
        calls.append(value)
        return "taken"

    take.__annotations__ = {"value": kind, "return": str}
    take.__doc__ = "Take."
    return take, calls


@pytest.mark.parametrize(("kind", "written", "wanted"), CASES, ids=map(str, range(len(CASES))))
def test_strict_type_accepts_its_json_form(kind, written, wanted):
    function, calls = taking(kind)
    assert asyncio.run(tool(function).execute({"value": written})) == "taken"
    assert (calls, type(calls[0])) == ([wanted], type(wanted))


def test_strict_models_in_models():
    function, calls = taking(Strictest)
    asyncio.run(tool(function).execute({"value": STRICTEST}))
    assert calls[0].slots[0].at == datetime.time(10)
    assert (calls[0].level, calls[0].names) == (Level.LOW, {Colour.RED})
    for name, wrong in {"slots": {}, "level": "1", "names": "red", "kind": "1", "wait": True}.items():
        said = asyncio.run(tool(function).execute({"value": {**STRICTEST, name: wrong}}))
        assert f"value.{name}" in said
    assert len(calls) == 1


def test_values_that_a_program_gives_itself_are_taken_as_they_are():
    function, calls = taking(Strictest)
    value = Strictest.model_validate_json('{"slots":[],"level":null,"wait":"PT1S","names":[],"kind":"a"}')
    asyncio.run(tool(function).execute({"value": value}))
    assert calls[0] is value
    function, calls = taking(Annotated[datetime.date, Strict()])
    asyncio.run(tool(function).execute({"value": DAY}))
    assert calls == [DAY]


UNSAYABLE = [Place, Literal[b"x"], Literal[Colour.RED], list[Literal[Place.HERE]]]


@pytest.mark.parametrize("kind", UNSAYABLE, ids=map(str, range(len(UNSAYABLE))))
def test_value_without_json_form_is_rejected(kind):
    function, _ = taking(kind)
    with pytest.raises(ConfigError, match=r"'value'.*not a JSON value"):
        _ = tool(function).parameters
    with pytest.raises(ConfigError, match=r"not a JSON value"):
        Agent(llm=ScriptedLLM([]), output_type=kind)


def test_a_dataclass_without_strictness_works_as_before():
    @dataclasses.dataclass
    class Plain:
        day: datetime.date
        size: float = 1

    function, calls = taking(Plain)
    asyncio.run(tool(function).execute({"value": {"day": "2031-01-02", "size": "2"}}))
    assert calls == [Plain(DAY, 2.0)]
