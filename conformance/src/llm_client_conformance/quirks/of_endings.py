"""Quirks of endings: finish reasons, usage and errors."""

from __future__ import annotations

import json

from llm_client_conformance.quirks.bodies import (
    ADD_FIVE,
    ADD_NINE,
    CALLS,
    DONE,
    FIVE,
    HEAD,
    NINE,
    ROLE,
    STOP,
    TOKENS,
    USAGE,
    called,
    calling,
    calls,
    choose,
    event,
    part,
    say,
    stopped,
    stream,
    text,
    whole,
)
from llm_client_conformance.quirks.quirk import Expected, Quirk

_FIVE = text("It is 5.")
_CALL = calling(part(FIVE, "add", index=0, id="c1"))
_SAID = say("It is 5.")
_HALF = say("It is")
_EARLY = Expected(error="incomplete")
_BUSY = {"error": {"message": "The server is overloaded.", "type": "server_error", "code": 503}}

FINISH_QUIRKS = (
    Quirk(
        "stop-with-calls",
        'The finish reason is "stop" although there are calls.',
        stopped(_CALL),
        calls(ADD_FIVE),
    ),
    Quirk(
        "finish-function-call",
        'The finish reason is "function_call" for modern calls.',
        stream(_CALL, choose("function_call", delta={})),
        calls(ADD_FIVE),
    ),
    Quirk(
        "finish-eos",
        'The finish reason is "eos" (text-generation servers).',
        stream(_SAID, say("", "eos")),
        _FIVE,
    ),
    Quirk("finish-capitals", 'The finish reason is "STOP" (Gemini).', stream(_SAID, say("", "STOP")), _FIVE),
    Quirk(
        "finish-empty-each-time",
        "The finish reason is an empty string in every chunk but the last.",
        stopped(say("It is ", ""), say("5.", "")),
        _FIVE,
    ),
    Quirk(
        "finish-null-text",
        'The finish reason is the string "null" in every chunk but the last.',
        stopped(say("It is ", "null"), say("5.", "null")),
        _FIVE,
    ),
    Quirk("finish-twice", "Two finish reasons: calls, then an end.", stopped(_CALL, CALLS), calls(ADD_FIVE)),
    Quirk(
        "finish-missing-with-done",
        "No finish reason, but [DONE]: the answer is complete.",
        stream(_SAID),
        _FIVE,
    ),
    Quirk("finish-missing-with-done-calls", "The same with a complete call.", stream(_CALL), calls(ADD_FIVE)),
    Quirk(
        "finish-missing-without-done",
        "Text, then a clean end of the connection without a finish reason.",
        stream(_HALF, done=False),
        _EARLY,
    ),
    Quirk(
        "calls-missing-without-done",
        "A complete call, then a clean end without any signal: more calls may be missing.",
        stream(_CALL, done=False),
        _EARLY,
    ),
    Quirk(
        "arguments-cut-without-done",
        "A clean end in the middle of the arguments.",
        stream(calling(part(FIVE[:8], "add", index=0, id="c1")), done=False),
        _EARLY,
    ),
    Quirk(
        "arguments-cut-with-done",
        "[DONE] in the middle of the arguments, without a finish reason.",
        stream(calling(part(FIVE[:8], "add", index=0, id="c1"))),
        _EARLY,
    ),
    Quirk("nothing", "An empty body with status 200.", b"", _EARLY),
    Quirk("only-done", "[DONE], and nothing else.", DONE, _EARLY),
    Quirk("only-role", "A role, then a clean end.", stream(say("", role="assistant"), done=False), _EARLY),
    Quirk(
        "finish-error",
        'The finish reason is "error": a partial answer is not an answer.',
        stream(_HALF, choose("error", delta={})),
        _EARLY,
    ),
    Quirk(
        "finish-max-tokens",
        'The token limit, called "max_tokens": the client must report that the text is cut.',
        stream(_HALF, choose("max_tokens", delta={})),
        Expected("It is", finish_reason="length"),
    ),
    Quirk(
        "finish-content-filter",
        "A filter cut the text; the client must report it.",
        stream(_HALF, choose("content_filter", delta={})),
        Expected("It is", finish_reason="content_filter"),
    ),
    Quirk("no-done", "A finish reason, but no [DONE].", stream(_SAID, STOP, done=False), _FIVE),
    Quirk(
        "text-after-done",
        "Data after [DONE]: it is not part of the answer.",
        stopped(_SAID) + stopped(say(" Or 6?")),
        _FIVE,
    ),
)

USAGE_QUIRKS = (
    Quirk("usage-never", "No usage at all: unknown is not zero.", stopped(_SAID), _FIVE),
    Quirk(
        "usage-with-the-end",
        "Usage in the chunk with the finish reason.",
        stream(_SAID, {**STOP, "usage": USAGE}),
        text("It is 5.", usage=TOKENS),
    ),
    Quirk(
        "usage-in-every-chunk",
        "Running totals in every chunk: the last total counts; they are not summed.",
        stream(
            {**say("It is "), "usage": {"prompt_tokens": 11, "completion_tokens": 1, "total_tokens": 12}},
            {**say("5."), "usage": {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15}},
            {**STOP, "usage": USAGE},
        ),
        text("It is 5.", usage=TOKENS),
    ),
    Quirk(
        "usage-null-in-every-chunk",
        "`usage` is null in every chunk but the trailing one.",
        stream({**_SAID, "usage": None}, {**STOP, "usage": None}, {**HEAD, "choices": [], "usage": USAGE}),
        text("It is 5.", usage=TOKENS),
    ),
    Quirk(
        "usage-in-choice",
        "Usage inside the choice (Moonshot).",
        stream(_SAID, choose("stop", delta={}, usage=USAGE)),
        text("It is 5.", usage=TOKENS),
    ),
    Quirk(
        "usage-zeros-behind",
        "A chunk with zeros after the real numbers.",
        stream(
            {**_SAID, "usage": USAGE},
            {**STOP, "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}},
        ),
        text("It is 5.", usage=TOKENS),
    ),
)

ERROR_QUIRKS = (
    Quirk(
        "error-object", "An error object in the stream.", stream(_HALF, _BUSY), Expected(error="overloaded")
    ),
    Quirk(
        "error-event",
        "An event named error, then a clean end.",
        event(_HALF) + b"event: error\n" + event(_BUSY),
        Expected(error="overloaded"),
    ),
    Quirk(
        "error-field",
        "A line `error:` instead of `data:` (older llama.cpp).",
        event(_HALF) + b'error: {"code": 500, "message": "slot unavailable", "type": "server_error"}\n\n',
        Expected(error="overloaded"),
    ),
    Quirk(
        "error-text",
        "The error is a string.",
        stream(_HALF, {"error": "model is overloaded, try again"}),
        Expected(error="overloaded"),
    ),
    Quirk(
        "error-rate-limit",
        "A rate limit is reached in the middle of the stream.",
        stream(_HALF, {"error": {"message": "Rate limit reached.", "code": "rate_limit_exceeded"}}),
        Expected(error="rate_limit"),
    ),
    Quirk(
        "error-quota",
        "Quota used up, reported with status 200: waiting does not help.",
        stream({"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}),
        Expected(error="quota"),
    ),
    Quirk(
        "error-in-list",
        "The error object in a list (Google).",
        json.dumps([{"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}]).encode(),
        Expected(error="overloaded"),
        "application/json",
    ),
    Quirk(
        "error-bare",
        "An error object without `error` around it (older vLLM).",
        stream(
            {
                "object": "error",
                "message": "Internal server error",
                "type": "InternalServerError",
                "code": 500,
            }
        ),
        Expected(error="overloaded"),
    ),
    Quirk(
        "error-with-choice",
        'The error comes with a choice that ends with "error" (OpenRouter).',
        stream(_HALF, {**say("", "error"), "error": {"code": 502, "message": "Provider disconnected"}}),
        Expected(error="overloaded"),
    ),
    Quirk(
        "error-null",
        "`error` is null or empty in valid chunks: not an error.",
        stream({**_SAID, "error": None}, {**STOP, "error": {}}),
        _FIVE,
    ),
    Quirk(
        "error-json",
        "An error object as the whole answer, with status 200.",
        json.dumps(_BUSY).encode(),
        Expected(error="overloaded"),
        "application/json",
    ),
    Quirk(
        "html",
        "A login page with status 200: an empty answer to clients that only look for `data:`.",
        b"<!doctype html><html><title>Sign in</title></html>",
        Expected(error="bad_request"),
        "text/html; charset=utf-8",
    ),
    Quirk(
        "html-labelled-events",
        "A login page labelled as an event stream.",
        b"\n<html><body>502 Bad Gateway</body></html>",
        Expected(error="bad_request"),
    ),
    Quirk(
        "broken-chunk",
        "A chunk is not JSON: a part of the answer is lost, so the rest is not the answer.",
        stopped(_HALF, b'{"choices": [{"index": 0, "delta": {"content": " not', say(" 5.")),
        _EARLY,
    ),
    Quirk(
        "json-cut",
        "A JSON answer that ends in the middle.",
        whole({"content": "It is 5."})[:-30],
        _EARLY,
        "application/json",
    ),
    Quirk(
        "json-without-choices",
        "A whole JSON answer with an empty list of choices.",
        json.dumps({**HEAD, "choices": [], "usage": USAGE}).encode(),
        _EARLY,
        "application/json",
    ),
)


# -- quirks of framing: the event stream itself, and bodies sent instead of one --------------------------

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
        "Each event has different line breaks.",
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
    Quirk("no-space", "No space after `data:`.", _PLAIN.replace(b"data: ", b"data:"), _FIVE),
    Quirk(
        "two-spaces",
        "Two spaces after `data:`, also before [DONE].",
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
        "The name of the event follows its data.",
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
        "The same with CR LF: a cut between CR and LF must not become a blank line that ends the event.",
        (event(say("It is ")) + _FOLDED + stream(STOP)).replace(b"\n", b"\r\n"),
        _FIVE,
    ),
    Quirk(
        "no-last-blank-line", "The last event is not closed by a blank line.", _PLAIN[: -len(DONE) - 1], _FIVE
    ),
    Quirk("no-last-line-end", "The stream ends after [DONE], without a line break.", _PLAIN[:-2], _FIVE),
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
        "One event of 300 KB: readers with a limit for the length of lines fail.",
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


# -- quirks of places: where servers put calls, and what surrounds them ----------------------------------

_ONE = calls(ADD_FIVE)
_BEGIN = calling(part("", "add", index=0, id="c1"))

PLACE_QUIRKS = (
    Quirk(
        "empty-text-before-calls",
        "Empty text and white space before the calls: it is not an answer.",
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
        "Text continues after the call.",
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
        "Name and arguments are next to the id, without `function` around them.",
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
