"""The conformance kit of the makers' protocols: our clients give each quirk what must come out of it."""

import asyncio
import random

import pytest
from tests.outcomes import outcome_of

from llm_client_conformance.protocols import (
    GeminiServer,
    MessagesServer,
    ResponsesServer,
    check_gemini_request,
    check_messages_request,
    check_responses_request,
)
from llm_client_conformance.quirks import PROTOCOL_QUIRKS, QUIRKS, TOOLS, RawBody, check, serve
from pure_agent_loop import Agent, AnthropicClient, GeminiClient, ResponsesClient, RetryConfig
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.response import Assembler

CLIENTS = {"messages": AnthropicClient, "responses": ResponsesClient, "gemini": GeminiClient}
SERVERS = {"messages": MessagesServer, "responses": ResponsesServer, "gemini": GeminiServer}
CHECKS = {
    "messages": check_messages_request,
    "responses": check_responses_request,
    "gemini": check_gemini_request,
}
MODELS = {"messages": "claude-opus-4-6", "responses": "gpt-5", "gemini": "gemini-3-flash"}
ALL = [quirk for quirks in PROTOCOL_QUIRKS.values() for quirk in quirks]
HI = [{"role": "user", "content": "hi"}]
every_quirk = pytest.mark.parametrize("quirk", [pytest.param(quirk, id=quirk.name) for quirk in ALL])


async def streamed(client):
    assembler = Assembler(splits_thinking=False)
    async for delta in client.chat_stream(HI, list(TOOLS), max_tokens=100):
        assembler.feed(delta)
    return assembler.finish()


async def every_way(quirk, server):
    """The differences of each way to cut the body."""
    client = CLIENTS[quirk.protocol](MODELS[quirk.protocol], "k", server.base_url)
    rng, found = random.Random(quirk.name), {}
    for size in (None, 1, 7, [rng.randint(1, 60) for _ in range(9)]):
        server.rechunk = size
        try:
            found[str(size)] = check(quirk, outcome_of(await streamed(client)))
        except LLMError as error:
            found[str(size)] = check(quirk, error)
    await client.aclose()
    return found


@every_quirk
def test_the_client_gets_it_right_over_http(quirk):
    with serve(quirk) as server:
        found = asyncio.run(every_way(quirk, server))
    assert {way: words for way, words in found.items() if words} == {}


@every_quirk
def test_an_agent_ends_as_it_should(quirk):
    """The tools run with what was meant and nothing else, and the history that follows is accepted."""
    expected, ran = quirk.expected, []
    answers = iter([RawBody(quirk)])

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        ran.append(("add", {"a": a, "b": b}))
        return a + b

    def now() -> str:
        """Tell the time."""
        ran.append(("now", {}))
        return "12:00"

    # Signatures of a quirk were not issued by this server, so only the form of requests is checked.
    with SERVERS[quirk.protocol](handler=lambda _: next(answers, "Done."), check=False) as server:
        llm = CLIENTS[quirk.protocol](MODELS[quirk.protocol], "k", server.base_url)
        retry = RetryConfig(max_retries=0)
        result = Agent(llm=llm, tools=[add, now], retry=retry, max_tokens=100).run("hi")
    assert [CHECKS[quirk.protocol](request.body) for request in server.requests] == [[]] * len(
        server.requests
    )
    if expected.error is not None:
        assert (result.stop_reason, result.state.failure.kind, ran) == ("error", expected.error, [])
        return
    usable = [(name, arguments) for name, arguments in expected.calls if arguments is not None]
    assert sorted(map(repr, ran)) == sorted(map(repr, usable))
    is_filtered = expected.finish_reason == "content_filter"
    assert result.stop_reason == ("content_filter" if is_filtered else "completed")


def test_each_is_one_of_a_kind():
    assert len({quirk.name for quirk in [*QUIRKS, *ALL]}) == len(QUIRKS) + len(ALL)
    assert len({(quirk.body, quirk.content_type, quirk.protocol) for quirk in ALL}) == len(ALL)
    assert {quirk.protocol for quirk in QUIRKS} == {"chat"}
    for protocol, quirks in PROTOCOL_QUIRKS.items():
        assert {quirk.protocol for quirk in quirks} == {protocol}
        assert all(quirk.name.startswith(f"{protocol}-") for quirk in quirks)
