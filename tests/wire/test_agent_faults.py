"""The whole agent on a server that misbehaves: recovered, or ended typed; never wrong in silence."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from llm_client_conformance import (
    Delta,
    EndEarly,
    ErrorChunk,
    Reset,
    ScriptedServer,
    ServerRequest,
    Silence,
    Status,
    ToolCallDelta,
    answer,
    call,
    deltas,
    raw_call,
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
from pure_agent_loop.agent import Agent, AgentResult
from pure_agent_loop.errors import LLMError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.retry import RetryConfig

from .talk import WAYS

pytestmark = pytest.mark.usefixtures("transport")

AT_ONCE = RetryConfig(base_delay=0, jitter=0)


def agent_for(url: str, way: str = "stream", **settings: Any) -> Agent:
    """An agent with no patience between its tries; ``way="plain"`` asks for whole answers."""
    if way == "plain":
        settings["stream"] = False
    return Agent(model="m", api_key="k", base_url=url, **{"retry": AT_ONCE, **settings})


def run_on(script: list[Any], way: str = "stream", **settings: Any) -> AgentResult:
    """A run on a script, which has to be used up by valid requests."""
    with ScriptedServer(script) as server:
        return agent_for(server.base_url, way, **settings).run("do it")


def of_type(result: AgentResult, kind: EventType) -> list[Event]:
    return [event for event in result.events if event.type is kind]


def assert_recovered(result: AgentResult, content: str = "fine", retries: int = 1) -> None:
    assert (result.content, result.stop_reason) == (content, "completed")
    assert len(of_type(result, EventType.RETRY)) == retries
    assert of_type(result, EventType.ERROR) == []
    assert result.messages[-1] == {"role": "assistant", "content": content}


def assert_failed(result: AgentResult, kind: str) -> None:
    assert (result.stop_reason, result.content) == ("error", "")
    assert [event.type for event in result.events[-2:]] == [EventType.ERROR, EventType.LOOP_END]
    error = result.events[-2].data
    assert (error["kind"], error["fatal"]) == (kind, True)
    assert error["error"]
    assert result.messages == [{"role": "user", "content": "do it"}]
    with pytest.raises(LLMError):
        result.raise_for_error()


TRANSIENT: dict[str, Any] = {
    "reset before": Reset(),
    "hang up before": HangUp(),
    "reset in the middle": deltas("half an ", Reset()),
    "hang up in the middle": deltas("half an ", HangUp()),
    "reset in a call": deltas(raw_call("add", '{"a": 1'), Reset()),
    "early end": deltas("half an ", EndEarly()),
    "early end in a call": deltas(raw_call("add", '{"a": 1'), EndEarly()),
    "early end after a whole call": deltas(call("add", a=1), EndEarly()),
    "early end in a call, with DONE": deltas(raw_call("add", '{"a": 1'), EndEarly(done=True)),
    "early end before the arguments, with DONE": deltas(raw_call("add", ""), EndEarly(done=True)),
    "early end in the thinking": deltas(Delta(reasoning="hm"), EndEarly(done=True)),
    "broken chunk": deltas("half an ", BrokenChunk()),
    "error object, overloaded": deltas("half an ", ErrorChunk()),
    "error object before": ErrorChunk(),
    "error without wrapping": Raw(b'data: {"object":"error","message":"boom","code":500}\n\n'),
    "finish reason error": answer("half an", finish_reason="error"),
    "finish reason abort": answer("half an", finish_reason="abort"),
    "no capacity left": answer("half an", finish_reason="insufficient_system_resource"),
    "empty choices": EmptyChoices(),
    "empty body": Status(200),
    "empty object": Status(200, b"{}"),
    "500": status(500),
    "503 with text": unavailable(),
    "502 page": html_page(502),
    "408": status(408),
    "409": status(409),
    "429": rate_limited(),
    "429, at once": rate_limited(0),
    "429, a date that is past": rate_limited(datetime(2020, 1, 1, tzinfo=timezone.utc)),
    "429, nonsense": rate_limited("soon"),
}


def add(a: int = 0) -> int:
    """Add.

    Args:
        a: A number.
    """
    raise AssertionError("no call of a broken answer may run")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fault", TRANSIENT.values(), ids=TRANSIENT)
def test_recovered(fault: Any, way: str):
    if way == "plain" and isinstance(fault, Raw):
        fault = Status(200, fault.data.removeprefix(b"data: "))
    assert_recovered(run_on([fault, "fine"], way, tools=[add]))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fault", TRANSIENT.values(), ids=TRANSIENT)
def test_the_same_fault_for_ever(fault: Any, way: str):
    if way == "plain" and isinstance(fault, Raw):
        fault = Status(200, fault.data.removeprefix(b"data: "))
    result = run_on([fault] * 3, way, tools=[add], retry=RetryConfig(2, base_delay=0, jitter=0))
    kind = of_type(result, EventType.ERROR)[0].data["kind"]
    assert kind in ("connection", "incomplete", "overloaded", "rate_limit")
    assert_failed(result, kind)
    assert len(of_type(result, EventType.RETRY)) == 2


FINAL: dict[str, tuple[Any, str]] = {
    "401": (unauthorized(), "auth"),
    "403": (status(403), "auth"),
    "404": (status(404), "not_found"),
    "400": (status(400), "bad_request"),
    "402": (status(402), "quota"),
    "quota": (quota_exceeded(), "quota"),
    "quota inside the stream": (deltas("half ", ErrorChunk("no money", "insufficient_quota")), "quota"),
    "error object, unknown": (deltas("half ", ErrorChunk("no", "strange", "odd")), "unknown"),
    "a page": (html_page(), "bad_request"),
    "429, a long wait": (rate_limited(3600), "rate_limit"),
    "429, a far date": (rate_limited(datetime(2100, 1, 1, tzinfo=timezone.utc)), "rate_limit"),
    "503, a long wait": (status(503, headers={"Retry-After": "1e9"}), "overloaded"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("fault", "kind"), FINAL.values(), ids=FINAL)
def test_not_worth_a_retry(fault: Any, kind: str, way: str):
    result = run_on([fault], way)  # one request: the script has no more
    assert_failed(result, kind)
    assert of_type(result, EventType.RETRY) == []


def test_a_server_that_is_not_there():
    with refusing_url() as url:
        result = agent_for(url).run("do it")
    assert_failed(result, "connection")
    assert len(of_type(result, EventType.RETRY)) == AT_ONCE.max_retries


def test_partial_text_that_was_shown_is_taken_back():
    # Not a reset first: that may overtake text which the client has not read yet.
    with ScriptedServer([deltas("wrong ", EndEarly()), Reset(), deltas("fi", "ne")]) as server:
        events = list(agent_for(server.base_url).run_stream("do it"))
    told = [(e.type, e.content or e.data.get("discard")) for e in events if e.step == 1]
    retries = [e for e in events if e.type is EventType.RETRY]
    assert [e.data["discard"] for e in retries] == [True, False]
    assert [e.data["attempt"] for e in retries] == [1, 2]
    first, last = told.index((EventType.TEXT_DELTA, "wrong ")), told.index((EventType.TEXT_DELTA, "fi"))
    assert first < events.index(retries[0]) - 1 < last
    assert [e.content for e in events if e.type is EventType.THOUGHT] == ["fine"]
    assert events[-1].data["content"] == "fine"


def test_a_fault_in_a_later_step_repeats_no_tool():
    ran: list[int] = []

    def note(a: int) -> str:
        """Note a number.

        Args:
            a: The number.
        """
        ran.append(a)
        return "noted"

    script = [call("note", a=1), deltas("half ", Reset()), call("note", a=2), status(500), "fine"]
    result = run_on(script, tools=[note])
    assert_recovered(result, retries=2)
    assert ran == [1, 2]


# -- silence --------------------------------------------------------------------------------------

IMPATIENT = 0.25
SILENCES: dict[str, Any] = {
    "before the first byte": lambda: Silence(),
    "in the middle": lambda: deltas("half an ", Silence()),
    "comments before": lambda: Drip(),
    "comments in the middle": lambda: deltas("half an ", Drip()),
    "empty chunks in the middle": lambda: deltas(
        "half an ", Drip(comment=b'data: {"choices": [{"delta": {"content": ""}}]}\n\n')
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("silence", SILENCES.values(), ids=SILENCES)
def test_silence_is_noticed_and_the_request_repeated(silence: Any, way: str):
    def handler(request: ServerRequest) -> Any:
        return silence() if request is server.requests[0] else "fine"

    with ScriptedServer(handler=handler) as server:
        agent = agent_for(server.base_url, way, first_byte_timeout=IMPATIENT, idle_timeout=IMPATIENT)
        result = agent.run("do it")
        server.requests[0].left.wait()  # the silent connection was given up
    assert (result.content, result.stop_reason) == ("fine", "completed")
    assert "silent" in of_type(result, EventType.RETRY)[0].data["error"]


def test_silence_for_ever_ends_typed():
    with ScriptedServer(handler=lambda request: Silence()) as server:
        retry = RetryConfig(1, base_delay=0, jitter=0)
        result = agent_for(server.base_url, first_byte_timeout=0.05, retry=retry).run("do it")
    assert_failed(result, "timeout")
    assert len(of_type(result, EventType.RETRY)) == 1


# -- answers that are complete, but not what they should be ----------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("nothing", [answer(), answer(""), answer(" \n"), answer(reasoning="hm")])
def test_an_empty_answer_is_asked_again_once(nothing: Any, way: str):
    result = run_on([nothing, "fine"], way)
    assert (result.content, result.stop_reason) == ("fine", "completed")
    result = run_on([nothing, nothing], way)
    assert (result.stop_reason, result.content) == ("error", "")
    assert of_type(result, EventType.ERROR)[0].data["kind"] == "incomplete"


@pytest.mark.parametrize("way", WAYS)
def test_cut_and_filtered_text_says_so(way: str):
    result = run_on([answer("half an ", finish_reason="length"), "answer"], way)
    assert (result.content, result.stop_reason) == ("half an answer", "completed")
    result = run_on([answer("half an ", finish_reason="content_filter")], way)
    assert result.stop_reason == "content_filter"
    assert result.content.startswith("half an \n\n[Stopped:")
    assert result.messages[-1]["content"] == "half an "


@pytest.mark.parametrize("way", WAYS)
def test_usage_that_is_missing_is_estimated(way: str):
    assert run_on([answer("fine", usage=None)], way).usage.estimated
    assert not run_on(["fine"], way).usage.estimated


def part(index: int | None, name: str | None, arguments: Any, call_id: str | None = None) -> Delta:
    return Delta(tool_calls=(ToolCallDelta(index, call_id, name, arguments),))


CALLS: dict[str, tuple[Any, list[int], int]] = {
    "double ids": ([raw_call("note", '{"a":1}', "x"), raw_call("note", '{"a":2}', "x")], [1, 2], 2),
    "empty ids": ([raw_call("note", '{"a":1}', ""), raw_call("note", '{"a":2}', "")], [1, 2], 2),
    "one index, streamed": (
        deltas(part(0, "note", '{"a":1}', "x"), part(0, "note", '{"a":2}', "y")),
        [1, 2],
        2,
    ),
    "no index": (deltas(part(None, "note", '{"a":', "x"), part(None, None, "1}")), [1], 1),
    "index 5": (deltas(part(5, "note", '{"a":1}', "x")), [1], 1),
    "objects": (deltas(part(0, "note", {"a": 1}, "x")), [1], 1),
    "wrong finish reason": (answer(call("note", a=1), finish_reason="stop"), [1], 1),
    "empty text before": (deltas("", call("note", a=1)), [1], 1),
    "double-encoded": ([raw_call("note", '"{\\"a\\": 1}"')], [1], 1),
    "not JSON": ([raw_call("note", "a=1"), call("note", a=2)], [2], 2),
    "a list": ([raw_call("note", "[1]")], [], 1),
    "NaN": ([raw_call("note", '{"a": NaN}')], [], 1),
    "double keys": ([raw_call("note", '{"a": 1, "a": 2}')], [], 1),
    "wrong type": ([call("note", a="one")], [], 1),
    "unknown tool": ([call("nothing", a=1)], [], 1),
    "no name": ([raw_call("", '{"a": 1}')], [], 1),
    "lone surrogate": ([raw_call("note", '{"a": 1, "b": "\\ud800"}'), call("note", a=2)], [2], 2),
    "cut by the length": (answer(raw_call("note", '{"a": 1'), finish_reason="length"), [], 1),
    "cut before the arguments": (answer(raw_call("free", ""), finish_reason="length"), [], 1),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("item", "ran", "results"), CALLS.values(), ids=CALLS)
def test_calls_with_defects_keep_the_history_valid(item: Any, ran: list[int], results: int, way: str):
    seen: list[int] = []

    def note(a: int) -> str:
        """Note a number.

        Args:
            a: The number.
        """
        seen.append(a)
        return "noted \ud800"

    def free(a: int = 0) -> str:
        """Needs nothing.

        Args:
            a: A number.
        """
        seen.append(a)
        return "ran"

    if way == "plain" and item is CALLS["one index, streamed"][0]:
        item = [raw_call("note", '{"a":1}', "x"), raw_call("note", '{"a":2}', "y")]  # there is no index
    result = run_on([item, "fine"], way, tools=[note, free])  # the server checks the second request
    assert (result.content, result.stop_reason) == ("fine", "completed")
    assert sorted(seen) == ran  # calls run together
    assert len(of_type(result, EventType.OBSERVATION)) == results


def test_text_of_any_kind_goes_through_and_back():
    history = run_on(["naïve \ud83d\ude00 \ud800"]).messages
    assert history[-1]["content"] == "naïve 😀 \ufffd"
    with ScriptedServer(["fine"]) as server:
        assert agent_for(server.base_url).run("again \udfff", messages=history).content == "fine"
