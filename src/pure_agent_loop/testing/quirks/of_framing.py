"""How servers write the event stream itself, and what they send instead of one."""

from __future__ import annotations

import json

from pure_agent_loop.testing.quirks.model import Quirk
from pure_agent_loop.testing.quirks.writing import (
    DONE,
    STOP,
    TOKENS,
    USAGE,
    event,
    say,
    stopped,
    stream,
    text,
    whole,
)

_FIVE = text("It is 5.")
_PLAIN = stopped(say("It is "), say("5."))
_FOLDED = (
    b"\n".join(b"data: " + line.encode() for line in json.dumps(say("5."), indent=1).splitlines()) + b"\n\n"
)
_LONG = "All work and no play. " * 14_000
_TINY = "".join(str(number % 10) for number in range(1_000))

FRAMING_QUIRKS = (
    Quirk("crlf", "Lines end in CR LF.", _PLAIN.replace(b"\n", b"\r\n"), _FIVE),
    Quirk("cr", "Lines end in CR alone, which the standard allows.", _PLAIN.replace(b"\n", b"\r"), _FIVE),
    Quirk(
        "mixed-line-ends",
        "Each event has line ends of its own.",
        event(say("It is ")).replace(b"\n", b"\r\n") + event(say("5.")).replace(b"\n", b"\r") + stream(STOP),
        _FIVE,
    ),
    Quirk(
        "comments",
        "Comments and keep-alives between the events (OpenRouter).",
        b": OPENROUTER PROCESSING\n\n" + event(say("It is ")) + b":\n\n: keep-alive\n" + stopped(say("5.")),
        _FIVE,
    ),
    Quirk(
        "empty-events",
        "Blank lines, and events whose data is empty.",
        b"\n\n\n" + event(say("It is ")) + b"data:\n\ndata: \n\n\n" + stopped(say("5.")),
        _FIVE,
    ),
    Quirk("no-space", "No space behind `data:`.", _PLAIN.replace(b"data: ", b"data:"), _FIVE),
    Quirk(
        "two-spaces",
        "Two spaces behind `data:`, also before [DONE].",
        _PLAIN.replace(b"data: ", b"data:  "),
        _FIVE,
    ),
    Quirk(
        "event-lines",
        "Each event has a name, an id and a retry time.",
        _PLAIN.replace(b"data: ", b"event: message\nid: 7\nretry: 100\ndata: "),
        _FIVE,
    ),
    Quirk(
        "event-lines-behind",
        "The name of the event stands behind its data.",
        _PLAIN.replace(b"\n\n", b"\nevent: message\n\n"),
        _FIVE,
    ),
    Quirk("byte-order-mark", "The stream begins with a byte order mark.", b"\xef\xbb\xbf" + _PLAIN, _FIVE),
    Quirk(
        "data-of-several-lines",
        "The JSON of an event is spread over several `data:` lines.",
        event(say("It is ")) + _FOLDED + stream(STOP),
        _FIVE,
    ),
    Quirk(
        "data-of-several-lines-crlf",
        "The same with CR LF: cut between the two, it must not become a blank line that ends the event.",
        (event(say("It is ")) + _FOLDED + stream(STOP)).replace(b"\n", b"\r\n"),
        _FIVE,
    ),
    Quirk(
        "no-last-blank-line", "The last event is not closed by a blank line.", _PLAIN[: -len(DONE) - 1], _FIVE
    ),
    Quirk("no-last-line-end", "The stream ends behind [DONE], without a line end.", _PLAIN[:-2], _FIVE),
    Quirk("done-with-spaces", "White space around [DONE].", _PLAIN.replace(b"[DONE]", b" [DONE] "), _FIVE),
    Quirk("events-labelled-json", "A stream, labelled as JSON.", _PLAIN, _FIVE, "application/json"),
    Quirk(
        "events-labelled-text",
        "A stream, labelled as plain text.",
        _PLAIN,
        _FIVE,
        "text/plain; charset=utf-8",
    ),
    Quirk(
        "json",
        "A whole JSON answer where a stream was asked for.",
        whole({"content": "It is 5."}, usage=USAGE),
        text("It is 5.", usage=TOKENS),
        "application/json",
    ),
    Quirk("json-labelled-events", "The same, labelled as a stream.", whole({"content": "It is 5."}), _FIVE),
    Quirk(
        "json-indented",
        "A whole JSON answer, indented, with blank lines before it that kept the connection alive.",
        b"\n\n\n" + json.dumps(json.loads(whole({"content": "It is 5."})), indent=2).encode() + b"\n",
        _FIVE,
        "application/json",
    ),
    Quirk(
        "json-without-finish-reason",
        "A whole JSON answer that has no field `finish_reason`.",
        json.dumps({"choices": [{"message": {"role": "assistant", "content": "It is 5."}}]}).encode(),
        _FIVE,
        "application/json",
    ),
    Quirk(
        "very-long-line",
        "One event of 300 KB: readers with a limit for lines give up.",
        stopped(say(_LONG)),
        text(_LONG),
    ),
    Quirk(
        "thousand-deltas",
        "1,000 deltas of one character.",
        stopped(*({"choices": [{"delta": {"content": character}}]} for character in _TINY)),
        text(_TINY),
    ),
)
