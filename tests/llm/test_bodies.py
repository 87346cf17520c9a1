"""Whole bodies of answers: streams, documents, pages, errors, and any cut of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.completions import BodyReader
from pure_agent_loop.llm.failures import classify
from pure_agent_loop.llm.values import TokenUsage

from .streams import DONE, calls, event, fragment, read, said, stream

WHOLE = {
    "choices": [{"message": {"role": "assistant", "content": "é 😀"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}


@pytest.mark.parametrize(
    "content_type", ["application/json", "text/event-stream", "text/plain", "", "text/html"]
)
@pytest.mark.parametrize("before", ["", "\n\n ", "\ufeff"])
def test_a_document_where_a_stream_was_asked(content_type: str, before: str):
    for ascii_only in (True, False):
        body = (before + json.dumps(WHOLE, ensure_ascii=ascii_only, indent=1)).encode()
        for sizes in ([], [1] * len(body)):
            response = read(body, sizes, content_type)
            assert (response.content, response.usage) == ("é 😀", TokenUsage(1, 2, 3))
            assert response.raw == WHOLE


@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json", "", "text/html"])
@pytest.mark.parametrize(
    "before", [b"", b": hello\n\n", b"\n\n", b"\xef\xbb\xbf", b"event: message\n", b"id: 1\n"]
)
def test_a_stream_however_it_is_labelled(content_type: str, before: bytes):
    body = before + stream(said(content="hel"), said("stop", content="lo"))
    assert read(body, [1] * len(body), content_type).content == "hello"


@pytest.mark.parametrize(
    ("content_type", "page"),
    [
        ("text/html; charset=utf-8", b"<!doctype html><title>Sign in</title>"),
        ("", b"\n <html>"),
        ("text/event-stream", b"<html>"),
        ("text/HTML", b"Please sign in."),
    ],
)
def test_web_page_is_not_an_answer(content_type: str, page: bytes):
    with pytest.raises(LLMError, match="web page") as caught:
        read(page, [], content_type)
    assert caught.value.kind == "bad_request"
    assert "base_url" in caught.value.message


@pytest.mark.parametrize(
    "body", [b"", b"\n\n", b": ping\n\n", b"upstream error", DONE, b"data:\n\ndata: \n\n"]
)
def test_empty_response_is_not_an_answer(body: bytes):
    with pytest.raises(LLMError, match="ended early") as caught:
        read(body)
    assert caught.value.is_transient


@pytest.mark.parametrize(
    "body",
    [
        stream(said(content="hello"), done=False),
        stream(said(reasoning_content="hm")),
        stream(said(tool_calls=[fragment("f", "", index=0)])),
        stream(said(tool_calls=[fragment("f", '{"a":', index=0)])),
        stream(said(tool_calls=[fragment("f", '{"a":1}', index=0)]), done=False),
        stream(said(content="hello")).replace(b"[DONE]", b""),
        b'{"choices": [{"message": {"content": "hel"}, "finish_reason": null}]}',
    ],
)
def test_an_early_end(body: bytes):
    with pytest.raises(LLMError, match="ended early") as caught:
        read(body)
    assert caught.value.is_transient


@pytest.mark.parametrize(
    "body",
    [
        stream(said(content="hello"))[:-20],
        event(said(content="hello")) + b'data: {"choices": [{"delta": {"content": "bro\n\n' + DONE,
        event(said("stop", content="hello")) + b"data: oops\n\n",
        json.dumps(WHOLE).encode()[:-10],
        b"{",
        b'data: {"a": ' + b"[" * 100_000 + b"\n\n",
    ],
)
def test_broken_json(body: bytes):
    with pytest.raises(LLMError) as caught:
        read(body)
    assert caught.value.kind == "incomplete"
    assert len(caught.value.message) < 400


def test_done_ends_an_answer_that_gave_no_reason():
    response = read(stream(said(content="hello")))
    assert (response.content, response.finish_reason) == ("hello", "stop")
    response = read(stream(said(tool_calls=[fragment("f", '{"a": 1}', index=0)])))
    assert (calls(response), response.finish_reason) == ([("f", {"a": 1})], "tool_calls")


@pytest.mark.parametrize(
    "done", [b"data: [DONE]\n\n", b"data:[DONE]\n\n", b"data: [DONE] \r\n\r\n", b"data: [DONE]"]
)
def test_nothing_after_done_counts(done: bytes):
    reader = BodyReader()
    body = (
        event(said("stop", content="hello")) + done + event(said("length", content=" no")) + b"data: oops\n\n"
    )
    if done.endswith(b"]"):
        body = event(said("stop", content="hello")) + done
    deltas = [*reader.feed(body), *reader.close()]
    assert "".join(delta.text for delta in deltas) == "hello"
    assert reader.is_done
    assert list(reader.feed(event(said(content="no")))) == []


ERRORS: list[tuple[Any, str, str]] = [
    ({"error": {"message": "boom", "code": "overloaded"}}, "boom", "overloaded"),
    ({"error": {"message": "boom", "type": "server_error", "code": None}}, "boom", "overloaded"),
    ({"error": {"message": "boom", "type": "overloaded_error", "code": "e17"}}, "boom", "overloaded"),
    ({"error": {"message": "boom", "code": 503}}, "boom", "overloaded"),
    ({"error": {"message": "boom", "code": "429"}}, "boom", "rate_limit"),
    ({"error": {"message": "Too Many Requests"}}, "Too Many Requests", "rate_limit"),
    ({"error": {"message": "no money", "code": "insufficient_quota"}}, "no money", "quota"),
    ({"error": {"message": "bad key", "code": 401}}, "bad key", "auth"),
    ({"error": {"message": "bad", "code": 400}}, "bad", "bad_request"),
    ({"error": {"message": "Cannot generate more than the limit"}}, "Cannot generate", "unknown"),
    ({"error": "the model is overloaded"}, "the model is overloaded", "overloaded"),
    ({"error": ["a", "b"]}, "a", "unknown"),
    ({"error": [{"message": "boom", "code": 500}]}, "boom", "overloaded"),
    ({"error": 500}, "500", "overloaded"),
    ({"error": True}, "True", "unknown"),
    ({"error": {"message": {"deep": ["er"]}}}, "deep", "unknown"),
    ({"error": {"message": "x", "code": "²"}}, "x", "unknown"),
    ({"error": {"message": "x" * 100_000, "code": "9" * 10_000}}, "xxx", "unknown"),
    ({"error": {"message": "x", "code": 200}}, "x", "unknown"),
    (
        {"object": "error", "message": "boom", "type": "InternalServerError", "code": 500},
        "boom",
        "overloaded",
    ),
    ({"detail": "Not Found"}, "Not Found", "unknown"),
    ([{"error": {"message": "boom", "code": 503}}], "boom", "overloaded"),
    (
        {"error": {"message": "boom", "code": 502}, "choices": [{"delta": {}, "finish_reason": "error"}]},
        "boom",
        "overloaded",
    ),
]


@pytest.mark.parametrize(("payload", "message", "kind"), ERRORS, ids=range(len(ERRORS)))
def test_error_objects(payload: Any, message: str, kind: str):
    for body in (
        event(payload),
        stream(said(content="half"), payload, said("stop")),
        json.dumps(payload).encode(),
    ):
        with pytest.raises(LLMError) as caught:
            read(body)
        assert message in caught.value.message
        assert caught.value.kind == kind
        assert len(caught.value.message) < 700


def test_the_error_field_of_older_llama_servers():
    with pytest.raises(LLMError, match="boom") as caught:
        read(event(said(content="half")) + b'error: {"code": 500, "message": "boom"}\n\n')
    assert caught.value.status == 500


THROTTLED = (
    "Rate limit reached for gpt-4o-mini: Limit 3, Used 3, Requested 1. Please try again in 20s. You can "
    "increase your rate limit by adding a payment method at https://platform.openai.com/account/billing."
)


@pytest.mark.parametrize(
    ("status", "message", "code", "kind"),
    [
        (
            429,
            THROTTLED,
            "",
            "rate_limit",
        ),
        (
            429,
            "You exceeded your current quota, please check your plan and billing details.",
            "insufficient_quota",
            "quota",
        ),
        (429, "You exceeded your current quota. Please retry in 22.5s.", "RESOURCE_EXHAUSTED", "rate_limit"),
        (400, "Your credit balance is too low to access the API.", "", "quota"),
        (402, "Insufficient Balance", "invalid_request_error", "quota"),
        (402, "pay", "", "quota"),
        (403, "insufficient_quota", "", "quota"),
        (500, "the billing service: insufficient_quota check failed", "", "overloaded"),
        (401, "no", "", "auth"),
        (403, "no", "", "auth"),
        (404, "no", "", "not_found"),
        (400, "no", "", "bad_request"),
        (413, "no", "", "context_overflow"),
        (422, "no", "", "bad_request"),
        (408, "no", "", "overloaded"),
        (409, "no", "", "overloaded"),
        (425, "no", "", "overloaded"),
        (500, "no", "", "overloaded"),
        (503, "no", "", "overloaded"),
        (529, "no", "", "overloaded"),
        (None, "no", "", "unknown"),
        (None, "The server is temporarily unavailable", "", "overloaded"),
        (None, "request timed out", "", "overloaded"),
        (None, "tokens per minute exceeded", "", "rate_limit"),
    ],
)
def test_error_kinds(status: int | None, message: str, code: str, kind: str):
    assert classify(status, message, code) == kind


RICH = stream(
    said(role="assistant", content=""),
    said(reasoning_content="hm 😀"),
    said(content="naïve \ud83d"),
    said(content="\ude00 text"),
    said(tool_calls=[fragment("f", "", index=0, id="x", type="function")]),
    said(tool_calls=[fragment(None, '{"a": "é', index=0)]),
    said(tool_calls=[fragment(None, '"}', index=0), fragment("g", {"b": [1]}, index=1, id="y")]),
    said("tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}},
)
EXTRAS = st.sampled_from([b"", b": ping\n\n", b"event: message\n", b"id: 1\n", b"\n"])


@settings(max_examples=300)
@given(
    st.lists(st.integers(1, 60)),
    st.lists(EXTRAS, min_size=1),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.booleans(),
)
def test_cutting_the_bytes_never_changes_the_answer(
    sizes: list[int], extras: list[bytes], end: bytes, escaped: bool
):
    body = (
        RICH if escaped else RICH.replace(b"\\u00e9", "é".encode()).replace(b"\\ud83d\\ude00", "😀".encode())
    )
    events = [part + b"\n\n" for part in body.split(b"\n\n")[:-1]]
    body = b"".join(extras[i % len(extras)] + each for i, each in enumerate(events)).replace(b"\n", end)
    response = read(body, sizes)
    assert response == read(RICH)
    assert response.content == "naïve 😀 text"
    assert calls(response) == [("f", {"a": "é"}), ("g", {"b": [1]})]


def test_one_cut_at_every_byte():
    expected = read(RICH)
    assert [at for at in range(1, len(RICH)) if read(RICH, [at]) != expected] == []


@given(st.binary(max_size=200), st.lists(st.integers(1, 20)))
def test_any_bytes_are_refused_or_read_and_never_taken_as_complete(body: bytes, sizes: list[int]):
    outcomes = []
    for pieces in ([], sizes):
        with pytest.raises(LLMError) as caught:
            read(body, pieces)
        outcomes.append(caught.value.kind)
    assert outcomes[0] == outcomes[1]


@given(st.integers(0, len(RICH) - 1))
def test_an_answer_that_breaks_off_anywhere_is_not_an_answer(position: int):
    end_of_answer = RICH.index(b'"tool_calls"}]') + len(b'"tool_calls"}]}')
    if position >= end_of_answer:
        return
    with pytest.raises(LLMError) as caught:
        read(RICH[:position])
    assert caught.value.is_transient
