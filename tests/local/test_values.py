"""Numbers, lists, dates and pieces of text that stand in a question."""

import pytest

from pure_agent_loop.local.pieces import pieces
from pure_agent_loop.local.values import (
    fitting_numbers,
    number_rows,
    read_dates,
    read_numbers,
    without_dates,
    written_lists,
)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("It is 1,200.5 or -3", [1200.5, -3]),
        ("two dozen eggs and twelve pans", [24, 12]),
        ("5 million at 300K, 2 m/s^2", [5_000_000, 300, 2]),
        ("C6H12O6 on a2", []),
        ("none", []),
    ],
)
def test_numbers_are_read_in_digits_and_words(text, values):
    assert [n.value for n in read_numbers(text)] == values


def test_a_share_is_a_part_of_one_unless_percent_is_asked_for():
    assert fitting_numbers("at 8% a year", {"type": "number"}) == [0.08]
    assert fitting_numbers("at 8% a year", {"type": "number", "description": "Rate in percent"}) == [8]
    assert fitting_numbers("at 8% a year", {"type": "integer"}) == [8]
    assert fitting_numbers("2.5 and 3", {"type": "integer"}) == [3]


def test_lists_are_read_with_and_without_brackets():
    assert written_lists("of [1, 2] and ['a', 'b'] and [oops") == [[1, 2], ["a", "b"]]
    assert written_lists("[[1, 2], [3, 4]] and [x, y]") == [[[1, 2], [3, 4]]]
    assert number_rows("values 12, 24 and 36, then A(3,4), and 7") == [[12, 24, 36], [3, 4]]


@pytest.mark.parametrize(
    ("text", "form", "wanted"),
    [
        ("from July 4th, 2024", "YYYY-MM-DD", ["2024-07-04"]),
        ("on 5 March 2023", "format dd/mm/yyyy", ["05/03/2023"]),
        ("2022/08/16", "mm-dd-yyyy", ["08-16-2022"]),
        ("2023 April 4th to April 8th", "YYYY-MM-DD", ["2023-04-04", "2023-04-08"]),
        ("on July 4th", "YYYY-MM-DD", []),
        ("on July 4th, 2024", "any form", []),
    ],
)
def test_dates_are_written_as_asked(text, form, wanted):
    assert read_dates(text, form) == wanted


def test_dates_leave_no_numbers_behind():
    assert [n.value for n in read_numbers(without_dates("2 nights from 10 May 2024"))] == [2]


def test_pieces_cut_no_name_in_two():
    found = pieces("When does the Metropolitan Museum of Art open in New York?")
    assert "Metropolitan Museum of Art" in found
    assert "New York" in found
    assert not {"Museum of Art", "York", "Museum"} & set(found)


def test_what_is_quoted_comes_first_and_owners_lose_their_s():
    assert pieces("Play 'Blue Sky' in the hall")[0] == "Blue Sky"
    assert "Albert Einstein" in pieces("What was Albert Einstein's idea?")


@pytest.mark.parametrize("text", ["", "?", "the", "北京天气", "\ud800", "a" * 3000, "'''"])
def test_there_is_always_a_piece(text):
    assert pieces(text)
