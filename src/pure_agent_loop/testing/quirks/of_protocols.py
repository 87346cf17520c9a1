"""Quirks of the makers' own protocols: Anthropic's Messages, OpenAI's Responses and Google's Gemini API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pure_agent_loop.testing.completions import sse
from pure_agent_loop.testing.quirks.checking import (
    ADD_FIVE,
    ADD_NINE,
    DONE,
    FIVE,
    JSON,
    NINE,
    TOKENS,
    Expected,
    Quirk,
    calls,
    text,
)

_SAID = "It is 5."
_FIVE = text(_SAID, usage=TOKENS)
_UNCOUNTED = text(_SAID)
_CALL = calls(ADD_FIVE, usage=TOKENS)
_BOTH = calls(ADD_FIVE, ADD_NINE, usage=TOKENS)
_EARLY = Expected(error="incomplete")
_PAGE = b"<!doctype html><title>Sign in</title><h1>Sign in</h1>"
_COUNTED = {"input_tokens": 11, "output_tokens": 7}
_MESSAGE_STOP = {"type": "message_stop"}
_RESPONSE = {"id": "resp_1", "object": "response", "model": "m", "error": None, "incomplete_details": None}
_RESPONSE_USAGE = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
_BEGUN: list[dict[str, Any]] = [
    {"type": kind, "response": {**_RESPONSE, "status": "in_progress", "output": [], "usage": None}}
    for kind in ("response.created", "response.in_progress")
]
_REASONING = {"type": "reasoning", "id": "rs_0", "summary": [{"type": "summary_text", "text": "hm"}]}
_GEMINI_USAGE = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
_TWO_FIVE, _FOUR_NINE = {"a": 2, "b": 3}, {"a": 4, "b": 5}
_LIST_ERROR = (
    b'[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.",'
    b'"status":"INVALID_ARGUMENT"}}]'
)
_RETRY_LATER = (
    "You exceeded your current quota, please check your plan and billing details. Please retry in 23.5s."
)


def _of(protocol: str, *rows: tuple[Any, ...]) -> tuple[Quirk, ...]:
    """Return the quirks of a protocol; the items of a row are the first arguments of `Quirk`."""
    return tuple(replace(Quirk(*row), protocol=protocol) for row in rows)


def _named(*events: Mapping[str, Any]) -> bytes:
    """Return a stream of events, each with its name, as Anthropic and OpenAI send them."""
    return b"".join(sse(json.dumps(event).encode(), str(event.get("type", ""))) for event in events)


def _unnamed(*events: Any) -> bytes:
    return b"".join(sse(json.dumps(event).encode()) for event in events)


# -- Messages --------------------------------------------------------------------------------------------


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
    return _named(start, *events, stop or _stop(), _MESSAGE_STOP)


_TOOL_USE = _stop("tool_use")

MESSAGES_QUIRKS = _of(
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
        _FIVE,
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
            _text(_SAID, index=1),
        ),
        text(_SAID, "hm", TOKENS),
    ),
    (
        "messages-thinking-empty",
        "Thinking with a signature but without text (the default from Claude 4.7 on).",
        _messages(
            _block(
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "signature_delta", "signature": "EqQB"},
            ),
            _text(_SAID, index=1),
        ),
        _FIVE,
    ),
    (
        "messages-thinking-redacted",
        "Thinking that the server has encrypted.",
        _messages(_block({"type": "redacted_thinking", "data": "abc"}), _text(_SAID, index=1)),
        _FIVE,
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
        _CALL,
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
        _BOTH,
    ),
    (
        "messages-empty-json-delta-in-text",
        "Empty deltas of arguments inside a text (LiteLLM before vLLM).",
        _messages(
            _block({"type": "text", "text": ""}, {"type": "text_delta", "text": _SAID}, _json_delta(""))
        ),
        _FIVE,
    ),
    (
        "messages-text-at-once",
        "The start of the block has the whole text.",
        _messages(_block({"type": "text", "text": _SAID})),
        _FIVE,
    ),
    (
        "messages-stop-with-calls",
        'The stop reason is "end_turn" although there are calls (gateways).',
        _messages(_use(FIVE)),
        _CALL,
    ),
    (
        "messages-usage-corrected",
        "The last usage corrects the input tokens of the first one.",
        _messages(
            _text(_SAID),
            start={
                "type": "message_start",
                "message": _message({"input_tokens": 900, "output_tokens": 1}),
            },
            stop=_stop(usage={"input_tokens": 11, "output_tokens": 7}),
        ),
        _FIVE,
    ),
    (
        "messages-usage-of-caches",
        "Tokens that a cache gave or took are outside of `input_tokens`, and belong to the prompt.",
        _messages(
            _text(_SAID),
            stop=_stop(
                usage={
                    "input_tokens": 1,
                    "cache_read_input_tokens": 8,
                    "cache_creation_input_tokens": 2,
                    "output_tokens": 7,
                }
            ),
        ),
        _FIVE,
    ),
    (
        "messages-usage-never",
        "No usage in any event.",
        _messages(
            _text(_SAID),
            start={"type": "message_start", "message": {"id": "msg_1", "role": "assistant"}},
            stop={"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        ),
        _UNCOUNTED,
    ),
    (
        "messages-done",
        "[DONE] at the end, as in the other protocol (gateways).",
        _messages(_text(_SAID)) + DONE,
        _FIVE,
    ),
    (
        "messages-unnamed",
        "The events have no names (gateways).",
        _unnamed(_START, *_text(_SAID), _stop(), _MESSAGE_STOP),
        _FIVE,
    ),
    (
        "messages-crlf",
        "Lines end in CR LF, with comments between the events.",
        b": keep-alive\r\n\r\n" + _messages(_text(_SAID)).replace(b"\n", b"\r\n"),
        _FIVE,
    ),
    (
        "messages-no-message-stop",
        "A stop reason, and no `message_stop`: the message is complete.",
        _named(_START, *_text(_SAID), _stop()),
        _FIVE,
    ),
    (
        "messages-no-stop-reason",
        "The stream ends cleanly after a block, without a stop reason.",
        _named(_START, *_text("It is")),
        _EARLY,
    ),
    (
        "messages-cut-in-a-call",
        "The stream ends cleanly inside the arguments of a call.",
        _named(_START, *_use(FIVE[:8])[:2]),
        _EARLY,
    ),
    (
        "messages-stop-reason-null",
        "`message_stop`, but the stop reason is null.",
        _messages(_text("It is"), stop=_stop(None)),
        _EARLY,
    ),
    (
        "messages-error-after-text",
        "An error event in the middle, after status 200.",
        _named(
            _START,
            *_text("It is")[:2],
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        ),
        Expected(error="overloaded"),
    ),
    (
        "messages-error-rate-limit",
        "A rate limit is reached in the middle of the stream.",
        _named(
            _START,
            {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down"}},
        ),
        Expected(error="rate_limit"),
    ),
    (
        "messages-error-billing",
        "No credit is left, reported in the stream: waiting does not help.",
        _named(
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
        _named(_START) + _unnamed({"error": {"message": "overloaded", "type": "server_error", "code": 503}}),
        Expected(error="overloaded"),
    ),
    (
        "messages-error-bare",
        'A bare error object in the stream: `{"object": "error", ...}` (older vLLM behind a gateway).',
        _named(_START)
        + _unnamed({"object": "error", "message": "The server is overloaded", "type": "server_error"}),
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
            _message(_COUNTED, content=[{"type": "text", "text": _SAID}], stop_reason="end_turn")
        ).encode(),
        _FIVE,
    ),
    (
        "messages-page",
        "A login page with status 200.",
        _PAGE,
        Expected(error="bad_request"),
        "text/html; charset=utf-8",
    ),
    ("messages-nothing", "An empty body with status 200.", b"", _EARLY),
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

# -- Responses -------------------------------------------------------------------------------------------


def _said_item(said: str = _SAID, number: int = 0) -> dict[str, Any]:
    content = [{"type": "output_text", "text": said, "annotations": []}] if said else []
    head = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
    return {**head, "content": content}


def _call_item(arguments: str = FIVE, number: int = 0, name: str = "add") -> dict[str, Any]:
    head = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name}
    return {**head, "arguments": arguments, "status": "completed"}


def _item(item: Mapping[str, Any], *deltas: str, index: int = 0) -> list[dict[str, Any]]:
    """Return the events of an item."""
    is_call = item["type"] == "function_call"
    kind = "response.function_call_arguments.delta" if is_call else "response.output_text.delta"
    begun = {**item, "status": "in_progress", **({"arguments": ""} if is_call else {"content": []})}
    place = {"output_index": index, "item_id": item["id"]}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": begun},
        *({"type": kind, **place, "content_index": 0, "delta": delta} for delta in deltas),
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def _completed(*items: Mapping[str, Any], status: str = "completed", **fields: Any) -> dict[str, Any]:
    response = {**_RESPONSE, "status": status, "output": items, "usage": _RESPONSE_USAGE, **fields}
    return {"type": f"response.{status}", "response": response}


def _responses(*parts: Any, end: Any) -> bytes:
    events = [event for part in parts for event in (part if isinstance(part, list) else [part])]
    numbered = [{**event, "sequence_number": number} for number, event in enumerate([*_BEGUN, *events, end])]
    return _named(*numbered)


_SAID_EVENTS = _item(_said_item(), "It is ", "5.")
_SAID_END = _completed(_said_item())

RESPONSES_QUIRKS = _of(
    "responses",
    (
        "responses-by-the-book",
        "The reference: reasoning, text and two calls as OpenAI streams them.",
        _responses(
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {**_REASONING, "summary": []},
            },
            {
                "type": "response.reasoning_summary_text.delta",
                "output_index": 0,
                "item_id": "rs_0",
                "summary_index": 0,
                "delta": "hm",
            },
            {"type": "response.output_item.done", "output_index": 0, "item": _REASONING},
            _item(_said_item("I add.", 1), "I ", "add.", index=1),
            _item(_call_item(number=2), FIVE[:5], FIVE[5:], index=2),
            _item(_call_item(NINE, 3), NINE, index=3),
            end=_completed(_REASONING, _said_item("I add.", 1), _call_item(number=2), _call_item(NINE, 3)),
        ),
        calls(ADD_FIVE, ADD_NINE, said="I add.", reasoning="hm", usage=TOKENS),
    ),
    (
        "responses-unknown-events",
        "New kinds of events and items.",
        _responses(
            {"type": "response.an_event_of_the_future", "x": 1},
            _item({"type": "item_of_the_future", "id": "x_0", "content": []}),
            _item(_said_item(), _SAID, index=1),
            end=_completed({"type": "item_of_the_future", "id": "x_0"}, _said_item()),
        ),
        _FIVE,
    ),
    (
        "responses-text-only-in-done",
        "No deltas: the text comes with the end of its item.",
        _responses(_item(_said_item()), end=_SAID_END),
        _FIVE,
    ),
    (
        "responses-call-only-in-done",
        "No deltas: the arguments come with the end of their item.",
        _responses(_item(_call_item()), end=_completed(_call_item())),
        _CALL,
    ),
    (
        "responses-item-without-begin",
        "An item ends that has never begun.",
        _responses(_item(_call_item())[1:], end=_completed(_call_item())),
        _CALL,
    ),
    (
        "responses-only-the-end",
        "All items come in the final event.",
        _responses(end=_completed(_call_item(), _call_item(NINE, 1))),
        _BOTH,
    ),
    (
        "responses-end-without-items",
        "The final event lists no items, though some were streamed (vLLM before 0.13).",
        _responses(_SAID_EVENTS, end=_completed()),
        _FIVE,
    ),
    (
        "responses-deltas-without-items",
        "Deltas of text without an item and without its index (gateways).",
        _responses(
            {"type": "response.output_text.delta", "delta": "It is "},
            {"type": "response.output_text.delta", "delta": "5."},
            end=_completed(),
        ),
        _FIVE,
    ),
    (
        "responses-deltas-without-items-then-all",
        "The same, and the final event lists the message: its text is not a second one.",
        _responses({"type": "response.output_text.delta", "delta": _SAID}, end=_SAID_END),
        _FIVE,
    ),
    (
        "responses-final-arguments-differ",
        "The arguments at the end differ from the joined deltas: the end is right.",
        _responses(_item(_call_item(), NINE), end=_completed(_call_item())),
        _CALL,
    ),
    (
        "responses-arguments-empty",
        "The arguments of a tool without parameters are an empty text.",
        _responses(_item(_call_item("", name="now")), end=_completed(_call_item("", name="now"))),
        calls(("now", {}), usage=TOKENS),
    ),
    (
        "responses-interleaved",
        "The deltas of two calls alternate; only the index tells them apart.",
        _responses(
            [*_item(_call_item(), FIVE[:5])[:2], *_item(_call_item(NINE, 1), NINE[:5], index=1)[:2]],
            [*_item(_call_item(), FIVE[5:])[1:], *_item(_call_item(NINE, 1), NINE[5:], index=1)[1:]],
            end=_completed(_call_item(), _call_item(NINE, 1)),
        ),
        _BOTH,
    ),
    (
        "responses-reasoning-text",
        "The reasoning itself, not a summary of it (open models).",
        _responses(
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {**_REASONING, "summary": []},
            },
            {
                "type": "response.reasoning_text.delta",
                "output_index": 0,
                "content_index": 0,
                "delta": "hm",
            },
            {
                "type": "response.output_item.done",
                "output_index": 0,
                "item": {
                    **_REASONING,
                    "summary": [],
                    "content": [{"type": "reasoning_text", "text": "hm"}],
                },
            },
            _item(_said_item(number=1), _SAID, index=1),
            end=_SAID_END,
        ),
        text(_SAID, "hm", TOKENS),
    ),
    (
        "responses-refusal",
        "The model's refusal comes as a separate kind of part: it is the text of the answer.",
        _responses(
            _item(_said_item(""))[:1],
            {
                "type": "response.refusal.delta",
                "output_index": 0,
                "content_index": 0,
                "delta": "I must not.",
            },
            {
                "type": "response.output_item.done",
                "output_index": 0,
                "item": {**_said_item(""), "content": [{"type": "refusal", "refusal": "I must not."}]},
            },
            end=_completed({**_said_item(""), "content": [{"type": "refusal", "refusal": "I must not."}]}),
        ),
        text("I must not.", usage=TOKENS),
    ),
    (
        "responses-incomplete",
        "The token limit cut the text: `response.incomplete`.",
        _responses(
            _item(_said_item("It is"), "It is"),
            end=_completed(
                _said_item("It is"),
                status="incomplete",
                incomplete_details={"reason": "max_output_tokens"},
            ),
        ),
        Expected("It is", finish_reason="length", usage=TOKENS),
    ),
    (
        "responses-incomplete-filter",
        "A filter cut the text: `response.incomplete`.",
        _responses(
            _item(_said_item("It is"), "It is"),
            end=_completed(
                _said_item("It is"), status="incomplete", incomplete_details={"reason": "content_filter"}
            ),
        ),
        Expected("It is", finish_reason="content_filter", usage=TOKENS),
    ),
    (
        "responses-failed",
        "The response failed after status 200, for a rate limit.",
        _responses(
            _item(_said_item("It is"), "It is")[:2],
            end=_completed(
                status="failed", error={"code": "rate_limit_exceeded", "message": "Rate limit reached"}
            ),
        ),
        Expected(error="rate_limit"),
    ),
    (
        "responses-failed-without-reason",
        "The response failed, and nothing says why: it is not an answer.",
        _responses(_SAID_EVENTS, end=_completed(status="failed")),
        Expected(error="unknown"),
    ),
    (
        "responses-error-event",
        "An event named error, whose fields lie flat.",
        _responses(end={"type": "error", "code": "server_error", "message": "It broke.", "param": None}),
        Expected(error="overloaded"),
    ),
    (
        "responses-error-object",
        "The error object of the other protocol in the stream (gateways).",
        _responses(end={"error": {"message": "overloaded", "type": "server_error", "code": 503}}),
        Expected(error="overloaded"),
    ),
    (
        "responses-error-quota",
        "The quota is used up, reported in the stream.",
        _responses(
            end=_completed(status="failed", error={"code": "insufficient_quota", "message": "No credit"})
        ),
        Expected(error="quota"),
    ),
    (
        "responses-no-end",
        "All items are complete, but the stream ends without a final event: more may be missing.",
        _named(*_BEGUN, *_SAID_EVENTS),
        _EARLY,
    ),
    (
        "responses-cut-in-a-call",
        "The stream ends cleanly inside the arguments of a call.",
        _named(*_BEGUN, *_item(_call_item(), FIVE[:8])[:2]),
        _EARLY,
    ),
    (
        "responses-done",
        "[DONE] at the end, as in the other protocol (gateways).",
        _responses(_SAID_EVENTS, end=_SAID_END) + DONE,
        _FIVE,
    ),
    (
        "responses-unnamed",
        "The events have no names, and lines end in CR LF.",
        _unnamed(*_BEGUN, *_SAID_EVENTS, _SAID_END).replace(b"\n", b"\r\n"),
        _FIVE,
    ),
    (
        "responses-usage-never",
        "The usage is null.",
        _responses(_SAID_EVENTS, end=_completed(_said_item(), usage=None)),
        _UNCOUNTED,
    ),
    (
        "responses-json",
        "A whole response where a stream was asked for, labelled as a stream.",
        json.dumps(_SAID_END["response"]).encode(),
        _FIVE,
    ),
    (
        "responses-page",
        "A login page with status 200.",
        _PAGE,
        Expected(error="bad_request"),
        "text/html; charset=utf-8",
    ),
    ("responses-nothing", "An empty body with status 200.", b"", _EARLY),
    (
        "responses-429-quota",
        "Status 429 because no money is left: waiting does not help.",
        b'{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","code":null}}',
        Expected(error="quota"),
        JSON,
        429,
    ),
)

# -- Gemini ----------------------------------------------------------------------------------------------


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
    """Return a stream as Google sends it: without names, lines ending in CR LF."""
    return _unnamed(*chunks).replace(b"\n", b"\r\n")


_LAST = _chunk(reason="STOP", usage=_GEMINI_USAGE)

GEMINI_QUIRKS = _of(
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
        _BOTH,
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
        _gemini(_chunk(_said(_SAID)), _chunk(_said("", thoughtSignature="EqQB")), _LAST),
        _FIVE,
    ),
    (
        "gemini-unknown-parts",
        "Kinds of parts and fields that are not known yet.",
        _gemini(
            {"aFieldOfTheFuture": 1, **_chunk({"partOfTheFuture": {"x": 1}})},
            _chunk(_said(_SAID)),
            _LAST,
        ),
        _FIVE,
    ),
    (
        "gemini-reason-in-every-chunk",
        "The finish reason is in every chunk.",
        _gemini(
            _chunk(_said("It is "), reason="STOP"),
            _chunk(_said("5."), reason="STOP", usage=_GEMINI_USAGE),
        ),
        _FIVE,
    ),
    (
        "gemini-usage-in-every-chunk",
        "Running totals in every chunk: the last ones count.",
        _gemini(
            _chunk(_said("It is "), usage={"promptTokenCount": 11, "candidatesTokenCount": 2}),
            _chunk(_said("5."), usage={"promptTokenCount": 11, "candidatesTokenCount": 4}),
            _LAST,
        ),
        _FIVE,
    ),
    (
        "gemini-usage-of-thoughts",
        "Tokens of thoughts are outside of the candidates' tokens, and belong to the output.",
        _gemini(
            _chunk(_said(_SAID)),
            _chunk(
                reason="STOP",
                usage={"promptTokenCount": 11, "candidatesTokenCount": 3, "thoughtsTokenCount": 4},
            ),
        ),
        _FIVE,
    ),
    (
        "gemini-usage-alone",
        "A last chunk with usage, and no candidates.",
        _gemini(_chunk(_said(_SAID), reason="STOP"), {"usageMetadata": _GEMINI_USAGE}),
        _FIVE,
    ),
    (
        "gemini-usage-never",
        "No usage in any chunk.",
        _gemini(_chunk(_said(_SAID), reason="STOP")),
        _UNCOUNTED,
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
        _EARLY,
    ),
    (
        "gemini-no-reason",
        "The stream ends cleanly without a finish reason.",
        _gemini(_chunk(_said("It is"))),
        _EARLY,
    ),
    (
        "gemini-call-without-reason",
        "A complete call, then a clean end without a finish reason: more calls may be missing.",
        _gemini(_chunk(_called(_TWO_FIVE))),
        _EARLY,
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
        _unnamed(_chunk(_said(_SAID)), _LAST) + DONE,
        _FIVE,
    ),
    (
        "gemini-json",
        "A whole response where a stream was asked for, labelled as a stream.",
        json.dumps(_chunk(_said(_SAID), reason="STOP", usage=_GEMINI_USAGE)).encode(),
        _FIVE,
    ),
    (
        "gemini-page",
        "A login page with status 200.",
        _PAGE,
        Expected(error="bad_request"),
        "text/html; charset=utf-8",
    ),
    ("gemini-nothing", "An empty body with status 200.", b"", _EARLY),
)
