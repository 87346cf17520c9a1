"""Quirks of OpenAI's Responses protocol."""

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

_RESPONSE = {"id": "resp_1", "object": "response", "model": "m", "error": None, "incomplete_details": None}
_RESPONSE_USAGE = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
_BEGUN: list[dict[str, Any]] = [
    {"type": kind, "response": {**_RESPONSE, "status": "in_progress", "output": [], "usage": None}}
    for kind in ("response.created", "response.in_progress")
]
_REASONING = {"type": "reasoning", "id": "rs_0", "summary": [{"type": "summary_text", "text": "hm"}]}


def _said_item(said: str = SAID, number: int = 0) -> dict[str, Any]:
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
    return named_events(*numbered)


_SAID_EVENTS = _item(_said_item(), "It is ", "5.")
_SAID_END = _completed(_said_item())
_COMMENT = {**_said_item("I add."), "phase": "commentary"}
_FINAL = {**_said_item(number=1), "phase": "final_answer"}

RESPONSES_QUIRKS = rows(
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
            _item(_said_item(), SAID, index=1),
            end=_completed({"type": "item_of_the_future", "id": "x_0"}, _said_item()),
        ),
        FIVE_SAID,
    ),
    (
        "responses-text-only-in-done",
        "No deltas: the text comes with the end of its item.",
        _responses(_item(_said_item()), end=_SAID_END),
        FIVE_SAID,
    ),
    (
        "responses-call-only-in-done",
        "No deltas: the arguments come with the end of their item.",
        _responses(_item(_call_item()), end=_completed(_call_item())),
        CALLED_FIVE,
    ),
    (
        "responses-item-without-begin",
        "An item ends that has never begun.",
        _responses(_item(_call_item())[1:], end=_completed(_call_item())),
        CALLED_FIVE,
    ),
    (
        "responses-only-the-end",
        "All items come in the final event.",
        _responses(end=_completed(_call_item(), _call_item(NINE, 1))),
        CALLED_BOTH,
    ),
    (
        "responses-end-without-items",
        "The final event lists no items, though some were streamed (vLLM before 0.13).",
        _responses(_SAID_EVENTS, end=_completed()),
        FIVE_SAID,
    ),
    (
        "responses-deltas-without-items",
        "Deltas of text without an item and without its index (gateways).",
        _responses(
            {"type": "response.output_text.delta", "delta": "It is "},
            {"type": "response.output_text.delta", "delta": "5."},
            end=_completed(),
        ),
        FIVE_SAID,
    ),
    (
        "responses-deltas-without-items-then-all",
        "The same, and the final event lists the message: its text is not a second one.",
        _responses({"type": "response.output_text.delta", "delta": SAID}, end=_SAID_END),
        FIVE_SAID,
    ),
    (
        "responses-final-arguments-differ",
        "The arguments at the end differ from the joined deltas: the end is right.",
        _responses(_item(_call_item(), NINE), end=_completed(_call_item())),
        CALLED_FIVE,
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
        CALLED_BOTH,
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
            _item(_said_item(number=1), SAID, index=1),
            end=_SAID_END,
        ),
        text(SAID, "hm", TOKENS),
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
        named_events(*_BEGUN, *_SAID_EVENTS),
        EARLY,
    ),
    (
        "responses-cut-in-a-call",
        "The stream ends cleanly inside the arguments of a call.",
        named_events(*_BEGUN, *_item(_call_item(), FIVE[:8])[:2]),
        EARLY,
    ),
    (
        "responses-done",
        "[DONE] at the end, as in the other protocol (gateways).",
        _responses(_SAID_EVENTS, end=_SAID_END) + DONE,
        FIVE_SAID,
    ),
    (
        "responses-unnamed",
        "The events have no names, and lines end in CR LF.",
        unnamed_events(*_BEGUN, *_SAID_EVENTS, _SAID_END).replace(b"\n", b"\r\n"),
        FIVE_SAID,
    ),
    (
        "responses-usage-never",
        "The usage is null.",
        _responses(_SAID_EVENTS, end=_completed(_said_item(), usage=None)),
        UNCOUNTED,
    ),
    (
        "responses-json",
        "A whole response where a stream was asked for, labelled as a stream.",
        json.dumps(_SAID_END["response"]).encode(),
        FIVE_SAID,
    ),
    (
        "responses-page",
        "A login page with status 200.",
        PAGE,
        Expected(error="bad_request"),
        "text/html; charset=utf-8",
    ),
    (
        "responses-text-unannounced",
        "No `response.output_item.added`: the deltas name an item that was never begun.",
        _responses(_SAID_EVENTS[1:], end=_SAID_END),
        FIVE_SAID,
    ),
    (
        "responses-text-unannounced-behind-reasoning",
        "The same, and the last event lists reasoning before it, of which no event came.",
        _responses(_SAID_EVENTS[1:-1], end=_completed(_REASONING, _said_item())),
        text(SAID, reasoning="hm", usage=TOKENS),
    ),
    (
        "responses-call-unannounced",
        "The arguments of a call come before the call.",
        _responses(_item(_call_item(), FIVE[:5], FIVE[5:])[1:], end=_completed(_call_item())),
        CALLED_FIVE,
    ),
    (
        "responses-call-announced-twice",
        "The first event of a call is repeated, and the last one too.",
        _responses(
            _item(_call_item())[:1],
            _item(_call_item(), FIVE),
            _item(_call_item())[-1:],
            end=_completed(_call_item()),
        ),
        CALLED_FIVE,
    ),
    (
        "responses-call-not-finished",
        "The limit cut a call off, whose arguments look complete: its own status says that it is not.",
        _responses(
            _item({**_call_item("{}"), "status": "incomplete"}, "{}"),
            end=_completed(
                {**_call_item("{}"), "status": "incomplete"},
                status="incomplete",
                incomplete_details={"reason": "max_output_tokens"},
            ),
        ),
        Expected(calls=(("add", None),), finish_reason="length", usage=TOKENS),
    ),
    (
        "responses-phases",
        "A message of the phase `commentary` before the one of the phase `final_answer`.",
        _responses(
            _item(_COMMENT, "I add."),
            _item(_FINAL, "It is ", "5.", index=1),
            end=_completed(_COMMENT, _FINAL),
        ),
        text(SAID, reasoning="I add.", usage=TOKENS),
    ),
    (
        "responses-phase-of-calls",
        "A commentary before a call is the text of the answer.",
        _responses(
            _item(_COMMENT, "I add."),
            _item(_call_item(number=1), FIVE, index=1),
            end=_completed(_COMMENT, _call_item(number=1)),
        ),
        calls(ADD_FIVE, said="I add.", usage=TOKENS),
    ),
    ("responses-nothing", "An empty body with status 200.", b"", EARLY),
    (
        "responses-429-quota",
        "Status 429 because no money is left: waiting does not help.",
        b'{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","code":null}}',
        Expected(error="quota"),
        JSON,
        429,
    ),
)
