"""One request that goes wrong on the wire: each ends with a typed error, streamed or not."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from llm_client_conformance import (
    EndEarly,
    ErrorChunk,
    Reset,
    ScriptedServer,
    Silence,
    Status,
    answer,
    deltas,
    raw_call,
    status,
    unauthorized,
)
from llm_client_conformance.faults import (
    BrokenChunk,
    EmptyChoices,
    HangUp,
    Raw,
    html_page,
    quota_exceeded,
    rate_limited,
    refusing_url,
    unavailable,
)
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.failures import translate_error
from pure_agent_loop.llm.key_file import KeyFile
from pure_agent_loop.llm.waits import parse_retry_after
from pure_agent_loop.support.explained import explain

from .talk import WAYS, client_of, get_answer, get_error

pytestmark = pytest.mark.usefixtures("transport")


def failure(item: Any, way: str, **settings: Any) -> LLMError:
    with ScriptedServer([item]) as server:
        return get_error(client_of(server, **settings), way)


STATUSES: list[tuple[Any, str, str]] = [
    (unauthorized(), "auth", "Check the API key"),
    (status(403, "no entry"), "auth", "no entry"),
    (status(404, "no such model"), "not_found", "model name"),
    (status(400, "bad field"), "bad_request", "bad field"),
    (status(413, "too big"), "context_overflow", "too big"),
    (status(422, "bad field"), "bad_request", "bad field"),
    (status(402, "Insufficient Balance"), "quota", "waiting will not help"),
    (quota_exceeded(), "quota", "waiting will not help"),
    (rate_limited(), "rate_limit", "Rate limit reached"),
    (status(408, "slow"), "overloaded", "slow"),
    (status(409, "conflict"), "overloaded", "conflict"),
    (status(500, "boom"), "overloaded", "boom"),
    (status(529, "overloaded"), "overloaded", "overloaded"),
    (unavailable(), "overloaded", "upstream connect error"),
    (html_page(502), "overloaded", "502"),
    (Status(500), "overloaded", "500"),
    (Status(400, b'[{"error": {"code": 400, "message": "from Google"}}]'), "bad_request", "from Google"),
    (Status(404, b'{"detail": "Not Found"}'), "not_found", "Not Found"),
    (Status(400, b'{"object": "error", "message": "from vLLM", "code": 400}'), "bad_request", "from vLLM"),
    (Status(400, b'"just text"'), "bad_request", "just text"),
    (Status(500, b"\xff\xfe"), "overloaded", "500"),
    (Status(401), "auth", "Error code: 401. Check the API key."),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("item", "kind", "words"), STATUSES)
def test_statuses(item: Status, kind: str, words: str, way: str):
    error = failure(item, way)
    assert (error.kind, error.status) == (kind, item.code)
    assert words in error.message
    assert "'m'" in error.message
    assert "127.0.0.1" in error.message


def test_a_long_error_text_is_cut():
    assert len(failure(status(400, "x" * 1_000_000), "stream").message) < 1000


BROKEN: list[tuple[Any, str]] = [
    (Reset(), "connection"),
    (HangUp(), "connection"),
    (deltas("half an ", Reset()), "connection"),
    (deltas("half an ", HangUp()), "connection"),
    (deltas("half an ", BrokenChunk()), "incomplete"),
    (deltas("half an ", ErrorChunk("overloaded", "overloaded")), "overloaded"),
    (deltas("half an ", ErrorChunk("no", 401)), "auth"),
    (deltas("half an ", EndEarly()), "incomplete"),
    (deltas(raw_call("f", '{"a": 1'), EndEarly(done=True)), "incomplete"),
    (deltas(raw_call("f", ""), EndEarly(done=True)), "incomplete"),
    (BrokenChunk("oops"), "incomplete"),
    (BrokenChunk("null"), "incomplete"),
    (EndEarly(), "incomplete"),
    (ErrorChunk(), "overloaded"),
    (ErrorChunk("no money left", "insufficient_quota"), "quota"),
    (EmptyChoices(), "incomplete"),
    (answer("half an", finish_reason="error"), "incomplete"),
    (html_page(), "bad_request"),
    (Status(200), "incomplete"),
    (Status(200, b"", "text/event-stream"), "incomplete"),
    (Status(200, b"{}"), "incomplete"),
    (Status(200, b"[]"), "incomplete"),
    (Status(200, b'{"error": "overloaded"}'), "overloaded"),
    (Status(200, b"<html>", "application/json"), "bad_request"),
    (Status(200, b"hello", "text/plain"), "incomplete"),
    (Status(200, b"not gzip", headers=(("Content-Encoding", "gzip"),)), "connection"),
    (Raw(b'{"choices": [{"message": {"content": "cut"'), "incomplete"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("item", "kind"), BROKEN, ids=range(len(BROKEN)))
def test_unusable_responses_are_errors(item: Any, kind: str, way: str):
    assert failure(item, way).kind == kind


@pytest.mark.parametrize("way", WAYS)
def test_a_connection_that_is_refused(way: str):
    with refusing_url() as url:
        error = get_error(client_of(url), way)
    assert error.kind == "connection"
    assert url in error.message
    assert "Is the server running?" in error.message


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("origin", ["variable", "file", "unknown"])
def test_refused_key_error_names_the_source_of_the_key(
    way: str, origin: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    key = "key-of-nobody-0123456789"
    (tmp_path / "key").write_text(key)
    if origin == "variable":
        monkeypatch.setenv("MY_KEY", key)
    error = failure(unauthorized(), way, api_key=KeyFile(tmp_path / "key") if origin == "file" else key)
    told = explain(error)
    assert told.title == {"en": "The key was refused (401).", "zh": "密钥被拒绝 (401)。"}
    named = {"variable": "Key: variable MY_KEY.", "file": f"Key: {tmp_path / 'key'}.", "unknown": ""}[origin]
    assert named in told.fix["en"]
    assert ("Key:" in told.fix["en"]) == bool(named)
    assert key not in str(told)


@pytest.mark.parametrize("way", WAYS)
def test_connection_that_is_refused_is_told_in_the_words_of_the_system(way: str):
    with refusing_url() as url:
        told = explain(get_error(client_of(url), way))
    assert told.said == os.strerror(errno.ECONNREFUSED)
    assert url in told.fix["en"]
    assert url not in str(told.title)


@pytest.mark.parametrize("way", WAYS)
def test_a_name_that_does_not_exist(way: str):
    assert get_error(client_of("http://no-such-host.invalid/v1"), way).kind == "connection"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", ["before", "middle"])
def test_the_timeout_of_the_sdk(way: str, where: str):
    item = Silence() if where == "before" else deltas("half an ", Silence())
    with ScriptedServer(handler=lambda request: item) as server:  # a busy machine may not even get there
        assert get_error(client_of(server, timeout=0.05), way).kind == "timeout"


def test_unsendable_header_is_not_a_connection_error_and_is_hidden():
    with ScriptedServer([]) as server:
        error = get_error(client_of(server), extra_headers={"X-Token": "se\ncret"})
    assert error.kind == "bad_request"
    assert "cret" not in error.message


@pytest.mark.parametrize("way", WAYS)
def test_answers_that_come_in_another_form_than_asked(way: str):
    whole = json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}).encode()
    events = (
        b'data: {"choices": [{"delta": {"content": "hello"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    )
    for kind in ("application/json", "text/event-stream", "text/plain", ""):
        for body in (whole, events):
            with ScriptedServer([Status(200, body, kind)]) as server:
                assert get_answer(client_of(server), way).content == "hello"


def test_data_after_a_complete_answer_is_ignored():
    for after in (Reset(), HangUp(), BrokenChunk(), ErrorChunk()):
        events = Raw(
            b'data: {"choices": [{"delta": {"content": "hello"}, "finish_reason": "stop"}]}\n\n'
            b"data: [DONE]\n\n"
        )
        with ScriptedServer([deltas(events, after, finish_reason=None)]) as server:
            assert get_answer(client_of(server)).content == "hello"


def test_a_server_that_does_not_end_the_body_after_done_is_not_waited_for():
    silence = Silence()
    events = Raw(
        b'data: {"choices": [{"delta": {"content": "hello"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    )
    with ScriptedServer([deltas(events, silence, finish_reason=None)]) as server:
        assert get_answer(client_of(server)).content == "hello"
        server.requests[0].left.wait()
    assert not silence.gate.is_open


# -- Retry-After ----------------------------------------------------------------------------------

SOON = datetime.now(timezone.utc) + timedelta(days=1)


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"retry-after": "7"}, 7, 7),
        ({"retry-after": "1.5"}, 1.5, 1.5),
        ({"retry-after": " 7 "}, 7, 7),
        ({"retry-after": "0"}, 0, 0),
        ({"retry-after-ms": "250"}, 0.25, 0.25),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7, 7),
        ({"retry-after-ms": "-1", "retry-after": "7"}, 7, 7),
        ({"retry-after-ms": "nan", "retry-after": "7"}, 7, 7),
        ({"retry-after": SOON.strftime("%a, %d %b %Y %H:%M:%S GMT")}, 80_000, 86_400),
        ({"retry-after": SOON.strftime("%a, %d %b %Y %H:%M:%S -0000")}, 80_000, 86_400),
        ({"retry-after": SOON.strftime("%A, %d-%b-%y %H:%M:%S GMT")}, 80_000, 86_400),
    ],
)
def test_retry_after(headers: dict[str, str], low: float, high: float):
    seconds = parse_retry_after(headers)
    assert seconds is not None
    assert low <= seconds <= high


PAST = ["Wed, 21 Oct 2015 07:28:00 GMT", "Mon, 01 Jan 0001 00:00:00 GMT"]
NO_NUMBER = ["", "soon", "Wed, 99 Oct 2015 07:28:00 GMT", "1 2", "nan", "inf", "-inf", "1e999"]


@pytest.mark.parametrize("text", [*PAST, *NO_NUMBER, "-3"])
def test_meaningless_retry_after_is_ignored(text: str):
    assert parse_retry_after({"retry-after": text}) is None
    assert parse_retry_after({"retry-after-ms": text}) is None
    assert parse_retry_after({}) is None


@pytest.mark.parametrize("way", WAYS)
def test_retry_after_comes_through_the_wire(way: str):
    assert failure(rate_limited(7), way).retry_after == 7
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    assert 3000 < (failure(rate_limited(later), way).retry_after or 0) <= 3600
    assert failure(status(503, headers={"Retry-After-Ms": "1500"}), way).retry_after == 1.5
    assert failure(rate_limited(), way).retry_after is None


def test_foreign_errors_are_unchanged():
    for error in (ValueError("x"), KeyError("x"), RuntimeError("x")):
        assert translate_error(error, "u", "m") is error
    for error, kind in (
        (ConnectionResetError("x"), "connection"),
        (asyncio.TimeoutError(), "timeout"),
        (TimeoutError(), "timeout"),
        (OSError("x"), "connection"),
    ):
        translated = translate_error(error, "u", "m")
        assert isinstance(translated, LLMError)
        assert translated.kind == kind
        assert translated.original_error is error


def test_the_cause_is_chained():
    error = failure(status(500), "stream")
    assert error.__cause__ is error.original_error
    assert type(error.__cause__).__name__ in ("InternalServerError", "RefusedError")  # of the SDK, and ours
    assert failure(EmptyChoices(), "plain").__cause__ is None
