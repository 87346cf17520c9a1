from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from tests.http_probe import HELLO, Probe, ask

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.completions import parse_chunk
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCall, ToolCallDelta
from pure_agent_loop.llm.wire import SSEDecoder
from pure_agent_loop.testing import (
    Gate,
    ScriptedLLM,
    ScriptedServer,
    ScriptError,
    ServerFault,
    Silence,
    answer,
    call,
    deltas,
    raw_call,
    status,
)

WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}


@contextmanager
def failing(server, words):
    """Use a server whose end must fail the test."""
    server.start()
    try:
        yield server
    finally:
        server.close()
    with pytest.raises(ScriptError, match=words):
        server.assert_done()


def assembled(reply):
    assert reply.broken is None
    if reply.headers["content-type"] == "application/json":
        response = LLMResponse.from_openai(reply.json)
    else:
        decoder, assembler = SSEDecoder(), Assembler()
        for payload in decoder.feed(reply.data):
            if payload != b"[DONE]":
                assembler.feed(parse_chunk(json.loads(payload)))
        response = assembler.finish()
    return response.to_dict()


ITEMS = {
    "text": "It is 中文 3.",
    "call": call("add", a=1, b="中文"),
    "ready call": ToolCall("mine", "add", {"a": 1}),
    "several": ["I add. ", call("add", a=1), call("now")],
    "response": LLMResponse(
        "x", [ToolCall("q", "f", {})], TokenUsage(3, 4, 7, 2, 1), None, "hm", "tool_calls"
    ),
    "everything": answer("part", reasoning="hm", finish_reason="length", usage=TokenUsage(1, 2, 3)),
    "filtered": answer("part", finish_reason="content_filter"),
    "no usage": answer("x", usage=None),
    "no content": answer(None),
    "deltas": deltas(
        "a", Delta(reasoning="hm"), call("f"), Delta(tool_calls=(ToolCallDelta(7, "z", "g", "{}"),))
    ),
    "delta list": [Delta("a"), Delta("b", finish_reason="stop", usage=TokenUsage(1, 1, 2))],
    "surrogate": "a \ud800 b",
    "bad arguments": raw_call("f", '{"a": '),
    "callable": lambda messages, tools, options: messages[0]["content"] + options["model"],
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ITEMS)
def test_an_item_means_the_same_as_for_the_scripted_client(name, stream):
    expected = asyncio.run(ScriptedLLM([ITEMS[name]]).chat(HELLO, model="m")).to_dict()
    with ScriptedServer([ITEMS[name]]) as server:
        assert assembled(ask(server.base_url, **(WITH_USAGE if stream else {}))) == expected


def test_object_arguments_and_missing_fields_go_over_the_wire_as_written():
    pieces = deltas(Delta(tool_calls=(ToolCallDelta(None, None, "f", {"a": 1}),)))
    with ScriptedServer([pieces] * 2) as server:
        streamed = ask(server.base_url, stream=True).chunks[0]["choices"][0]["delta"]["tool_calls"]
        assert streamed == [{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]
        whole = ask(server.base_url).json["choices"][0]["message"]["tool_calls"]
        assert whole == [{"id": "", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]


def test_null_and_empty_content_differ_on_the_wire():
    with ScriptedServer([answer(None), answer(""), answer(None), answer("")]) as server:
        assert ask(server.base_url).json["choices"][0]["message"]["content"] is None
        assert ask(server.base_url).json["choices"][0]["message"]["content"] == ""
        assert ask(server.base_url, stream=True).chunks[0]["choices"][0]["delta"]["content"] is None
        assert ask(server.base_url, stream=True).chunks[0]["choices"][0]["delta"]["content"] == ""


def test_a_stream_has_the_shape_of_the_protocol():
    with ScriptedServer(["one two"]) as server:
        reply = ask(server.base_url, stream=True)
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.headers["transfer-encoding"] == "chunked"
    assert reply.chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": "one "}
    assert {c["object"] for c in reply.chunks} == {"chat.completion.chunk"}
    assert {(c["id"], c["model"], c["created"]) for c in reply.chunks} == {("chatcmpl-1", "m", 0)}
    assert (reply.text, reply.finish_reasons, reply.done) == ("one two", ["stop"], True)


def test_streams_tell_their_usage_only_when_asked():
    with ScriptedServer(["x"] * 3) as server:
        assert not any("usage" in c for c in ask(server.base_url, stream=True).chunks)
        last = ask(server.base_url, **WITH_USAGE).chunks[-1]
        assert (last["choices"], last["usage"]["total_tokens"]) == ([], 15)
        assert ask(server.base_url).json["usage"]["prompt_tokens"] == 10


@pytest.mark.parametrize("stream", [False, True])
def test_the_openai_sdk_reads_it(stream):
    openai = pytest.importorskip("openai")
    with ScriptedServer([["hello ", call("f", a=1)]], models=["m1", "m2"]) as server:
        client = openai.OpenAI(api_key="k", base_url=server.base_url, max_retries=0)
        with client:
            assert [model.id for model in client.models.list()] == ["m1", "m2"]
            got = client.chat.completions.create(model="m1", messages=HELLO, stream=stream)
            if stream:
                parts = [chunk.choices[0].delta for chunk in got if chunk.choices]
                text = "".join(part.content or "" for part in parts)
                arguments = "".join(c.function.arguments or "" for p in parts for c in p.tool_calls or ())
            else:
                text = got.choices[0].message.content
                arguments = got.choices[0].message.tool_calls[0].function.arguments
    assert (text, arguments) == ("hello ", '{"a": 1}')


def test_requests_are_recorded():
    with ScriptedServer(["x"]) as server:
        ask(server.base_url, tools=[{"type": "function", "function": {"name": "f"}}], temperature=0.5)
        request = server.requests[0]
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == "Bearer k"
    assert request.messages == HELLO
    assert request.tools[0]["function"]["name"] == "f"
    assert request.options == {"model": "m", "temperature": 0.5}
    assert not request.streamed
    assert json.loads(request.raw) == request.body
    assert request.done.is_set
    assert not request.left.is_set


def test_a_handler_answers_by_request():
    async def handler(request):
        return status(418) if "temperature" in request.options else request.headers["content-type"]

    with ScriptedServer(handler=handler) as server:
        assert ask(server.base_url, temperature=1).status == 418
        assert ask(server.base_url).json["choices"][0]["message"]["content"] == "application/json"


def test_connections_are_kept_alive():
    with ScriptedServer([answer("a"), status(500), "c", "d"]) as server, Probe(server.base_url) as probe:
        assert probe.ask(stream=True).text == "a"
        first = probe.connection.sock
        assert probe.ask().status == 500
        assert probe.ask().json["choices"][0]["message"]["content"] == "c"
        assert probe.get("/models").json["data"][0]["id"] == "scripted"
        assert probe.get("/nothing").status == 404
        assert probe.ask(stream=True).text == "d"
        assert probe.connection.sock is first
    assert [r.path for r in server.other_requests] == ["/v1/models", "/v1/nothing"]
    assert len(server.requests) == 4


def test_a_client_may_ask_for_the_end_of_the_connection_and_send_chunks():
    with ScriptedServer(["x"]) as server, Probe(server.base_url) as probe:
        body = iter([b'{"model": "m", ', json.dumps({"messages": HELLO}).encode()[1:]])
        probe.connection.request(
            "POST", "/v1/chat/completions", body, {"Connection": "close"}, encode_chunked=True
        )
        assert probe.receive().status == 200
        assert probe.connection.sock.recv(1) == b""


def test_a_wrong_key_is_refused():
    with ScriptedServer(["x"], api_key="k") as server, Probe(server.base_url) as probe:
        assert probe.get("/models").status == 401
        assert probe.ask().status == 200


def test_non_http_bytes_do_no_harm(caplog):
    with ScriptedServer(["x"]) as server:
        where = urlsplit(server.base_url)
        for junk in (
            b"\r\n\r\n",
            b"GET\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            b"x" * 3_000_000,
        ):
            with socket.create_connection((where.hostname, where.port), timeout=20) as sock:
                try:
                    sock.sendall(junk)
                    assert sock.recv(10) == b""
                except ConnectionError:
                    continue
        assert ask(server.base_url).status == 200
    assert not caplog.records


INVALID = {
    "unpaired": {"messages": [{"role": "tool", "tool_call_id": "x", "content": "y"}]},
    "surrogate": {"messages": [{"role": "user", "content": "\ud800"}]},
    "no messages": {"messages": []},
    "nan": b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": NaN}',
    "no json": b"{",
    "no utf-8": b'{"model": "\xff"}',
    "nothing": b"",
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_request_is_refused_takes_no_item_and_fails_the_test(name):
    body = INVALID[name]
    with failing(ScriptedServer(["x"]), "request 1 was invalid") as server:
        reply = ask(server.base_url, body if isinstance(body, bytes) else {"model": "m", **body})
        assert reply.status == 400
        assert reply.json["error"]["message"].startswith("Invalid request: ")
        assert len(server.violations) == 1
        with pytest.raises(ScriptError, match="invalid"):
            server.assert_clean()
        assert ask(server.base_url).status == 200


def test_the_check_can_be_widened_or_left_out():
    odd = {"model": "m", "messages": [{"role": "user", "content": "x", "odd": 1}]}
    with ScriptedServer(["x"], extra_keys=["odd"]) as server:
        assert ask(server.base_url, odd).status == 200
        server.assert_clean()
    with ScriptedServer(["x"], check=False) as server:
        assert ask(server.base_url, {"messages": "x"}).status == 200


def test_a_script_that_runs_out_fails_the_test_and_is_not_worth_a_retry():
    with failing(ScriptedServer([]), "ran out") as server:
        reply = ask(server.base_url)
        assert reply.status == 400
        assert "ran out" in reply.json["error"]["message"]


def test_a_script_that_is_not_used_up_fails_the_test():
    with pytest.raises(ScriptError, match="1 of 1"), ScriptedServer(["x"]):
        pass
    with failing(ScriptedServer(["x", "y"]), "1 of 2") as server:
        assert ask(server.base_url).status == 200
        assert server.remaining == 1
    with ScriptedServer(["x"], strict=False) as server:
        assert [ask(server.base_url).status for _ in range(2)] == [200, 200]


def raises(error):
    def handler(request):
        raise error

    return handler


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (raises(AssertionError("no key")), "no key"),
        (lambda request: 3, "not a script item"),
        (lambda request: deltas("a", status(500)), "Status 500 cannot come"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_wrong_handler_fails_the_test(handler, words, stream):
    with failing(ScriptedServer(handler=handler), words) as server:
        reply = ask(server.base_url, stream=stream)
        begun = stream and words.startswith("Status")
        assert reply.broken is not None if begun else words in reply.json["error"]["message"]


def test_a_failing_fault_of_a_user_fails_the_test():
    class Odd(ServerFault):
        async def play(self, out):
            await out.spill()
            raise RuntimeError("odd")

    with failing(ScriptedServer([Odd()]), "odd") as server:
        assert ask(server.base_url).broken is not None


ERRORS = [
    (LLMError("slow", kind="rate_limit", retry_after=2.5), 429),
    (LLMError("busy", kind="overloaded"), 503),
    (LLMError("teapot", kind="bad_request", status=418), 418),
    (LLMError("money", kind="quota"), 429),
    (LLMError("who", kind="auth"), 401),
    (LLMError("odd"), 500),
    (ValueError("odd"), 500),
]


@pytest.mark.parametrize(("error", "code"), ERRORS)
def test_an_exception_becomes_the_answer_a_server_gives(error, code):
    with ScriptedServer([error, deltas("a", error)]) as server:
        reply = ask(server.base_url, stream=True)
        assert reply.status == code
        assert str(error) in reply.json["error"]["message"]
        middle = ask(server.base_url, stream=True)
        assert middle.chunks[-1]["error"]["message"] == str(error)
    assert reply.headers.get("retry-after") == ("2.5" if code == 429 and "slow" in str(error) else None)


def test_connection_errors_become_broken_connections():
    items = [ConnectionError(), raises(ConnectionError()), LLMError("x", kind="connection")]
    with ScriptedServer([lambda *_: items[0], items[2], deltas("a", ConnectionError())]) as server:
        for _ in range(3):
            assert isinstance(ask(server.base_url, stream=True).broken, ConnectionError)
    with ScriptedServer(handler=items[1]) as server:
        assert isinstance(ask(server.base_url).broken, ConnectionError)


def test_exception_of_a_handler_is_played():
    with ScriptedServer(handler=raises(LLMError("slow", kind="rate_limit"))) as server:
        assert ask(server.base_url).status == 429


@pytest.mark.parametrize("sizes", [1, 3, 1000, [1, 7, 2]])
def test_the_bytes_of_a_stream_can_be_cut_anywhere(sizes):
    text = "first 中文 second"
    with ScriptedServer([text, text]) as server, Probe(server.base_url) as probe:
        plain = probe.ask(stream=True).data
        server.rechunk = sizes
        probe.send(stream=True)
        response = probe.connection.getresponse()
        pieces = []
        while piece := response.read1(65536):
            pieces.append(piece)
    assert b"".join(pieces).replace(b"chatcmpl-2", b"chatcmpl-1") == plain
    wanted = [sizes] if isinstance(sizes, int) else sizes
    assert {len(piece) for piece in pieces[:-1]} <= set(wanted)


@pytest.mark.parametrize("rechunk", [None, 1000])
def test_a_gate_shows_that_the_first_piece_comes_before_the_rest_is_written(rechunk):
    gate = Gate()
    script = [deltas("first", gate, "second")]
    with ScriptedServer(script, rechunk=rechunk) as server, Probe(server.base_url) as probe:
        probe.send(stream=True)
        response = probe.connection.getresponse()
        first = response.read1(65536)
        assert b"first" in first
        assert not gate.is_open
        gate.open()
        rest = response.read()
    assert b"second" not in first
    assert b"second" in rest


def test_the_headers_come_before_a_gate_at_the_beginning():
    gate = Gate()
    with ScriptedServer([deltas(gate, "x")]) as server, Probe(server.base_url) as probe:
        probe.send(stream=True)
        response = probe.connection.getresponse()
        assert (response.status, gate.is_open) == (200, False)
        gate.open()
        assert b"[DONE]" in response.read()


def test_a_closing_connection_delivers_a_long_answer_to_its_end():
    text = "x" * 20_000_000
    with ScriptedServer([deltas(text)]) as server, Probe(server.base_url) as probe:
        body = json.dumps({"model": "m", "messages": HELLO})
        probe.connection.request("POST", "/v1/chat/completions", body, {"Connection": "close"})
        assert probe.receive().json["choices"][0]["message"]["content"] == text


def test_a_gate_holds_back_a_whole_answer_too():
    gate = Gate()
    with ScriptedServer([deltas("x", gate)]) as server, Probe(server.base_url) as probe:
        probe.send()
        gate.reached.wait()
        assert not server.requests[0].done.is_set
        gate.open()
        assert probe.receive().json["choices"][0]["message"]["content"] == "x"


def test_a_connection_is_kept_alive_after_a_gate():
    gates = [Gate(), Gate()]
    script = [deltas("x", gate) for gate in gates]
    with ScriptedServer(script) as server, Probe(server.base_url) as probe:
        for gate in gates:
            probe.send(stream=True)
            gate.reached.wait()
            gate.open()
            assert probe.receive().text == "x"


@pytest.mark.parametrize("stream", [False, True])
def test_disconnected_client_is_detected(stream):
    gate = Gate()
    with ScriptedServer([deltas("x", gate)]) as server:
        with Probe(server.base_url) as probe:
            probe.send(stream=stream)
            gate.reached.wait()
        server.requests[0].left.wait()
        server.requests[0].done.wait()


def test_many_connections_at_once_are_all_held_and_all_answered():
    gates = [Gate() for _ in range(150)]
    numbers = iter(gates)
    with ScriptedServer(handler=lambda request: deltas("a", next(numbers), "b")) as server:
        probes = [Probe(server.base_url) for _ in gates]
        for probe in probes:
            probe.send(stream=True)
        for gate in gates:
            gate.reached.wait()  # so all of them are open at the same time
        for gate in gates:
            gate.open()
        assert {probe.receive().text for probe in probes} == {"ab"}
        for probe in probes:
            probe.close()


@pytest.mark.parametrize("item", [Silence(), deltas("x", Silence()), deltas("x", Gate("never"))])
def test_leaving_the_block_ends_whatever_waits(item):
    before = threading.active_count()
    with ScriptedServer(handler=lambda request: item) as server:
        probes = [Probe(server.base_url) for _ in range(5)]
        idle = Probe(server.base_url)
        idle.connection.connect()
        for probe in probes:
            probe.send(stream=True)
        gate = item.gate if isinstance(item, Silence) else item.parts[1]
        getattr(gate, "gate", gate).reached.wait()
    assert threading.active_count() == before
    for probe in probes:
        assert probe.receive().broken is not None
        probe.close()
    idle.close()
    with pytest.raises(ScriptError, match="not running"):
        _ = server.base_url
    server.close()


def test_misuse_is_refused():
    for options in ({}, {"script": ["x"], "handler": print}):
        with pytest.raises(ConfigError, match="either"):
            ScriptedServer(**options)
    with pytest.raises(ConfigError, match="not a script item"):
        ScriptedServer([object()])
    server = ScriptedServer([])
    server.close()
    with server, pytest.raises(ScriptError, match="already started"):
        server.start()
