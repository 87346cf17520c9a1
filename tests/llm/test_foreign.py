"""Histories of other protocols: translated where the meaning is plain, else refused by place and type."""

from __future__ import annotations

import json

import pytest

from pure_agent_loop.errors import HistoryError
from pure_agent_loop.llm.messages import repair_history, to_wire
from pure_agent_loop.testing.history import check_history

LOST = "lost"
DATA = "iVBORw0KGgo="
URL = f"data:image/png;base64,{DATA}"
ASK = {"role": "user", "content": "q"}


def translated(*messages):
    fixed, _ = repair_history(messages, LOST)
    wire = to_wire(fixed)
    assert check_history(wire) == []
    assert repair_history(fixed, LOST) == (fixed, [])
    return fixed


def calls_and_results(messages):
    """(name, arguments, result) of each call."""
    results = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
    calls = [call for m in messages for call in m.get("tool_calls", ())]
    return [(c["function"]["name"], json.loads(c["function"]["arguments"]), results[c["id"]]) for c in calls]


LOOKED = [("look", {"city": "Oslo"}, "21 degrees")]
WITH_CALLS = {
    "anthropic": [
        ASK,
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {"city": "Oslo"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "21 degrees"}]},
    ],
    "anthropic, a result of blocks, and more text": [
        ASK,
        {
            "role": "assistant",
            "content": [
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"city": "Oslo"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "21 degrees"}],
                },
                {"type": "text", "text": "And tomorrow?"},
            ],
        },
    ],
    "responses": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
        {
            "type": "function_call",
            "id": "f",
            "call_id": "t1",
            "name": "look",
            "arguments": '{"city": "Oslo"}',
        },
        {"type": "function_call_output", "call_id": "t1", "output": "21 degrees"},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"city": "Oslo"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": "21 degrees"}}]},
    ],
    "langchain": [
        {"type": "human", "data": {"content": "q"}},
        {
            "type": "ai",
            "data": {"content": "", "tool_calls": [{"name": "look", "args": {"city": "Oslo"}, "id": "t1"}]},
        },
        {"type": "tool", "data": {"content": "21 degrees", "tool_call_id": "t1"}},
    ],
    "langchain, with its constructors": [
        {"lc": 1, "type": "constructor", "id": ["HumanMessage"], "kwargs": {"type": "human", "content": "q"}},
        {
            "lc": 1,
            "type": "constructor",
            "id": ["AIMessage"],
            "kwargs": {
                "type": "ai",
                "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}],
                "tool_calls": [{"name": "look", "args": {"city": "Oslo"}, "id": "t1"}],
            },
        },
        {
            "lc": 1,
            "type": "constructor",
            "id": ["ToolMessage"],
            "kwargs": {"type": "tool", "content": "21 degrees", "tool_call_id": "t1"},
        },
    ],
    "ai sdk, of the model": [
        ASK,
        {
            "role": "assistant",
            "content": [
                {"type": "tool-call", "toolCallId": "t1", "toolName": "look", "input": {"city": "Oslo"}}
            ],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "t1",
                    "toolName": "look",
                    "output": {"type": "text", "value": "21 degrees"},
                }
            ],
        },
    ],
    "ai sdk, of the page": [
        {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "q"}]},
        {
            "id": "m2",
            "role": "assistant",
            "parts": [
                {"type": "step-start"},
                {
                    "type": "tool-look",
                    "toolCallId": "t1",
                    "state": "output-available",
                    "input": {"city": "Oslo"},
                    "output": "21 degrees",
                },
                {"type": "text", "text": "21."},
            ],
        },
    ],
}


@pytest.mark.parametrize("name", WITH_CALLS)
def test_calls_and_results_are_kept(name):
    assert calls_and_results(translated(*WITH_CALLS[name])) == LOOKED


def test_a_failed_result_stays_one():
    use = {"type": "tool_use", "id": "c", "name": "add", "input": {}}
    failed = {"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": True}
    history = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [failed]}]
    assert repair_history(history, "lost")[0][1]["meta"] == {"failed": True}


def test_several_calls_of_one_answer_are_one_message():
    fixed = translated(
        ASK,
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "b", "output": "B"},
        {"type": "function_call_output", "call_id": "a", "output": "A"},
    )
    assert [m["role"] for m in fixed] == ["user", "assistant", "tool", "tool"]
    assert [result for *_, result in calls_and_results(fixed)] == ["A", "B"]


def test_thinking_is_kept_where_thinking_is_kept():
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "a"}]
    fixed = translated(ASK, {"role": "assistant", "content": blocks})
    assert fixed[1] == {"role": "assistant", "content": "a", "meta": {"reasoning": "hm"}}


IMAGES = [
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
    {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": DATA},
    {"type": "image", "image": DATA, "mediaType": "image/png"},
    {"type": "file", "mediaType": "image/png", "url": URL},
    {"type": "input_image", "image_url": URL},
    {"type": "image_url", "image_url": URL},
]


@pytest.mark.parametrize("block", IMAGES, ids=lambda block: ",".join(block))
def test_images_are_images(block):
    [message] = translated({"role": "user", "content": [{"type": "text", "text": "see"}, block]})
    assert message["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": URL}},
    ]


def test_an_image_among_parts_is_one():
    parts = [{"text": "see"}, {"inlineData": {"mimeType": "image/png", "data": DATA}}]
    [message] = translated({"role": "user", "parts": parts})
    assert message["content"][1] == {"type": "image_url", "image_url": {"url": URL}}


def test_image_of_a_result_follows_the_results():
    fixed = translated(
        ASK,
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": n, "name": "look", "input": {}} for n in "ab"],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "a",
                    "content": [{"type": "text", "text": "A"}, IMAGES[0]],
                },
                {"type": "tool_result", "tool_use_id": "b", "content": "B"},
            ],
        },
    )
    assert [result for *_, result in calls_and_results(fixed)] == ["A", "B"]
    assert fixed[-1]["content"] == [{"type": "image_url", "image_url": {"url": URL}}]


def test_tool_named_next_to_its_type():
    part = {"type": "dynamic-tool", "toolName": "look", "toolCallId": "t", "input": {}, "output": 21}
    assert calls_and_results(translated(ASK, {"role": "assistant", "parts": [part]})) == [("look", {}, "21")]


def test_nothing_of_an_answer_is_dropped():
    blocks = [{"type": "output_text", "text": "see"}, {"type": "image_url", "image_url": {"url": URL}}]
    fixed = translated(ASK, {"role": "assistant", "content": blocks})
    assert fixed[1]["content"] == [{"type": "text", "text": "see"}, blocks[1]]


@pytest.mark.parametrize(
    ("message", "place"),
    [
        (
            {"role": "assistant", "content": [{"type": "server_tool_use", "id": "x"}]},
            r"messages\[1\]\.content\[0\].*server_tool_use",
        ),
        (
            {"role": "user", "content": ["hi", {"type": "hologram", "data": "x"}]},
            r"messages\[1\]\.content\[1\].*hologram",
        ),
        (
            {"role": "user", "parts": [{"text": "x"}, {"executableCode": {}}]},
            r"messages\[1\]\.parts\[1\].*'executableCode'",
        ),
        (
            {"role": "user", "content": [{"type": "input_image", "file_id": "f"}]},
            r"messages\[1\]\.content\[0\].*input_image",
        ),
        ({"type": "web_search_call", "id": "w"}, r"messages\[1\]"),
    ],
)
def test_unmappable_part_is_rejected_with_its_position(message, place):
    with pytest.raises(HistoryError, match=place):
        repair_history([ASK, message], LOST)


@pytest.mark.parametrize("kind", ["video_url", "audio_url", "file", "input_audio"])
def test_a_part_of_the_same_protocol_passes(kind):
    message = {"role": "user", "content": [{"type": kind, kind: {"url": "https://example.com/x"}}]}
    assert repair_history([message], LOST) == ([message], [])


ONE = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
}


def result(call_id="a", content="21", **more):
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


@pytest.mark.parametrize(
    "history",
    [
        [ASK, ONE, ASK, {"role": "assistant", "content": "wait"}, result()],  # late
        [ASK, result(), ONE],  # early
        [ASK, ONE, result(None)],
        [ASK, ONE, result(None, name="look")],
        [ASK, ONE, result(), result()],  # twice the same
        [
            ASK,
            {**ONE, "tool_calls": [{"function": ONE["tool_calls"][0]["function"]}]},
            result("a"),
        ],  # a call without id
    ],
)
def test_known_result_follows_its_call(history):
    fixed = translated(*history)
    assert calls_and_results(fixed) == [("look", {}, "21")]
    assert LOST not in json.dumps(fixed)


def test_two_different_results_of_one_call_are_both_kept():
    assert calls_and_results(
        translated(ASK, ONE, result(content="it runs"), ASK, result(content="done"))
    ) == [("look", {}, "it runs\n\ndone")]


def test_a_result_whose_call_was_cut_away_is_kept_in_words():
    [message, *_] = translated(result(content="21 degrees"), ASK)
    assert message["role"] == "user"
    assert "21 degrees" in message["content"]


def test_fields_that_say_nothing_are_not_sent_and_names_are_valid():
    dump = {
        "role": "assistant",
        "content": "a",
        "refusal": None,
        "annotations": [],
        "tool_calls": None,
        "audio": None,
    }
    fixed = translated({"role": "user", "content": "q", "name": "Ann Lee"}, dump)
    assert fixed == [
        {"role": "user", "content": "q", "name": "Ann_Lee"},
        {"role": "assistant", "content": "a"},
    ]


def test_texts_among_blocks_are_texts():
    assert translated({"role": "user", "content": ["one", "two"]})[-1]["content"] == "one\ntwo"


def test_a_call_whose_input_is_text_keeps_its_name_and_its_input():
    made = {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    fixed = translated(ASK, {"role": "assistant", "tool_calls": [made]}, result("c1"))
    assert calls_and_results(fixed) == [("patch", {"input": "*** Begin"}, "21")]


def test_items_of_custom_calls_are_calls_with_their_text():
    made = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "patch", "input": "*** Begin"}
    fixed = translated(ASK, made, {"type": "custom_tool_call_output", "call_id": "c1", "output": "21"})
    assert calls_and_results(fixed) == [("patch", {"input": "*** Begin"}, "21")]
