"""How servers say which fragment of a call belongs to which call: indexes, ids, names."""

from __future__ import annotations

from pure_agent_loop.testing.quirks.model import Quirk
from pure_agent_loop.testing.quirks.writing import (
    ADD_FIVE,
    ADD_NINE,
    CALLS,
    FIVE,
    NINE,
    STOP,
    TOKENS,
    USAGE,
    called,
    calling,
    calls,
    choose,
    part,
    say,
    stream,
)

_TWO = calls(ADD_FIVE, ADD_NINE)
_ONE = calls(ADD_FIVE)
_BEGIN = calling(part("", "add", index=0, id="c1"))
_END = calling(part(FIVE[6:], index=0))

INDEX_QUIRKS = (
    Quirk(
        "calls-by-the-book",
        "The reference: two calls as OpenAI streams them, usage at the end.",
        stream(
            choose(delta={"role": "assistant", "content": None}),
            _BEGIN,
            calling(part(FIVE[:6], index=0)),
            _END,
            calling(part("", "add", index=1, id="c2")),
            calling(part(NINE, index=1)),
            CALLS,
            {**STOP, "choices": [], "usage": USAGE},
        ),
        calls(ADD_FIVE, ADD_NINE, usage=TOKENS),
    ),
    Quirk(
        "same-index-whole-calls",
        "Every call has index 0 (Ollama): joined by index, they become one call with broken arguments.",
        called(calling(part(FIVE, "add", index=0, id="c1")), calling(part(NINE, "add", index=0, id="c2"))),
        _TWO,
    ),
    Quirk(
        "same-index-in-fragments",
        "Every call has index 0, and each comes in several fragments.",
        called(
            _BEGIN,
            calling(part(FIVE[:6], index=0)),
            _END,
            calling(part("", "add", index=0, id="c2")),
            calling(part(NINE[:6], index=0)),
            calling(part(NINE[6:], index=0)),
        ),
        _TWO,
    ),
    Quirk(
        "same-index-in-one-delta",
        "Several calls with index 0 beside each other in one delta.",
        called(calling(part(FIVE, "add", index=0, id="c1"), part(NINE, "add", index=0, id="c2"))),
        _TWO,
    ),
    Quirk(
        "no-index",
        "No index at all, whole calls in one delta (Gemini's compatible endpoint).",
        called(calling(part(FIVE, "add", id="c1"), part(NINE, "add", id="c2"))),
        _TWO,
    ),
    Quirk(
        "no-index-in-fragments",
        "No index, and the later fragments have no id either.",
        called(
            calling(part("", "add", id="c1")),
            calling(part(FIVE[:6])),
            calling(part(FIVE[6:])),
            calling(part(NINE[:6], "add", id="c2")),
            calling(part(NINE[6:])),
        ),
        _TWO,
    ),
    Quirk(
        "null-index",
        "`index` is there, but null.",
        called(calling(part(FIVE, "add", index=None, id="c1"))),
        _ONE,
    ),
    Quirk(
        "text-index",
        "`index` is a text.",
        called(calling(part(FIVE[:6], "add", index="0", id="c1")), calling(part(FIVE[6:], index="0"))),
        _ONE,
    ),
    Quirk(
        "first-index-one",
        "The first index is 1, because the text before it was block 0 (proxies for Anthropic).",
        called(say("I add."), calling(part("", "add", index=1, id="c1")), calling(part(FIVE, index=1))),
        calls(ADD_FIVE, said="I add."),
    ),
    Quirk(
        "index-gap",
        "Indexes 0 and 7: lists filled by position get holes.",
        called(calling(part(FIVE, "add", index=0, id="c1")), calling(part(NINE, "add", index=7, id="c2"))),
        _TWO,
    ),
    Quirk(
        "interleaved-calls",
        "The fragments of two calls alternate.",
        called(
            calling(part("", "add", index=0, id="c1"), part("", "add", index=1, id="c2")),
            calling(part(FIVE[:6], index=0)),
            calling(part(NINE[:6], index=1)),
            calling(part(FIVE[6:], index=0)),
            calling(part(NINE[6:], index=1)),
        ),
        _TWO,
    ),
    Quirk(
        "same-index-no-id",
        "Every call has index 0, none has an id, and each comes in fragments.",
        called(
            calling(part(FIVE[:6], "add", index=0)),
            calling(part(FIVE[6:], index=0)),
            calling(part(NINE[:6], "add", index=0)),
            calling(part(NINE[6:], index=0)),
        ),
        _TWO,
    ),
    Quirk(
        "interleaved-by-id",
        "The fragments of two calls alternate without an index; only the id tells them apart.",
        called(
            calling(part("", "add", id="c1"), part("", "add", id="c2")),
            calling(part(FIVE[:6], id="c1")),
            calling(part(NINE[:6], id="c2")),
            calling(part(FIVE[6:], id="c1")),
            calling(part(NINE[6:], id="c2")),
        ),
        _TWO,
    ),
    Quirk(
        "index-counts-fragments",
        "The index counts fragments, not calls: by index, one call becomes three.",
        called(
            calling(part("", "add", index=0, id="c1")),
            calling(part(FIVE[:6], index=1, id="c1")),
            calling(part(FIVE[6:], index=2, id="c1")),
        ),
        _ONE,
    ),
)

ID_QUIRKS = (
    Quirk(
        "no-id",
        "Calls without an id (older llama.cpp): a result could not be told to belong to its call.",
        called(calling(part(FIVE, "add", index=0)), calling(part(NINE, "add", index=1))),
        _TWO,
    ),
    Quirk(
        "empty-id",
        "The id is an empty text.",
        called(calling(part(FIVE, "add", index=0, id="")), calling(part(NINE, "add", index=1, id=""))),
        _TWO,
    ),
    Quirk("null-id", "The id is null.", called(calling(part(FIVE, "add", index=0, id=None))), _ONE),
    Quirk(
        "id-on-every-fragment",
        "The id is repeated on every fragment.",
        called(_BEGIN, calling(part(FIVE[:6], index=0, id="c1")), calling(part(FIVE[6:], index=0, id="c1"))),
        _ONE,
    ),
    Quirk(
        "id-empty-later",
        "Later fragments carry an empty id (Qwen), which must not replace the real one.",
        called(_BEGIN, calling(part(FIVE[:6], index=0, id="")), calling(part(FIVE[6:], index=0, id=""))),
        _ONE,
    ),
    Quirk(
        "id-changes",
        "Each fragment has a new random id (vLLM at times): by id, one call becomes three.",
        called(_BEGIN, calling(part(FIVE[:6], index=0, id="c2")), calling(part(FIVE[6:], index=0, id="c3"))),
        _ONE,
    ),
    Quirk(
        "id-changes-with-name",
        "Each fragment has a new id and the name again.",
        called(
            _BEGIN,
            calling(part(FIVE[:6], "add", index=0, id="c2")),
            calling(part(FIVE[6:], "add", index=0, id="c3")),
        ),
        _ONE,
    ),
    Quirk(
        "same-id-twice",
        "Two calls share one id; sent back like that, strict servers refuse the history.",
        called(calling(part(FIVE, "add", index=0, id="c1")), calling(part(NINE, "add", index=1, id="c1"))),
        _TWO,
    ),
    Quirk("number-id", "The id is a number.", called(calling(part(FIVE, "add", index=0, id=17))), _ONE),
    Quirk(
        "same-call-twice",
        "The same tool with the same arguments, twice, on purpose: two ids, two calls.",
        called(calling(part(FIVE, "add", index=0, id="c1")), calling(part(FIVE, "add", index=1, id="c2"))),
        calls(ADD_FIVE, ADD_FIVE),
    ),
)

NAME_QUIRKS = (
    Quirk(
        "name-on-every-fragment",
        "The name is repeated on every fragment: joined, it becomes `addaddadd`.",
        called(
            calling(part("", "add", index=0, id="c1")),
            calling(part(FIVE[:6], "add", index=0, id="c1")),
            calling(part(FIVE[6:], "add", index=0, id="c1")),
        ),
        _ONE,
    ),
    Quirk(
        "name-grows",
        "Each fragment holds the name so far.",
        called(
            calling(part(None, "a", index=0, id="c1")),
            calling(part(None, "ad", index=0)),
            calling(part("", "add", index=0)),
            calling(part(FIVE, index=0)),
        ),
        _ONE,
    ),
    Quirk(
        "name-in-pieces",
        "The name comes in pieces.",
        called(
            calling(part(None, "ad", index=0, id="c1")),
            calling(part(None, "d", index=0)),
            calling(part(FIVE, index=0)),
        ),
        _ONE,
    ),
    Quirk(
        "name-null-later",
        "Later fragments have the name as null or empty, and arguments as null.",
        called(
            _BEGIN,
            calling({"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": FIVE}}),
            calling({"index": 0, "function": {"name": "", "arguments": None}}),
        ),
        _ONE,
    ),
    Quirk(
        "empty-fragment",
        "Fragments without anything in them, before the call and behind it.",
        called(
            calling({"index": 0}),
            calling(part(FIVE, "add", index=0, id="c1")),
            calling({"index": 0, "function": {}}),
            calling({"index": 0, "function": None}),
        ),
        _ONE,
    ),
    Quirk(
        "no-type",
        "`type` is missing.",
        called(calling({"index": 0, "id": "c1", "function": {"name": "add", "arguments": FIVE}})),
        _ONE,
    ),
)
