"""Quirks of text and reasoning."""

from __future__ import annotations

import json
from typing import Any

from llm_client_conformance.quirks.bodies import (
    ADD_FIVE,
    FIVE,
    HEAD,
    STOP,
    TOKENS,
    USAGE,
    calling,
    calls,
    choose,
    part,
    say,
    stopped,
    stream,
    text,
    think,
    whole,
)
from llm_client_conformance.quirks.quirk import Quirk

_FIVE = text("It is 5.")
_TWO_CHOICES: dict[str, Any] = {
    **HEAD,
    "choices": [
        {"index": 0, "delta": {"content": "It is "}, "finish_reason": None},
        {"index": 1, "delta": {"content": "That makes "}, "finish_reason": None},
    ],
}

TEXT_QUIRKS = (
    Quirk(
        "text-by-the-book",
        "The reference: an answer as OpenAI streams it, usage at the end.",
        stream(
            say("", role="assistant"), say("It is "), say("5."), STOP, {**STOP, "choices": [], "usage": USAGE}
        ),
        text("It is 5.", usage=TOKENS),
    ),
    Quirk(
        "content-null",
        "`content` is null before and after the text.",
        stream(say(None, role="assistant"), say("It is 5."), say(None), say(None, "stop")),
        _FIVE,
    ),
    Quirk(
        "content-parts",
        "`content` is a list of parts.",
        stream(
            say([{"type": "text", "text": "It is "}]),
            say([{"type": "text", "text": "5"}, "."]),
            say([], "stop"),
        ),
        _FIVE,
    ),
    Quirk(
        "content-parts-whole",
        "`content` is a list of parts in a whole answer.",
        whole({"content": [{"type": "text", "text": "It is "}, {"type": "text", "text": "5."}]}),
        _FIVE,
        "application/json",
    ),
    Quirk(
        "role-only",
        "Chunks with nothing but the role, also in the middle.",
        stopped(
            choose(delta={"role": "assistant"}),
            say("It is "),
            choose(delta={"role": "assistant"}),
            say("5.", role="assistant"),
        ),
        _FIVE,
    ),
    Quirk(
        "delta-null",
        "`delta` is null in the last chunk.",
        stream(say("It is 5."), choose("stop", delta=None)),
        _FIVE,
    ),
    Quirk(
        "delta-missing",
        "`delta` is missing in the last chunk.",
        stream(say("It is 5."), choose("stop")),
        _FIVE,
    ),
    Quirk(
        "delta-empty-chunks",
        "Empty deltas, empty choices and empty objects between the pieces (Azure begins like that).",
        stopped(
            {**HEAD, "choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
            say("It is "),
            choose(delta={}),
            {**HEAD, "choices": []},
            {},
            {**HEAD, "choices": None},
            say("5."),
        ),
        _FIVE,
    ),
    Quirk(
        "unknown-fields",
        "Unknown fields, everywhere.",
        stream(
            {
                **say("It is ", x_new={"a": [1]}, audio=None),
                "system_fingerprint": None,
                "x_groq": {"id": "q"},
            },
            {
                **choose(delta={"content": "5.", "weird": 1}, logprobs=None, matched_stop=2),
                "timings": {"n": 1},
            },
            {**STOP, "nvext": {}},
        ),
        _FIVE,
    ),
    Quirk(
        "several-choices",
        "Two choices in each chunk (`n=2`): the first is the answer, the second is not part of it.",
        stream(
            _TWO_CHOICES,
            {
                **HEAD,
                "choices": [
                    {"index": 0, "delta": {"content": "5."}, "finish_reason": "stop"},
                    {"index": 1, "delta": {"content": "five."}, "finish_reason": "stop"},
                ],
            },
        ),
        _FIVE,
    ),
    Quirk(
        "several-choices-reversed",
        "Two choices in one chunk, the second one first: the index counts, not the position.",
        stopped({**HEAD, "choices": _TWO_CHOICES["choices"][::-1]}, say("5.")),
        _FIVE,
    ),
    Quirk(
        "several-choices-apart",
        "Two choices in separate chunks, as servers stream `n=2`: they must not be mixed.",
        stopped(
            say("It is "),
            {**HEAD, "choices": [{"index": 1, "delta": {"content": "That makes "}, "finish_reason": None}]},
            {**HEAD, "choices": [{"index": 1, "delta": {"content": "five."}, "finish_reason": "length"}]},
            say("5."),
        ),
        _FIVE,
    ),
    Quirk(
        "whole-answer-at-the-end",
        "The last chunk repeats the whole answer as a `message`: it must not appear twice.",
        stream(
            say("It is "), say("5."), choose("stop", message={"role": "assistant", "content": "It is 5."})
        ),
        _FIVE,
    ),
    Quirk(
        "lone-surrogate",
        "A lone surrogate in the text, which any model can write: it is replaced.",
        stopped(say("a\ud800b")),
        text("a\ufffdb"),
    ),
    Quirk(
        "pair-cut",
        "A surrogate pair, split between two deltas.",
        stopped(say("Hi \ud83d"), say("\ude00!")),
        text("Hi \U0001f600!"),
    ),
    Quirk(
        "text-like-protocol",
        "The answer talks about the protocol: `[DONE]`, `data:`, an error object, blank lines.",
        stopped(say('data: [DONE]\n\ndata: {"error": {"message": "x"}}\n\n: hm')),
        text('data: [DONE]\n\ndata: {"error": {"message": "x"}}\n\n: hm'),
    ),
    Quirk(
        "unicode-line-ends",
        "U+2028 and U+0085 unescaped in the JSON: they end no line, although `splitlines` splits there.",
        stopped(json.dumps(say("one\u2028two\u0085three"), ensure_ascii=False).encode()),
        text("one\u2028two\u0085three"),
    ),
    Quirk(
        "wide-characters",
        "Characters of three and four bytes, unescaped; networks cut them anywhere.",
        stopped(json.dumps(say("答案是 5 \U0001f600"), ensure_ascii=False).encode()),
        text("答案是 5 \U0001f600"),
    ),
    Quirk(
        "control-characters",
        "A raw tab inside a JSON string, which strict parsers reject.",
        stopped(json.dumps(say("a|b")).replace("|", "\t").encode()),
        text("a\tb"),
    ),
)

THINKING_QUIRKS = (
    Quirk(
        "reasoning-content",
        "`reasoning_content` with null content (DeepSeek, vLLM).",
        stopped(say(None, reasoning_content="2 and "), say(None, reasoning_content="3"), say("It is 5.")),
        text("It is 5.", "2 and 3"),
    ),
    Quirk(
        "reasoning",
        "The field is called `reasoning` (OpenRouter, Ollama).",
        stopped(think("2 and ", "reasoning"), think("3", "reasoning"), say("It is 5.")),
        text("It is 5.", "2 and 3"),
    ),
    Quirk(
        "reasoning-in-both",
        "Both fields with the same text: it must not be doubled.",
        stopped(
            choose(delta={"reasoning": "2 and ", "reasoning_content": "2 and "}),
            choose(delta={"reasoning": "3", "reasoning_content": "3"}),
            say("It is 5."),
        ),
        text("It is 5.", "2 and 3"),
    ),
    Quirk(
        "reasoning-null-with-text",
        "`reasoning_content` is null or empty in the chunks with text.",
        stopped(think("2 and 3"), say("It is ", reasoning_content=None), say("5.", reasoning_content="")),
        text("It is 5.", "2 and 3"),
    ),
    Quirk(
        "reasoning-parts",
        "Reasoning as a part of the content (Mistral).",
        stopped(
            say([{"type": "thinking", "thinking": [{"type": "text", "text": "2 and 3"}]}]),
            say([{"type": "text", "text": "It is 5."}]),
        ),
        text("It is 5.", "2 and 3"),
    ),
    Quirk(
        "reasoning-before-calls",
        "Reasoning, then a call, and no text at all.",
        stream(think("I add."), calling(part(FIVE, "add", index=0, id="c1")), choose("tool_calls", delta={})),
        calls(ADD_FIVE, reasoning="I add."),
    ),
    Quirk(
        "think-tags",
        "Reasoning between tags in the text.",
        stopped(say("<think>\n2 and 3\n</think>\n\nIt is 5.")),
        text("It is 5.", "2 and 3"),
    ),
    Quirk(
        "think-tags-cut",
        "The same, one character in each delta: every tag is split.",
        stopped(*map(say, "<think>2 and 3</think>It is 5.")),
        text("It is 5.", "2 and 3"),
    ),
    Quirk(
        "think-without-opening",
        "The opening tag was in the prompt (R1, Qwen templates), so only the closing one follows.",
        stopped(say("2 and "), say("3\n</th"), say("ink>\n\nIt is 5.")),
        text("It is 5.", "2 and 3"),
    ),
    Quirk(
        "think-without-opening-whole",
        "The same in a whole answer.",
        whole({"content": "2 and 3\n</think>\n\nIt is 5."}),
        text("It is 5.", "2 and 3"),
        "application/json",
    ),
    Quirk(
        "think-before-calls",
        "Reasoning between tags, then a call.",
        stream(
            say("<think>I add.</think>\n"),
            calling(part(FIVE, "add", index=0, id="c1")),
            choose("stop", delta={}),
        ),
        calls(ADD_FIVE, reasoning="I add."),
    ),
    Quirk(
        "think-empty",
        "Tags with nothing between them (Qwen, when thinking is off).",
        stopped(say("<think>\n\n</think>\n\n"), say("It is 5.")),
        _FIVE,
    ),
    Quirk(
        "think-tag-in-answer",
        "The answer talks about the tag: none of it may be removed.",
        stopped(say("Write `<think>` before it and `</think>` behind it.")),
        text("Write `<think>` before it and `</think>` behind it."),
    ),
)
