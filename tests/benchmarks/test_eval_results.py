"""The results file and the table."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from benchmarks.bfcl.results import QuestionResult, ResultsFile, parse_line
from benchmarks.bfcl.table import as_markdown, as_text, short_kind, summarise
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.errors import ConfigError

RUN = "model, temperature=0"
ASKED = [{"role": "user", "content": "Area of a triangle?"}]


def record(number=0, name="multiple", **more):
    return QuestionResult(f"{name}_{number}", name, RUN, ASKED, **{"right": True, "seconds": 1.0, **more})


FULL = record(
    calls=[{"name": "f", "arguments": {"x": "😀\u2028é"}}],
    text="well",
    right=False,
    error_type="value_error:others",
    error="not 7",
    finish_reason="tool_calls",
    requests=2,
    usage={"completion_tokens": 9},
)


def write(path, *records, run=RUN):
    with ResultsFile(path, run) as file:
        for each in records:
            file.add(each)


def read(path):
    with ResultsFile(path, RUN) as file:
        return file


def test_written_results_are_read_back(tmp_path):
    write(tmp_path / "r.jsonl", FULL, record(1))
    assert read(tmp_path / "r.jsonl").records == {FULL.id: FULL, "multiple_1": record(1)}
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 2


def test_the_last_line_of_a_question_counts(tmp_path):
    failed = record(error_type="request:timeout", right=False)
    write(tmp_path / "r.jsonl", failed)
    write(tmp_path / "r.jsonl", record())
    assert read(tmp_path / "r.jsonl").records == {"multiple_0": record()}


@pytest.mark.parametrize("cut", [1, 30, -2, -1])
def test_a_torn_last_line_is_left_out_and_not_glued_to_the_next(tmp_path, cut):
    path = tmp_path / "r.jsonl"
    write(path, record(0), record(1))
    whole = path.read_text()
    first = whole.index("\n") + 1
    path.write_text(whole[:first] + whole[first:][:cut])
    torn = cut != -1  # only the newline is missing there
    with ResultsFile(path, RUN) as file:
        assert (file.broken, sorted(file.records)) == (
            torn,
            ["multiple_0"] if torn else ["multiple_0", "multiple_1"],
        )
        file.add(record(2))
    assert set(read(path).records) == {"multiple_0", "multiple_2"} | (set() if torn else {"multiple_1"})


BROKEN = ["nonsense", "[]", "null", "{}", "[" * 100_000, json.dumps({**asdict(record()), "seconds": "1"})]


@pytest.mark.parametrize("line", BROKEN)
def test_lines_without_results_are_counted(tmp_path, line):
    path = tmp_path / "r.jsonl"
    write(path, record(0))
    path.write_text(f"{line}\n\n{path.read_text()}")
    file = read(path)
    assert (file.broken, list(file.records)) == (1, ["multiple_0"])


def test_undecodable_bytes_are_a_broken_line(tmp_path):
    path = tmp_path / "r.jsonl"
    write(path, record(0))
    path.write_bytes(path.read_bytes() + b"\xff\xfe\x00\n")
    assert read(path).broken == 1


def test_fields_of_a_newer_version_do_no_harm():
    assert parse_line(json.dumps({**asdict(FULL), "colour": "red"})) == FULL


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_line_is_a_record_or_none(line):
    assert parse_line(line) is None


@given(st.data())
def test_no_part_of_a_line_is_a_result(data):
    line = json.dumps(asdict(FULL))
    assert parse_line(line[: data.draw(st.integers(0, len(line) - 1))]) is None


def test_a_file_of_another_run_is_left_alone(tmp_path):
    write(tmp_path / "r.jsonl", replace(record(), run="other"), run="other")
    before = (tmp_path / "r.jsonl").read_bytes()
    with pytest.raises(ConfigError, match="another run"):
        ResultsFile(tmp_path / "r.jsonl", RUN)
    assert (tmp_path / "r.jsonl").read_bytes() == before


def test_a_file_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("my notes, without a newline")
    with pytest.raises(ConfigError, match="not a results file"):
        ResultsFile(tmp_path / "notes.txt", RUN)
    assert (tmp_path / "notes.txt").read_text() == "my notes, without a newline"


@pytest.mark.parametrize("name", ["", "no/such/folder/r.jsonl"])
def test_impossible_file_name_raises_a_config_error(tmp_path, name):
    with pytest.raises(ConfigError, match="cannot be used"):
        ResultsFile(tmp_path / name, RUN)


# -- the table -------------------------------------------------------------------------------------

RECORDS = [
    *(record(i, seconds=float(i)) for i in range(1, 19)),
    record(19, seconds=19.0, right=False, error_type="simple_function_checker:wrong_count", requests=3),
    record(20, seconds=20.0, right=False, error_type="value_error:string", usage={"completion_tokens": 8}),
    record(0, "irrelevance", right=False, error_type="request:timeout", seconds=600.0),
    record(0, "live_simple"),
]


def test_table_shows_the_outcome():
    rows = summarise(RECORDS, {"multiple": 20, "irrelevance": 4})
    multiple, irrelevance, together = rows
    assert (multiple.n, multiple.right, multiple.percent) == (20, 18, 90.0)
    assert (multiple.median, multiple.p95) == (10.5, 19.0)
    more = [*RECORDS, record(21, seconds=21.0)]
    assert summarise(more, {"multiple": 21})[0].p95 == 20.0, "19 of 21 are too few"
    assert (multiple.tokens, multiple.requests) == (8, 3)
    assert multiple.errors == {"wrong_count": 1, "value_error:string": 1}
    assert (irrelevance.n, irrelevance.right, irrelevance.median) == (1, 0, 0.0), "a failure has no time"
    assert (together.name, together.n, together.wanted, together.right) == ("all", 21, 24, 18)


def test_empty_table_is_not_an_error():
    (row,) = summarise([], {"multiple": 20})
    assert (row.n, row.percent, row.median, row.p95) == (0, 0.0, 0.0, 0.0)
    assert "0 of 20" in as_text([row])


def test_both_tables_hold_the_same():
    rows = summarise(RECORDS, {"multiple": 20, "irrelevance": 4})
    text, markdown = as_text(rows).splitlines(), as_markdown(rows).splitlines()
    assert (
        len({line.index("errors") for line in text[:1]} | {line.index("wrong_count") for line in text[1:2]})
        == 1
    )
    assert markdown[1] == "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    cells = ["multiple", "20", "18", "90.0", "10.50", "19.00", "8", "3.0"]
    assert text[1].split()[:8] == markdown[2].strip("| ").split(" | ")[:8] == cells
    assert markdown[3].startswith(
        "| irrelevance | 1 of 4 | 0 | 0.0 | 0.00 | 0.00 | - | - | request:timeout 1 |"
    )


def test_kinds_are_shortened_only_where_a_function_of_the_checker_is_named():
    assert short_kind("parallel_function_checker_no_order:cannot_find_match") == "cannot_find_match"
    assert short_kind("checker_crashed:KeyError") == "checker_crashed:KeyError"
    assert short_kind("type_error:nested") == "type_error:nested"
    assert short_kind("no_call") == "no_call"
