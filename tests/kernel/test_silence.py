"""A server that falls silent: noticed before the first piece and between two, and asked again."""

from __future__ import annotations

import asyncio

import pytest
from tests.helpers import E, check_result, drive, nothing_left, of_type, start

from pure_agent_loop import Agent, BaseLLMClient, LLMResponse, RetryConfig
from pure_agent_loop.kernel.bind import bind_kit
from pure_agent_loop.kernel.kit import Timeouts
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.testing import Gate, ScriptedLLM, deltas

pytestmark = pytest.mark.anyio
ONCE = RetryConfig(max_retries=0)
SHORT = 0.02


async def silent(messages, tools, options):
    await asyncio.Event().wait()


class Alive(BaseLLMClient):
    """Sends a piece and then only signs of life, for ever."""

    async def chat(self, messages, tools=None, **kwargs):
        return LLMResponse("unused")

    async def chat_stream(self, messages, tools=None, **kwargs):
        yield Delta("a")
        while True:
            await asyncio.sleep(SHORT / 20)
            yield Delta()


async def test_before_the_first_piece():
    async with nothing_left():
        run = drive(start(), ScriptedLLM([silent]), retry=ONCE, timeouts=Timeouts(SHORT, None))
        result = check_result(await run)
    assert result.stop_reason == "error"
    assert result.error == "The server was silent for 0.02 s; the beginning of its answer is missing."
    assert of_type(result.events, E.ERROR)[0].data["kind"] == "timeout"


@pytest.mark.parametrize(
    "client", [ScriptedLLM([deltas("a", Gate())]), Alive()], ids=["silence", "keep-alives"]
)
async def test_between_two_pieces(client):
    async with nothing_left():
        run = drive(start(), client, retry=ONCE, timeouts=Timeouts(None, SHORT))
        result = check_result(await run)
    assert result.error == "The server was silent for 0.02 s; the rest of its answer is missing."
    assert (result.content, len(result.messages)) == ("", 1)


async def test_it_is_asked_again():
    llm = ScriptedLLM([silent, deltas("half", Gate()), "whole"])
    run = drive(start(), llm, timeouts=Timeouts(SHORT, SHORT))
    result = check_result(await run)
    assert (result.content, result.stop_reason) == ("whole", "completed")
    assert [e.data["discard"] for e in of_type(result.events, E.RETRY)] == [False, True]


async def test_slow_reader_is_not_a_silent_server():
    async def emit(event):
        if event.type is E.TEXT_DELTA:
            await asyncio.sleep(2 * SHORT)

    llm = ScriptedLLM([deltas("a", "b", "c")])
    result = await drive(start(), llm, emit=emit, retry=ONCE, timeouts=Timeouts(SHORT, SHORT))
    assert (result.content, result.stop_reason) == ("abc", "completed")


async def test_none_switches_both_off():
    gate = Gate()
    running = asyncio.create_task(
        drive(start(), ScriptedLLM([deltas(gate, "late")]), timeouts=Timeouts(None, None))
    )
    await gate.reached.wait_async()
    gate.open()
    assert (await running).content == "late"


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/v1", "http://localhost:9/v1", "http://[::1]:9/v1"])
def test_a_server_on_this_machine_may_read_a_long_prompt(address):
    def patience(base_url, **options):
        agent = Agent(model="m", api_key="k", base_url=base_url, **options)
        return bind_kit(QueryState(), agent._kit).timeouts.first_byte

    assert patience(address) is None
    assert patience("https://api.example.com/v1") == 60.0
    assert patience(address, first_byte_timeout=60.0) is None  # a default written out is the default
    for own in (61.0, 5, None):
        assert patience(address, first_byte_timeout=own) == own
    assert OpenAIClient("m", "k", address)._settings["timeout"] > 1800  # of the connection
    assert OpenAIClient("m", "k", address, timeout=7)._settings["timeout"] == 7
