"""Messages that reach a run while it works: steering, follow-ups, notices of background work."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.helpers import E, check_result, of_type, run_kernel

from pure_agent_loop import Agent, CancelToken, ConfigError, Inbox, LLMError, LoopLimits, tool
from pure_agent_loop.inbox import Incoming
from pure_agent_loop.testing import Gate, ScriptedLLM, answer, call, deltas

pytestmark = pytest.mark.anyio


def users(request):
    return [message["content"] for message in request.messages if message["role"] == "user"]


def notices(result):
    return [
        (event.step, event.content, event.data["synthetic"]) for event in of_type(result.events, E.NOTICE)
    ]


# -- the inbox itself -------------------------------------------------------------------------------


def test_inbox_keeps_order_and_messages_not_yet_due():
    inbox = Inbox()
    inbox.steer("a")
    inbox.follow_up("b")
    inbox.put("c", synthetic=True)
    inbox.put("d", synthetic=True, when="end")
    assert inbox.take() == [Incoming("a"), Incoming("c", True)]
    assert inbox.take() == []
    inbox.steer("e")
    assert [each.text for each in inbox.take(at_end=True)] == ["b", "d", "e"]
    assert inbox.take(at_end=True) == []


@pytest.mark.parametrize("text", [None, 5, b"x", {"content": "x"}, ["x"]])
@pytest.mark.parametrize("way", ["put", "steer", "follow_up"])
def test_messages_are_text(way, text):
    inbox = Inbox()
    with pytest.raises(ConfigError, match="must be text"):
        getattr(inbox, way)(text)
    assert inbox.take(at_end=True) == []


def test_many_threads_put_and_nothing_is_lost():
    inbox, taken = Inbox(), []

    def put(name):
        for number in range(200):
            inbox.put(f"{name} {number}", when="end" if number % 2 else "step")

    threads = [threading.Thread(target=put, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        taken += inbox.take()
    taken += inbox.take(at_end=True)
    for name in "abcd":
        for odd in (0, 1):
            mine = [
                int(each.text[2:]) for each in taken if each.text[0] == name and int(each.text[2:]) % 2 == odd
            ]
            assert mine == list(range(odd, 200, 2))


# -- in runs ----------------------------------------------------------------------------------------


async def begin(script, gate, tools=(), **options):
    """A run that stands at a gate."""
    llm = ScriptedLLM(script)
    run = Agent(llm=llm, tools=tools, system_prompt="", **options).prepare("go")
    waiting = asyncio.create_task(run.wait())
    await gate.reached.wait_async()
    return run, waiting, llm


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def waits(gate):
    @tool
    async def waits() -> str:
        """Wait at the gate."""
        await gate.pass_through()
        return "waited"

    return waits


async def test_steering_during_a_tool_is_read_before_the_next_step(gate, waits):
    run, waiting, llm = await begin([call("waits"), "As you say."], gate, [waits])
    run.steer("Use metres.")
    gate.open()
    result = check_result(await waiting)
    assert users(llm.requests[1]) == ["go", "Use metres."]
    assert [message["role"] for message in llm.requests[1].messages] == ["user", "assistant", "tool", "user"]
    assert notices(result) == [(2, "Use metres.", False)]
    assert result.messages[3] == {"role": "user", "content": "Use metres."}


async def test_a_follow_up_during_a_tool_waits_until_the_agent_would_stop(gate, waits):
    script = [call("waits"), "First answer.", "Second answer."]
    run, waiting, llm = await begin(script, gate, [waits])
    run.follow_up("And now translate it.")
    gate.open()
    result = check_result(await waiting)
    assert users(llm.requests[1]) == ["go"]
    assert users(llm.requests[2]) == ["go", "And now translate it."]
    assert (result.content, result.stop_reason, result.steps) == ("Second answer.", "completed", 3)
    assert notices(result) == [(2, "And now translate it.", False)]
    assert "First answer." in [message["content"] for message in result.messages]
    assert result.state.transition_reason == "follow_up"


@pytest.mark.parametrize("way", ["steer", "follow_up"])
async def test_message_during_the_last_answer_is_kept(gate, way):
    run, waiting, llm = await begin([deltas("The answer", gate, " is 5."), "It is 6."], gate)
    getattr(run, way)("Sure?")
    gate.open()
    result = check_result(await waiting)
    assert users(llm.requests[1]) == ["go", "Sure?"]
    assert (result.content, result.steps) == ("It is 6.", 2)


async def test_steering_is_read_before_follow_ups_and_several_go_together(gate, waits):
    script = [call("waits"), "one", "two"]
    run, waiting, llm = await begin(script, gate, [waits])
    for text in ("f1", "f2"):
        run.follow_up(text)
    for text in ("s1", "s2"):
        run.steer(text)
    gate.open()
    result = check_result(await waiting)
    assert users(llm.requests[1]) == ["go", "s1", "s2"]
    assert users(llm.requests[2]) == ["go", "s1", "s2", "f1", "f2"]
    assert result.content == "two"


async def test_a_notice_of_background_work_is_marked(gate, waits):
    llm = ScriptedLLM([call("waits"), "Thanks."])
    inbox = Inbox()
    run = Agent(llm=llm, tools=[waits], system_prompt="").prepare("go", inbox=inbox)
    waiting = asyncio.create_task(run.wait())
    await gate.reached.wait_async()
    inbox.put("[Notice] The build is done.", synthetic=True)
    gate.open()
    result = check_result(await waiting)
    assert notices(result) == [(2, "[Notice] The build is done.", True)]
    kept = [message for message in result.state.messages if message.get("meta", {}).get("synthetic")]
    assert [message["content"] for message in kept] == ["[Notice] The build is done."]
    assert all("meta" not in message for message in llm.requests[1].messages)


@pytest.mark.parametrize("way", ["run", "arun", "run_stream", "arun_stream"])
async def test_an_inbox_may_be_handed_to_each_way_to_start_a_run(way):
    inbox = Inbox()
    inbox.steer("before the start")
    inbox.follow_up("at the end")
    with ScriptedLLM(["one", "two"]) as llm:
        agent = Agent(llm=llm, system_prompt="")
        started = getattr(agent, way)("go", inbox=inbox)
        if way == "arun":
            await started
        elif way == "arun_stream":
            assert [event async for event in started]
        elif way == "run_stream":
            assert list(started)
    assert users(llm.requests[0]) == ["go", "before the start"]
    assert users(llm.requests[1]) == ["go", "before the start", "at the end"]


def test_steering_from_another_thread_during_a_blocking_run(gate, waits):
    llm = ScriptedLLM([call("waits"), "ok"])
    run = Agent(llm=llm, tools=[waits], system_prompt="").prepare("go")

    def steer():
        gate.reached.wait()
        run.steer("from outside")
        gate.open()

    thread = threading.Thread(target=steer)
    thread.start()
    check_result(run.wait_sync())
    thread.join()
    assert users(llm.requests[1]) == ["go", "from outside"]


def steering_tool(inbox, text="hm", way="steer"):
    @tool
    def stir() -> str:
        """Leave a message."""
        getattr(inbox, way)(text)
        return "ok"

    return stir


@pytest.mark.parametrize(
    ("script", "limits", "reason"),
    [
        ([call("stir"), "enough"], LoopLimits(max_turns=1), "max_steps"),
        ([call("stir"), answer("x", finish_reason="content_filter")], LoopLimits(), "content_filter"),
        ([call("stir"), LLMError("gone", kind="auth")], LoopLimits(), "error"),
    ],
)
def test_a_follow_up_does_not_send_on_a_run_that_had_to_end(script, limits, reason):
    inbox = Inbox()
    with ScriptedLLM(script) as llm:
        result = run_kernel(llm, [steering_tool(inbox, way="follow_up")], inbox=inbox, limits=limits)
    assert result.stop_reason == reason
    assert [each.text for each in inbox.take(at_end=True)] == ["hm"]


async def test_cancelled_run_leaves_unread_messages_in_the_inbox(gate, waits):
    token, inbox = CancelToken(), Inbox()
    run = Agent(llm=ScriptedLLM([call("waits")]), tools=[waits]).prepare(
        "go", inbox=inbox, cancel_token=token
    )
    waiting = asyncio.create_task(run.wait())
    await gate.reached.wait_async()
    run.steer("too late")
    token.cancel()
    assert check_result(await waiting).stop_reason == "cancelled"
    assert [each.text for each in inbox.take()] == ["too late"]


def test_a_cut_off_answer_is_continued_after_the_steering():
    inbox = Inbox()

    def first(messages, tools, options):
        inbox.steer("Shorter.")
        return answer("Once ", finish_reason="length")

    with ScriptedLLM([first, "upon."]) as llm:
        result = run_kernel(llm, inbox=inbox)
    assert users(llm.requests[1])[-1] == "Shorter."
    assert result.content == "Once upon."


def test_follow_ups_are_under_the_limits_of_the_run():
    inbox = Inbox()
    for number in range(5):
        inbox.follow_up(f"more {number}")
    seen = []

    def reply(messages, tools, options):
        seen.append(messages[-1]["content"])
        inbox.follow_up("and more")
        return f"Answer {len(seen)}."

    result = run_kernel(ScriptedLLM(reply), inbox=inbox, limits=LoopLimits(max_turns=4, max_steps=None))
    assert (result.stop_reason, len(seen)) == ("max_steps", 5)
    assert seen[1:] == ["and more"] * 3 + seen[4:]  # all that are due at one end go together


def test_each_follow_up_is_a_new_answer():
    inbox = Inbox()
    inbox.follow_up("again")
    with ScriptedLLM([answer(""), "one", answer(""), "two"]) as llm:
        result = run_kernel(llm, inbox=inbox)
    assert (result.content, result.stop_reason) == ("two", "completed")
