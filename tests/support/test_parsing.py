"""JSON of any depth is a value or a `ValueError`."""

import json
from contextlib import suppress
from itertools import groupby

import pytest

from pure_agent_loop.llm.arguments import loads_strictly
from pure_agent_loop.support.parsing import (
    MAX_DEPTH,
    JsonDecoder,
    TooDeepError,
    json_or_text,
    parsed_object,
    read_json,
)


def _nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def _nested_objects(levels: int) -> str:
    return '{"a":' * levels + "0" + "}" * levels


@pytest.mark.parametrize("read", [read_json, loads_strictly, JsonDecoder().raw_decode])
@pytest.mark.parametrize("write", [_nested, _nested_objects])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, MAX_DEPTH + 2, 900, 5_000, 100_000])
def test_a_text_with_too_many_levels_raises_a_value_error(read, write, levels):
    with pytest.raises(TooDeepError, match="nested too deeply"):
        read(write(levels))


@pytest.mark.parametrize("write", [_nested, _nested_objects])
def test_a_text_with_as_many_levels_as_allowed_is_parsed(write):
    text = write(MAX_DEPTH)
    assert json.dumps(read_json(text), separators=(",", ":")) == text


def test_only_levels_count_and_not_brackets():
    wide = json.dumps([{"a": [index]} for index in range(MAX_DEPTH * 10)])
    assert len(read_json(wide)) == MAX_DEPTH * 10
    brackets = "[{" * MAX_DEPTH
    assert read_json(json.dumps([brackets])) == [brackets]


def test_a_value_is_parsed_behind_deeply_nested_text():
    text = _nested(MAX_DEPTH + 1) + '{"a": 1}'
    assert JsonDecoder().raw_decode(text, text.index("{")) == ({"a": 1}, len(text))


def _outcome(text: str, frames: int) -> object:
    """What `read_json` does with so many functions on the stack."""
    if frames:
        return _outcome(text, frames - 1)
    try:
        return read_json(text)
    except ValueError as error:
        return type(error)


def test_a_text_is_parsed_or_refused_where_the_stack_is_almost_full():
    outcomes = list[object]()
    with suppress(RecursionError):  # raised where `read_json` itself no longer fits
        outcomes.extend(_outcome(_nested(150), frames) for frames in range(0, 2_000, 5))
    kinds = [each if isinstance(each, type) else "value" for each in outcomes]
    assert [kind for kind, _ in groupby(kinds)] == ["value", TooDeepError]


def test_a_text_that_is_not_json_is_returned_unchanged():
    assert json_or_text('{"a": 1}') == {"a": 1}
    for text in ("{", "", "NaN1", _nested(100_000)):
        assert json_or_text(text) == text


def test_only_an_object_is_returned_as_one():
    assert parsed_object(b'{"a": 1}') == {"a": 1}
    for text in ("[]", "1", "", b"{}}", b"\xff{", _nested_objects(100_000)):
        assert parsed_object(text) is None
