"""``<think>`` in streamed text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.llm.response import Assembler, LLMResponse, ThinkSplitter
from pure_agent_loop.llm.values import Delta

from .streams import part


def answer_to(pieces: list[str], **first: str) -> tuple[LLMResponse, str, str]:
    """The response, and the texts that were shown on the way."""
    assembler = Assembler()
    shown = [assembler.feed(Delta(**first)), *(assembler.feed(Delta(piece)) for piece in pieces)]
    assembler.feed(Delta(finish_reason="stop"))
    shown.append(assembler.flush())
    return assembler.finish(), "".join(d.text for d in shown), "".join(d.reasoning for d in shown)


CASES = [
    ("<think>hm</think>4", "4", "hm"),
    ("<think>\nhm\n\nso\n</think>\n\n4\n", "4\n", "hm\n\nso"),
    (" \n<think>hm</think>4", "4", "hm"),
    ("<think></think>4", "4", None),
    ("<think>\n\n</think>\n\n4", "4", None),
    ("<think>never closed", None, "never closed"),
    ("<think>hm</thi", None, "hm</thi"),
    ("<think>a < b </ think></think>4", "4", "a < b </ think>"),
    ("<think>a</think>b<think>c</think>d", "b<think>c</think>d", "a"),
    ("<think>a</think>the tag </think> ends it", "the tag </think> ends it", "a"),
    ("Use <think> and </think> as tags.", "Use <think> and </think> as tags.", None),
    ("<thinking is fun", "<thinking is fun", None),
    ("<thi", "<thi", None),
    ("  two spaces", "  two spaces", None),
    (" \n ", None, None),
    ("", None, None),
]


@pytest.mark.parametrize(("text", "content", "reasoning"), CASES)
def test_tags_at_any_cut(text: str, content: str | None, reasoning: str | None):
    for size in range(1, len(text) + 1):
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        response, shown, thought = answer_to(pieces)
        assert (response.content, response.reasoning_content) == (content, reasoning)
        assert thought == (reasoning or "")
        assert shown == (content or "") or not shown.strip()


UNOPENED = [
    ("hm</think>4", "4", "hm"),
    ("\nhm\n</think>\n\n4", "4", "hm"),
    ("</think>\n\n4", "4", None),
    ("hm\n</think>", None, "hm"),
    ("hm</think>the tag </think> ends it", "the tag </think> ends it", "hm"),
    ("The closing tag is `</think>`.", "The closing tag is `</think>`.", None),
    ('Write "</think>" there.', 'Write "</think>" there.', None),
    ('hm</think>"4"', '"4"', "hm"),
    ("```\nhm\n</think>\n```\n", "```\nhm\n</think>\n```\n", None),
]


@pytest.mark.parametrize(("text", "content", "reasoning"), UNOPENED)
def test_a_missing_opening_tag_is_known_at_the_end(text: str, content: str | None, reasoning: str | None):
    response, shown, _ = answer_to(list(text))
    assert (response.content, response.reasoning_content) == (content, reasoning)
    assert shown.strip("\n") == text.strip("\n")  # the documented case: it was shown as text


def test_a_closing_tag_is_text_where_the_thinking_came_apart():
    response, _, _ = answer_to(["a</think>b"], reasoning="hm")
    assert (response.content, response.reasoning_content) == ("a</think>b", "hm")


def test_thinking_with_calls_and_no_answer():
    assembler = Assembler()
    assembler.feed(Delta("<think>I need it</think>\n\n"))
    assembler.feed(Delta(tool_calls=(part("f", "{}"),), finish_reason="tool_calls"))
    response = assembler.finish()
    assert (response.content, response.reasoning_content) == (None, "I need it")
    assert response.has_tool_calls


TAGS = st.lists(st.sampled_from(["<think>", "</think>", "\n", " ", "a", "<", "</", "think>", "😀"])).map(
    "".join
)


@given(TAGS, st.lists(st.integers(1, 5)))
def test_cuts_never_matter(text: str, sizes: list[int]):
    whole, _, _ = answer_to([text])
    pieces, position = [], 0
    for size in [*sizes, len(text)]:
        pieces.append(text[position : position + size])
        position += size
    cut, shown, thought = answer_to(pieces)
    assert cut == whole
    if not cut.content or ThinkSplitter.CLOSE not in text:
        return
    if shown != cut.content:  # only where the opening tag is missing
        assert not text.lstrip().startswith(ThinkSplitter.OPEN)
    else:
        assert thought == (cut.reasoning_content or "")
