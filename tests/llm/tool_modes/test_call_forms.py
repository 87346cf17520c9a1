"""Calls in the forms of model families, found in the text; a table that users add to."""

from __future__ import annotations

from typing import Any

import pytest

from pure_agent_loop import ConfigError
from pure_agent_loop.llm.tool_modes import forms
from pure_agent_loop.llm.tool_modes.forms import CallForm, register_form
from pure_agent_loop.llm.tool_modes.recover import TextCalls

SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["title", "count"],
}
TOOLS = [{"type": "function", "function": {"name": "note", "parameters": SCHEMA}}]
INVOKE = (
    '<invoke name="note">\n<parameter name="title">a < b</parameter>\n<parameter name="count">2</parameter>\n'
)
D = "｜DSML｜"
FORMS = {
    "claude": f"<function_calls>\n{INVOKE}</invoke>\n</function_calls>",
    "claude, bare": f"{INVOKE}</invoke>",
    "claude, marked": (
        '<antml:function_calls><antml:invoke name="note">'
        '<antml:parameter name="title">a < b</antml:parameter>'
        '<antml:parameter name="count">2</antml:parameter></antml:invoke></antml:function_calls>'
    ),
    "minimax": f"<minimax:tool_call>\n{INVOKE}</invoke>\n</minimax:tool_call>",
    "deepseek": (
        f'<{D}tool_calls>\n<{D}invoke name="note">\n<{D}parameter name="title" string="true">a < b'
        f'</{D}parameter>\n<{D}parameter name="count" string="false">2</{D}parameter>\n'
        f"</{D}invoke>\n</{D}tool_calls>"
    ),
    "step": (
        '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="note">'
        '<steptml:parameter name="title">a < b</steptml:parameter><steptml:parameter name="count">2'
        "</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>"
    ),
    "seed": (
        "<seed:tool_call><function=note><parameter=title>a < b</parameter><parameter=count>2</parameter>"
        "</function></seed:tool_call>"
    ),
    "harmony": (
        "<|channel|>commentary to=functions.note <|constrain|>json<|message|>"
        '{"title": "a < b", "count": 2}<|call|>'
    ),
    "harmony, whole": (
        "<|start|>assistant<|channel|>commentary to=functions.note<|message|>"
        '{"title": "a < b", "count": 2}<|call|>'
    ),
    "harmony, to first": (
        "<|start|>assistant to=functions.note<|channel|>commentary json<|message|>"
        '{"title": "a < b", "count": 2}<|call|>'
    ),
    "lfm2": '<|tool_call_start|>[note(title="a < b", count=2)]<|tool_call_end|>',
    "cohere": (
        '<|START_ACTION|>[{"tool_name": "note", "parameters": {"title": "a < b", "count": 2}}]<|END_ACTION|>'
    ),
    "granite": '<|tool_call|>[{"name": "note", "arguments": {"title": "a < b", "count": 2}}]',
}


def read(text: str, size: int) -> tuple[list[tuple[str, Any]], str]:
    scanner = TextCalls(TOOLS)
    shown = "".join(scanner.feed(text[at : at + size]) for at in range(0, len(text), size))
    calls, rest = scanner.finish()
    return [(call.name, call.arguments) for call in calls], shown + rest


@pytest.mark.parametrize("size", [1, 5, 9999])
@pytest.mark.parametrize("written", FORMS.values(), ids=FORMS)
def test_a_call_is_found_however_the_text_is_cut(written, size):
    calls, text = read(f"I write it down.\n{written}", size)
    assert calls == [("note", {"title": "a < b", "count": 2})]
    assert text.strip() == "I write it down."


@pytest.mark.parametrize("size", [3, 9999])
@pytest.mark.parametrize("written", FORMS.values(), ids=FORMS)
def test_text_without_a_call_stays_text(written, size):
    for text in (
        f"So it is written:\n```\n{written}\n```\nThat is all.",
        f"So it is written: `{written}`".replace("\n", ""),
        written.replace("note", "erase"),
        written.replace("count", "number"),
    ):
        assert read(text, size) == ([], text)


@pytest.mark.parametrize("size", [1, 9999])
@pytest.mark.parametrize(
    "end", ["</para", "</", "<", '</parameter>\n<parameter name="mo', "</parameter>\n</invo"]
)
def test_a_call_that_breaks_off_within_a_tag_is_none(end, size):
    begun = '<invoke name="note"><parameter name="count">2</parameter><parameter name="title">rm'
    assert read(begun + end, size) == ([], begun + end)


def test_the_next_form_is_one_entry(monkeypatch):
    monkeypatch.setattr(forms, "CALL_FORMS", [*forms.CALL_FORMS])
    written = "[[do note]](title) a < b (/title)(count) 2 (/count)[[done]]"
    assert read(f"<next>{written}</next>", 4)[0] == []
    register_form(
        CallForm("next", ("<next>",), ("</next>",), "<do:{name}>{arguments}</do>", "<is:{key}>{value}</is>")
    )
    written = "<do:note><is:title>a < b</is><is:count>2</is></do>"
    assert read(f"Well. <next>{written}</next>", 4) == ([("note", {"title": "a < b", "count": 2})], "Well. ")
    with pytest.raises(ConfigError, match="argument"):
        CallForm("wrong", call="<do:{name}>{arguments}</do>", argument="<is>{value}</is>")
