"""Quirks of calls: how fragments identify their call, by index, id or name."""

from __future__ import annotations

import json
from typing import Any

from llm_client_conformance.quirks.bodies import (
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
from llm_client_conformance.quirks.quirk import Expected, Quirk

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
        "Several calls with index 0 in one delta.",
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
        "`index` is a string.",
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
        "Calls without an id (older llama.cpp): a result cannot name its call.",
        called(calling(part(FIVE, "add", index=0)), calling(part(NINE, "add", index=1))),
        _TWO,
    ),
    Quirk(
        "empty-id",
        "The id is an empty string.",
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
        "Two calls share one id; strict servers reject a history with both.",
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
        "Empty fragments before and after the call.",
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


# -- quirks of arguments: their forms, and invalid ones that must not be used ----------------------------


def _one_call(name: str, *pieces: Any) -> bytes:
    """Return one call with these arguments, one fragment per piece."""
    first, *rest = pieces
    return called(
        calling(part(first, name, index=0, id="c1")), *(calling(part(piece, index=0)) for piece in rest)
    )


FORM_QUIRKS = (
    Quirk(
        "arguments-object",
        "Arguments are an object, not its JSON text (as in Ollama's own API; some proxies pass it on).",
        _one_call("add", json.loads(FIVE)),
        calls(ADD_FIVE),
    ),
    Quirk(
        "arguments-object-after-empty",
        "An empty string first, then the object.",
        _one_call("add", "", json.loads(FIVE)),
        calls(ADD_FIVE),
    ),
    Quirk(
        "arguments-cumulative",
        "Each fragment repeats the arguments so far: joined, they are not JSON.",
        _one_call("add", FIVE[:4], FIVE[:9], FIVE),
        calls(ADD_FIVE),
    ),
    Quirk(
        "arguments-repeated-whole",
        "The last fragment repeats the whole call: it is neither a second call nor a part of the arguments.",
        called(
            calling(part(FIVE[:6], "add", index=0, id="c1")),
            calling(part(FIVE[6:], index=0)),
            calling(part(FIVE, "add", index=0, id="c1")),
        ),
        calls(ADD_FIVE),
    ),
    Quirk(
        "arguments-placeholder",
        "`{}` comes first as a placeholder (proxies for Anthropic), and the real arguments follow.",
        _one_call("add", "{}", FIVE[:6], FIVE[6:]),
        calls(ADD_FIVE),
    ),
    Quirk(
        "arguments-empty",
        "An empty string for a tool without parameters.",
        _one_call("now", ""),
        calls(("now", {})),
    ),
    Quirk(
        "arguments-null",
        "null for a tool without parameters.",
        called(calling({"index": 0, "id": "c1", "function": {"name": "now", "arguments": None}})),
        calls(("now", {})),
    ),
    Quirk(
        "arguments-null-text",
        "The text `null` for a tool without parameters.",
        _one_call("now", "null"),
        calls(("now", {})),
    ),
    Quirk(
        "arguments-missing",
        "No arguments at all for a tool without parameters.",
        _one_call("now", None),
        calls(("now", {})),
    ),
    Quirk(
        "arguments-braces",
        "An empty object for a tool without parameters.",
        _one_call("now", "{}"),
        calls(("now", {})),
    ),
    Quirk(
        "arguments-twice-encoded",
        "The text of the object is encoded once more as a JSON string.",
        _one_call("add", json.dumps(FIVE)),
        calls(ADD_FIVE),
    ),
    Quirk(
        "arguments-with-newline",
        "A raw line break inside a JSON string, which small models write.",
        _one_call("say", '{"text": "one', '\ntwo"}'),
        calls(("say", {"text": "one\ntwo"})),
    ),
    Quirk(
        "arguments-pair-cut",
        "A surrogate pair, escaped in the arguments and split between two fragments.",
        _one_call("say", '{"text": "\\ud83d', '\\ude00!"}'),
        calls(("say", {"text": "\U0001f600!"})),
    ),
    Quirk(
        "arguments-pair-cut-raw",
        "The same pair, unescaped in the arguments.",
        _one_call("say", '{"text": "\ud83d', '\ude00!"}'),
        calls(("say", {"text": "\U0001f600!"})),
    ),
    Quirk(
        "arguments-lone-surrogate",
        "A lone surrogate: no JSON body can carry it back, so it is replaced.",
        _one_call("say", '{"text": "a\\ud800b"}'),
        calls(("say", {"text": "a\ufffdb"})),
    ),
    Quirk(
        "arguments-with-braces",
        "Braces and quotes inside a string: counting them does not find the end.",
        _one_call("say", '{"text": "}', '{\\"', ' }"}'),
        calls(("say", {"text": '}{" }'})),
    ),
)

UNUSABLE_QUIRKS = (
    Quirk(
        "arguments-nan",
        "NaN: not JSON, though many parsers accept it; strict servers reject it in the history.",
        _one_call("add", '{"a": NaN, "b": 3}'),
        calls(("add", None)),
    ),
    Quirk(
        "arguments-infinity",
        "A number out of range, which reads as infinity.",
        _one_call("add", '{"a": 1e999, "b": 3}'),
        calls(("add", None)),
    ),
    Quirk(
        "arguments-duplicate-key",
        "A duplicate key: the intended value is unknown.",
        _one_call("add", '{"a": 2, "b": 3, "a": 9}'),
        calls(("add", None)),
    ),
    Quirk(
        "arguments-object-duplicate-key",
        "A duplicate key in arguments that are an object.",
        called(
            b'{"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c1", "function": '
            b'{"name": "add", "arguments": {"a": 2, "b": 3, "a": 9}}}]}, "finish_reason": null}]}'
        ),
        calls(("add", None)),
    ),
    Quirk("arguments-list", "A list instead of an object.", _one_call("add", "[2, 3]"), calls(("add", None))),
    Quirk(
        "arguments-broken",
        "Not JSON; a repair would be a guess.",
        _one_call("add", "{a: 2, b: "),
        calls(("add", None)),
    ),
    Quirk(
        "arguments-broken-beside-good",
        "One call is broken; the other one is valid and stays unchanged.",
        called(
            calling(part('{"a": 2,, "b"}', "add", index=0, id="c1")),
            calling(part(NINE, "add", index=1, id="c2")),
        ),
        calls(("add", None), ADD_NINE),
    ),
    Quirk(
        "length-in-arguments",
        "The token limit cut the arguments: the call must not run with the part that is left.",
        stream(say("I add."), calling(part(FIVE[:8], "add", index=0, id="c1")), calling(finish="length")),
        Expected("I add.", calls=(("add", None),), finish_reason="length"),
    ),
)
