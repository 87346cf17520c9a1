"""Our client gives each quirk of chat completions what must come out of it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from tests.outcomes import outcome_of

from llm_client_conformance import ScriptedServer
from llm_client_conformance.quirks import (
    PROTOCOL_QUIRKS,
    QUIRKS,
    TOOLS,
    Expected,
    Quirk,
    RawBody,
    check,
    serve,
)
from pure_agent_loop import Agent, RetryConfig, tool
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.completions import BodyReader
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.llm.response import Assembler, LLMResponse

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
    assert [check(quirk, outcome_of(outcome)) for outcome in outcomes] == [[]] * len(outcomes)
    assert len({str(o) if isinstance(o, LLMError) else json.dumps(o.to_dict()) for o in outcomes}) == 1


@every_quirk
def test_a_quirk_is_read_wherever_it_is_cut(quirk):
    """As networks cut it: anywhere, and its beginning above all, where it is found out what it is."""
    rng, size = random.Random(quirk.name), len(quirk.body)
    cuts = [[first] for first in range(1, 12)]
    cuts += [sorted(rng.choices(range(size + 1), k=rng.randint(1, 12))) for _ in range(20)]
    assert [check(quirk, outcome_of(read_cut(quirk, each))) for each in cuts] == [[]] * len(cuts)


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
            found[name] = check(quirk, outcome_of(await ask(client)))
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


def test_custom_quirk():
    quirk = Quirk("mine", "for this test", b'data: {"x": ', Expected(error="incomplete"))
    with serve(quirk) as server:
        assert set(map(tuple, asyncio.run(every_way(quirk, server)).values())) == {()}


def test_the_page_lists_every_quirk_with_its_reason():
    page = PAGE.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    kinds = [QUIRKS, *PROTOCOL_QUIRKS.values()]
    assert rows == [f"| `{quirk.name}` | {quirk.why} |" for quirks in kinds for quirk in quirks]
    assert all(f"**{len(quirks)}**" in page for quirks in kinds)
