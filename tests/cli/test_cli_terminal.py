"""The one door for foreign text: what passes it, what is shown as an escape, and when there are colours."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.support.terminal import excerpt, one_line, safe_text, wants_colour


def harmless(text: str) -> bool:
    return all(
        char in "\n\t" or (unicodedata.category(char) not in ("Cc", "Cs") and not invisible(ord(char)))
        for char in text
    )


def invisible(code: int) -> bool:
    return code in range(0x2028, 0x202F) or code in range(0x200B, 0x2010) or code in range(0x2060, 0x2070)


@given(st.text())
def test_only_newline_and_tab_are_left_of_the_control_characters(text):
    assert harmless(safe_text(text))


@given(st.text(alphabet=st.characters(whitelist_categories=["L", "N", "P", "S", "Zs"], max_codepoint=0x10FF)))
def test_ordinary_text_stays_as_it_is(text):
    assert safe_text(text) == text


def test_what_could_deceive_is_shown_and_what_is_invisible_is_dropped():
    assert safe_text("a\x1b[2Jb\r\nc\td\u202ee\u200bf\x9bg\x1b[31mred\x1b[0m") == (
        "a\\x1b[2Jb\nc\td\\u202eef\\x9bgred"
    )


def test_colours_are_removed_without_making_new_ones():
    assert "\x1b" not in safe_text("\x1b[3\x1b[0m1m")


def test_one_line_is_one_line():
    assert one_line("a\nb\r\n\tc") == "a b c"
    assert len(one_line("x" * 1000, 50)) <= 50


def test_excerpt_keeps_short_text():
    assert excerpt("a\nb\n", 2) == "a\nb"
    assert excerpt("a\nb\nc", 1) == "a\n[... 2 lines left out ...]"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"FORCE_COLOR": ""}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": ""}, True),
    ],
)
def test_colour_without_a_terminal(environ, expected):
    assert wants_colour(None, environ) is expected
