"""Pieces of a question that can be arguments."""

import pytest

from pure_agent_loop.local.spans import (
    features,
    numbers,
    paths,
    phrases,
    similarity,
    sum_pattern,
    written_sum,
)


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("What is 17 * 23?", "17 * 23"),
        ("Work out (12 + 8) * 3.", "(12 + 8) * 3"),
        ("3×4 = ?", "3*4"),
        ("2 ^ 10", "2 ** 10"),
        ("1,200 + 3", "1200 + 3"),
        ("What is 15% of 80?", "15 / 100 * 80"),
        ("What is the sum of 17 and 25?", None),
        ("Which files are in the docs folder?", None),
    ],
)
def test_a_sum_that_stands_in_the_question_is_found(question, wanted):
    assert written_sum(question) == wanted


def test_the_pattern_allows_the_numbers_of_the_question_in_both_orders_and_no_others():
    import re

    pattern = sum_pattern("Subtract 19 from 100.")
    assert pattern
    assert re.match(pattern, "100 - 19")
    assert re.match(pattern, "19 - 100")
    assert not re.match(pattern, "100 - 18")


def test_a_question_without_numbers_has_no_pattern():
    assert sum_pattern("How many files are here?") is None


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("Open src/main.py and tell me what it does.", ["src/main.py"]),
        ("What does README.md say?", ["README.md"]),
        ("What is inside src?", ["src"]),
        ("docs 文件夹里有哪些文件？", ["docs"]),
    ],
)
def test_paths_are_pieces_of_the_question(question, wanted):
    assert paths(question) == wanted


def test_here_is_the_default_folder_whatever_else_is_named():
    assert paths("Is there a file called LICENSE in this folder?", ".", folders_only=True) == ["."]
    assert paths("当前目录里有 LICENSE 吗？", ".", folders_only=True) == ["."]


def test_a_folder_is_not_a_file_if_there_is_a_choice():
    assert paths("Is README.md in docs?", ".", folders_only=True) == ["docs", "."]


def test_quoted_phrases_come_first():
    assert phrases('Send "good morning" to Anna') == ["good morning"]
    assert "New York" in phrases("What is the weather in New York?")


def test_numbers_lose_their_thousands_separators():
    assert numbers("1,200 and 3.5 and 7") == ["1200", "3.5", "7"]


def test_questions_about_other_files_are_alike_but_other_questions_are_not():
    asked = features("What does report.md say?")
    assert similarity(asked, features("What does a.txt say?")) == pytest.approx(1.0)
    assert similarity(asked, features("Tell me a joke.")) < 0.3
    assert similarity(features(""), features("")) == 0.0
