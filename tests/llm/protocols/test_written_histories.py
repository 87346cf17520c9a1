"""A client writes only the new messages of a request; the bytes are those of a client that writes all."""

import asyncio
import copy
import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop import AnthropicClient, GeminiClient, ResponsesClient
from pure_agent_loop.llm.anthropic.request import PREFIX
from pure_agent_loop.llm.http_client import encode_body
from tests.llm.protocols.histories import histories
from tests.llm.protocols.test_gemini import signed
from tests.llm.protocols.test_messages_requests import thought, thoughtful
from tests.llm.protocols.test_responses import reasoned

URL = "http://127.0.0.1:9/v1"
CLIENTS = {
    "claude-opus-4-6": (AnthropicClient, thought),
    "claude-fable-5-2": (AnthropicClient, thought),  # binds thinking to what came before it
    "claude-haiku-4-5": (AnthropicClient, thought),
    "gpt-5": (ResponsesClient, reasoned),
    "gemini-3-flash": (GeminiClient, signed),
}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def new_client(model):
    return CLIENTS[model][0](model, "k", URL, prepared=False)


def own(history, client):
    """Say that the kept parts of a history came from the client's model."""
    return [
        {**message, "meta": {**message["meta"], "origin": client.origin}}
        if "origin" in message.get("meta", {})
        else message
        for message in copy.deepcopy(history)
    ]


@pytest.mark.parametrize("model", CLIENTS)
@given(data=st.data())
def test_the_bytes_are_those_of_a_request_written_whole(model, data):
    history = own(data.draw(histories(CLIENTS[model][1])), new_client(model))
    client = new_client(model)

    async def run():
        ends = data.draw(st.lists(st.integers(1, len(history)), min_size=1, max_size=5))
        for end in ends:
            messages = history[:end]
            if data.draw(st.booleans(), label="something changes"):
                number = data.draw(st.integers(0, end - 1))
                messages[number] = {**messages[number], "content": data.draw(st.sampled_from(["new", "x"]))}
            tools = TOOLS if data.draw(st.booleans(), label="tools") else None
            both = [each.request_body(messages, tools, {}, True) for each in (client, new_client(model))]
            assert encode_body(both[0]) == encode_body(both[1])

    asyncio.run(run())


@pytest.mark.parametrize("model", CLIENTS)
def test_a_message_that_is_changed_in_place_is_written_anew(model):
    part = {"type": "text", "text": "first"}
    messages = [{"role": "user", "content": [part]}, {"role": "assistant", "content": "Yes."}]
    client = new_client(model)

    async def run():
        assert b'"first"' in encode_body(client.request_body(messages, None, {}, True))
        part["text"] = "second"
        body = encode_body(client.request_body(messages, None, {}, True))
        assert b'"second"' in body
        assert b'"first"' not in body

    asyncio.run(run())


@pytest.mark.parametrize("model", CLIENTS)
def test_output_is_kept_as_long_as_its_task(model):
    client = new_client(model)

    async def ask():
        client.request_body([{"role": "user", "content": "Hi"}], None, {}, True)
        assert len(client._histories._by_task) == 1

    asyncio.run(ask())
    gc.collect()
    assert len(client._histories._by_task) == 0


def test_bound_thinking_is_written_for_the_tools_and_the_prompt_of_each_request():
    model = "claude-fable-5-2"
    client = new_client(model)
    other = [{"type": "function", "function": {"name": "g", "parameters": {"type": "object"}}}]

    async def run():
        start = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
        after = client._write(start, TOOLS, {}, stream=True).kept[PREFIX]
        history = [*own([*start, thoughtful(after=after)], client), {"role": "user", "content": "r"}]
        requests = [(history, TOOLS), (history, other), (history, TOOLS)]
        requests.append(([{"role": "system", "content": "t"}, *history[1:]], TOOLS))
        seen = []
        for messages, tools in requests:
            body = client.request_body(messages, tools, {}, True)
            assert encode_body(body) == encode_body(new_client(model).request_body(messages, tools, {}, True))
            seen.append(body["messages"][1]["content"][0]["type"])
        assert seen == ["thinking", "text", "thinking", "text"]

    asyncio.run(run())
