"""What the framework says to models, and the small helpers for text and tokens."""

from __future__ import annotations

import dataclasses
import itertools
import string
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import tool_texts

from pure_agent_loop import Agent, ConfigError, PermissionRules, prompts_for, tool
from pure_agent_loop.kernel.doom import DoomLedger, judge, note_answer
from pure_agent_loop.llm.tokens import estimate_message, estimate_tokens
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.prompts import CHINESE, ENGLISH
from pure_agent_loop.support.text import as_text, clean_text, safe_str, shorten
from pure_agent_loop.testing import ScriptedLLM, call

FIELDS = [field.name for field in dataclasses.fields(ENGLISH)]
TABLES = ("stopped", "repetitions", "language", "sentences", "tools", "worked_examples")
TEXTS = [name for name in FIELDS if name not in TABLES]


def placeholders(text):
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_both_languages_know_the_same_repetitions():
    assert ENGLISH.repetitions.keys() == CHINESE.repetitions.keys()
    for pattern, english in ENGLISH.repetitions.items():
        assert placeholders(english) == placeholders(CHINESE.repetitions[pattern])


@pytest.mark.parametrize("name", TEXTS)
def test_both_languages_say_the_same_with_the_same_gaps(name):
    english, chinese = getattr(ENGLISH, name), getattr(CHINESE, name)
    assert placeholders(english) == placeholders(chinese)
    assert english.isascii()
    assert not chinese.isascii()


def test_both_languages_know_the_same_reasons():
    assert ENGLISH.stopped.keys() == CHINESE.stopped.keys()
    limits = {"max_steps", "max_tool_calls", "token_limit", "budget", "doom_loop"}
    assert limits | {"output_limit", "content_filter", "permission_denied"} == ENGLISH.stopped.keys()
    assert all(ENGLISH.stopped.values())
    assert all(CHINESE.stopped.values())


@pytest.mark.parametrize(
    ("variable", "language", "expected"),
    [
        (None, None, ENGLISH),
        ("zh", None, CHINESE),
        ("zh_CN.UTF-8", None, CHINESE),
        ("ZH", None, CHINESE),
        ("fr", None, ENGLISH),
        ("", None, ENGLISH),
        ("zh", "en", ENGLISH),
        (None, "zh", CHINESE),
    ],
)
def test_the_language_is_chosen(monkeypatch, variable, language, expected):
    if variable is not None:
        monkeypatch.setenv("PAL_LANG", variable)
    assert prompts_for(language) is expected


def test_an_unknown_language_is_refused():
    with pytest.raises(ConfigError, match=r"language='fr' is unknown. Use one of: en, zh"):
        prompts_for("fr")


@tool
def broken() -> str:
    """Fail."""
    raise FileNotFoundError("没有文件")


def test_a_failed_tool_in_chinese():
    with ScriptedLLM([call("broken"), "好"], tools_may_fail=True) as llm:
        result = Agent(llm=llm, tools=[broken], language="zh").run("去")
    (text,) = tool_texts(result.messages)
    for word in ("执行失败", "broken", "FileNotFoundError", "没有文件", CHINESE.tool_hint):
        assert word in text


def test_a_failed_tool_in_english():
    with ScriptedLLM([call("broken"), "ok"], tools_may_fail=True) as llm:
        result = Agent(llm=llm, tools=[broken]).run("go")
    (text,) = tool_texts(result.messages)
    assert text.splitlines() == [
        "Tool 'broken' failed.",
        "Error type: FileNotFoundError",
        "Error: 没有文件",
        "Check the arguments, try another way, or use another tool.",
    ]


def test_a_denied_call_is_not_to_be_tried_another_way():
    with ScriptedLLM([call("broken"), "ok"]) as llm:
        result = Agent(llm=llm, tools=[broken], permission_rules=PermissionRules(deny=["broken"])).run("go")
    (text,) = tool_texts(result.messages)
    assert "Do not send it again" in text
    assert ENGLISH.tool_hint not in text
    assert not text.endswith("\n")


def test_words_of_your_own():
    mine = dataclasses.replace(ENGLISH, tool_error="{tool}/{type}/{error}/{hint}", tool_hint="!")
    with ScriptedLLM([call("broken"), "ok"], tools_may_fail=True) as llm:
        result = Agent(llm=llm, tools=[broken], prompts=mine).run("go")
    assert tool_texts(result.messages) == ["broken/FileNotFoundError/没有文件/!"]


# -- text -----------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters() | st.sampled_from("\ud800\ud83d\ude00\udfff")))
def test_clean_text_can_be_written_and_changes_nothing_else(text):
    cleaned = clean_text(text)
    cleaned.encode("utf-8")
    assert clean_text(cleaned) == cleaned
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert cleaned == text


def test_a_pair_of_surrogates_is_one_character():
    assert clean_text("a\ud83d\ude00b\ud83d") == "a😀b\ufffd"


def test_shorten_keeps_both_ends():
    text = "a" * 60 + "b" * 60
    short = shorten(text, 30)
    assert short == "a" * 20 + "\n[... 90 characters left out ...]\n" + "b" * 10
    assert shorten(text, 120) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("\ud800", "\ufffd"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (["ä", 1], '["ä", 1]'),
        ({"a": {1}}, '{"a": [1]}'),
        (b"ok", '"ok"'),
    ],
)
def test_results_as_text(value, text):
    assert as_text(value) == text


def test_safe_str_survives():
    class Bad:
        def __str__(self):
            raise ValueError

    assert safe_str(Bad()) == "<Bad: its text form failed with ValueError>"
    assert safe_str("\udc00") == "\ufffd"


# -- tokens ---------------------------------------------------------------------------------------


def test_token_estimates_grow_with_the_text():
    assert estimate_tokens("") == 0
    assert 9 <= estimate_tokens("The quick brown fox jumps over the lazy dog.") <= 13
    assert 5 <= estimate_tokens("今天天气很好，我们去公园。") <= 15
    assert estimate_tokens("def f(x):\n    return x + 1\n") > 8
    assert estimate_tokens("word " * 200) > 10 * estimate_tokens("word " * 10)


def test_a_long_text_is_guessed_from_pieces_of_all_of_it_and_costs_no_more_than_they_do():
    half = 2_500_000
    parts = ["The quick brown fox jumps over 12 lazy dogs.\n", "今天天气很好，我们去公园。", "x"]
    texts = [(part * half)[:half] for part in parts]
    exact = [sum(estimate_tokens(text[at : at + 50_000]) for at in range(0, half, 50_000)) for text in texts]
    for (one, a), (other, b) in itertools.combinations(zip(texts, exact, strict=True), 2):
        whole = one + other
        tracemalloc.start()
        found = estimate_tokens(whole)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found == pytest.approx(a + b, rel=0.02)
        assert most < 5_000_000


def test_messages_cost_a_little_more_and_calls_count():
    plain = estimate_message({"role": "user", "content": "hello"})
    assert plain > estimate_tokens("hello")
    parts = estimate_message({"role": "user", "content": [{"type": "text", "text": "hello"}]})
    assert parts > plain
    asking = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": {"name": "x"}}]}
    assert estimate_message(asking) > estimate_message({"role": "assistant", "content": None})


# -- doom -----------------------------------------------------------------------------------------


def judged(calls, threshold=3):
    ledger = DoomLedger()
    found = []
    for number, one in enumerate(calls):
        note_answer(ledger, "", threshold)
        found.append(judge(ledger, ToolCall(f"c{number}", *one), threshold).action)
    assert DoomLedger.from_dict(ledger.to_dict()) == ledger
    return found


A, B = ("look", {"x": 1, "y": 2}), ("look", {"x": 2})


@pytest.mark.parametrize(
    ("calls", "verdicts"),
    [
        ([A, A], ["run", "run"]),
        ([A, A, A], ["run", "run", "refuse"]),
        ([A, A, A, A, A], ["run", "run", "refuse", "stop", "stop"]),
        ([A, A, B, A, A], ["run"] * 5),
        ([A, A, A, B, A], ["run", "run", "refuse", "run", "run"]),
        ([A, ("look", {"y": 2, "x": 1}), A], ["run", "run", "refuse"]),
        ([A, ("see", A[1]), A], ["run"] * 3),
    ],
)
def test_repetitions(calls, verdicts):
    assert judged(calls) == verdicts


def test_the_threshold():
    assert judged([A, A], threshold=2) == ["run", "refuse"]
    assert judged([A] * 9, threshold=None) == ["run"] * 9
