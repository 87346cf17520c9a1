"""Quirks are distinct, the check finds each difference, and the server sends a quirk byte for byte."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from llm_client_conformance import LLMError, TokenUsage
from llm_client_conformance.quirks import QUIRKS, TOOLS, Outcome, OutcomeCall, Quirk, check, serve

HI = [{"role": "user", "content": "hi"}]


def named(name: str) -> Quirk:
    return next(quirk for quirk in QUIRKS if quirk.name == name)


def test_there_are_many_and_each_is_one_of_a_kind():
    assert len(QUIRKS) >= 50
    assert len({quirk.name for quirk in QUIRKS}) == len(QUIRKS)
    assert len({(quirk.body, quirk.content_type) for quirk in QUIRKS}) == len(QUIRKS)
    assert len({quirk.why for quirk in QUIRKS}) == len(QUIRKS)


def test_the_calls_name_the_tools_of_the_kit():
    names = {name for quirk in QUIRKS for name, _ in quirk.expected.calls}
    assert names == {each["function"]["name"] for each in TOOLS}


def perfect(quirk: Quirk) -> Outcome:
    expected = quirk.expected
    calls = tuple(OutcomeCall(f"id{i}", *each) for i, each in enumerate(expected.calls))
    return Outcome(expected.text, expected.reasoning, calls, expected.finish_reason, expected.usage)


@pytest.mark.parametrize("quirk", [pytest.param(quirk, id=quirk.name) for quirk in QUIRKS])
def test_expected_outcome_passes_and_its_opposite_fails(quirk):
    error = quirk.expected.error
    right = perfect(quirk) if error is None else LLMError("x", kind=error)
    wrong = LLMError("x", kind="unknown") if error is None else Outcome("It is", finish_reason="stop")
    assert check(quirk, right) == []
    assert len(check(quirk, wrong)) == 1


TWO = named("calls-by-the-book")
ONE_CALL = perfect(TWO).calls[:1]
WRONG = {
    "text": replace(perfect(TWO), text="I add."),
    "reasoning": replace(perfect(TWO), reasoning="hm"),
    "finish_reason": replace(perfect(TWO), finish_reason="stop"),
    "usage": replace(perfect(TWO), usage=TokenUsage(11, 8, 19)),
    "usage: unknown": replace(perfect(TWO), usage=None),
    "usage: guessed": replace(perfect(TWO), usage=TokenUsage(11, 7, 18, estimated=True)),
    "calls: expected 2, got 1": replace(perfect(TWO), calls=ONE_CALL),
    "call 2: expected the name": replace(
        perfect(TWO), calls=(*ONE_CALL, OutcomeCall("x", "sub", {"a": 4, "b": 5}))
    ),
    "call 2: expected the arguments": replace(
        perfect(TWO), calls=(*ONE_CALL, OutcomeCall("x", "add", {"a": 4}))
    ),
    "call 2: expected the arguments {}, got unusable": replace(
        perfect(TWO), calls=(*ONE_CALL, OutcomeCall("x", "add", None))
    ),
    "an id is missing": replace(perfect(TWO), calls=(*ONE_CALL, OutcomeCall("", "add", {"a": 4, "b": 5}))),
    "an id is used twice": replace(
        perfect(TWO), calls=(*ONE_CALL, OutcomeCall("id0", "add", {"a": 4, "b": 5}))
    ),
}


@pytest.mark.parametrize("words", list(WRONG))
def test_each_difference_is_reported(words):
    found = check(TWO, WRONG[words])
    assert len(found) == 1
    assert words.partition(": ")[0] in found[0]


def test_a_field_can_be_left_out():
    assert check(TWO, WRONG["usage: unknown"], ignore=("usage",)) == []
    assert check(TWO, WRONG["text"], ignore=("usage", "reasoning")) != []


def test_invented_usage_is_wrong_and_a_guess_is_not():
    quirk = named("usage-never")
    assert check(quirk, replace(perfect(quirk), usage=TokenUsage(9, 9, 18, estimated=True))) == []
    assert len(check(quirk, replace(perfect(quirk), usage=TokenUsage(9, 9, 18)))) == 1


def test_arguments_that_must_not_be_used():
    quirk = named("arguments-nan")
    good = Outcome(None, None, (OutcomeCall("c1", "add", None),), "tool_calls")
    assert check(quirk, good) == []
    bad = Outcome(None, None, (OutcomeCall("c1", "add", {}),), "tool_calls")
    assert check(quirk, bad) == ["call 1: expected unusable arguments, got the arguments {}"]


def test_error_in_place_of_an_answer_is_reported():
    assert check(named("crlf"), ValueError("no")) == ["expected an answer, got ValueError: 'no'"]


def test_error_of_another_kind_is_reported():
    assert check(named("error-quota"), LLMError("no", kind="rate_limit")) == [
        "expected an error of kind 'quota', got 'rate_limit' (LLMError: 'no')"
    ]
    assert check(named("html"), ValueError("no")) == [
        "expected an error of kind 'bad_request', got None (ValueError: 'no')"
    ]


@pytest.mark.parametrize(
    ("quirk", "label"),
    [
        (named("crlf"), "text/event-stream"),
        (named("json"), "application/json"),
        (named("html"), "text/html; charset=utf-8"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
@pytest.mark.parametrize("rechunk", [None, 5])
def test_the_server_sends_exactly_the_body(quirk, label, rechunk):
    from http.client import HTTPConnection
    from urllib.parse import urlsplit

    body = json.dumps({"model": "m", "messages": HI, "stream": True})
    with serve(quirk, rechunk=rechunk) as server:
        for _ in range(2):  # every request
            connection = HTTPConnection(urlsplit(server.base_url).netloc)
            connection.request("POST", "/v1/chat/completions", body)
            answer = connection.getresponse()
            assert (answer.status, answer.headers["content-type"]) == (200, label)
            assert answer.read() == quirk.body
            connection.close()
