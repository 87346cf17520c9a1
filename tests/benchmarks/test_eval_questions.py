"""The questions, and their conversion to tool schemas."""

from __future__ import annotations

import ast
import copy
import json
import re

import pytest
from benchmarks.bfcl.conversion import TYPES, to_tool
from benchmarks.bfcl.questions import GROUPS, SETS, pick, set_names
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.errors import ConfigError

COUNTS = {
    "simple_python": 400,
    "multiple": 200,
    "parallel": 200,
    "parallel_multiple": 200,
    "irrelevance": 240,
    "simple_java": 100,
    "simple_javascript": 50,
    "live_simple": 258,
    "live_multiple": 1053,
    "live_parallel": 16,
    "live_parallel_multiple": 24,
    "live_irrelevance": 884,
    "live_relevance": 16,
}


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_every_set_is_whole(name, count, questions):
    found = questions(name)
    assert len(found) == len({question.id for question in found}) == count
    assert all(bool(question.answers) == (SETS[name].wanted == "calls") for question in found)
    assert all(question.messages[-1]["role"] == "user" for question in found)


def test_groups_name_sets():
    assert set_names(["standard"]) == list(COUNTS)[:5]
    assert set_names(["irrelevance", "standard"])[0] == "irrelevance"
    assert (
        sorted(set_names(["standard", "live", "other_languages"])) == sorted(GROUPS["all"]) == sorted(COUNTS)
    )


@pytest.mark.parametrize("names", [["simple"], [""], []])
def test_unknown_set_is_refused(names):
    with pytest.raises(ConfigError, match="set"):
        set_names(names)


def test_a_part_is_fixed_and_grows(questions):
    everything = questions("simple_python")
    assert [q.id for q in pick(everything, 3, None)] == [f"simple_python_{i}" for i in range(3)]
    small, large = pick(everything, 20, 7), pick(everything, 50, 7)
    assert {q.id for q in small} < {q.id for q in large}
    assert [everything.index(q) for q in large] == sorted(everything.index(q) for q in large)
    assert [q.id for q in pick(everything, 5, 7)] == FIRST_OF_SEED_7
    assert [q.id for q in pick(everything, 5, 8)] != FIRST_OF_SEED_7
    assert len(pick(everything, 1000, 7)) == 400


FIRST_OF_SEED_7 = [f"simple_python_{number}" for number in (124, 204, 280, 282, 375)]


# -- conversion ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def leaderboard(package):
    """The leaderboard's own conversion, taken out of modules that import every vendor's client."""
    code = package / "bfcl_eval"
    wanted = {
        "model_handler/utils.py": {"_cast_to_openai_type", "convert_to_tool"},
        "utils.py": {"_get_language_specific_hint", "_func_doc_language_specific_pre_processing"},
    }
    space = {"copy": copy, "json": json, "re": re}
    space["is_java"], space["is_js"] = (
        (lambda name: "java" in name and "script" not in name),
        (lambda name: "javascript" in name),
    )
    for file in ("constants/type_mappings.py", "constants/enums.py"):
        exec((code / file).read_text(encoding="utf-8"), space)
    for file, names in wanted.items():
        tree = ast.parse((code / file).read_text(encoding="utf-8"))
        tree.body = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in names]
        assert len(tree.body) == len(names)
        exec(compile(tree, file, "exec"), space)

    def convert(functions, name):
        hinted = space["_func_doc_language_specific_pre_processing"](copy.deepcopy(functions), name)
        style = space["ModelStyle"].OPENAI_COMPLETIONS
        return space["convert_to_tool"](hinted, space["GORILLA_TO_OPENAPI"], style)

    return convert


@pytest.mark.parametrize("name", COUNTS)
def test_tools_match_the_leaderboard(name, questions, leaderboard):
    for question in questions(name):
        assert question.tools == leaderboard(question.functions, name), question.id


def schemas(tool):
    """All schemas of a tool, with those inside."""
    stack = [tool["function"]["parameters"]]
    while stack:
        schema = stack.pop()
        yield schema
        stack += schema.get("properties", {}).values()
        stack += [schema["items"]] if "items" in schema else []


JSON_TYPES = {"string", "integer", "number", "boolean", "array", "object"}


@pytest.mark.parametrize("name", COUNTS)
def test_every_tool_fits_the_protocol(name, questions):
    for tool in (tool for question in questions(name) for tool in question.tools):
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", tool["function"]["name"])
        assert {schema["type"] for schema in schemas(tool)} <= JSON_TYPES


leaf_types = st.sampled_from([name for name, kind in TYPES.items() if kind not in ("array", "object")])
leaves = st.fixed_dictionaries(
    {}, optional={"type": leaf_types | st.text(max_size=5), "description": st.text(max_size=5)}
)


def containers(inner):
    lists = st.fixed_dictionaries({"type": st.sampled_from(["array", "tuple", "list"]), "items": inner})
    fields = st.dictionaries(st.text(max_size=5), inner, max_size=3)
    return lists | st.fixed_dictionaries({"type": st.sampled_from(["dict", "object"]), "properties": fields})


types = st.recursive(leaves, containers, max_leaves=8)
functions = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"[a-z]+(\.[a-z_]+){0,2}", fullmatch=True),
        "description": st.text(max_size=10),
        "parameters": st.fixed_dictionaries(
            {"type": st.just("dict"), "properties": st.dictionaries(st.text(max_size=5), types, max_size=4)}
        ),
    }
)


@given(functions)
def test_any_doc_becomes_a_schema_and_stays_as_it_was(function):
    before = copy.deepcopy(function)
    tool = to_tool(function)
    assert function == before
    assert "." not in tool["function"]["name"]
    assert {schema["type"] for schema in schemas(tool)} <= JSON_TYPES
    assert json.loads(json.dumps(tool)) == tool
    assert skeleton(tool["function"]["parameters"]) == skeleton(function["parameters"])


def skeleton(schema):
    """The names and nesting of a schema."""
    if "properties" in schema:
        return {name: skeleton(inner) for name, inner in schema["properties"].items()}
    return [skeleton(schema["items"])] if "items" in schema else None
