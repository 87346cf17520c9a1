"""A record and its line."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.sessions import Record, parse
from pure_agent_loop.sessions.stores import records
from pure_agent_loop.support.text import to_jsonable

DOCUMENT = Path(__file__).parents[3] / "docs" / "journal.md"
TEXT = st.text(st.characters() | st.sampled_from('\0\n\r\x0b\x85\u2028\ud800\udc00"\\{}'))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, JSON, max_size=4), st.floats(-1e12, 1e12), st.none() | st.just("00000001"))
def test_every_record_comes_back_from_its_line(data, time, parent):
    record = Record("00000002", parent, time, "step", to_jsonable(data))
    line = record.to_line()
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert line.count(records.MARK) == 1
    assert Record.from_line(line) == Record.from_line(line[:-1]) == record


@given(st.binary(max_size=60))
def test_any_bytes_are_either_records_or_problems(data):
    found = parse(io.BytesIO(data))
    assert found.records == []
    is_damaged = data.strip(b" \t\r\n") != b"" or data[-1:] not in (b"", b"\n")
    assert bool(found.problems) is is_damaged


def test_lone_surrogates_that_were_not_cleaned_survive_too():
    record = Record("1", None, 1.0, "x", {"text": "\ud800 \udfff"})
    assert Record.from_line(record.to_line()) == record


def test_value_without_a_json_form_is_rejected():
    with pytest.raises(ValueError, match="JSON"):
        Record("1", None, 1.0, "x", {"n": float("nan")}).to_line()
    with pytest.raises(TypeError):
        Record("1", None, 1.0, "x", {"n": {1}}).to_line()


def test_the_lines_in_the_documents_are_true():
    shown = re.findall(r'^ *(\{"id":.*\})$', DOCUMENT.read_text() + (records.__doc__ or ""), re.M)
    assert [Record.from_line(line.encode()).type for line in shown] == ["result", "result"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "it is not a JSON object"),
        (b"[]", "it is not a record"),
        (b'{"id":"1"}', "it is not a record"),
        (b'{"id":"1","parent":null,"time":1,"type":"X","data":1}', "invalid type and data"),
        (b'{"id":"1","parent":null,"time":1,"type":"x","data":{},"b":1}', "it has unknown keys: b"),
        (
            b'{"id":"1","parent":null,"time":1,"type":"x","data":{},"crc":"00000000"}',
            "its checksum does not match",
        ),
    ],
)
def test_defect_of_a_line_is_named(line, why):
    with pytest.raises(ValueError, match=f"^{why}$"):
        Record.from_line(line)


def test_a_piece_of_a_line_needs_its_checksum():
    with pytest.raises(ValueError, match=r"^its checksum is missing$"):
        Record.from_line(b'{"id":"1","parent":null,"time":1,"type":"x","data":{}}', by_hand=False)
