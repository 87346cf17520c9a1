"""Quirks of Google's Gemini API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llm_client_conformance.quirks.bodies import (
    ADD_FIVE,
    ADD_NINE,
    DONE,
    TOKENS,
    calls,
)
from llm_client_conformance.quirks.events import (
    CALLED_BOTH,
    EARLY,
    FIVE_SAID,
    PAGE,
    SAID,
    UNCOUNTED,
    rows,
    unnamed_events,
)
from llm_client_conformance.quirks.quirk import JSON, Expected

_GEMINI_USAGE = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
_TWO_FIVE, _FOUR_NINE = {"a": 2, "b": 3}, {"a": 4, "b": 5}
_LIST_ERROR = (
    b'[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.",'
    b'"status":"INVALID_ARGUMENT"}}]'
)
_RETRY_LATER = (
    "You exceeded your current quota, please check your plan and billing details. Please retry in 23.5s."
)


def _chunk(*parts: Mapping[str, Any], reason: str | None = None, usage: Any = None, **fields: Any) -> Any:
    content = {"role": "model", **({"parts": list(parts)} if parts else {})}
    candidate = {"content": content, "index": 0, **({"finishReason": reason} if reason else {}), **fields}
    counted = {"usageMetadata": usage} if usage else {}
    return {"candidates": [candidate], "modelVersion": "m", "responseId": "r", **counted}


def _said(said: str, **fields: Any) -> dict[str, Any]:
    return {"text": said, **fields}


def _called(arguments: Any = None, name: str = "add", **fields: Any) -> dict[str, Any]:
    call = {"name": name, **({} if arguments is None else {"args": arguments})}
    return {"functionCall": {**call, **fields}}


def _gemini(*chunks: Any) -> bytes:
    """Return a stream as Google sends it: without event names, and with lines that end in CR LF."""
    return unnamed_events(*chunks).replace(b"\n", b"\r\n")


_LAST = _chunk(reason="STOP", usage=_GEMINI_USAGE)

GEMINI_QUIRKS = rows(
    "gemini",
    (
        "gemini-by-the-book",
        "The reference: a thought, text and two calls, the first one signed.",
        _gemini(
            _chunk(_said("Two sums.", thought=True)),
            _chunk(_said("I ")),
            _chunk(_said("add.")),
            _chunk({**_called(_TWO_FIVE, id="c1"), "thoughtSignature": "EqQB"}),
            _chunk(_called(_FOUR_NINE, id="c2")),
            _LAST,
        ),
        calls(ADD_FIVE, ADD_NINE, said="I add.", reasoning="Two sums.", usage=TOKENS),
    ),
    (
        "gemini-calls-without-ids",
        "Calls without ids (Gemini 2), both of one tool.",
        _gemini(_chunk(_called(_TWO_FIVE), _called(_FOUR_NINE), reason="STOP", usage=_GEMINI_USAGE)),
        CALLED_BOTH,
    ),
    (
        "gemini-arguments-none",
        "A call without the field `args`.",
        _gemini(_chunk(_called(name="now")), _LAST),
        calls(("now", {}), usage=TOKENS),
    ),
    (
        "gemini-signature-on-empty-text",
        "The last part is an empty text with a signature.",
        _gemini(_chunk(_said(SAID)), _chunk(_said("", thoughtSignature="EqQB")), _LAST),
        FIVE_SAID,
    ),
    (
        "gemini-unknown-parts",
        "Kinds of parts and fields that are not known yet.",
        _gemini(
            {"aFieldOfTheFuture": 1, **_chunk({"partOfTheFuture": {"x": 1}})},
            _chunk(_said(SAID)),
            _LAST,
        ),
        FIVE_SAID,
    ),
    (
        "gemini-reason-in-every-chunk",
        "The finish reason is in every chunk.",
        _gemini(
            _chunk(_said("It is "), reason="STOP"),
            _chunk(_said("5."), reason="STOP", usage=_GEMINI_USAGE),
        ),
        FIVE_SAID,
    ),
    (
        "gemini-usage-in-every-chunk",
        "Running totals in every chunk: the last ones count.",
        _gemini(
            _chunk(_said("It is "), usage={"promptTokenCount": 11, "candidatesTokenCount": 2}),
            _chunk(_said("5."), usage={"promptTokenCount": 11, "candidatesTokenCount": 4}),
            _LAST,
        ),
        FIVE_SAID,
    ),
    (
        "gemini-usage-of-thoughts",
        "Tokens of thoughts are outside of the candidates' tokens, and belong to the output.",
        _gemini(
            _chunk(_said(SAID)),
            _chunk(
                reason="STOP",
                usage={"promptTokenCount": 11, "candidatesTokenCount": 3, "thoughtsTokenCount": 4},
            ),
        ),
        FIVE_SAID,
    ),
    (
        "gemini-usage-alone",
        "A last chunk with usage, and no candidates.",
        _gemini(_chunk(_said(SAID), reason="STOP"), {"usageMetadata": _GEMINI_USAGE}),
        FIVE_SAID,
    ),
    (
        "gemini-usage-never",
        "No usage in any chunk.",
        _gemini(_chunk(_said(SAID), reason="STOP")),
        UNCOUNTED,
    ),
    (
        "gemini-blocked-prompt",
        "`promptFeedback` alone: the prompt was blocked, and there is no candidate.",
        _gemini({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": _GEMINI_USAGE}),
        Expected(finish_reason="content_filter", usage=TOKENS),
    ),
    (
        "gemini-safety",
        "A filter cut the text.",
        _gemini(_chunk(_said("It is")), _chunk(reason="SAFETY", usage=_GEMINI_USAGE)),
        Expected("It is", finish_reason="content_filter", usage=TOKENS),
    ),
    (
        "gemini-length",
        "The token limit cut the text.",
        _gemini(_chunk(_said("It is")), _chunk(reason="MAX_TOKENS", usage=_GEMINI_USAGE)),
        Expected("It is", finish_reason="length", usage=TOKENS),
    ),
    (
        "gemini-malformed-call",
        "The model wrote a call that the server could not read: nothing of it is an answer.",
        _gemini(_chunk(reason="MALFORMED_FUNCTION_CALL", finishMessage="print(add(2, 3))")),
        EARLY,
    ),
    (
        "gemini-no-reason",
        "The stream ends cleanly without a finish reason.",
        _gemini(_chunk(_said("It is"))),
        EARLY,
    ),
    (
        "gemini-call-without-reason",
        "A complete call, then a clean end without a finish reason: more calls may be missing.",
        _gemini(_chunk(_called(_TWO_FIVE))),
        EARLY,
    ),
    (
        "gemini-error-in-stream",
        "An error in the stream, after status 200.",
        _gemini(
            _chunk(_said("It is")),
            {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}},
        ),
        Expected(error="overloaded"),
    ),
    (
        "gemini-error-in-list",
        "The error object in a list, with status 200.",
        b'[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]',
        Expected(error="overloaded"),
        JSON,
    ),
    (
        "gemini-error-list-as-body",
        "The body of an error status is a list with the error object.",
        _LIST_ERROR,
        Expected(error="bad_request"),
        JSON,
        400,
    ),
    (
        "gemini-rate-limit-named-quota",
        "A limit per minute, whose text speaks of the quota and of billing: waiting helps.",
        json.dumps(
            {"error": {"code": 429, "message": _RETRY_LATER, "status": "RESOURCE_EXHAUSTED"}}
        ).encode(),
        Expected(error="rate_limit"),
        JSON,
        429,
    ),
    (
        "gemini-too-long",
        "The prompt exceeds the context window.",
        b'{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens"}}',
        Expected(error="context_overflow"),
        JSON,
        400,
    ),
    (
        "gemini-lf",
        "Lines end in LF, [DONE] comes at the end (gateways).",
        unnamed_events(_chunk(_said(SAID)), _LAST) + DONE,
        FIVE_SAID,
    ),
    (
        "gemini-json",
        "A whole response where a stream was asked for, labelled as a stream.",
        json.dumps(_chunk(_said(SAID), reason="STOP", usage=_GEMINI_USAGE)).encode(),
        FIVE_SAID,
    ),
    (
        "gemini-page",
        "A login page with status 200.",
        PAGE,
        Expected(error="bad_request"),
        "text/html; charset=utf-8",
    ),
    (
        "gemini-null-fields",
        "Gateways write null for every field that Google leaves out, also behind the end.",
        _gemini(
            _chunk(_said("It is ", thought=None, functionCall=None))
            | {"promptFeedback": None, "error": None},
            _chunk(_said("5."), reason="STOP", safetyRatings=None, finishMessage=None),
            {"candidates": [{"content": None, "finishReason": None}], "usageMetadata": None},
            {"candidates": None, "usageMetadata": _GEMINI_USAGE},
        ),
        FIVE_SAID,
    ),
    (
        "gemini-array",
        "The chunks of a stream in one JSON array: without `alt=sse`, and from some proxies always.",
        json.dumps([_chunk(_said("It is ")), _chunk(_said("5.")), _LAST]).encode(),
        FIVE_SAID,
        JSON,
    ),
    (
        "gemini-array-cut",
        "The same array without its end.",
        json.dumps([_chunk(_said("It is ")), _LAST]).encode()[:-20],
        EARLY,
        JSON,
    ),
    (
        "gemini-call-to-be-continued",
        "A call whose arguments have not all come (`willContinue`).",
        _gemini(_chunk(_called({}, willContinue=True)), _LAST),
        calls(("add", None), usage=TOKENS),
    ),
    ("gemini-nothing", "An empty body with status 200.", b"", EARLY),
)
