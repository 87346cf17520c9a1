"""Arguments: what is accepted, what is refused and why."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.llm.arguments import keep_doubles, loads_strictly, parse_arguments

ACCEPTED: list[tuple[Any, dict[str, Any]]] = [
    ('{"a": 1}', {"a": 1}),
    (' \n{"a": [1, null, true, "x"]} ', {"a": [1, None, True, "x"]}),
    ("", {}),
    (" \n", {}),
    (None, {}),
    ("null", {}),
    ("{}", {}),
    ({"a": {"b": 1}}, {"a": {"b": 1}}),
    (json.dumps('{"a": 1}'), {"a": 1}),
    ('{"a": "line\nbreak\tand \x00"}', {"a": "line\nbreak\tand \x00"}),
    ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
    ('{"a": "\ud83d\ude00"}', {"a": "😀"}),
    ('{"a": "\\ud800"}', {"a": "\ufffd"}),
    ('{"\\udc00": 1}', {"\ufffd": 1}),
    ('{"a": 12345678901234567890123}', {"a": 12345678901234567890123}),
    ('{"a": 1e5, "b": -0.5}', {"a": 1e5, "b": -0.5}),
    ('{"": 1}', {"": 1}),
]


@pytest.mark.parametrize(("raw", "expected"), ACCEPTED)
def test_accepted(raw: Any, expected: dict[str, Any]):
    arguments, invalid = parse_arguments(raw)
    assert (arguments, invalid) == (expected, None)
    json.dumps(arguments, allow_nan=False).encode()


REFUSED: list[tuple[Any, str]] = [
    ('{"a": NaN}', "NaN is not allowed"),
    ('{"a": -Infinity}', "-Infinity is not allowed"),
    ('{"a": [{"b": 1e999}]}', "1e999 is out of range"),
    ('{"a": 1, "b": 2, "a": 9}', "the key 'a' occurs twice"),
    ('{"a": {"x": 1, "x": 1}}', "the key 'x' occurs twice"),
    ("[1, 2]", "must be a JSON object, not list"),
    ('[{"a": 1}]', "must be a JSON object, not list"),
    ([{"a": 1}], "must be a JSON object, not list"),
    ([], "must be a JSON object, not list"),
    ("5", "must be a JSON object, not int"),
    (5, "must be a JSON object, not int"),
    (True, "must be a JSON object, not bool"),
    ('"text"', "are not valid JSON"),
    ('{"a": 1', "are not valid JSON"),
    ('{"a": 1}}', "are not valid JSON"),
    ("{'a': 1}", "are not valid JSON"),
    ('{"a": 1} {"b": 2}', "are not valid JSON"),
    ('{"a": ' + "9" * 5000 + "}", "are not valid JSON"),
    ('{"a":' * 100_000 + "1" + "}" * 100_000, "are nested too deeply"),
    ("[" * 100_000, "are nested too deeply"),
    ('{"a":' + "[" * 120 + "]" * 120 + "}", "are nested too deeply"),
    ({"a": float("nan")}, "nan is not allowed"),
    ({"a": [float("inf")]}, "inf is not allowed"),
    ({"a": keep_doubles([("b", 1), ("b", 2)])}, "the key 'b' occurs twice"),
    (json.dumps(json.dumps('{"a": 1}')), "must be a JSON object, not str"),
    (json.dumps('{"a": NaN}'), "NaN is not allowed"),
]


@pytest.mark.parametrize(("raw", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_refused_with_a_reason_and_a_short_preview(raw: Any, reason: str):
    arguments, invalid = parse_arguments(raw)
    assert arguments == {}
    assert invalid is not None
    assert reason in invalid
    assert "You wrote:" in invalid
    assert len(invalid) < 900


def test_a_long_doubled_key_is_found_fast_and_shown_short():
    pairs = [(f"key{i}", 0) for i in range(100_000)] + [("x" * 10_000, 1), ("x" * 10_000, 2)]
    text = "{" + ",".join(f"{json.dumps(k)}:{v}" for k, v in pairs) + "}"
    _, invalid = parse_arguments(text)
    assert invalid is not None
    assert "occurs twice" in invalid
    assert len(invalid) < 900


def test_an_object_that_holds_itself_is_refused():
    loop: dict[str, Any] = {}
    loop["me"] = loop
    assert parse_arguments(loop)[1] is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=15,
)


@given(st.dictionaries(st.text(), JSON))
def test_json_is_returned_unchanged(value: dict[str, Any]):
    for ascii_only in (True, False):
        assert parse_arguments(json.dumps(value, ensure_ascii=ascii_only)) == (value, None)
    assert parse_arguments(value) == (value, None)


@given(st.text() | JSON | st.text('{}[]",:\\NaInfity019e-. \n'))
def test_parsing_never_raises_and_returns_plain_json(raw: Any):
    arguments, invalid = parse_arguments(raw)
    assert json.loads(json.dumps(arguments, allow_nan=False)) == arguments
    if invalid is None and isinstance(raw, str) and raw.strip():
        assert loads_strictly(raw) is None or isinstance(loads_strictly(raw), (dict, str))
