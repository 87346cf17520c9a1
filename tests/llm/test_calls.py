"""Calls from fragments: every habit of servers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.llm.values import Delta, ToolCallDelta

from .streams import assemble, calls, fragment, part, read, said, stream

F1 = ("f", {"a": 1})
F2 = ("f", {"a": 2})
G = ("g", {"b": 2})

HABITS: dict[str, tuple[list[ToolCallDelta], list[Any]]] = {
    "as documented": (
        [
            part("f", "", index=0, id="x"),
            part(None, '{"a"', index=0),
            part(None, ": 1}", index=0),
            part("g", "", index=1, id="y"),
            part(None, '{"b": 2}', index=1),
        ],
        [F1, G],
    ),
    "interleaved by index": (
        [
            part("f", "", index=0, id="x"),
            part("g", "", index=1, id="y"),
            part(None, '{"b"', index=1),
            part(None, '{"a"', index=0),
            part(None, ":2}", index=1),
            part(None, ":1}", index=0),
        ],
        [F1, G],
    ),
    "first index not 0": ([part("f", '{"a":', index=3), part(None, "1}", index=3)], [F1]),
    "one index, whole calls": (
        [part("f", '{"a":1}', index=0, id="x"), part("f", '{"a":2}', index=0, id="y")],
        [F1, F2],
    ),
    "one index, whole calls, no ids": (
        [part("f", '{"a":1}', index=0, id=""), part("f", '{"a":2}', index=0, id="")],
        [F1, F2],
    ),
    "one index, equal calls, no ids": (
        [part("f", '{"a":1}', index=0), part("f", '{"a":1}', index=0)],
        [F1, F1],
    ),
    "one index, fragments": (
        [
            part("f", "", index=0, id="x"),
            part(None, '{"a":1}', index=0),
            part("g", "", index=0, id="y"),
            part(None, '{"b":2}', index=0),
        ],
        [F1, G],
    ),
    "one index, fragments, no ids, one name": (
        [
            part("f", "", index=0),
            part(None, '{"a":1}', index=0),
            part("f", "", index=0),
            part(None, '{"a"', index=0),
            part(None, ":2}", index=0),
        ],
        [F1, F2],
    ),
    "one index, first call without arguments": (
        [part("f", "", index=0, id="x"), part("g", "", index=0, id="y"), part(None, '{"b":2}', index=0)],
        [("f", {}), G],
    ),
    "one index, interleaved by id": (
        [
            part("f", '{"a":', index=0, id="x"),
            part("f", '{"a":', index=0, id="y"),
            part(None, "1}", index=0, id="x"),
            part(None, "2}", index=0, id="y"),
        ],
        [F1, F2],
    ),
    "no index": ([part("f", '{"a":', id="x"), part(None, "1}"), part("g", '{"b":2}', id="y")], [F1, G]),
    "no index, interleaved by id": (
        [
            part("f", '{"a":', id="x"),
            part("g", '{"b":', id="y"),
            part(None, "1}", id="x"),
            part(None, "2}", id="y"),
        ],
        [F1, G],
    ),
    "no index, no ids": ([part("f", '{"a":1}'), part("g", '{"b":'), part(None, "2}")], [F1, G]),
    "index only at first": ([part("f", '{"a":', index=0, id="x"), part(None, "1}")], [F1]),
    "index counts the fragments": (
        [part("f", "", index=0, id="x"), part(None, '{"a"', index=1), part(None, ":1}", index=2, id="x")],
        [F1],
    ),
    "id changes in each fragment": (
        [
            part("f", '{"a"', index=0, id="x"),
            part(None, ":1", index=0, id="y"),
            part(None, "}", index=0, id="z"),
        ],
        [F1],
    ),
    "id changes and the name is repeated": (
        [
            part("f", '{"a"', index=0, id="x"),
            part("f", ":1}", index=0, id="y"),
            part("f", "", index=0, id="z"),
            part("f", "\n", index=0, id="w"),
        ],
        [F1],
    ),
    "name in every fragment": (
        [
            part("f", "", index=0, id="x"),
            part("f", '{"a"', index=0, id="x"),
            part("f", ":1}", index=0, id="x"),
            part("f", " ", index=0, id="x"),
            part("f", "", index=0, id="x"),
        ],
        [F1],
    ),
    "name grows": ([part("get", "", index=0), part("get_it", '{"a":1}', index=0)], [("get_it", {"a": 1})]),
    "name in pieces": ([part("get", "", index=0), part("_it", '{"a":1}', index=0)], [("get_it", {"a": 1})]),
    "name after the id": ([part(None, None, index=0, id="x"), part("f", '{"a":1}', index=0)], [F1]),
    "name after the id of a second call": (
        [
            part("f", '{"a":1}', index=0, id="x"),
            part(None, None, index=1, id="y"),
            part("g", '{"b":2}', index=1),
        ],
        [F1, G],
    ),
    "arguments as an object": ([part("f", {"a": 1}, index=0), part("g", {"b": 2}, index=1)], [F1, G]),
    "objects at one index": ([part("f", {"a": 1}, index=0), part("f", {"a": 2}, index=0)], [F1, F2]),
    "an object sent twice": (
        [part("f", {"a": 1}, index=0, id="x"), part("f", {"a": 1}, index=0, id="x")],
        [F1],
    ),
    "an empty object first": (
        [part("f", {}, index=0), part(None, '{"a"', index=0), part(None, ":1}", index=0)],
        [F1],
    ),
    "empty text of an object first": (
        [part("f", "{}", index=0, id="x"), part(None, '{"a"', index=0), part(None, ":1}", index=0)],
        [F1],
    ),
    "empty text of an object first, named again": (
        [part("f", "{}", index=0, id="x"), part("f", '{"a":1}', index=0, id="x")],
        [F1],
    ),
    "no arguments": ([part("f", None, index=0)], [("f", {})]),
    "arguments cumulative": (
        [part("f", '{"a"', index=0), part(None, '{"a":1', index=0), part(None, '{"a":1}', index=0)],
        [F1],
    ),
    "arguments cumulative, all repeated, end twice": (
        [part("f", text, index=0, id="x") for text in ("", '{"a"', '{"a":1}', '{"a":1}')],
        [F1],
    ),
    "arguments cumulative, no ids, end twice": (
        [part("f", text, index=0) for text in ("", '{"a"', '{"a":1}', '{"a":1}')],
        [F1],
    ),
    "same id twice": (
        [part("f", '{"a":1}', index=0, id="x"), part("g", '{"b":2}', index=1, id="x")],
        [F1, G],
    ),
    "same id at one index": (
        [part("f", '{"a":1}', index=0, id="x"), part("f", '{"a":2}', index=0, id="x")],
        [F1, F2],
    ),
    "empty fragments": ([part(index=0), part("f", '{"a":1}', index=1, id="x"), part(index=2, id="")], [F1]),
    "double-encoded": ([part("f", '"{\\"a\\"', index=0), part(None, ': 1}"', index=0)], [F1]),
}


@pytest.mark.parametrize(("parts", "expected"), HABITS.values(), ids=HABITS)
def test_habits_of_servers(parts: list[ToolCallDelta], expected: list[Any]):
    response = assemble(*parts)
    assert calls(response) == expected
    ids = [call.id for call in response.tool_calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    together = Assembler()
    together.feed(Delta(tool_calls=tuple(parts), finish_reason="stop"))
    assert together.finish() == response


DEFECTS: dict[str, tuple[list[ToolCallDelta], str]] = {
    "not JSON": ([part("f", "a=1", index=0)], "not valid JSON"),
    "cut": ([part("f", '{"a": "x', index=0)], "not valid JSON"),
    "NaN": ([part("f", '{"a": NaN}', index=0)], "NaN is not allowed"),
    "NaN in an object": ([part("f", {"a": float("nan")}, index=0)], "nan is not allowed"),
    "a list": ([part("f", "[1]", index=0)], "must be a JSON object"),
    "a list, not as text": ([part("f", [1], index=0)], "must be a JSON object"),
    "a number": ([part("f", 0, index=0)], "must be a JSON object"),
    "two objects": ([part("f", '{"a":1}', index=0), part(None, '{"a":2}', index=0)], "not valid JSON"),
}


@pytest.mark.parametrize(("parts", "reason"), DEFECTS.values(), ids=DEFECTS)
def test_defects_are_marked_and_hurt_no_other_call(parts: list[ToolCallDelta], reason: str):
    response = assemble(*parts, part("g", '{"b":2}', index=9, id="z"))
    bad, good = response.tool_calls
    assert (bad.name, bad.arguments) == ("f", {})
    assert reason in (bad.invalid or "")
    assert (good.name, good.arguments, good.invalid) == ("g", {"b": 2}, None)


def test_a_defect_does_not_swallow_a_call_at_the_same_index():
    response = assemble(part("f", '{"a": NaN}', index=0, id="x"), part("f", '{"a":2}', index=0, id="y"))
    assert [call.invalid is None for call in response.tool_calls] == [False, True]
    response = assemble(part("f", "{'a': 1}", index=0, id="x"), part("f", '{"a":2}', index=0, id="y"))
    assert [call.invalid is None for call in response.tool_calls] == [False, True]


def test_a_call_without_a_name_is_kept_so_that_the_model_hears_of_it():
    assert calls(assemble(part(None, '{"a":1}', index=0))) == [("", {"a": 1})]


@pytest.mark.parametrize("reason", ["length", "max_tokens"])
@pytest.mark.parametrize("written", [None, "", " ", '{"path": "/tm', '{"path": {"a": 1}'])
def test_a_call_that_was_cut_off_is_never_run(reason: str, written: str | None):
    response = assemble(part("g", '{"b":2}', index=0), part("f", written, index=1, id="x"), finish=reason)
    assert response.finish_reason == "length"
    assert [call.invalid is None for call in response.tool_calls] == [True, False]
    assert "cut off" in (response.tool_calls[1].invalid or "")
    assert response.tool_calls[1].arguments == {}


@pytest.mark.parametrize("reason", ["content_filter", "SAFETY", "sensitive"])
def test_calls_of_a_filtered_answer_are_left_out(reason: str):
    assembler = Assembler()
    call = ToolCallDelta(0, "c1", "f", '{"a":1}')
    assembler.feed(Delta("Let me", tool_calls=(call,)))
    assembler.feed(Delta(finish_reason=reason, extra={"parts": ["f"]}))
    response = assembler.finish()
    assert (response.tool_calls, response.extra) == ([], None)
    assert (response.content, response.finish_reason) == ("Let me", "content_filter")


def test_whole_calls_of_an_answer_that_was_cut_off_later_are_kept():
    response = assemble(part("f", '{"a":1}', index=0), finish="length")
    assert calls(response) == [F1]


def test_a_surrogate_pair_cut_between_two_fragments():
    response = assemble(part("f", '{"a":"\ud83d', index=0), part(None, '\ude00","b":"\ud800"}', index=0))
    assert calls(response) == [("f", {"a": "😀", "b": "\ufffd"})]


def test_names_ids_and_reasons_hold_no_lone_surrogates():
    response = assemble(part("f\ud800", "bad \ud800", index=0, id="\udfff"))
    call = response.tool_calls[0]
    (call.name + call.id + (call.invalid or "")).encode()


def test_shown_fragments_are_printable():
    shown = Assembler().feed(Delta(tool_calls=(part("f", '{"a":"\ud83d', index=0),)))
    str(shown.tool_calls[0].arguments).encode()


def test_calls_without_any_finish_reason_are_not_taken():
    with pytest.raises(LLMError, match="ended early"):
        assemble(part("f", '{"a":1}', index=0), finish=None)


@pytest.mark.parametrize("bad", ["a=1", "", '{"a": NaN}', '{"a": ', None])
def test_parallel_calls_are_different_calls(bad: str | None):
    parts = (part("f", bad), part("f", '{"a":2}'), part("f", '{"a":2}'))
    response = read(stream(said(tool_calls=[fragment("f", each.arguments) for each in parts]), said("stop")))
    assert len(response.tool_calls) == 3
    assert calls(response)[1:] == [F2, F2]
    same_index = [fragment("f", each.arguments, index=0, id="x") for each in parts]
    for listed in (same_index, [fragment("f", each.arguments) for each in parts]):
        whole = {"choices": [{"message": {"tool_calls": listed}, "finish_reason": "tool_calls"}]}
        response = LLMResponse.from_openai(whole)
        assert len(response.tool_calls) == 3
        assert calls(response)[1:] == [F2, F2]


OBJECTS = st.lists(
    st.tuples(
        st.sampled_from(["f", "g", "h"]),
        st.dictionaries(st.sampled_from("abc"), st.integers() | st.text('{}"\\: ', max_size=4), min_size=1),
    ),
    min_size=1,
    max_size=4,
)


@given(OBJECTS, st.data())
def test_documented_fragments_in_any_interleaving_give_the_same_calls(wanted: list[Any], data: Any):
    import json

    queues: list[list[ToolCallDelta]] = []
    for index, (name, arguments) in enumerate(wanted):
        text, queue = json.dumps(arguments), [part(name, "", index=index, id=f"id{index}")]
        while text:
            size = data.draw(st.integers(1, 8))
            queue.append(part(None, text[:size], index=index))
            text = text[size:]
        queues.append(queue)
    parts = [queue.pop(0) for queue in queues]  # the first fragments give the order
    while any(queues):
        queue = data.draw(st.sampled_from([queue for queue in queues if queue]))
        parts.append(queue.pop(0))
    assert calls(assemble(*parts)) == wanted


FRAGMENTS = st.builds(
    ToolCallDelta,
    index=st.none() | st.integers(0, 2),
    id=st.none() | st.sampled_from(["", "x", "y"]),
    name=st.none() | st.sampled_from(["", "f", "g"]),
    arguments=st.none()
    | st.sampled_from(["", " ", "{", "}", "{}", '{"a":1}', '{"a":', "1}", "null", "[", "\ud83d"])
    | st.sampled_from([{}, {"a": 1}, [], 5, float("nan")]),
)


@given(st.lists(FRAGMENTS, max_size=8), st.sampled_from(["stop", "length"]))
def test_any_fragments_give_valid_calls(parts: list[ToolCallDelta], finish: str):
    try:
        response = assemble(*parts, finish=finish)
    except LLMError as error:  # a call that was begun, and of which nothing came
        begun = any(part.id for part in parts)
        assert (error.kind, begun) == ("incomplete", True)  # noqa: PT017 - others give calls
        return
    ids = [call.id for call in response.tool_calls]
    assert len(set(ids)) == len(ids)
    for call in response.tool_calls:
        assert call.invalid is None or call.arguments == {}
    again = Assembler()
    again.feed(response.to_delta())
    assert again.finish().tool_calls == response.tool_calls
