"""NaN, infinities and numbers out of range are a mistake of the model, in answers and in arguments."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from pure_agent_loop import Agent
from pure_agent_loop.testing import ScriptedLLM, call, raw_call

NONE = ["NaN", "nan", "Infinity", "-inf", "1e999", "-1e400", "9" * 400]


class Weather(BaseModel):
    city: str = ""
    degrees: float
    most: float = math.inf


@dataclass
class Point:
    x: float
    more: list[float]


@pytest.mark.parametrize("spelled", NONE)
@pytest.mark.parametrize("quoted", [True, False])
@pytest.mark.parametrize(
    ("kind", "form", "good"),
    [
        (float, "%s", "3.5"),
        (Weather, '{"city": "NaN", "degrees": %s}', '{"city": "NaN", "degrees": 3.5}'),
        (Point, '{"x": 1, "more": [2, %s]}', '{"x": 1, "more": [2, 3.5]}'),
        (dict[str, float], '{"a": %s}', '{"a": 3.5}'),
    ],
)
def test_no_answer_holds_one(kind, form, good, spelled, quoted):
    bad = form % (json.dumps(spelled) if quoted else spelled)
    with ScriptedLLM([bad, good]) as llm:
        result = Agent(llm=llm, output_type=kind).run("Measure.")
    assert len(llm.requests) == 2
    assert "3.5" in str(result.output)


@pytest.mark.parametrize("spelled", NONE)
def test_no_tool_gets_one(spelled):
    got: list[Any] = []

    def measure(value: float, name: str, more: list[float] | None = None) -> str:
        """Measure."""
        got.append((value, name, more))
        return "measured"

    bad = [
        call("measure", value=spelled, name="a"),
        call("measure", value=1.5, name="a", more=[spelled]),
        raw_call("measure", f'{{"value": {spelled}, "name": "a"}}'),
    ]
    with ScriptedLLM([*bad, call("measure", value=1.5, name=spelled), "Done."]) as llm:
        Agent(llm=llm, tools=[measure]).run("Measure.")
    assert got == [(1.5, spelled, None)]  # a text may be called so
