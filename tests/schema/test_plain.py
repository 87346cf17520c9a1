"""Plain types are described without pydantic, in the same words."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Annotated, Any, Literal, Union

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.schema.build import ToolArgumentError, build_schema
from pure_agent_loop.schema.plain import core_of_all, plain_schema, schema_of
from pure_agent_loop.schema.signature import check_signature

SIMPLE = [str, int, float, bool, type(None), list, dict, Any, Literal["a"], Literal["a", "b"]]
NO_DEFAULT = object()


def _larger(inner):
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        inner.map(lambda each: list[each]),
        inner.map(lambda each: dict[str, each]),
        inner.map(lambda each: Annotated[each, "What it is."]),
        several.map(lambda each: Union[tuple(each)]),  # noqa: UP007 - of any length
    )


TYPES = st.recursive(st.sampled_from(SIMPLE), _larger, max_leaves=6)
DEFAULTS = st.one_of(
    st.just(NO_DEFAULT),
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.floats(),
    st.sampled_from(["", "é", [], [1, "a", None], {}, {"a": [1.5]}, {1: 2}, [b"x"], ()]),
)


def _function(annotation, default):
    def act(value):
        """Act.

        Args:
            value: The value.
        """

    act.__annotations__ = {"value": annotation}
    act.__defaults__ = () if default is NO_DEFAULT else (default,)
    return act


def _written(annotation, default):
    return json.dumps(_alike(build_schema(_function(annotation, default)).parameters))


def _alike(node):
    """One form for what means the same. `typing` keeps the one of two equal unions that it has seen first."""
    if isinstance(node, list):
        return [_alike(each) for each in node]
    if not isinstance(node, dict):
        return node
    known = {name: _alike(each) for name, each in node.items()}
    # Versions of pydantic differ in what they leave out, because it says nothing.
    if known.get("additionalProperties") is True:
        del known["additionalProperties"]
    if known.get("enum") == [known.get("const")]:
        del known["enum"]
    return {**known, "anyOf": sorted(known["anyOf"], key=str)} if "anyOf" in known else known


@given(TYPES, DEFAULTS)
def test_schema_equals_the_one_of_pydantic(annotation, default):
    by_pydantic = Annotated[annotation, object()]  # means nothing to either, but is not plain
    assert schema_of(by_pydantic) is None
    assert _written(annotation, default) == _written(by_pydantic, default)


@given(TYPES, DEFAULTS)
@example(str | None, None)
@example(int | str | None, 1)
@example(dict[str, int | str], None)
def test_validation_equals_the_one_of_pydantic(annotation, default):
    known = check_signature(_function(annotation, default)).parameters
    if plain_schema(known) is not None:
        by_pydantic = check_signature(_function(Annotated[annotation, object()], default))
        told = build_schema(by_pydantic)._validator.core_schema
        assert _core(core_of_all(known)) == _core(told)


def _core(node):
    """What pydantic's core is told, without the names of the class that carries it."""
    if isinstance(node, list):
        return [_core(each) for each in node]
    if not isinstance(node, dict):
        return node
    names = ("metadata", "cls", "computed_fields", "ref", "extra_behavior")  # the last is in the config, too
    known = {name: _core(each) for name, each in node.items() if name not in names}
    # What older versions say or leave out, and is so anyway.
    known = {name: each for name, each in known.items() if each not in (False, {"type": "any"})}
    return {**known, "choices": sorted(known["choices"], key=str)} if "choices" in known else known


@pytest.mark.parametrize(
    "annotation",
    [
        str,
        int,
        float,
        bool,
        list,
        dict,
        list[str],
        dict[str, int],
        str | None,
        Literal["a", "b"],
        dict[str, Any],
    ],
)
def test_usual_types_are_plain(annotation):
    assert schema_of(annotation) is not None


def test_the_check_is_built_later_and_holds():
    schema = build_schema(_function(list[int], NO_DEFAULT))
    assert schema.validate({"value": ["7"]}) == {"value": [7]}
    with pytest.raises(ToolArgumentError, match="value"):
        schema.validate({"value": "seven"})


def test_type_without_schema_is_rejected_early():
    with pytest.raises(ConfigError, match="value"):
        build_schema(_function(type("Odd", (), {}), NO_DEFAULT))


def test_an_agent_with_plain_tools_loads_no_pydantic():
    code = """
import sys
from pure_agent_loop import Agent, tool
from pure_agent_loop.testing import ScriptedLLM

@tool
def add(a: int, b: int = 0, tags: list[str] | None = None) -> int:
    "Add."
    return a + b

Agent(llm=ScriptedLLM([]), tools=[add])
print({"pydantic", "pydantic_core"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
