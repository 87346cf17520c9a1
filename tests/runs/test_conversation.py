"""Conversations: each message goes on from the ones before, however they ended."""

from __future__ import annotations

import asyncio

import pytest
from tests.helpers import add, check_events, check_result, nothing_left, until

from pure_agent_loop import Agent, CancelToken, EventType, Inbox, LLMError
from pure_agent_loop.testing import Gate, ScriptedLLM, call, check_history, deltas

pytestmark = pytest.mark.anyio

TEXTS = ["My name is Ada.", "Who am I?"]


def talk(*script, **options):
    llm = ScriptedLLM(script, strict=False)
    return llm, Agent(llm=llm, tools=[add], **options).conversation()


def said(llm):
    return [m["content"] for m in llm.requests[-1].messages if m["role"] == "user"]


async def by_send(conversation, text):
    return check_result(await conversation.send(text)).content


async def by_send_sync(conversation, text):
    return check_result(conversation.send_sync(text)).content


async def by_stream(conversation, text):
    events = [event async for event in conversation.send_stream(text)]
    check_events(events)
    return events[-1].data["content"]


async def by_stream_sync(conversation, text):
    events = list(conversation.send_stream_sync(text))
    check_events(events)
    return events[-1].data["content"]


WAYS = [by_send, by_send_sync, by_stream, by_stream_sync]


@pytest.mark.parametrize("way", WAYS)
async def test_each_way_remembers(way):
    llm, conversation = talk("Hello Ada.", call("add", a=1, b=2), "You are Ada.")
    assert await way(conversation, TEXTS[0]) == "Hello Ada."
    assert await way(conversation, TEXTS[1]) == "You are Ada."
    assert said(llm) == TEXTS
    assert [m["role"] for m in conversation.messages] == [
        *("user", "assistant"),
        *("user", "assistant", "tool", "assistant"),
    ]
    assert check_history(conversation.messages) == []


async def test_reset_forgets():
    llm, conversation = talk("ok")
    await conversation.send("one")
    conversation.reset()
    assert conversation.messages == []
    await conversation.send("two")
    assert said(llm) == ["two"]


async def test_the_system_prompt_stays_the_agents():
    llm, conversation = talk("ok", system_prompt="Be brief.")
    await conversation.send("one")
    await conversation.send("two")
    assert [m["role"] for m in llm.requests[-1].messages] == ["system", "user", "assistant", "user"]


async def test_an_early_leave_keeps_a_valid_history():
    llm, conversation = talk([call("add", a=1, b=2)], deltas("half ", Gate()), "again")
    async with nothing_left():
        async for event in conversation.send_stream("one"):
            if event.type is EventType.TEXT_DELTA:
                break
        await until(lambda: conversation.messages)
    assert check_history(conversation.messages) == []
    assert conversation.messages[-1] == {"role": "assistant", "content": "half "}
    assert await by_send(conversation, "two") == "again"
    assert said(llm) == ["one", "two"]


def test_an_early_leave_from_sync_code_keeps_a_valid_history():
    _, conversation = talk(deltas("half ", Gate()), "again")
    events = conversation.send_stream_sync("one")
    for event in events:
        if event.type is EventType.TEXT_DELTA:
            break
    events.close()
    assert conversation.messages == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "half "},
    ]
    assert conversation.send_sync("two").content == "again"


async def test_a_cancelled_send_keeps_a_valid_history():
    gate = Gate()
    _, conversation = talk([call("add", a=1, b=2)], deltas("half ", gate))
    async with nothing_left():
        sending = asyncio.create_task(conversation.send("one"))
        await gate.reached.wait_async()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
    assert check_history(conversation.messages) == []
    assert [m["role"] for m in conversation.messages] == ["user", "assistant", "tool", "assistant"]


async def test_failed_send_keeps_the_partial_answer():
    llm, conversation = talk(LLMError("no", kind="auth"), "better")
    assert (await conversation.send("one")).stop_reason == "error"
    assert (await conversation.send("two")).content == "better"
    assert said(llm) == ["one", "two"]


async def test_non_text_message_changes_nothing():
    _, conversation = talk("ok")
    await conversation.send("one")
    before = list(conversation.messages)
    with pytest.raises(ValueError, match="task must be text"):
        await conversation.send(5)
    assert conversation.messages == before


async def test_an_unread_stream_changes_nothing():
    llm, conversation = talk("ok")
    conversation.send_stream_sync("never read")
    await conversation.send_stream("never read").aclose()
    assert (llm.requests, conversation.messages) == ([], [])


SEND = {
    "send": lambda it, *args, **more: asyncio.run(it.send(*args, **more)),
    "send_sync": lambda it, *args, **more: it.send_sync(*args, **more),
    "send_stream": lambda it, *args, **more: asyncio.run(all_of(it.send_stream(*args, **more))),
    "send_stream_sync": lambda it, *args, **more: list(it.send_stream_sync(*args, **more)),
}


async def all_of(stream):
    return [event async for event in stream]


@pytest.mark.parametrize("way", SEND)
def test_each_way_can_be_stopped_and_steered(way):
    llm, conversation = talk("one", "two", "three")
    token = CancelToken()
    token.cancel()
    SEND[way](conversation, "never asked", cancel_token=token)
    assert llm.requests == []
    inbox = Inbox()
    inbox.steer("by the way")
    inbox.follow_up("and then?")
    SEND[way](conversation, "first", inbox=inbox)
    assert said(llm) == ["never asked", "first", "by the way", "and then?"]
    SEND[way](conversation, "second")
    assert said(llm)[-1] == "second"


def test_a_question_leaves_a_history_that_says_so():
    _, conversation = talk(call("add", a=1, b=2), "well", permission_mode="ask")
    assert conversation.send_sync("one").stop_reason == "waiting_permission"
    assert check_history(conversation.messages) == []
    assert "waiting for a person" in conversation.messages[-1]["content"]
    assert conversation.send_sync("two").content == "well"


WITHOUT_OPTION = [
    lambda agent: agent.run("hi", sesion_id="a"),
    lambda agent: agent.run_stream("hi", sesion_id="a"),
    lambda agent: agent.conversation().send_sync("hi", session_id="a"),
    lambda agent: list(agent.conversation().send_stream_sync("hi", state=None)),
]


@pytest.mark.parametrize("start", WITHOUT_OPTION)
def test_an_option_that_there_is_not_is_refused(start):
    llm = ScriptedLLM(["never"], strict=False)
    with pytest.raises(TypeError, match=r"unexpected keyword argument '(sesion_id|session_id|state)'"):
        start(Agent(llm=llm))
    assert llm.requests == []
