"""Where servers put calls, and what stands beside them."""

from __future__ import annotations

import json

from pure_agent_loop.testing.quirks.model import Quirk
from pure_agent_loop.testing.quirks.writing import (
    ADD_FIVE,
    ADD_NINE,
    FIVE,
    NINE,
    ROLE,
    TOKENS,
    USAGE,
    called,
    calling,
    calls,
    choose,
    part,
    say,
    stopped,
    stream,
    text,
    whole,
)

_ONE = calls(ADD_FIVE)
_BEGIN = calling(part("", "add", index=0, id="c1"))

PLACE_QUIRKS = (
    Quirk(
        "empty-text-before-calls",
        "Empty and white text before the calls: it is no answer.",
        called(say("", role="assistant"), say("\n\n"), calling(part(FIVE, "add", index=0, id="c1"))),
        _ONE,
    ),
    Quirk(
        "empty-text-beside-calls",
        "Every fragment of the call carries empty text as well.",
        stream(
            say("", tool_calls=[part("", "add", index=0, id="c1")]),
            say("", tool_calls=[part(FIVE, index=0)]),
            say("", "tool_calls"),
        ),
        _ONE,
    ),
    Quirk(
        "text-before-calls",
        "The model says what it will do, then does it.",
        called(say("I will "), say("add."), _BEGIN, calling(part(FIVE, index=0))),
        calls(ADD_FIVE, said="I will add."),
    ),
    Quirk(
        "text-after-calls",
        "Text goes on behind the call.",
        called(_BEGIN, calling(part(FIVE, index=0)), say("One moment.")),
        calls(ADD_FIVE, said="One moment."),
    ),
    Quirk(
        "calls-with-the-end",
        "The whole call comes in the chunk that carries the finish reason.",
        stream(say(None), calling(part(FIVE, "add", index=0, id="c1"), finish="tool_calls")),
        _ONE,
    ),
    Quirk(
        "calls-as-object",
        "`tool_calls` is one object instead of a list.",
        called(choose(delta={"tool_calls": part(FIVE, "add", index=0, id="c1")})),
        _ONE,
    ),
    Quirk(
        "calls-null",
        "`tool_calls` is null in every chunk of a text answer.",
        stopped(say("It is ", tool_calls=None), say("5.", tool_calls=None)),
        text("It is 5."),
    ),
    Quirk(
        "calls-empty-list",
        "`tool_calls` is an empty list in every chunk of a text answer.",
        stream(say("It is ", tool_calls=[]), say("5.", tool_calls=[], finish="stop")),
        text("It is 5."),
    ),
    Quirk(
        "call-without-function",
        "Name and arguments stand beside the id, without `function` around them.",
        called(calling({"index": 0, "id": "c1", "name": "add", "arguments": FIVE})),
        _ONE,
    ),
    Quirk(
        "calls-in-message",
        "The chunks have `message` where `delta` should be.",
        stream(
            choose(message={**ROLE, "tool_calls": [part(FIVE, "add", index=0, id="c1")]}),
            choose("tool_calls", message={}),
        ),
        _ONE,
    ),
    Quirk(
        "legacy-function-call",
        "The old `function_call`, streamed, with its own finish reason.",
        stream(
            choose(delta={"function_call": {"name": "add", "arguments": ""}}),
            choose(delta={"function_call": {"arguments": FIVE[:6]}}),
            choose(delta={"function_call": {"arguments": FIVE[6:]}}),
            choose("function_call", delta={}),
        ),
        _ONE,
    ),
    Quirk(
        "legacy-function-call-whole",
        "The old `function_call` in a whole answer.",
        whole({"content": None, "function_call": {"name": "add", "arguments": FIVE}}, "function_call"),
        _ONE,
        "application/json",
    ),
    Quirk(
        "calls-in-json",
        "A whole JSON answer where a stream was asked for, calls without index, arguments as objects.",
        whole(
            {
                "content": "",
                "tool_calls": [
                    part(json.loads(FIVE), "add", id="c1"),
                    part(json.loads(NINE), "add", id="c1"),
                ],
            },
            usage=USAGE,
        ),
        calls(ADD_FIVE, ADD_NINE, usage=TOKENS),
        "application/json",
    ),
)
