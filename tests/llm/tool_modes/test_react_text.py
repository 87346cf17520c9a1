"""The ReAct text format: tools in the prompt, calls and answers in plain text, read back into deltas."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pure_agent_loop.llm.response import Assembler
from pure_agent_loop.llm.tool_modes.react import ReactReader, describe_tools, write_history, write_react
from pure_agent_loop.llm.values import Delta
from tests.llm.tool_modes.test_recover import CALL, SIZES, TOOLS

OSLO = [("get_weather", {"city": "Oslo"}, None)]
INPUT = '{"city": "Oslo"}'
ACTION = f"Action: get_weather\nAction Input: {INPUT}"
TWO = [
    {"function": {"name": "add", "parameters": {"properties": {"a": {}, "b": {}}, "required": ["a", "b"]}}},
    *TOOLS,
]


def read(text, sizes=(1 << 20,), *, is_cut=False, tools=TWO):
    """Feed a text in pieces; return (text, calls, reasoning, text shown before the end)."""
    reader, assembler, position, turn = ReactReader(tools), Assembler(), 0, 0
    early = ""
    while position < len(text):
        size = sizes[turn % len(sizes)]
        early += assembler.feed(reader.feed(text[position : position + size])).text
        position, turn = position + size, turn + 1
    assembler.feed(reader.finish(is_cut=is_cut))
    assembler.feed(Delta(finish_reason="length" if is_cut else "stop"))
    response = assembler.finish()
    calls = [(c.name, c.arguments, c.invalid) for c in response.tool_calls]
    return response.content or "", calls, response.reasoning_content or "", early


@pytest.mark.parametrize(
    "text",
    [
        ACTION,
        ACTION.replace(" Input", "_input"),
        f"**Action:** get_weather\n**Action Input:** {INPUT}",
        f"**Action**: `get_weather`\n**Action Input**:\n```json\n{INPUT}\n```",
        f"行动：get_weather\n行动输入：{INPUT}",
        f"动作: get_weather\n动作输入: {INPUT}",
        f"Action：get_weather\nAction Input：{INPUT}",
        f"Action: get_weather Action Input: {INPUT}",
        f"Action:\nget_weather\nAction Input: {INPUT}",
        f"Action: I will use get_weather.\nAction Input: {INPUT}",
        f"Action: [get_weather]\nAction Input: {INPUT}",
        "Action: get_weather\nAction Input: Oslo",
        'Action: get_weather\nAction Input: "Oslo"',
        "Action: get_weather\nAction Input: Oslo\nObservation: rain\nFinal Answer: rain",
        'Action: get_weather("Oslo")',
        'Action: get_weather(city="Oslo")',
        "Action: get_weather[Oslo]",
        f"Action: get_weather({INPUT})",
        f"Action: {CALL}",
        f"<tool_call>{CALL}</tool_call>",
        CALL,
        f"{ACTION}\nObservation: rain\nThought: I know\nFinal Answer: rain",
        f"{ACTION}\nFinal Answer: rain",
        f"{ACTION}\n\nAction: now\nAction Input: {{}}",
        f"Thought without an end </think>{ACTION}",
    ],
)
def test_an_action_becomes_one_call(text):
    for sizes in ([1 << 20], [1], [7, 2]):
        assert read(text, sizes)[:2] == ("", OSLO), sizes
        found = read(f"Thought: I look.\n{text}", sizes)
        assert found[1] == OSLO


def test_an_action_that_is_none_is_passed_over():
    assert read(f"Action: none\n{ACTION}")[1] == OSLO


def test_the_thought_before_a_call_is_its_text_and_before_an_answer_reasoning():
    assert read(f"Thought: I look.\n{ACTION}")[:3] == ("I look.", OSLO, "")
    assert read("Thought: I know.\nFinal Answer: It rains.")[:3] == ("It rains.", [], "I know.")


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("Action: rm\nAction Input: {}", "rm", {}),
        ("Action: check the sky\nAction Input: {}", "check the sky", {}),
        ("Action: now", "now", {}),
        ("Action: now\nAction Input: None", "now", {}),
        ("Action: now()", "now", {}),
        ("Action: add(1, b=2)", "add", {"a": 1, "b": 2}),
        ('Action: add\nAction Input: {"a": "Action: x"}', "add", {"a": "Action: x"}),
    ],
)
def test_other_calls(text, name, arguments):
    assert read(text)[1] == read(text, [1])[1] == [(name, arguments, None)]


@pytest.mark.parametrize("text", ["Action: add\nAction Input: one, two", "Action: add\nAction Input: {1, 2}"])
def test_arguments_that_cannot_be_read_are_told(text):
    [(name, _, invalid)] = read(text)[1]
    assert (name, "not valid JSON" in invalid) == ("add", True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Final Answer: It rains.", "It rains."),
        ("**Final Answer:** It rains.", "It rains."),
        ("Final Answer: **It** rains.", "**It** rains."),
        ("final answer：\n\nIt rains.", "It rains."),
        ("最终答案：下雨。", "下雨。"),
        ("Thought: x\nAction: None\nFinal Answer: It rains.", "It rains."),
        ("Thought: It rains.", "It rains."),
        ("It rains.", "It rains."),
        ("  code:\n```\nx\n```\n", "  code:\n```\nx\n```\n"),
        ("Observation: it rains.", "Observation: it rains."),
        (
            "Do this.\n\nAction: call your doctor, then\nrest.",
            "Do this.\n\nAction: call your doctor, then\nrest.",
        ),
        ("One.\n\nTwo.\nFinal Answer: Three.\nFour.", "One.\n\nTwo.\nThree.\nFour."),
    ],
)
def test_an_answer_becomes_text(text, expected):
    for sizes in ([1 << 20], [1], [7, 2]):
        assert read(text, sizes)[:2] == (expected, []), sizes


def test_a_call_after_paragraphs_without_a_marker():
    for written in (ACTION, f"<tool_call>{CALL}</tool_call>", f"```json\n{CALL}\n```"):
        for sizes in ([1 << 20], [1]):
            assert read(f"I think.\n\nSo I look.\n{written}", sizes)[:2] == ("I think.\n\nSo I look.\n", OSLO)


def test_answers_stream():
    assert read("Thought: x\nFinal Answer: It rains.", [1])[3] == "It rains."
    prose = "First.\n\nThen { and < and [1] and a long line without any marker in it.\n"
    assert read(prose, [1])[3] == prose


def test_an_action_that_was_cut_off_is_never_run():
    for text in (ACTION, "Action: get_weather\nAction Input: Os"):
        for cut in range(text.index("\n") + 1, len(text)):
            _, calls, _, _ = read(text[:cut], is_cut=True)
            assert all(invalid for _, _, invalid in calls), (text[:cut], calls)


MARKERS = ["Thought: ", "Action: ", "Action Input: ", "Final Answer: ", "Observation: ", "行动：", "**"]
OTHERS = [
    "\n",
    "\n\n",
    " ",
    "a",
    "words without end or marker that go on, ",
    "get_weather",
    "{",
    "```",
    "Final",
]
WHOLE = ["Action: none", INPUT, ACTION, CALL, "</think>", f"<tool_call>{CALL}</tool_call>", "Action"]
PIECES = st.sampled_from([*MARKERS, *OTHERS, *WHOLE])


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join), SIZES, st.booleans())
def test_the_result_does_not_depend_on_how_the_text_was_cut(text, sizes, is_cut):
    assert read(text, sizes, is_cut=is_cut)[:3] == read(text, is_cut=is_cut)[:3]


@given(st.text("ab \n{<`[*#-", max_size=80), SIZES)
def test_an_answer_without_markers_comes_out_as_it_went_in(text, sizes):
    assert read(text, sizes)[:2] == (text if text.strip() else "", [])


IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}
CALLS = [{"id": "1", "type": "function", "function": {"name": "now", "arguments": "{}"}}]


def test_a_history_is_written_as_text_and_not_changed():
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "What time is it?", "name": "ann"},
        {"role": "assistant", "content": "I look.", "tool_calls": CALLS * 2},
        {"role": "tool", "tool_call_id": "1", "content": "12:00"},
        {"role": "tool", "tool_call_id": "2", "content": "12:01"},
        {"role": "assistant", "content": "Noon."},
        {"role": "user", "content": ""},
        {"role": "user", "content": "Thanks"},
    ]
    before = copy.deepcopy(messages)
    written = write_history(messages, "RULES", write_react)
    assert write_history(messages, "RULES", write_react) == written
    assert messages == before
    call = "Action: now\nAction Input: {}"
    assert written == [
        {"role": "system", "content": "Be brief.\n\nRULES"},
        {"role": "user", "content": "What time is it?", "name": "ann"},
        {"role": "assistant", "content": f"Thought: I look.\n{call}\n{call}"},
        {"role": "user", "content": "Observation: 12:00\nObservation: 12:01"},
        {"role": "assistant", "content": "Final Answer: Noon."},
        {"role": "user", "content": "Thanks"},
    ]


def test_instructions_come_first_without_a_system_message():
    user = {"role": "user", "content": "Hi"}
    assert write_history([user], "RULES", write_react) == [{"role": "system", "content": "RULES"}, user]
    assert write_history([user], "", write_react) == [user]


def test_a_system_message_is_said_once():
    system = {"role": "system", "content": "Be brief."}
    written = write_history([system, system, {"role": "user", "content": "Hi"}], "RULES", write_react)
    assert written[0] == {"role": "system", "content": "Be brief.\n\nRULES"}


def test_images_survive():
    parts = [{"type": "text", "text": "Look"}, IMAGE]
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "assistant", "content": None, "tool_calls": CALLS},
        {"role": "tool", "tool_call_id": "1", "content": [IMAGE]},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": [{"type": "text", "text": "Nice."}]},
    ]
    system, _, user, answer = write_history(messages, "RULES", write_react)
    assert [part["text"] for part in system["content"]] == ["Be brief.", "RULES"]
    assert user == {"role": "user", "content": [{"type": "text", "text": "Observation:"}, IMAGE, *parts]}
    assert answer["content"] == "Final Answer: Nice."


def test_tools_are_described_with_all_the_model_needs():
    parameters = {
        "properties": {"t": {"$ref": "#/$defs/T"}},
        "required": ["t"],
        "$defs": {"T": {"enum": ["中"]}},
    }
    text = describe_tools(
        [{"function": {"name": "f", "description": "Does it.", "parameters": parameters}}, TOOLS[1]]
    )
    assert "- f: Does it." in text
    assert "Required: t" in text
    assert '$defs: {"T": {"enum": ["中"]}}' in text
    assert "- now: \n  Arguments: {} Required: -" in text
