"""Docstrings taken apart: hand-written cases, griffe as a second opinion, and any text at all."""

from __future__ import annotations

import inspect
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.schema.docstrings import Docstring, parse_docstring

GOOGLE = """Get the weather.

    Works for cities: all of them, e.g. Rome.

    Args:
        city: The city: "Rome", or
            "Paris, France".
        days (int, optional): How many days.

            At most: 7.
        unit (Literal["C", "F"]): One of:
            - C: Celsius
            - F: Fahrenheit
        *names: More names.
        **options (dict[str, int]): Anything else.

    Returns:
        str: A report.

    Raises:
        ValueError: If days is wrong.
    """

NUMPY = """
    Get the weather.

    Works for cities.

    Parameters
    ----------
    city : str
        The city: "Rome", or
        "Paris".
    days : {1, 2, 3}, optional
        How many days.

        At most: 7.
    low, high : float
        Bounds.
    *names
        More names.
    **options : dict
        Anything else.

    Returns
    -------
    str
        A report.
    """

SPHINX = """
    Get the weather.

    Works for :class:`City` objects: all of them.

    :param city: The city: "Rome", or
        "Paris".
    :type city: str
    :param int days: How many days.
    :param dict[str, int] | None options: Anything else.
    :raises ValueError: If days is wrong.
    :returns: A report,
        long.
    :rtype: str
    """


class TestGoogle:
    def test_sections(self) -> None:
        found = parse_docstring(GOOGLE)
        assert found.description == "Get the weather.\n\nWorks for cities: all of them, e.g. Rome."
        assert found.params == {
            "city": 'The city: "Rome", or "Paris, France".',
            "days": "How many days.\n\nAt most: 7.",
            "unit": "One of:\n- C: Celsius\n- F: Fahrenheit",
            "names": "More names.",
            "options": "Anything else.",
        }

    def test_chinese_with_full_width_colons(self) -> None:
        text = """查询天气：支持所有城市。

        参数：
            city (str)：城市名，例如：北京
                或上海
            days（int，可选）：天数
        返回：
            天气报告
        """
        assert parse_docstring(text) == Docstring(
            "查询天气：支持所有城市。", {"city": "城市名，例如：北京 或上海", "days": "天数"}
        )

    def test_chinese_text_under_english_headings(self) -> None:
        text = "查询天气。\n\nArgs:\n    城市: 城市名\n    days: 天数\n\nReturns:\n    报告"
        assert parse_docstring(text) == Docstring("查询天气。", {"城市": "城市名", "days": "天数"})

    def test_types_with_brackets_and_colons(self) -> None:
        text = "X.\n\nArgs:\n    a (Callable[[int], s], opt): A.\n    b (dict(str: int)): B.\n    c(int): C."
        assert parse_docstring(text).params == {"a": "A.", "b": "B.", "c": "C."}

    def test_headings_are_only_headings_alone_on_their_line(self) -> None:
        text = "X.\n\nArgs: see below.\nReturns: a list, always.\nReturns.\n    Indented."
        assert parse_docstring(text) == Docstring(text, {})

    def test_notes_are_for_the_model_too(self) -> None:
        text = "X.\n\nNote:\n    Only in Europe.\n\nExamples:\n    >>> x()\n\nExample:\n    >>> y()"
        assert parse_docstring(text).description == "X.\n\nNote:\n    Only in Europe."

    def test_text_after_the_sections(self) -> None:
        text = "X.\n\nArgs:\n    a: A.\n\nMore about X.\n"
        assert parse_docstring(text) == Docstring("X.\n\nMore about X.", {"a": "A."})


class TestNumpy:
    def test_sections(self) -> None:
        found = parse_docstring(NUMPY)
        assert found.description == "Get the weather.\n\nWorks for cities."
        assert found.params == {
            "city": 'The city: "Rome", or "Paris".',
            "days": "How many days.\n\nAt most: 7.",
            "low": "Bounds.",
            "high": "Bounds.",
            "names": "More names.",
            "options": "Anything else.",
        }

    def test_type_right_after_the_colon(self) -> None:
        text = "X.\n\nParameters\n----------\ncity: str\n    The city.\n\nOther Parameters\n------\nb\n    B."
        assert parse_docstring(text).params == {"city": "The city.", "b": "B."}


class TestSphinx:
    def test_fields(self) -> None:
        found = parse_docstring(SPHINX)
        assert found.description == "Get the weather.\n\nWorks for :class:`City` objects: all of them."
        assert found.params == {
            "city": 'The city: "Rome", or "Paris".',
            "days": "How many days.",
            "options": "Anything else.",
        }

    def test_stars_and_full_width_colons(self) -> None:
        text = ":param \\*names: N.\n:param **options: O.\n:param city：城市：名称"
        assert parse_docstring(text) == Docstring("", {"names": "N.", "options": "O.", "city": "城市：名称"})

    def test_a_role_at_the_start_of_a_line_is_prose(self) -> None:
        assert parse_docstring(":class:`City` is needed.").description == ":class:`City` is needed."


class TestOther:
    def test_mixed_styles(self) -> None:
        text = "X.\n\nArgs:\n    a: A.\n\n:param b: B.\n\nParameters\n----------\nc : int\n    C."
        assert parse_docstring(text) == Docstring("X.", {"a": "A.", "b": "B.", "c": "C."})

    @pytest.mark.parametrize("text", [None, "", "   \n  "])
    def test_nothing(self, text: str | None) -> None:
        assert parse_docstring(text) == Docstring("", {})

    def test_empty_parameter_text_is_not_a_description(self) -> None:
        assert parse_docstring("X.\n\n:param \\*: A.\n:param b:\n\nArgs:\n    c:\n").params == {}

    def test_prose_only(self) -> None:
        text = "Say hello.\n\nWarning: loud. Use it like this:\n    hello(name: str)\n\nThat is all."
        assert parse_docstring(text) == Docstring(text, {})


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "style"), [(GOOGLE, "google"), (NUMPY, "numpy"), (SPHINX, "sphinx"), (__doc__, "google")]
)
def test_griffe_reads_the_same(text: str, style: str) -> None:
    if sys.version_info < (3, 11):
        pytest.importorskip("griffe")  # griffelib needs 3.11
    import griffe

    sections = griffe.Docstring(inspect.cleandoc(text), lineno=1).parse(style)
    expected: dict[str, str] = {}
    prose = []
    for section in sections:
        if section.kind.value in {"parameters", "other parameters"}:
            for item in section.value:
                for name in item.name.split(","):
                    expected[name.strip().lstrip("*")] = plain(item.description)
        elif section.kind.value == "text":
            prose.append(section.value)
    found = parse_docstring(text)
    assert {name: plain(value) for name, value in found.params.items()} == expected
    assert plain(found.description) == plain(" ".join(prose))


PIECES = st.sampled_from(
    [
        "Args:",
        "参数：",
        "Parameters",
        "-----",
        ":param",
        "x",
        "*a",
        "(",
        ")",
        ":",
        "：",
        "\n",
        "    ",
        "\t",
        "\r",
        "\\",
    ]
)


@given(st.text() | st.lists(PIECES | st.text(max_size=3)).map("".join))
def test_any_text_is_read(text: str) -> None:
    found = parse_docstring(text)
    assert all(name and value for name, value in found.params.items())
    # Nothing is made up: every word of the result stands in the text.
    assert set(found.description.split()) <= set(text.split())


def test_docstring_of_a_str_subclass_without_a_hash_is_parsed():
    class Odd(str):
        """Equal to others, so Python takes its hash away."""

        def __eq__(self, other: object) -> bool:
            return str.__eq__(self, other)

    assert parse_docstring(Odd("Does it.\n\nArgs:\n    a: One.")) == Docstring("Does it.", {"a": "One."})


def test_parsed_docstring_is_immutable():
    with pytest.raises(TypeError):
        parse_docstring("Does it.\n\nArgs:\n    a: One.").params["a"] = "Two."  # type: ignore[index] # just that
