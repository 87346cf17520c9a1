"""Markdown that streams: nothing is lost, doubled or drawn in another way than if it had come at once."""

from __future__ import annotations

import re

import pytest

from pure_agent_loop import Event
from pure_agent_loop.cli.chat.blocks import Blocks
from pure_agent_loop.cli.chat.transcript import TranscriptView
from pure_agent_loop.support.terminal import width_of

LONG = "A paragraph of many **bold words**, `code` and plain ones that goes on and on. " * 12
TEXTS = {
    "paragraphs": f"# Title\n\nShort one.\n\n{LONG}\n\nTitle below\n===========\n\nafter\n---\nend",
    "lists": "Steps:\n- one\n- two\n  - inside\n  - more\n\n    a paragraph\n"
    "- three\n\n1. first\n2. second\n\nend",
    "code": "Look:\n```python\n"
    + "x = '''a'''  # comment\n" * 100
    + "```\nand\n~~~\nplain ``` text\n~~~\nend",
    "unclosed": "```python\ndef f():\n    return 1\n",
    "code in a list": "1. do\n\n   ```sh\n   ls -la\n   ```\n2. then\n",
    "table": "a table:\n| a | b |\n|---|--:|\n" + "| one | 2 |\n" * 90 + "\nend | of it\n",
    "quote": "> one\n> two\n\n> three\n",
    "html": "<script>alert(1)</script>\n\n<b>bold</b> and &lt;p&gt; [ref][1]\n\n[1]: https://example.com\n",
    "chinese": "这是一个很长的段落，没有空格，所以只能在任何两个字之间换行。" * 20 + "\n\n结束",
    "wide": "emoji 🎉👩‍🔬🏳️‍🌈 e\u0301 שלום עולם\tand\ttabs " * 20 + "\n",
    "dashes in a paragraph": "word " * 70 + "- not an item 1. nor this # nor that " + "word " * 70,
    "odd marks": "**open *nested `code " * 30 + "\n\n*** ** _ ~~ [a](b c) ![](x)\n",
    "nothing": "\n\n   \n",
}


def streamed(text: str, size: int, width: int, **modes: bool) -> list[str]:
    screen = TranscriptView(width, **{"color": False, **modes})
    out = [
        screen.feed(Event.text_delta(1, text[start : start + size])) for start in range(0, len(text), size)
    ]
    out.append(screen.close())
    return "".join(out).split("\n")


def words(lines: list[str]) -> list[str]:
    return " ".join(lines).split()


@pytest.mark.parametrize("width", [24, 40, 80])
@pytest.mark.parametrize("name", TEXTS)
def test_streamed_text_renders_like_the_whole_text(name, width):
    whole = TranscriptView(width, color=False).markdown(TEXTS[name])
    for size in (1, 7, 1_000):
        assert streamed(TEXTS[name], size, width) == whole.split("\n"), size


@pytest.mark.parametrize("name", TEXTS)
def test_colours_and_speech_leave_every_word(name):
    text = TEXTS[name]
    plain = TranscriptView(80, color=False).markdown(text)
    coloured = re.sub("\x1b\\[[0-9;]*m", "", "\n".join(streamed(text, 5, 80, color=True)))
    marks = str.maketrans("", "", "`# \n")
    assert coloured.translate(marks) == plain.translate(marks)
    spoken = "\n".join(streamed(text, 5, 80, screen_reader=True))
    assert not re.search("[\u2500-\u259f\u2022]", spoken)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(("width", "most"), [(40, 4), (80, 8)])
def test_live_region_is_small(name, width, most):
    screen = TranscriptView(width, live_lines=most, color=False)
    for each in TEXTS[name]:
        screen.feed(Event.text_delta(1, each))
        live = screen.live(0.0)
        assert len(live) <= most
        assert all(screen._styler.text(("", line)).cell_len <= width for line in live)
    screen.close()
    assert screen.live(0.0) == []


def test_resize_during_an_answer_keeps_printed_lines_and_loses_nothing():
    screen, out = TranscriptView(80, color=False), []
    text = TEXTS["paragraphs"] + "\n\n" + TEXTS["lists"]
    for number, each in enumerate(text):
        screen.width = 80 if number % 400 < 200 else 30
        out.append(screen.feed(Event.text_delta(1, each)))
    out.append(screen.close())
    whole = TranscriptView(500, color=False).markdown(text)
    assert "".join(words(out)) == "".join(words([whole]))


@pytest.mark.parametrize("width", range(30, 60))
def test_a_mark_that_is_open_is_not_cut(width):
    lines = streamed(LONG, 3, width)
    assert not [line for line in lines if "**" in line]


def test_long_blocks_are_cut_though_they_never_end():
    for beginning in ("- ", "> ", "", "| a |\n|---|\n| "):
        blocks = Blocks()
        done = blocks.feed(beginning + "word\n  " * 5_000)
        assert done
        assert len(blocks.tail.source) < 20_000, beginning


def test_the_code_of_a_code_block_can_be_copied():
    code = "def f(x):\n    return 'a line that is longer than the terminal is wide, by far'\n\n\n\tpass"
    lines = streamed(f"```python\n{code}\n```", 3, 40)
    assert lines == ["python", *code.split("\n"), ""]


def test_a_link_shows_where_it_leads():
    shown = TranscriptView(80, color=False).markdown("[https://bank.example](https://evil.example)")
    assert "https://bank.example (https://evil.example)" in shown


def test_a_screen_reader_hears_a_table_row_by_row():
    shown = TranscriptView(80, color=False, screen_reader=True).markdown("| a | b |\n|---|---|\n| 1 | 2 |\n")
    assert shown == "a: 1; b: 2\n"


HEAD = "what it is\nused for: "
TABLE = (
    "| name | what it is used for |\n|---|---|\n| price | the total of a `basket` |\n| 折扣 | 先除以一百 |\n"
)


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (40, "name   what it is used for\nprice  the total of a `basket`\n折扣   先除以一百\n"),
        (
            22,
            "name   what it is used\n       for\nprice  the total of a\n       `basket`\n折扣   先除以一百\n",
        ),
        (
            14,
            f"name: price\n{HEAD}the\ntotal of a\n`basket`\n\nname: 折扣\n{HEAD}先除\n以一百\n",
        ),
    ],
)
def test_a_table_breaks_between_words_or_becomes_rows_of_names_and_values(width, shown):
    rule = re.compile("─+\n")
    assert rule.sub("", TranscriptView(width, color=False).markdown(TABLE)) == shown


@pytest.mark.parametrize("width", [80, 40, 20])
def test_prose_breaks_between_words_and_chinese_at_any_sign_that_may_end_a_line(width):
    text = "中文（说明）：折扣把PAL_BASE_URL当作小数，“不正确”。Set OPENAI_API_KEY before you start. " * 4
    lines = TranscriptView(width, color=False).markdown(text).splitlines()
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(width_of(line) <= width for line in lines)
    assert not [line for line in lines if line[0] in "，。）”：" or line[-1] in "（“"]
    assert sum(line.count("PAL_BASE_URL") + line.count("OPENAI_API_KEY") for line in lines) == 8


def test_boxes_quotes_and_code_have_signs_of_their_own():
    text = "- [x] read\n- [ ] mend\n- plain\n\n> quoted\n\n```\ncode\n```\n"
    shown = TranscriptView(80, color=False).markdown(text)
    assert shown == "☑ read\n☐ mend\n• plain\n\n│ quoted\n\ncode\ncode\n"
    read = TranscriptView(80, color=False, screen_reader=True, language="zh").markdown(text)
    assert read == "完成: read\n待办: mend\n- plain\n\n引用: quoted\n\n代码\ncode\n代码结束\n"


def test_the_head_of_a_table_is_not_printed_before_the_line_that_makes_it_one():
    row = "| a long name of a column | another long name | and a third one |\n"
    text = f"Some lines before it.\n{row}|---|---|---|\n{row}\nEnd.\n"
    for size in (1, 5, 1_000):
        view, shown = TranscriptView(40, color=False, live_lines=1), ""
        for at in range(0, len(text), size):
            shown += view.feed(Event.text_delta(1, text[at : at + size]))
        shown += view.feed(Event.thought(1, text))
        assert "|" not in shown
        assert "another" in shown
