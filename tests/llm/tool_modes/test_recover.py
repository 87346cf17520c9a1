"""Calls that were left in the text are found again; everything else stays text and streams on."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pure_agent_loop.llm.tool_modes.recover import TextCalls, find_calls, schemas_of

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    },
    {"type": "function", "function": {"name": "now"}},
]
SCHEMAS = schemas_of(TOOLS)
OSLO = ("get_weather", {"city": "Oslo"})
CALL = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
NOW = '{"name": "now", "arguments": {}}'
XML_CITY = "<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n"
XML = f"{XML_CITY}<parameter=days>\n2\n</parameter>\n</function>"

ONE_CALL = {
    "tool_call": f"<tool_call>\n{CALL}\n</tool_call>",
    "tool_call without its end": f"<tool_call>{CALL}",
    "one brace too many": f"<tool_call>{CALL}}}</tool_call>",
    "more end tags": f"<tool_call>{CALL}</tool_call><|im_end|>",
    "fenced tag": f"```xml\n<tool_call>{CALL}</tool_call>\n```",
    "fenced": f"```json\n{CALL}\n```",
    "fenced without a language": f"```\n{CALL}\n```",
    "fenced in capitals": f"```JSON\n{CALL}\n```",
    "fenced tool_call": f"```tool_call\n{CALL}\n```",
    "fence without its end": f"```json\n{CALL}\n",
    "bare": CALL,
    "bare and indented": f"\n  {json.dumps(json.loads(CALL), indent=2)}\n",
    "list": f"[{CALL}]",
    "parameters": '{"name": "get_weather", "parameters": {"city": "Oslo"}}',
    "tool": '{"tool": "get_weather", "parameters": {"city": "Oslo"}}',
    "action": '{"thought": "hm", "action": "get_weather", "action_input": {"city": "Oslo"}}',
    "arguments first": '{"arguments": {"city": "Oslo"}, "name": "get_weather"}',
    "arguments as text": '{"name": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}',
    "wrapper": '{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}',
    "tool_calls": f'{{"tool_calls": [{CALL}]}}',
    "the name as key": '{"get_weather": {"city": "Oslo"}}',
    "with a namespace": '{"name": "functions.get_weather", "arguments": {"city": "Oslo"}}',
    "Mistral": f"[TOOL_CALLS][{CALL}]",
    "Mistral, newer": '[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}</s>',
    "Mistral, with an id": '[TOOL_CALLS]get_weather[CALL_ID]abc[ARGS]{"city": "Oslo"}',
    "Llama": f"<|python_tag|>{CALL.replace('arguments', 'parameters')}<|eom_id|>",
    "Llama function": '<function=get_weather>{"city": "Oslo"}</function>',
    "Qwen coder": f"<tool_call>\n{XML_CITY}</function>\n</tool_call>",
    "Qwen coder without ends": "<function=get_weather>\n<parameter=city>\nOslo\n",
    "GLM": "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>",
    "DeepSeek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
    '{"city": "Oslo"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "DeepSeek, newer": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
    '{"city": "Oslo"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "Kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
    '<|tool_call_argument_begin|>{"city": "Oslo"}<|tool_call_end|><|tool_calls_section_end|>',
}
ACTION = 'Action: get_weather\nAction Input: {"city": "Oslo"}'
ONE_CALL |= {
    "ReAct": ACTION,
    "ReAct, bold": '**Action:** get_weather\n\n**Action Input:** {"city": "Oslo"}\n',
    "ReAct, Chinese": '行动：get_weather\n行动输入：{"city": "Oslo"}',
    "ReAct, fenced": 'Action: get_weather\nAction Input:\n```json\n{"city": "Oslo"}\n```',
    "ReAct, a line": "Action: get_weather\nAction Input: Oslo",
    "ReAct, with a result made up": f"{ACTION}\nObservation: rain\nFinal Answer: It rains.",
    "ReAct in Python": "Act: get_weather(city='Oslo')",
    "ReAct in Python, with a result made up": 'Act: get_weather("Oslo")\nObserve: rain',
    "Python": 'get_weather(city="Oslo")\n',
    "Python in lines": 'get_weather(\n    city="Oslo",\n)',
    "Python with JSON": 'get_weather({"city": "Oslo"})',
}
LINE = 'get_weather(city="Oslo")'
NO_CALL = {
    "a ReAct example": f"Write\n{ACTION}\nto get the weather.",
    "a Python example": f"Write\n{LINE}\nto get the weather.",
    "Python in a line": f"Write {LINE}",
    "Python before words": f"{LINE} gets the weather.",
    "Python before a remark": f"{LINE}\nObservation: it needs a city.",
    "quoted Python": f"`{LINE}`",
    "a quotation": f"She wrote:\n> Act: {LINE}",
    "an indented block": f"It is written so:\n\n    {LINE}\n",
    "a list of Python": f"- {LINE}",
    "Python in a code block": f"```\n{LINE}\n```",
    "ReAct in a code block": f"```\n{ACTION}\n```",
    "an action of an unknown tool": "Action: rm\nAction Input: {}",
    "an action without a tool": "Action: none\nFinal Answer: 7",
    "an action without an input": "Action: now",
    "Python of an unknown tool": "Act: rm(x=1)",
    "Python arguments that do not fit": 'get_weather(town="Oslo")',
    "Python variables": "get_weather(city=Oslo)",
    "an argument too many": 'get_weather("Oslo", 1, 2)',
    "an open bracket of a tool": "get_weather(don't know",
    "words like a marker": "Actions speak\nlouder than words; now\n",
    "an example in the middle": f"Write\n```json\n{CALL}\n```\nto get the weather.",
    "a bare example in the middle": f"Write\n{CALL}\nto get the weather.",
    "in the middle of a line": f"Write {CALL}",
    "an unknown tool": '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
    "arguments that do not fit": f"<tool_call>{CALL.replace('city', 'town')}</tool_call>",
    "one of a list does not fit": f'[{CALL}, {{"name": "rm", "arguments": {{}}}}]',
    "a code block of another language": f"```python\n{CALL}\n```",
    "a tag in a code block": f"```\nUse it:\n<tool_call>{CALL}</tool_call>\n```\nSo it is.",
    "a quoted tag": f"Qwen writes `<tool_call>{CALL}</tool_call>` then.",
    "a tag that is talked about": "The <tool_call> tag and <function= are special, [TOOL_CALLS] too.",
    "not JSON": "<tool_call>{name: get_weather}</tool_call>",
    "a key twice": '{"name": "now", "name": "now", "arguments": {}}',
    "data": '[\n  {"name": "Ann", "age": 7},\n  {"name": "Bob", "age": 8}\n]',
    "code": "```c\nif (a[0] < b) { f(`x`); }\n```\n\n- [ ] a list\n- {x}\n[1] a < b <b>c</b> ``` `",
    "Python": 'Use this:\n\n```python\nx = {\n    "name": [1, 2],\n}\n```\n',
    "an open bracket": "[",
    "brackets": "{{[[",
    "thinking about it": f"I could send <tool_call>{CALL}</tool_call> but no.\n</think>No.",
    "Chinese": "【提示】：《书名》｛全角｝<注>，｀引用｀。",
}


def run(text, sizes=(1 << 20,), **finish):
    """Feed a text in pieces of these sizes; return shown text, calls, rest."""
    scanner, shown, position, turn = TextCalls(TOOLS), "", 0, 0
    while position < len(text):
        size = sizes[turn % len(sizes)]
        shown += scanner.feed(text[position : position + size])
        position, turn = position + size, turn + 1
    calls, rest = scanner.finish(**finish)
    return shown, [(call.name, call.arguments) for call in calls], rest


SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=5)


@pytest.mark.parametrize("text", ONE_CALL.values(), ids=ONE_CALL)
def test_a_call_is_found_in_every_spelling(text):
    for sizes in ([1 << 20], [1], [3, 1, 7]):
        shown, calls, rest = run(text, sizes)
        assert calls == [OSLO], sizes
        assert (shown + rest).strip() == ""
    shown, calls, rest = run(f"I will look.\n\n{text}")
    assert (shown.rstrip(), calls, rest) == ("I will look.", [OSLO], "")


@pytest.mark.parametrize("text", NO_CALL.values(), ids=NO_CALL)
def test_everything_else_stays_text(text):
    for sizes in ([1 << 20], [1], [3, 1, 7]):
        shown, calls, rest = run(text, sizes)
        assert (calls, shown + rest) == ([], text), sizes


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>{CALL}</tool_call>\n<tool_call>{NOW}</tool_call>",
        f"<tool_calls>[{CALL}, {NOW}]</tool_calls>",
        f"{CALL}\n{NOW}",
        f"{ACTION}\n\nAction: now\nAction Input: {{}}",
        f"{LINE}\nnow()",
        f"{CALL};{NOW}",
        f"[{CALL}, {NOW}]",
        f"```json\n{CALL}\n```\n\n```json\n{NOW}\n```",
        f"```json\n{CALL}\n{NOW}\n```",
        f"[TOOL_CALLS][{CALL}, {NOW}]",
        f"<|python_tag|>{CALL}; {NOW}",
        '<function=get_weather>{"city": "Oslo"}</function><function=now></function>',
        f"{ONE_CALL['GLM']}<tool_call>now</tool_call>",
    ],
)
def test_several_calls_keep_their_order(text):
    for sizes in ([1 << 20], [1]):
        assert run(text, sizes)[1:] == ([OSLO, ("now", {})], "")
    assert [call.id for call in find_calls(text, SCHEMAS)[0]] == ["", ""]


def test_text_around_tagged_calls_is_kept():
    text = f"First.\n<tool_call>{CALL}</tool_call>\nThen.\n<tool_call>{NOW}</tool_call>\nDone."
    shown, calls, rest = run(text)
    assert (shown, calls) == ("First.\n", [OSLO, ("now", {})])
    assert rest.split() == ["Then.", "Done."]
    good, text = find_calls(f'{CALL}\n<tool_call>{{"name": "rm"}}</tool_call>', SCHEMAS)
    assert (good, text[-12:]) == ([], "</tool_call>")


def test_values_in_xml_have_the_type_the_tool_wants():
    assert run(XML)[1] == [("get_weather", {"city": "Oslo", "days": 2})]
    assert run(XML.replace("Oslo", "7"))[1] == [("get_weather", {"city": "7", "days": 2})]


def test_a_call_that_was_cut_off_is_none():
    text = "<function=get_weather>\n<parameter=city>\nOslo"
    assert run(text, is_cut=True) == ("", [], text)
    assert run(CALL, is_cut=True)[1] == [OSLO]  # it is whole


def test_thinking_without_its_opening_tag_holds_no_calls():
    thinking = f"Perhaps <tool_call>{CALL}</tool_call>?\n</think>"
    shown, calls, rest = run(f"{thinking}\n<tool_call>{NOW}</tool_call>")
    assert (calls, (shown + rest).strip()) == ([("now", {})], thinking)
    assert run(f"{thinking}", has_thought=True)[1] == [OSLO]  # then the tag is part of the answer


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("a < b and `code` and [1] and {x: 1} and ```python\nx = {}\n", ""),
        ("Look:\n<", "<"),
        ("Look: <tool", "<tool"),
        ("Look:\n{", "{"),
        ("Look:\nAct", "Act"),
        ("Look:\nActs", ""),
        ("Look:\n**Action", "**Action"),
        ("Look:\nget_we", "get_we"),
        ("Look:\nget_weather(city='O", "get_weather(city='O"),
        ("Look:\nget_weather is", ""),
        ('Look:\n{"na', '{"na'),
        ('Look:\n{"name": "get', '{"name": "get'),
        ('Look:\n{"name": "got', ""),
        ('Look:\n{"city', ""),
        ("Look:\n```js", "```js"),
        ("Look:\n```jsx", ""),
        (f"Look:\n{CALL}", CALL),
        (f"Look:\n{CALL}\nand", ""),
        ('<tool_call>{"name": "rm", "arguments', ""),
    ],
)
def test_text_is_held_back_only_while_it_can_become_a_call(text, held):
    for size in (1, 1 << 20):
        scanner = TextCalls(TOOLS)
        shown = "".join(scanner.feed(text[i : i + size]) for i in range(0, len(text), size))
        assert (scanner.held, shown) == (held, text[: len(text) - len(held)])


SIGNS = [*"a<{[`}],;>\n", " ", "\n\n", "```", "```json\n", '"name"', ": ", '"x"', '{"name": "']
TAGS = ["<tool_call>", "</tool_call>", "<function=", "</function>", "[TOOL_CALLS]", "[ARGS]", "</think>"]
LINES = [
    "Act",
    "Action: ",
    "Action: now",
    "\nAction Input: ",
    LINE,
    ACTION,
    "now(",
    ")",
    "'",
    "Observation: ",
    "*",
]
OTHERS = ["<parameter=city>", "</parameter>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<arg_key>", "now"]
PIECES = st.sampled_from([*SIGNS, *TAGS, *LINES, *OTHERS, "function", CALL, NOW, XML, *ONE_CALL.values()])


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join), SIZES, st.booleans())
def test_the_result_does_not_depend_on_how_the_text_was_cut(text, sizes, is_cut):
    shown, calls, rest = run(text, is_cut=is_cut)
    again = run(text, sizes, is_cut=is_cut)
    assert (again[0] + again[2], again[1]) == (shown + rest, calls)
    if not calls:
        assert shown + rest == text


@given(st.text(max_size=60), SIZES)
def test_any_text_without_calls_comes_out_as_it_went_in(text, sizes):
    shown, calls, rest = run(text, sizes)
    assert (calls, shown + rest) == ([], text)


def test_a_long_call_is_read_in_linear_time():
    city = "x" * 200_000
    text = json.dumps({"name": "get_weather", "arguments": {"city": city}})
    assert run(text, [40])[1] == [("get_weather", {"city": city})]
