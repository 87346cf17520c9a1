"""The conformance kit: our client gives each quirk what must come out of it, and the kit judges rightly."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from pure_agent_loop import Agent, RetryConfig, tool
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.completions import BodyReader
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.llm.values import TokenUsage, ToolCall
from pure_agent_loop.testing import ScriptedServer
from pure_agent_loop.testing.quirks import (
    PROTOCOL_QUIRKS,
    QUIRKS,
    TOOLS,
    Expected,
    Outcome,
    OutcomeCall,
    Quirk,
    RawBody,
    check,
    serve,
)

PAGE = Path(__file__).parents[2] / "docs" / "quirk-list.md"
HI = [{"role": "user", "content": "hi"}]
SIZES = (1, 7, 64, 1000)
MANY_BYTES = 10_000


every_quirk = pytest.mark.parametrize("quirk", [pytest.param(quirk, id=quirk.name) for quirk in QUIRKS])


def named(name: str) -> Quirk:
    return next(quirk for quirk in QUIRKS if quirk.name == name)


# -- our own client -----------------------------------------------------------------------------


def read(quirk: Quirk, size: int) -> LLMResponse | LLMError:
    """What comes out of the bytes of a body, cut into pieces of so many bytes; no network."""
    return read_cut(quirk, range(0, len(quirk.body), size))


def read_cut(quirk: Quirk, cuts: Iterable[int]) -> LLMResponse | LLMError:
    """What comes out of the bytes of a body, cut there; no network."""
    reader, assembler = BodyReader(quirk.content_type), Assembler()
    places = sorted({0, *cuts, len(quirk.body)})
    try:
        for start, end in pairwise(places):
            for delta in reader.feed(quirk.body[start:end]):
                assembler.feed(delta)
        for delta in reader.close():
            assembler.feed(delta)
        return assembler.finish()
    except LLMError as error:
        return error


@every_quirk
def test_a_quirk_is_read_however_it_is_cut(quirk):
    outcomes = [read(quirk, size) for size in (len(quirk.body) or 1, *SIZES)]
    assert [check(quirk, outcome) for outcome in outcomes] == [[]] * len(outcomes)
    assert len({str(o) if isinstance(o, LLMError) else json.dumps(o.to_dict()) for o in outcomes}) == 1


@every_quirk
def test_a_quirk_is_read_wherever_it_is_cut(quirk):
    """As networks cut it: anywhere, and its beginning above all, where it is found out what it is."""
    rng, size = random.Random(quirk.name), len(quirk.body)
    cuts = [[first] for first in range(1, 12)]
    cuts += [sorted(rng.choices(range(size + 1), k=rng.randint(1, 12))) for _ in range(20)]
    assert [check(quirk, read_cut(quirk, each)) for each in cuts] == [[]] * len(cuts)


async def plain(client: OpenAIClient) -> LLMResponse:
    return await client.chat(HI, list(TOOLS))


async def streamed(client: OpenAIClient) -> LLMResponse:
    assembler = Assembler()
    async for delta in client.chat_stream(HI, list(TOOLS)):
        assembler.feed(delta)
    return assembler.finish()


async def every_way(quirk: Quirk, server: ScriptedServer) -> dict[str, list[str]]:
    """The differences of each way to ask, in words."""
    client = OpenAIClient("m", api_key="k", base_url=server.base_url)
    sizes = [None, *(size for size in SIZES if size > 1 or len(quirk.body) < MANY_BYTES)]
    ways = [("plain", plain, None), *((f"streamed {size}", streamed, size) for size in sizes)]
    found = {}
    for name, ask, size in ways:
        server.rechunk = size
        try:
            found[name] = check(quirk, await ask(client))
        except LLMError as error:
            found[name] = check(quirk, error)
    await client.aclose()
    return found


@pytest.mark.usefixtures("transport")
@every_quirk
def test_the_client_gets_it_right_over_http(quirk):
    with serve(quirk) as server:
        found = asyncio.run(every_way(quirk, server))
    assert {way: words for way, words in found.items() if words} == {}


@contextmanager
def recording_tools() -> Iterator[tuple[list, list]]:
    """The tools of the kit, and what they were really called with."""
    ran: list[tuple[str, dict]] = []

    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        ran.append(("add", {"a": a, "b": b}))
        return a + b

    @tool
    def now() -> str:
        """Tell the time."""
        ran.append(("now", {}))
        return "12:00"

    @tool
    def say(text: str) -> str:
        """Say something."""
        ran.append(("say", {"text": text}))
        return text

    yield [add, now, say], ran


@every_quirk
def test_an_agent_ends_as_it_should(quirk):
    """The tools run with what was meant and nothing else, and the history that follows is valid."""
    expected = quirk.expected
    answers = iter([RawBody(quirk)])
    with (
        recording_tools() as (tools, ran),
        ScriptedServer(handler=lambda _: next(answers, "Done.")) as server,
    ):
        result = Agent(
            model="m", api_key="k", base_url=server.base_url, tools=tools, retry=RetryConfig(max_retries=0)
        ).run("hi")
        server.assert_clean()
    if expected.error is not None:
        assert (result.stop_reason, result.state.failure.kind, ran) == ("error", expected.error, [])
        return
    usable = [(name, arguments) for name, arguments in expected.calls if arguments is not None]
    assert sorted(map(repr, ran)) == sorted(map(repr, usable))
    filtered = expected.finish_reason == "content_filter"
    assert result.stop_reason == ("content_filter" if filtered else "completed")
    if not expected.calls:
        assert result.content.startswith(expected.text)


# -- the kit itself -----------------------------------------------------------------------------


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
def test_what_must_come_out_passes_and_its_opposite_does_not(quirk):
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
def test_each_difference_is_told(words):
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
    good = LLMResponse(None, [ToolCall("c1", "add", {}, "not JSON")], finish_reason="tool_calls")
    assert check(quirk, good) == []
    bad = LLMResponse(None, [ToolCall("c1", "add", {})], finish_reason="tool_calls")
    assert check(quirk, bad) == ["call 1: expected unusable arguments, got the arguments {}"]


def test_an_error_where_an_answer_was_due_is_told():
    assert check(named("crlf"), ValueError("no")) == ["expected an answer, got ValueError: 'no'"]


def test_an_error_of_another_kind_is_told():
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


def test_a_quirk_of_ones_own():
    quirk = Quirk("mine", "for this test", b'data: {"x": ', Expected(error="incomplete"))
    with serve(quirk) as server:
        assert set(map(tuple, asyncio.run(every_way(quirk, server)).values())) == {()}


def test_the_page_lists_every_quirk_with_its_reason():
    page = PAGE.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    kinds = [QUIRKS, *PROTOCOL_QUIRKS.values()]
    assert rows == [f"| `{quirk.name}` | {quirk.why} |" for quirks in kinds for quirk in quirks]
    assert all(f"**{len(quirks)}**" in page for quirks in kinds)
