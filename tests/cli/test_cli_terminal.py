"""The one door for foreign text: what passes it, what is shown as an escape, and when there are colours."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.screens import CTRL_C, Screen

from pure_agent_loop.cli.view import StreamWrapper
from pure_agent_loop.support.terminal import (
    excerpt,
    line_breaks,
    one_line,
    safe_text,
    wants_colour,
    width_of,
    wrap_text,
)
from pure_agent_loop.testing import ScriptedServer


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


def test_deceptive_characters_are_shown_and_invisible_ones_dropped():
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


LETTERS = st.text(alphabet="ab ,.。，（(中“”\t—", max_size=60)


@given(LETTERS, st.integers(2, 30))
def test_a_wrapped_line_fits_and_loses_nothing(text, width):
    breaks = line_breaks(text, width)
    lines = [text[start:end] for start, end in zip([0, *breaks], [*breaks, len(text)], strict=True)]
    assert "".join(lines) == text
    assert all(width_of(line.rstrip()) <= width for line in lines)
    assert "".join(wrap_text(text, width).split()) == "".join(text.split())


def test_further_lines_begin_below_the_second_column():
    line = "  1. set a key:  export OPENAI_API_KEY=...  (with OPENAI_BASE_URL for other providers)"
    below = " " * 17
    assert wrap_text(line, 60).split("\n") == [
        "  1. set a key:  export OPENAI_API_KEY=...  (with",
        f"{below}OPENAI_BASE_URL for other providers)",
    ]


def test_the_rest_of_an_argument_does_not_look_like_another_argument():
    text = "Call act?\n  content: " + '"' + "a " * 30 + 'path: \\"safe.txt\\" 1. ls"\n  path: "x"'
    lines = wrap_text(text, 40).split("\n")
    assert [line for line in lines if re.match(" {0,4}[a-z0-9]+[.:]", line)] == [lines[1], '  path: "x"']


STREAMED = (
    "Set OPENAI_API_KEY before you start the server. 折扣把百分比当作小数处理，因此结果（见下）不正确。\n\n"
    "```python\ntotal = one_long_name + another_long_name + a_third_name\n```\nThat is all.\n"
)


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("size", [1, 3, 500])
def test_a_streamed_answer_breaks_between_words_and_keeps_its_code(width, size):
    wrap = StreamWrapper(width)
    pieces = [wrap.feed(STREAMED[at : at + size]) for at in range(0, len(STREAMED), size)]
    lines = "".join([*pieces, wrap.close()]).split("\n")
    assert "total = one_long_name + another_long_name + a_third_name" in lines
    prose = [line for line in lines if "long_name" not in line]
    assert all(width_of(line) <= width for line in prose)
    assert "".join(lines).replace(" ", "") == STREAMED.replace(" ", "").replace("\n", "")
    assert sum(line.count("OPENAI_API_KEY") for line in lines) == 1
    assert not [line for line in lines if line[:1] in "，。）" and line]


STREAM = """
import sys
from pure_agent_loop.cli.view import StreamWrapper
from pure_agent_loop.support.terminal import wrap_text
wrap, text = StreamWrapper(80), sys.argv[1] * 400_000
pieces = [wrap.feed(text[at : at + 2]) for at in range(0, len(text), 2)]
assert "".join([*pieces, wrap.close()]).rstrip().replace("\\n", "") == text.rstrip()
wrap_text(text, 80, fold=True)
"""


@pytest.mark.parametrize("sign", ["a", ".", "…", "，", " ", "（("])
def test_a_line_without_blanks_is_read_in_one_pass(sign):
    """In another process: what read the whole word again with each piece would take minutes."""
    subprocess.run([sys.executable, "-c", STREAM, sign], check=True, timeout=60)


@pytest.mark.parametrize("columns", [120, 80, 40])
def test_a_run_and_its_record_break_between_words(pal, columns):
    with ScriptedServer([STREAMED]) as server:
        pal.use(server)
        with Screen(pal, "run", "--session", "trip", "go", columns=columns, rows=40) as screen:
            assert screen.end() == 0
            assert "OPENAI_API_KEY" in screen.all
            assert "PAL_BASE_URL" in screen.all
        with Screen(pal, "sessions", "show", "trip", columns=columns, rows=40) as screen:
            assert screen.end() == 0
            assert "```" not in screen.all  # rendered as in a conversation
            assert "OPENAI_API_KEY" in screen.all
            assert "\x1b[1m# go" in screen.coloured


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("run", "--help"),
        ("audit", "--help"),
        ("run", "--modle", "x"),
        ("frobnicate",),
        ("sessions", "show", "no-such-session-of-mine"),
        ("run", "hi", "--base-url", "http://127.0.0.1:9/v1"),
        ("sessions",),
        ("tasks",),
    ],
)
def test_help_and_errors_break_between_words_at_forty_columns(pal, words, language):
    pal.env["PAL_LANG"] = language
    piped = pal(*words)
    with Screen(pal, *words, columns=40, rows=200) as screen:
        assert screen.end() == piped.returncode
    said = f"{piped.stdout}{piped.stderr}"
    assert "".join(screen.all.split()) == "".join(said.split())
    if language == "en":
        assert screen.all.split() == said.split()


def test_the_link_of_a_server_stands_alone_on_its_line(pal):
    with ScriptedServer([]) as server:
        pal.use(server)
        with Screen(pal, "serve", "--port", "0", columns=100, rows=30) as screen:
            screen.until(r"\nhttp://127\.0\.0\.1:\d+/#token=[\w-]+\n")
            screen.type(CTRL_C)
            screen.end()
