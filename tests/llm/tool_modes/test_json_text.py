"""One JSON object a step, read back into ordinary deltas, also from servers that cannot constrain."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pure_agent_loop.llm.response import Assembler
from pure_agent_loop.llm.tool_modes.json_action import (
    JsonReader,
    action_schema,
    response_formats,
    write_action,
)
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.support.text import clean_text
from tests.llm.tool_modes.test_recover import CALL, SIZES, TOOLS

OSLO = [("get_weather", {"city": "Oslo"}, None)]
ACTION = '{"tool": "get_weather", "arguments": {"city": "Oslo"}}'

NOW = '{"tool": "now", "arguments": {}}'


def final(text):
    return json.dumps({"tool": "final_answer", "arguments": {"answer": text}})


def read(text, sizes=(1 << 20,), *, is_cut=False):
    """Feed a text in pieces of these sizes; return (text shown, calls, text shown before the end)."""
    reader, assembler, position, turn = JsonReader(TOOLS), Assembler(), 0, 0
    early = ""
    while position < len(text):
        size = sizes[turn % len(sizes)]
        early += assembler.feed(reader.feed(text[position : position + size])).text
        position, turn = position + size, turn + 1
    assembler.feed(reader.finish(is_cut=is_cut))
    assembler.feed(Delta(finish_reason="length" if is_cut else "stop"))
    response = assembler.finish()
    return response.content or "", [(c.name, c.arguments, c.invalid) for c in response.tool_calls], early


@pytest.mark.parametrize(
    "text",
    [
        ACTION,
        f"\n```json\n{ACTION}\n```",
        CALL,
        f"{ACTION}\nObservation: rain\n{final('It rains.')}",
        f"{ACTION}\nThis shows the weather.",
        '{"tool": "get_weather", "city": "Oslo"}',
        '{"tool": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}',
        '{"get_weather": {"city": "Oslo"}}',
        f'{{"tool_calls": [{CALL}]}}',
        f"<tool_call>{CALL}</tool_call>",
        '{"tool": "get_weather", "arguments": {"city": "Oslo"}',  # one brace missing, the arguments are whole
    ],
)
def test_an_action_becomes_a_call(text):
    assert read(text)[1] == OSLO
    assert read(text, [1])[:2] == read(text)[:2]


def test_several_actions_keep_their_order_and_a_made_up_answer_is_dropped():
    text = f'{ACTION}\n{{"tool": "now", "arguments": {{}}}}\n{final("made up")}\n{ACTION}'
    assert read(text)[:2] == ("", [*OSLO, ("now", {}, None)])


@pytest.mark.parametrize(
    "text",
    [
        f"[{ACTION}, {NOW}]",
        f"```json\n[\n  {ACTION},\n  {NOW}\n]\n```",
        f"{ACTION}, {NOW}",
        f'{{"actions": [{ACTION}, {NOW}]}}',
        f'{{"calls": [{ACTION}, {NOW}, {final("made up")}]}}',
    ],
)
def test_a_model_that_is_not_held_to_one_action_may_write_several(text):
    assert read(text)[:2] == ("", [*OSLO, ("now", {}, None)])
    assert read(text, [1])[:2] == read(text)[:2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (final("It rains."), "It rains."),
        (f"```json\n{final('It rains.')}\n```", "It rains."),
        ('{"arguments": {"answer": "It rains."}, "tool": "final_answer"}', "It rains."),
        ('{"tool": "final_answer", "arguments": "It rains."}', "It rains."),
        ('{"tool": "final_answer", "answer": "It rains."}', "It rains."),
        ('{"tool": "final_answer", "arguments": {"text": "It rains."}}', "It rains."),
        ('{"tool": "final_answer", "arguments": {"answer": 8.5}}', "8.5"),
        ('{"tool": "final_answer", "arguments": {"a": 1, "b": 2}}', '{"a": 1, "b": 2}'),
        ('{"final_answer": {"answer": "It rains."}}', "It rains."),
        ('{"tool": "final_answer", "arguments": {}}', ""),
        (f"I know it.\n{final('It rains.')}", "I know it.\nIt rains."),
        (final("").replace('""', r'"\(x\) \u4e2d \ud83d\ude00 \uZ"'), r"\(x\) 中 😀 \uZ"),
        (final("").replace('""', '"two\nlines"'), "two\nlines"),
    ],
)
def test_a_final_answer_becomes_text(text, expected):
    for sizes in ([1 << 20], [1], [5, 2]):
        assert read(text, sizes)[:2] == (expected, [])


@pytest.mark.parametrize(
    "text",
    ["It rains.", '{"name": "Ann", "age": 7}', "```python\nprint({})\n```", "[1, 2]", "{}", "<b>x</b>"],
)
def test_text_without_an_action_is_the_answer(text):
    assert read(text)[:2] == read(text, [1])[:2] == (text, [])


def test_an_answer_streams():
    assert read(final("It rains."), [1])[2] == "It rains."
    assert read("It rains.\nIn Oslo, [1] and {2}.", [1])[2] == "It rains.\nIn Oslo, [1] and {2}."


@pytest.mark.parametrize(
    ("text", "name", "problem"),
    [
        ('{"tool": "rm", "arguments": {"path": "/"}}', "rm", None),
        ('{"tool": "get_weather", "arguments": {"town": "Oslo"}}', "get_weather", None),
        ('{"tool": "get_weather", "arguments": {"city": Oslo}}', "get_weather", "not valid JSON"),
        ('{"tool": "get_weather", "arguments": {"city": "a", "city": "b"}}', "get_weather", "not valid JSON"),
    ],
)
def test_impossible_action_becomes_a_call_with_an_error(text, name, problem):
    _, [(found, _, invalid)], _ = read(text)
    assert found == name
    assert (problem or "") in (invalid or "")


def test_an_action_that_was_cut_off_is_never_run():
    whole = read(ACTION, is_cut=True)
    assert whole[1] == OSLO
    for cut in range(1, ACTION.index("}")):
        text, calls, _ = read(ACTION[:cut], is_cut=True)
        assert text == ""
        assert all(invalid for _, _, invalid in calls), calls
    assert read(final("It rains.")[:-5], is_cut=True)[0] == "It rain"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30) | st.text('"\\nu0d8{}[]\n😀', max_size=30), SIZES, st.booleans())
def test_every_answer_comes_back_however_it_is_cut(answer, sizes, ascii_only):
    text = json.dumps(
        {"tool": "final_answer", "arguments": {"answer": answer}},
        ensure_ascii=ascii_only,
        separators=(",", ":"),
    )
    expected = clean_text(answer) if answer.strip() else ""
    assert read(text, sizes)[:2] == (expected, [])


PIECES = st.sampled_from(
    [ACTION, CALL, final("x"), "{", "}", "\n", "```", "```json\n", "a", '{"tool": "', "<tool_call>"]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=6).map("".join), SIZES, st.booleans())
def test_the_result_does_not_depend_on_how_the_text_was_cut(text, sizes, is_cut):
    assert read(text, sizes, is_cut=is_cut)[:2] == read(text, is_cut=is_cut)[:2]


def test_the_schema_holds_every_tool_and_the_answer():
    schema = action_schema(TOOLS)
    assert schema["type"] == "object"
    names = [choice["properties"]["tool"]["enum"] for choice in schema["anyOf"]]
    assert names == [["get_weather"], ["now"], ["final_answer"]]
    assert schema["anyOf"][0]["properties"]["arguments"]["required"] == ["city"]
    assert schema["anyOf"][1]["properties"]["arguments"]["type"] == "object"
    assert action_schema([])["properties"]["tool"]["enum"] == ["final_answer"]
    assert [each and each["type"] for each in response_formats(TOOLS)] == ["json_schema", "json_object", None]
    assert [each and each["type"] for each in response_formats([])] == ["json_schema", None, None]


def test_references_in_a_tools_schema_still_lead_to_their_place():
    parameters = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Tree"}, "self": {"$ref": "#"}},
        "$defs": {"Tree": {"type": "object", "properties": {"sub": {"$ref": "#/$defs/Tree"}}}},
    }
    schema = action_schema([{"function": {"name": "plant", "parameters": parameters}}])
    assert schema["anyOf"][0]["properties"]["arguments"] == {"$ref": "#/$defs/plant"}
    plant = schema["$defs"]["plant"]
    assert plant["properties"]["tree"] == {"$ref": "#/$defs/plant/$defs/Tree"}
    assert plant["properties"]["self"] == {"$ref": "#/$defs/plant"}
    assert plant["$defs"]["Tree"]["properties"]["sub"] == {"$ref": "#/$defs/plant/$defs/Tree"}
    assert parameters["properties"]["self"] == {"$ref": "#"}  # the tool's own is not touched


def test_the_history_is_written_as_it_would_be_read():
    calls = [{"function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}]
    assert write_action({"content": None, "tool_calls": calls}) == ACTION
    assert write_action({"content": "Hm.", "tool_calls": calls * 2}) == f"Hm.\n{ACTION}\n{ACTION}"
    assert read(write_action({"content": "中"}))[0] == "中"
    assert read(write_action({"content": [{"type": "text", "text": "a"}]}))[0] == "a"
    assert '"arguments": {}' in write_action({"tool_calls": [{"function": {"name": "f", "arguments": "{"}}]})
