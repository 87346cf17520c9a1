"""Every kind of fault x streamed and plain x seeds: recovered, or ended with a reason; never silently wrong.

The seed places the fault (in the first or the second request, and behind which piece), cuts the answer and
the bytes of the stream, and chooses between ``run`` and ``run_stream``, sync and async tools, and between the
two libraries that requests travel through. ``make soak`` plays every cell over httpx as well.
"""

from __future__ import annotations

import asyncio
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from llm_client_conformance import (
    Delta,
    EndEarly,
    ErrorChunk,
    Reset,
    Silence,
    Status,
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
    html_page,
    quota_exceeded,
    rate_limited,
    unavailable,
)
from pure_agent_loop.llm.http.choice import HTTP_VARIABLE

from .matrix import ANSWER, NEVER_ENDING, PROTOCOLS, Case, Kind, case_of, play
from .talk import WAYS

SEEDS = 2  # for each request that the fault can come in


def once(fault: Any, **expected: Any) -> Kind:
    """A fault instead of an answer; it goes away when the request is repeated."""
    return Kind(lambda _: [fault], **{"retries": 1, **expected})


def amid(fault: Any, *, goes_on: bool = False, **expected: Any) -> Kind:
    """A fault in the middle of an answer; it goes away when the request is repeated."""
    return Kind(lambda case: [case.broken_by(fault, goes_on=goes_on)], **{"retries": 1, **expected})


def for_ever(fault: Any, error: str, **expected: Any) -> Kind:
    """A fault that does not go away."""
    return Kind(lambda _: [fault] * NEVER_ENDING, "error", error, **{"retries": 3, **expected})


def at_once(fault: Any, error: str) -> Kind:
    """A fault that no repetition can mend."""
    return Kind(lambda _: [fault], "error", error)


def soon() -> datetime:
    return datetime.now(timezone.utc) + timedelta(seconds=30)


CONNECTION: dict[str, Kind] = {
    "refused": Kind(stop="error", error="connection", retries=3, refused=True),
    "reset before the answer": once(Reset()),
    "reset in the middle": amid(Reset()),
    "reset for ever": for_ever(Reset(), "connection"),
    "hang-up before the answer": once(HangUp()),
    "hang-up in the middle": amid(HangUp()),
    "early clean end": amid(EndEarly()),
    "early clean end behind the last piece": Kind(
        lambda case: [deltas(*case.pieces(), EndEarly())], retries=1
    ),
    "early clean end for ever": Kind(
        lambda case: [case.broken_by(EndEarly()) for _ in range(NEVER_ENDING)], "error", "incomplete", 3
    ),
    "call cut off": Kind(lambda case: [deltas(*case.cut_call(), EndEarly())], retries=1, stages=(1,)),
    "call cut off, with DONE": Kind(
        lambda case: [deltas(*case.cut_call(), EndEarly(done=True))], retries=1, stages=(1,)
    ),
    "call cut off by a reset": Kind(lambda case: [deltas(*case.cut_call(), Reset())], retries=1, stages=(1,)),
    "three faults in a row": Kind(
        lambda case: case.dice.sample(
            [Reset(), status(500), case.broken_by(HangUp()), EmptyChoices(), rate_limited(1)], 3
        ),
        retries=3,
    ),
}

BODIES: dict[str, Kind] = {
    "broken chunk first": once(BrokenChunk()),
    "broken chunk in the middle": amid(BrokenChunk(), goes_on=True),
    "broken chunk at the end": amid(BrokenChunk("{'choices': []")),
    "a chunk that is no object": amid(BrokenChunk("[1]"), goes_on=True),
    "broken chunk for ever": for_ever(BrokenChunk("nothing of JSON"), "incomplete"),
    "error object first": once(ErrorChunk()),
    "error object in the middle": amid(ErrorChunk()),
    "error object nobody knows": amid(
        ErrorChunk("no", "strange", "odd"), stop="error", error="unknown", retries=0
    ),
    "empty choices": once(EmptyChoices()),
    "empty choices for ever": for_ever(EmptyChoices(), "incomplete"),
    "empty choices among others": amid(EmptyChoices(), goes_on=True, retries=0, plain_retries=1),
    "empty body": once(Status(200)),
    "empty object": once(Status(200, b"{}")),
    "a page": at_once(html_page(), "bad_request"),
    "finish reason error": Kind(lambda case: [answer("half", finish_reason="error")], retries=1),
    "no finish reason, but DONE": Kind(  # a whole answer has nothing but the finish reason to show its end
        lambda case: [deltas(*case.pieces(), EndEarly(done=True))], plain_retries=1
    ),
    "missing usage": Kind(
        lambda case: [deltas(*case.pieces(), usage=None)], check=lambda result: result.usage.estimated
    ),
}

STATUS: dict[str, Kind] = {
    "429": once(rate_limited(), waits=lambda waits: 1 <= waits[0] <= 2),
    "429 with seconds": once(rate_limited(7), waits=lambda waits: waits == [7]),
    "429 with a date": Kind(
        lambda _: [rate_limited(soon())],
        retries=1,
        waits=lambda waits: len(waits) == 1 and 0 < waits[0] <= 30,
    ),
    "429 with a long wait": at_once(rate_limited(3600), "rate_limit"),
    "429 with a far date": at_once(rate_limited(datetime(2100, 1, 1, tzinfo=timezone.utc)), "rate_limit"),
    "429 for ever": for_ever(rate_limited(2), "rate_limit", waits=lambda waits: waits == [2] * 3),
    "quota": at_once(quota_exceeded(), "quota"),
    "quota in the stream": amid(
        ErrorChunk("You exceeded your current quota.", "insufficient_quota"),
        stop="error",
        error="quota",
        retries=0,
    ),
    "402": at_once(status(402), "quota"),
    "500 once": once(status(500)),
    "500 for ever": for_ever(status(500), "overloaded"),
    "502 page": once(html_page(502)),
    "503 text": once(unavailable()),
    "529": once(status(529, kind="overloaded_error")),
    "529 with seconds": once(
        status(529, kind="overloaded_error", headers={"Retry-After": "7"}), waits=lambda waits: waits == [7]
    ),
    "503 with a long wait": at_once(status(503, headers={"Retry-After": "1e9"}), "overloaded"),
    "408": once(status(408)),
    "409": once(status(409)),
    "400": at_once(status(400), "bad_request"),
    "401": at_once(unauthorized(), "auth"),
    "403": at_once(status(403), "auth"),
    "404": at_once(status(404), "not_found"),
    "context overflow": at_once(
        status(400, "This model's maximum context length is 8 tokens.", error_code="context_length_exceeded"),
        "context_overflow",
    ),
}

NOTHING = b'data: {"choices": [{"index": 0, "delta": {"content": ""}}]}\n\n'
SILENCE: dict[str, Kind] = {
    "silence before the first byte": Kind(lambda _: [Silence()], retries=None, impatient=True),
    "silence in the middle": Kind(lambda case: [case.broken_by(Silence())], retries=None, impatient=True),
    "silence for ever": Kind(  # in the first request: every other one could be too slow as well
        lambda _: [Silence() for _ in range(NEVER_ENDING)], "error", "timeout", 3, stages=(1,), impatient=True
    ),
    "drip of comments first": Kind(lambda _: [Drip()], retries=None, impatient=True),
    "drip of comments in the middle": Kind(
        lambda case: [case.broken_by(Drip())], retries=None, impatient=True
    ),
    "drip of empty chunks": Kind(
        lambda case: [case.broken_by(Drip(comment=NOTHING))], retries=None, impatient=True
    ),
    "drip that ends": Kind(lambda case: [case.broken_by(Drip(3, 0), goes_on=True)]),
}


def cut_at_the_length(case: Case) -> list[Any]:
    """The answer in parts, each but the last cut off."""
    *parts, last = case.cut(ANSWER)[:3] if case.seed else case.cut(ANSWER)[:2]
    rest = ANSWER[len("".join([*parts, last])) :]
    return [*(answer(part, finish_reason="length") for part in parts), answer(last + rest)]


ANSWERS: dict[str, Kind] = {
    "null content": Kind(lambda _: [answer()]),
    "empty content": Kind(lambda _: [answer("")]),
    "blank content": Kind(lambda _: [answer(" \n")]),
    "thinking without an answer": Kind(lambda _: [answer(reasoning="hm, let me see")]),
    "null content twice": Kind(lambda _: [answer(), answer()], "error", "incomplete"),
    "empty content twice": Kind(lambda _: [answer(""), answer("")], "error", "incomplete"),
    "length in text": Kind(cut_at_the_length, stages=(2,)),
    "length in text for ever": Kind(
        lambda case: [answer("and on ", finish_reason="length")] * 4,
        "output_limit",
        check=lambda result: result.content.startswith("and on and on and on and on \n\n[Stopped:"),
    ),
    "length in arguments": Kind(
        lambda case: [answer(raw_call("word", '{"number": 4'), finish_reason="length")],
        stages=(1,),
        says="InvalidArguments",
    ),
    "length before the arguments": Kind(
        lambda case: [answer(raw_call("side", ""), finish_reason="length")], stages=(1,), says="cut off"
    ),
    "length in text and arguments": Kind(
        lambda case: [answer("Let me", raw_call("word", '{"num'), finish_reason="length")],
        stages=(1,),
        says="InvalidArguments",
    ),
    "content filter in arguments": Kind(
        lambda _: [answer(raw_call("word", '{"number": 4'), finish_reason="content_filter")],
        "content_filter",
        check=lambda result: result.content.startswith("[Stopped:"),
    ),
    "content filter": Kind(
        lambda _: [answer(finish_reason="content_filter")],
        "content_filter",
        check=lambda result: result.content.startswith("[Stopped:"),
    ),
    "content filter in text": Kind(
        lambda _: [answer("I must ", finish_reason="content_filter")],
        "content_filter",
        check=lambda result: result.content.startswith("I must \n\n[Stopped:"),
    ),
}


def defect(arguments: str, says: str = "InvalidArguments", name: str = "word", **expected: Any) -> Kind:
    """A call that must not run; the model is told and sends the right one."""
    return Kind(lambda case: [case.beside(raw_call(name, arguments))], says=says, stages=(1,), **expected)


def harmless(item: Any) -> Kind:
    """A strange call that can only mean one thing."""
    return Kind(lambda _: [item], stages=(1,))


def two_calls(call_id: str) -> Kind:
    def faults(case: Case) -> list[Any]:
        case.runs += ["side"]
        return [[raw_call("side", "{}", call_id), raw_call("word", '{"number": 4}', call_id)]]

    return Kind(faults, stages=(1,))


ARGUMENTS: dict[str, Kind] = {
    "not JSON": defect("number=4"),
    "truncated": defect('{"number": 4'),
    "trailing comma": defect('{"number": 4,}'),
    "single quotes": defect("{'number': 4}"),
    "a list": defect("[4]"),
    "a number": defect("4"),
    "a text": defect('"four"'),
    "NaN": defect('{"number": NaN}'),
    "Infinity": defect('{"number": -Infinity}'),
    "out of range": defect('{"number": 1e999}'),
    "duplicate keys": defect('{"number": 5, "number": 4}'),
    "nested too deeply": defect('{"number": ' + "[" * 5000 + "]" * 5000 + "}"),
    "wrong type": defect('{"number": "four"}', "number"),
    "null for a number": defect('{"number": null}', "number"),
    "missing required": defect("{}", "number: field required"),
    "empty arguments": defect("", "number: field required"),
    "null arguments": defect("null", "number: field required"),
    "extra unknown": defect('{"number": 4, "colour": "red"}', "colour"),
    "lone surrogate": defect('{"number": "\\ud800"}', "number"),
    "two objects": defect('{"number": 5}{"number": 4}'),
    "unknown tool": defect("{}", "UnknownTool", name="nothing"),
    "no name": defect("{}", "UnknownTool", name=""),
    "a name that no server takes": defect("{}", "UnknownTool", name="w o.r/d"),
    "double-encoded": harmless([raw_call("word", '"{\\"number\\": 4}"')]),
    "raw line break": harmless([raw_call("word", '{"number":\n4\n}')]),
    "double ids": two_calls("x"),
    "empty ids": two_calls(""),
    "wrong finish reason": harmless(answer(call("word", number=4), finish_reason="stop")),
    "empty text before": harmless(deltas(Delta(text=""), call("word", number=4))),
}


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class EndingError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Unprintable:
    __repr__ = UnprintableError.__str__


def inside_itself() -> list[Any]:
    value: list[Any] = [1]
    value.append(value)
    return value


def tool_does(act: Any, says: str, **expected: Any) -> Kind:
    """The tool ``odd`` does this, once; the model is told, and goes on."""

    def faults(case: Case) -> list[Any]:
        case.runs.append("odd")
        return [case.beside(call("odd"))]

    return Kind(faults, act=act, says=says, stages=(1,), **expected)


def tool_raises(error: BaseException | type[BaseException], says: str = "", **expected: Any) -> Kind:
    def act() -> None:
        raise error

    name = error.__name__ if isinstance(error, type) else type(error).__name__
    return tool_does(act, says or name, **expected)


TOOLS: dict[str, Kind] = {
    "tool raises Exception": tool_raises(ValueError("no luck"), "no luck"),
    "tool raises SystemExit": tool_raises(SystemExit(3)),
    "tool raises KeyboardInterrupt": tool_raises(KeyboardInterrupt, stop="cancelled"),
    "tool raises CancelledError": tool_raises(asyncio.CancelledError),
    "tool raises GeneratorExit": tool_raises(GeneratorExit),
    "tool raises StopIteration": tool_raises(StopIteration),
    "tool raises TimeoutError": tool_raises(TimeoutError),
    "tool raises RecursionError": tool_raises(RecursionError),
    "tool raises what has no text": tool_raises(UnprintableError(), "its text form failed"),
    "tool raises what would end the program": tool_raises(EndingError(), "its text form failed"),
    "tool raises a surrogate": tool_raises(ValueError("a\ud800b"), "a\ufffdb"),
    "tool returns a huge text": tool_does(lambda: "x" * 1_000_000, "xxxx"),
    "tool returns bytes": tool_does(lambda: b"\xff\x00", "\ufffd"),
    "tool returns a set": tool_does(lambda: {1}, "[1]"),
    "tool returns what holds itself": tool_does(inside_itself, '[1, "..."]'),
    "tool returns what has no text": tool_does(Unprintable, "its text form failed"),
    "tool returns NaN": tool_does(lambda: float("nan"), "nan"),
    "tool returns a surrogate": tool_does(lambda: "a\ud800b", "a\ufffdb"),
    "tool returns nothing": tool_does(lambda: None, "null"),
    "tool hangs": tool_does(lambda: asyncio.Event().wait(), "Timeout", tool_timeout=0.05),
}

TABLE = {**CONNECTION, **BODIES, **STATUS, **SILENCE, **ANSWERS, **ARGUMENTS, **TOOLS}


def set_transport(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Use one of the two libraries, unless the environment demands one."""
    monkeypatch.setenv(HTTP_VARIABLE, os.environ.get(HTTP_VARIABLE) or ("", "httpx")[number % 2])


@pytest.fixture(autouse=True)
def _few_certificates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Most of the time would go into loading root certificates, for every client anew."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))


def test_the_table_is_whole() -> None:
    parts = (CONNECTION, BODIES, STATUS, SILENCE, ANSWERS, ARGUMENTS, TOOLS)
    assert len(TABLE) == sum(map(len, parts)) >= 40


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("name", "seed"),
    [(name, seed) for name, kind in TABLE.items() for seed in range(SEEDS * len(kind.stages))],
)
def test_a_fault_is_survived_or_told(name: str, way: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = TABLE[name]
    set_transport(monkeypatch, seed // len(kind.stages))
    play(kind, case_of(name, kind, way, seed))


# What these kinds send exists in chat completions only: chunks with choices, [DONE], free words as codes.
OF_CHAT = {
    "call cut off, with DONE",
    "three faults in a row",
    "empty choices",
    "empty choices for ever",
    "empty choices among others",
    "a chunk that is no object",
    "error object nobody knows",
    "no finish reason, but DONE",
    "drip of empty chunks",
    "finish reason error",
    "missing usage",
}
NOT_SENT = {
    # A refusal takes back what came before it.
    "messages": {"content filter in text", "content filter in arguments"},
    # A whole response says that it is complete.
    "responses plain": {name for name in CONNECTION if name.startswith(("early clean end", "call cut off"))},
    # A call is one part, sent when it is complete.
    "gemini": {
        name for name in [*CONNECTION, *ANSWERS] if name.startswith("call cut off") or "arguments" in name
    },
}
SHARED = {
    name: kind
    for name, kind in {**CONNECTION, **BODIES, **STATUS, **SILENCE, **ANSWERS}.items()
    if name not in OF_CHAT
}
CELLS = [
    (name, protocol, way, seed)
    for name, kind in SHARED.items()
    for protocol in PROTOCOLS
    for way in WAYS
    for seed in range(len(kind.stages))
    if name not in {*NOT_SENT.get(protocol, ()), *NOT_SENT.get(f"{protocol} {way}", ())}
]


@pytest.mark.parametrize(("name", "protocol", "way", "seed"), CELLS)
def test_a_fault_of_another_protocol_is_survived_or_told(
    name: str, protocol: str, way: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = SHARED[name]
    set_transport(monkeypatch, seed + WAYS.index(way))
    play(kind, case_of(name, kind, way, seed), PROTOCOLS[protocol])
