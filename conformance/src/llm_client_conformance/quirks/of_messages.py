"""Quirks of Anthropic's Messages protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llm_client_conformance.quirks.bodies import (
    ADD_FIVE,
    ADD_NINE,
    DONE,
    FIVE,
    NINE,
    TOKENS,
    calls,
    text,
)
from llm_client_conformance.quirks.events import (
    CALLED_BOTH,
    CALLED_FIVE,
    EARLY,
    FIVE_SAID,
    PAGE,
    SAID,
    UNCOUNTED,
    named_events,
    rows,
    unnamed_events,
)
from llm_client_conformance.quirks.quirk import JSON, Expected

_COUNTED = {"input_tokens": 11, "output_tokens": 7}
_MESSAGE_STOP = {"type": "message_stop"}


def _message(usage: Any = None, **fields: Any) -> dict[str, Any]:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    counted = {"input_tokens": 11, "output_tokens": 1} if usage is None else usage
    return {**head, "stop_reason": None, "stop_sequence": None, "usage": counted, **fields}


_START = {"type": "message_start", "message": _message()}


def _block(block: Mapping[str, Any], *deltas: Mapping[str, Any], index: int = 0) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _text(*pieces: str, index: int = 0) -> list[dict[str, Any]]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return _block({"type": "text", "text": ""}, *deltas, index=index)


def _use(*pieces: str, index: int = 0, begun: Any = None, name: str = "add") -> list[dict[str, Any]]:
    block = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": begun or {}}
    return _block(block, *map(_json_delta, pieces), index=index)


def _json_delta(piece: str) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": piece}


def _stop(reason: str | None = "end_turn", usage: Any = None, **delta: Any) -> dict[str, Any]:
    fields = {"stop_reason": reason, "stop_sequence": None, **delta}
    return {"type": "message_delta", "delta": fields, "usage": usage or {"output_tokens": 7}}


def _messages(*parts: Any, start: Any = _START, stop: Any = None) -> bytes:
    """Return a whole stream; lists of events are joined."""
    events = [event for part in parts for event in (part if isinstance(part, list) else [part])]
    return named_events(start, *events, stop or _stop(), _MESSAGE_STOP)


_TOOL_USE = _stop("tool_use")

MESSAGES_QUIRKS = rows(
    "messages",
    (
        "messages-by-the-book",
        "The reference: thinking, text and two calls as Anthropic streams them.",
        _messages(
            {"type": "ping"},
            _block(
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "Two sums."},
                {"type": "signature_delta", "signature": "EqQB"},
            ),
            _text("I ", "add.", index=1),
            _use("", FIVE[:5], FIVE[5:], index=2),
            _use("", NINE, index=3),
            stop=_TOOL_USE,
        ),
        calls(ADD_FIVE, ADD_NINE, said="I add.", reasoning="Two sums.", usage=TOKENS),
    ),
    (
        "messages-unknown-events",
        "New kinds of events, deltas and blocks, which may appear within one version.",
        _messages(
            {"type": "an_event_of_the_future", "index": 7},
            _block({"type": "block_of_the_future", "data": [1]}, {"type": "future_delta", "x": 1}),
            _text("It is ", "5.", index=1),
        ),
        FIVE_SAID,
    ),
    (
        "messages-signature-split",
        "The signature comes in several deltas.",
        _messages(
            _block(
                {"type": "thinking", "thinking": ""},
                {"type": "thinking_delta", "thinking": "hm"},
                *({"type": "signature_delta", "signature": piece} for piece in ("Eq", "QB", "=")),
            ),
            _text(SAID, index=1),
        ),
        text(SAID, "hm", TOKENS),
    ),
    (
        "messages-thinking-empty",
        "Thinking with a signature but without text (the default from Claude 4.7 on).",
        _messages(
            _block(
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "signature_delta", "signature": "EqQB"},
            ),
            _text(SAID, index=1),
        ),
        FIVE_SAID,
    ),
    (
        "messages-thinking-redacted",
        "Thinking that the server has encrypted.",
        _messages(_block({"type": "redacted_thinking", "data": "abc"}), _text(SAID, index=1)),
        FIVE_SAID,
    ),
    (
        "messages-arguments-none",
        "A call without any delta of its arguments: they are an empty object.",
        _messages(_use(name="now"), stop=_TOOL_USE),
        calls(("now", {}), usage=TOKENS),
    ),
    (
        "messages-arguments-blank",
        "The only delta of the arguments is empty.",
        _messages(_use("", name="now"), stop=_TOOL_USE),
        calls(("now", {}), usage=TOKENS),
    ),
    (
        "messages-arguments-at-once",
        "The start of the block has the whole arguments (gateways).",
        _messages(_use(begun={"a": 2, "b": 3}), stop=_TOOL_USE),
        CALLED_FIVE,
    ),
    (
        "messages-arguments-cut",
        "The token limit is reached inside the arguments of a call, and the block is closed all the same.",
        _messages(_use(FIVE[:8]), stop=_stop("max_tokens")),
        Expected(calls=(("add", None),), finish_reason="length", usage=TOKENS),
    ),
    (
        "messages-interleaved",
        "The deltas of two blocks alternate; only the index tells them apart.",
        _messages(
            [*_use(FIVE[:5], index=0)[:2], *_use(NINE[:5], index=1)[:2]],
            [*_use(FIVE[5:], index=0)[1:], *_use(NINE[5:], index=1)[1:]],
            stop=_TOOL_USE,
        ),
        CALLED_BOTH,
    ),
    (
        "messages-empty-json-delta-in-text",
        "Empty deltas of arguments inside a text (LiteLLM before vLLM).",
        _messages(
            _block({"type": "text", "text": ""}, {"type": "text_delta", "text": SAID}, _json_delta(""))
        ),
        FIVE_SAID,
    ),
    (
        "messages-text-at-once",
        "The start of the block has the whole text.",
        _messages(_block({"type": "text", "text": SAID})),
        FIVE_SAID,
    ),
    (
        "messages-stop-with-calls",
        'The stop reason is "end_turn" although there are calls (gateways).',
        _messages(_use(FIVE)),
        CALLED_FIVE,
    ),
    (
        "messages-usage-corrected",
        "The last usage corrects the input tokens of the first one.",
        _messages(
            _text(SAID),
            start={
                "type": "message_start",
                "message": _message({"input_tokens": 900, "output_tokens": 1}),
            },
            stop=_stop(usage={"input_tokens": 11, "output_tokens": 7}),
        ),
        FIVE_SAID,
    ),
    (
        "messages-usage-of-caches",
        "Tokens that a cache gave or took are outside of `input_tokens`, and belong to the prompt.",
        _messages(
            _text(SAID),
            stop=_stop(
                usage={
                    "input_tokens": 1,
                    "cache_read_input_tokens": 8,
                    "cache_creation_input_tokens": 2,
                    "output_tokens": 7,
                }
            ),
        ),
        FIVE_SAID,
    ),
    (
        "messages-usage-never",
        "No usage in any event.",
        _messages(
            _text(SAID),
            start={"type": "message_start", "message": {"id": "msg_1", "role": "assistant"}},
            stop={"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        ),
        UNCOUNTED,
    ),
    (
        "messages-done",
        "[DONE] at the end, as in the other protocol (gateways).",
        _messages(_text(SAID)) + DONE,
        FIVE_SAID,
    ),
    (
        "messages-unnamed",
        "The events have no names (gateways).",
        unnamed_events(_START, *_text(SAID), _stop(), _MESSAGE_STOP),
        FIVE_SAID,
    ),
    (
        "messages-crlf",
        "Lines end in CR LF, with comments between the events.",
        b": keep-alive\r\n\r\n" + _messages(_text(SAID)).replace(b"\n", b"\r\n"),
        FIVE_SAID,
    ),
    (
        "messages-no-message-stop",
        "A stop reason, and no `message_stop`: the message is complete.",
        named_events(_START, *_text(SAID), _stop()),
        FIVE_SAID,
    ),
    (
        "messages-no-stop-reason",
        "The stream ends cleanly after a block, without a stop reason.",
        named_events(_START, *_text("It is")),
        EARLY,
    ),
    (
        "messages-cut-in-a-call",
        "The stream ends cleanly inside the arguments of a call.",
        named_events(_START, *_use(FIVE[:8])[:2]),
        EARLY,
    ),
    (
        "messages-stop-reason-null",
        "`message_stop`, but the stop reason is null.",
        _messages(_text("It is"), stop=_stop(None)),
        EARLY,
    ),
    (
        "messages-error-after-text",
        "An error event in the middle, after status 200.",
        named_events(
            _START,
            *_text("It is")[:2],
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        ),
        Expected(error="overloaded"),
    ),
    (
        "messages-error-rate-limit",
        "A rate limit is reached in the middle of the stream.",
        named_events(
            _START,
            {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down"}},
        ),
        Expected(error="rate_limit"),
    ),
    (
        "messages-error-billing",
        "No credit is left, reported in the stream: waiting does not help.",
        named_events(
            _START,
            {
                "type": "error",
                "error": {"type": "billing_error", "message": "Your credit balance is too low."},
            },
        ),
        Expected(error="quota"),
    ),
    (
        "messages-error-of-vllm",
        "The error of another protocol in the stream: an object `error` without an outer type (gateways).",
        named_events(_START)
        + unnamed_events({"error": {"message": "overloaded", "type": "server_error", "code": 503}}),
        Expected(error="overloaded"),
    ),
    (
        "messages-error-bare",
        'A bare error object in the stream: `{"object": "error", ...}` (older vLLM behind a gateway).',
        named_events(_START)
        + unnamed_events({"object": "error", "message": "The server is overloaded", "type": "server_error"}),
        Expected(error="overloaded"),
    ),
    (
        "messages-length",
        "The token limit cut the text.",
        _messages(_text("It is"), stop=_stop("max_tokens")),
        Expected("It is", finish_reason="length", usage=TOKENS),
    ),
    (
        "messages-refusal",
        "The model refused before any text: status 200, no content.",
        _messages(stop=_stop("refusal", stop_details={"type": "refusal", "category": "bio"})),
        Expected(finish_reason="content_filter", usage=TOKENS),
    ),
    (
        "messages-json",
        "A whole message where a stream was asked for, labelled as a stream.",
        json.dumps(
            _message(_COUNTED, content=[{"type": "text", "text": SAID}], stop_reason="end_turn")
        ).encode(),
        FIVE_SAID,
    ),
    (
        "messages-page",
        "A login page with status 200.",
        PAGE,
        Expected(error="bad_request"),
        "text/html; charset=utf-8",
    ),
    (
        "messages-text-without-start",
        "Deltas of a text that was neither started nor ended (gateways).",
        _messages(
            *(
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
                for piece in ("It is ", "5.")
            )
        ),
        FIVE_SAID,
    ),
    (
        "messages-null-fields",
        "Gateways write null for fields that have no value, and leave out indexes.",
        _messages(
            {
                "type": "content_block_start",
                "content_block": {"type": "text", "text": None, "citations": None},
            },
            {"type": "content_block_delta", "index": None, "delta": {"type": "text_delta", "text": SAID}},
            {"type": "content_block_delta", "delta": {"type": "citations_delta", "citation": None}},
            {"type": "content_block_stop"},
            {"type": "message_delta", "delta": None, "usage": None, "error": None},
        ),
        FIVE_SAID,
    ),
    ("messages-nothing", "An empty body with status 200.", b"", EARLY),
    (
        "messages-529",
        "The server is overloaded: a status that only Anthropic uses.",
        b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r"}',
        Expected(error="overloaded"),
        JSON,
        529,
    ),
    (
        "messages-too-long",
        "The prompt exceeds the context window.",
        b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}',
        Expected(error="context_overflow"),
        JSON,
        400,
    ),
    (
        "messages-error-of-a-gateway",
        "The error body of the other protocol, with a text as code (LiteLLM).",
        b'{"error":{"message":"400: Invalid model name","type":"None","param":"None","code":"400"}}',
        Expected(error="bad_request"),
        JSON,
        400,
    ),
)
