"""In what form arguments come, and which of them must not be used."""

from __future__ import annotations

import json
from typing import Any

from pure_agent_loop.testing.quirks.model import Expected, Quirk
from pure_agent_loop.testing.quirks.writing import (
    ADD_FIVE,
    ADD_NINE,
    FIVE,
    NINE,
    called,
    calling,
    calls,
    part,
    say,
    stream,
)


def _one_call(name: str, *pieces: Any) -> bytes:
    """One call with these arguments, each piece in a fragment of its own."""
    first, *rest = pieces
    return called(
        calling(part(first, name, index=0, id="c1")), *(calling(part(piece, index=0)) for piece in rest)
    )


FORM_QUIRKS = (
    Quirk(
        "arguments-object",
        "Arguments are an object, not its text (Ollama's own habit, leaking through proxies).",
        _one_call("add", json.loads(FIVE)),
        calls(ADD_FIVE),
    ),
    Quirk(
        "arguments-object-after-empty",
        "An empty text first, then the object.",
        _one_call("add", "", json.loads(FIVE)),
        calls(ADD_FIVE),
    ),
    Quirk(
        "arguments-cumulative",
        "Each fragment repeats the arguments so far: joined, they are no JSON.",
        _one_call("add", FIVE[:4], FIVE[:9], FIVE),
        calls(ADD_FIVE),
    ),
    Quirk(
        "arguments-repeated-whole",
        "The last fragment sends everything once more: neither a second call nor broken arguments.",
        called(
            calling(part(FIVE[:6], "add", index=0, id="c1")),
            calling(part(FIVE[6:], index=0)),
            calling(part(FIVE, "add", index=0, id="c1")),
        ),
        calls(ADD_FIVE),
    ),
    Quirk(
        "arguments-placeholder",
        "`{}` stands in first (proxies for Anthropic), and the real ones follow.",
        _one_call("add", "{}", FIVE[:6], FIVE[6:]),
        calls(ADD_FIVE),
    ),
    Quirk(
        "arguments-empty",
        "Empty text for a tool without parameters.",
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
        "A raw line end inside a JSON string, which small models write.",
        _one_call("say", '{"text": "one', '\ntwo"}'),
        calls(("say", {"text": "one\ntwo"})),
    ),
    Quirk(
        "arguments-pair-cut",
        "A character of two surrogates, cut between two fragments, once as escapes in the arguments.",
        _one_call("say", '{"text": "\\ud83d', '\\ude00!"}'),
        calls(("say", {"text": "\U0001f600!"})),
    ),
    Quirk(
        "arguments-pair-cut-raw",
        "The same, but the halves themselves stand in the arguments.",
        _one_call("say", '{"text": "\ud83d', '\ude00!"}'),
        calls(("say", {"text": "\U0001f600!"})),
    ),
    Quirk(
        "arguments-lone-surrogate",
        "Half a character: no JSON body can carry it back, so it is replaced.",
        _one_call("say", '{"text": "a\\ud800b"}'),
        calls(("say", {"text": "a\ufffdb"})),
    ),
    Quirk(
        "arguments-with-braces",
        "Braces and quotes inside a string: the end must not be guessed by counting.",
        _one_call("say", '{"text": "}', '{\\"', ' }"}'),
        calls(("say", {"text": '}{" }'})),
    ),
)

UNUSABLE_QUIRKS = (
    Quirk(
        "arguments-nan",
        "NaN: not JSON, though many parsers read it; strict servers refuse it in the history.",
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
        "A key given twice: nobody knows which one was meant.",
        _one_call("add", '{"a": 2, "b": 3, "a": 9}'),
        calls(("add", None)),
    ),
    Quirk(
        "arguments-object-duplicate-key",
        "The same, in arguments that come as an object.",
        called(
            b'{"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c1", "function": '
            b'{"name": "add", "arguments": {"a": 2, "b": 3, "a": 9}}}]}, "finish_reason": null}]}'
        ),
        calls(("add", None)),
    ),
    Quirk("arguments-list", "A list instead of an object.", _one_call("add", "[2, 3]"), calls(("add", None))),
    Quirk(
        "arguments-broken",
        "No JSON; repairing it would be guessing.",
        _one_call("add", "{a: 2, b: "),
        calls(("add", None)),
    ),
    Quirk(
        "arguments-broken-beside-good",
        "One call is broken: the other one is still good, and stays itself.",
        called(
            calling(part('{"a": 2,, "b"}', "add", index=0, id="c1")),
            calling(part(NINE, "add", index=1, id="c2")),
        ),
        calls(("add", None), ADD_NINE),
    ),
    Quirk(
        "length-in-arguments",
        "The token limit cut the arguments: the call must not run with what is there.",
        stream(say("I add."), calling(part(FIVE[:8], "add", index=0, id="c1")), calling(finish="length")),
        Expected("I add.", calls=(("add", None),), finish_reason="length"),
    ),
)
