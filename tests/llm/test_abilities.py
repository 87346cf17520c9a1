"""What a client, a compactor or a store may be able to do: found wherever it is, and not missed where not."""

from __future__ import annotations

import asyncio

import pytest

from pure_agent_loop import Agent, BaseLLMClient, LLMResponse
from pure_agent_loop.kernel.kit import Forces, KitAware, NoCompaction
from pure_agent_loop.llm.base import Closes, FindsWindow, ShowsRequest, Streams
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.testing import ScriptedLLM
from tests.helpers import run_kernel


class Whole(BaseLLMClient):
    closed = 0

    async def chat(self, messages, tools=None, **kwargs):
        return LLMResponse("hi", finish_reason="stop")

    async def find_context_window(self):
        return 4_096

    def request_body(self, messages, tools, options, stream):
        return {"messages": messages}

    async def aclose(self):
        self.closed += 1


class Wrapped:
    """A client around another one, which has what that one has."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)


class OnlyChat:
    find_context_window = None
    """Named, and not there."""

    async def chat(self, messages, tools=None, **kwargs):
        return LLMResponse("hi", finish_reason="stop")


@pytest.mark.parametrize("ability", [Streams, Closes, FindsWindow, ShowsRequest])
def test_a_client_is_able(ability):
    for client in (Whole(), Wrapped(Whole())):
        assert as_protocol(client, ability) is client
    for thing in (OnlyChat(), None, "text"):
        assert as_protocol(thing, ability) is None


def test_a_compactor_need_not_be_able():
    assert as_protocol(NoCompaction(), Forces) is None
    assert as_protocol(NoCompaction(), KitAware) is None


def test_a_client_with_only_chat_runs():
    agent = Agent(llm=OnlyChat())
    assert agent.run("go").content == "hi"
    assert agent.explain("go").is_exact is False
    asyncio.run(agent.aclose())
    assert run_kernel(OnlyChat()).content == "hi"


def test_a_client_behind_another_is_closed():
    inner = Whole()
    asyncio.run(Agent(llm=Wrapped(inner)).aclose())
    assert inner.closed == 1


def test_asking_for_an_ability_reads_nothing_else():
    class Careful(ScriptedLLM):
        @property
        def context_window(self):
            raise AssertionError("nobody has asked for the window")

    assert as_protocol(Careful([]), Closes) is not None
