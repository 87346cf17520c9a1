"""How servers end an answer, count its tokens, and say that it failed."""

from __future__ import annotations

import json

from pure_agent_loop.testing.quirks.model import Expected, Quirk
from pure_agent_loop.testing.quirks.writing import (
    ADD_FIVE,
    CALLS,
    DONE,
    FIVE,
    HEAD,
    STOP,
    TOKENS,
    USAGE,
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
        "The finish reason is an empty text in every chunk but the last.",
        stopped(say("It is ", ""), say("5.", "")),
        _FIVE,
    ),
    Quirk(
        "finish-null-text",
        'The finish reason is the text "null" in every chunk but the last.',
        stopped(say("It is ", "null"), say("5.", "null")),
        _FIVE,
    ),
    Quirk("finish-twice", "Two finish reasons: calls, then an end.", stopped(_CALL, CALLS), calls(ADD_FIVE)),
    Quirk(
        "finish-missing-with-done",
        "No finish reason, but [DONE]: the server says that it is through.",
        stream(_SAID),
        _FIVE,
    ),
    Quirk("finish-missing-with-done-calls", "Likewise with a whole call.", stream(_CALL), calls(ADD_FIVE)),
    Quirk(
        "finish-missing-without-done",
        "Text, then a clean end of the connection: nobody said that this was all.",
        stream(_HALF, done=False),
        _EARLY,
    ),
    Quirk(
        "calls-missing-without-done",
        "A whole call, then a clean end without any signal: more calls may be missing.",
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
        'The finish reason is "error": half an answer is no answer.',
        stream(_HALF, choose("error", delta={})),
        _EARLY,
    ),
    Quirk(
        "finish-max-tokens",
        'The token limit, called "max_tokens": the text is cut, and that must be told.',
        stream(_HALF, choose("max_tokens", delta={})),
        Expected("It is", finish_reason="length"),
    ),
    Quirk(
        "finish-content-filter",
        "A filter cut the text, and that must be told.",
        stream(_HALF, choose("content_filter", delta={})),
        Expected("It is", finish_reason="content_filter"),
    ),
    Quirk("no-done", "A finish reason, but no [DONE].", stream(_SAID, STOP, done=False), _FIVE),
    Quirk(
        "text-after-done",
        "Something follows [DONE]: it belongs to no answer.",
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
        "Running totals in every chunk: the last ones count, they are not added up.",
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
        "Zeros in a chunk behind the real numbers.",
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
        "The error is a text.",
        stream(_HALF, {"error": "model is overloaded, try again"}),
        Expected(error="overloaded"),
    ),
    Quirk(
        "error-rate-limit",
        "A rate limit that is hit in the middle of the stream.",
        stream(_HALF, {"error": {"message": "Rate limit reached.", "code": "rate_limit_exceeded"}}),
        Expected(error="rate_limit"),
    ),
    Quirk(
        "error-quota",
        "No money left, told with status 200: waiting does not help.",
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
        'The error stands beside a choice that ends with "error" (OpenRouter).',
        stream(_HALF, {**say("", "error"), "error": {"code": 502, "message": "Provider disconnected"}}),
        Expected(error="overloaded"),
    ),
    Quirk(
        "error-null",
        "`error` is null or empty in good chunks: no error.",
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
        "The same, labelled as an event stream.",
        b"\n<html><body>502 Bad Gateway</body></html>",
        Expected(error="bad_request"),
    ),
    Quirk(
        "broken-chunk",
        "A chunk that is no JSON: a part of the answer is lost, so the rest is not the answer.",
        stopped(_HALF, b'{"choices": [{"index": 0, "delta": {"content": " not', say(" 5.")),
        _EARLY,
    ),
    Quirk(
        "json-cut",
        "A whole JSON answer that ends in the middle.",
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
