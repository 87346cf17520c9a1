"""Faults of real servers, as a bare HTTP client sees them."""

from __future__ import annotations

import http.client
import json
from datetime import datetime, timedelta, timezone

import pytest
from tests.http_probe import Probe, ask

from llm_client_conformance import (
    Delta,
    EndEarly,
    ErrorChunk,
    Reset,
    ScriptedServer,
    Silence,
    Status,
    ToolCallDelta,
    deltas,
    status,
    unauthorized,
)
from llm_client_conformance.faults import (
    BrokenChunk,
    Drip,
    EmptyChoices,
    HangUp,
    Raw,
    html_page,
    quota_exceeded,
    rate_limited,
    refusing_url,
    unavailable,
)

both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def meet(item, *, stream):
    """What a client sees of an item; and the server is fine afterwards."""
    with ScriptedServer([item, "still there"]) as server:
        reply = ask(server.base_url, stream=stream)
        assert ask(server.base_url, stream=True).text == "still there"
    return reply


@both_ways
@pytest.mark.parametrize(
    ("item", "code", "words"),
    [
        (status(500, "boom", error_code="x"), 500, b'"code": "x"'),
        (status(400), 400, b"status 400"),
        (unavailable(), 503, b"upstream"),
        (unauthorized(), 401, b"invalid_api_key"),
        (quota_exceeded(), 429, b"insufficient_quota"),
        (html_page(), 200, b"<h1>Sign in"),
        (html_page(502, "<p>"), 502, b"<p>"),
        (Status(599, b"\x00\xff", "application/octet-stream", (("X-Odd", "1"),)), 599, b"\x00\xff"),
    ],
)
def test_whole_http_answers(item, code, words, stream):
    reply = meet(item, stream=stream)
    assert (reply.status, reply.broken) == (code, None)
    assert words in reply.data
    assert all(reply.headers[name.lower()] == value for name, value in item.headers)
    assert reply.headers["content-type"] == item.content_type


@pytest.mark.parametrize(
    ("given", "header"),
    [
        (3, "3"),
        (0.5, "0.5"),
        ("Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:00 GMT"),
        (datetime(2015, 10, 21, 9, 28, tzinfo=timezone(timedelta(hours=2))), "Wed, 21 Oct 2015 07:28:00 GMT"),
        (None, None),
    ],
)
def test_a_throttle_says_when_to_come_back(given, header):
    reply = meet(rate_limited(given), stream=True)
    assert (reply.status, reply.headers.get("retry-after")) == (429, header)


def test_refused():
    with refusing_url() as url, pytest.raises(ConnectionRefusedError):
        ask(url)


@both_ways
def test_closed_before_the_answer(stream):
    assert isinstance(meet(HangUp(), stream=stream).broken, http.client.RemoteDisconnected)


@both_ways
def test_reset_before_the_answer(stream):
    assert type(meet(Reset(), stream=stream).broken) is ConnectionResetError


@both_ways
def test_reset_in_the_middle(stream):
    reply = meet(deltas("one ", "two ", "three ", Reset(), "four"), stream=stream)
    assert (reply.status, type(reply.broken)) == (200, ConnectionResetError)
    if stream:
        assert (reply.text, reply.finish_reasons) == ("one two three ", [])
    else:
        assert reply.data.startswith(b'{"id": ')


@both_ways
def test_cut_off_without_the_last_http_chunk(stream):
    reply = meet(deltas("one ", HangUp(), "two"), stream=stream)
    assert (reply.status, type(reply.broken)) == (200, http.client.IncompleteRead)
    assert reply.data
    assert b"two" not in reply.data


@pytest.mark.parametrize("done", [False, True])
def test_a_stream_that_ends_early_but_cleanly(done):
    reply = meet(deltas("one ", EndEarly(done=done), "two"), stream=True)
    assert (reply.text, reply.finish_reasons, reply.done, reply.broken) == ("one ", [], done, None)
    assert meet(EndEarly(done=done), stream=True).data == (b"data: [DONE]\n\n" if done else b"")
    by_setting = meet(deltas("one ", finish_reason=None, done=done), stream=True)
    assert (by_setting.text, by_setting.finish_reasons, by_setting.done) == ("one ", [], done)


def test_a_whole_answer_that_ended_early_has_no_finish_reason():
    choice = meet(deltas("one", EndEarly()), stream=False).json["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("one", None)


@both_ways
def test_a_call_cut_off_in_the_middle_of_its_arguments(stream):
    half = Delta(tool_calls=(ToolCallDelta(0, "call_1", "f", '{"text": "a '),))
    reply = meet(deltas(half, EndEarly()), stream=stream)
    choice = (reply.chunks[-1] if stream else reply.json)["choices"][0]
    found = choice["delta" if stream else "message"]["tool_calls"][0]
    assert (found["function"]["arguments"], choice["finish_reason"]) == ('{"text": "a ', None)


@both_ways
def test_silence_before_headers_ends_with_its_gate(stream):
    item = Silence()
    with ScriptedServer([item]) as server, Probe(server.base_url) as probe:
        probe.send(stream=stream)
        item.gate.reached.wait()
        assert not server.requests[0].done.is_set
        item.gate.open()
        assert isinstance(probe.receive().broken, http.client.RemoteDisconnected)


@both_ways
def test_silence_inside_an_answer_ends_with_its_gate(stream):
    item = Silence()
    with ScriptedServer([deltas("one ", item, "two")]) as server, Probe(server.base_url) as probe:
        probe.send(stream=stream)
        response = probe.connection.getresponse()
        first = response.read1(65536)
        assert (b"one" in first) == stream
        item.gate.reached.wait()
        assert not server.requests[0].done.is_set
        item.gate.open()
        rest = response.read()
    assert b"two" in rest
    assert stream or json.loads(first + rest)["choices"][0]["message"]["content"] == "one two"


@both_ways
@pytest.mark.parametrize(
    "wrap", [lambda item: item, lambda item: deltas("x", item)], ids=["before", "middle"]
)
def test_silence_ends_when_the_client_leaves(stream, wrap):
    item = Silence()
    with ScriptedServer([wrap(item)]) as server:
        with Probe(server.base_url) as probe:
            probe.send(stream=stream)
            item.gate.reached.wait()
        server.requests[0].left.wait()


@both_ways
def test_drip_continues_until_its_gate_opens(stream):
    item = Drip()
    with ScriptedServer([deltas("one ", item, "two")]) as server, Probe(server.base_url) as probe:
        probe.send(stream=stream)
        response = probe.connection.getresponse()
        drop = b": keep-alive\n\n" if stream else b"\n"
        seen = b""
        while seen.count(drop) < (8 if stream else 3):
            seen += response.read1(65536)
        item.gate.open()
        seen += response.read()
    assert seen.count(b": keep-alive") == 0 or stream
    assert seen.rstrip().endswith(b"data: [DONE]" if stream else b"}")


@both_ways
def test_drip_continues_until_the_client_leaves(stream):
    item = Drip(interval=0)
    with ScriptedServer([item]) as server:
        with Probe(server.base_url) as probe:
            probe.send(stream=stream)
            item.gate.reached.wait()
        server.requests[0].left.wait()


@both_ways
def test_a_drip_of_a_few(stream):
    reply = meet(deltas(Drip(3, interval=0), "x"), stream=stream)
    assert reply.broken is None
    assert reply.data.startswith(b": keep-alive\n\n" * 3 if stream else b"\n\n\n{")
    assert (reply.text == "x") if stream else (reply.json["choices"][0]["finish_reason"] == "stop")


def test_broken_chunk_between_good_ones_is_sent():
    reply = meet(deltas("a", BrokenChunk('{"x'), "b"), stream=True)
    assert reply.payloads[1] == b'{"x'
    assert b'"b"' in reply.payloads[2]
    assert reply.payloads[-1] == b"[DONE]"
    assert meet(BrokenChunk("{"), stream=True).payloads == [b"{", b"[DONE]"]


def test_a_broken_body():
    reply = meet(deltas("a", BrokenChunk("{")), stream=False)
    assert (reply.status, reply.data, reply.headers["content-type"]) == (200, b"{", "application/json")


@both_ways
@pytest.mark.parametrize(
    "wrap", [lambda item: item, lambda item: deltas("x", item, "y")], ids=["alone", "middle"]
)
def test_an_error_object_with_status_200(stream, wrap):
    reply = meet(wrap(ErrorChunk("busy", 529, "overloaded_error")), stream=stream)
    assert (reply.status, reply.broken, reply.done) == (200, None, False)
    found = reply.chunks[-1] if stream else reply.json
    assert found == {"error": {"message": "busy", "type": "overloaded_error", "param": None, "code": 529}}


@both_ways
def test_no_choices(stream):
    reply = meet(EmptyChoices(), stream=stream)
    assert (reply.status, reply.broken, reply.done) == (200, None, stream)
    assert (reply.chunks[0] if stream else reply.json)["choices"] == []


@both_ways
def test_raw_bytes_are_sent_as_they_are(stream):
    data = b'\xef\xbb\xbfdata:{"a":1}\r\rdata: \xff'
    assert meet(Raw(data), stream=stream).data == data


def test_raw_bytes_between_good_chunks():
    reply = meet(deltas("a", Raw(b"data: odd\n\n"), "b"), stream=True)
    assert reply.payloads[1] == b"odd"
    assert reply.done


def test_an_error_after_a_drip_comes_with_status_200():
    reply = meet(deltas(Drip(2, interval=0), ErrorChunk("late")), stream=False)
    assert (reply.status, reply.json["error"]["message"]) == (200, "late")


@both_ways
def test_faults_are_met_in_the_order_of_the_script(stream):
    script = [rate_limited(0), Reset(), deltas("x", HangUp()), "done"]
    with ScriptedServer(script) as server:
        seen = [ask(server.base_url, stream=stream) for _ in script]
    assert [reply.status for reply in seen] == [429, 0, 200, 200]
    assert [reply.broken is None for reply in seen] == [True, False, False, True]
