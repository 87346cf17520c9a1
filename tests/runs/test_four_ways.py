"""`run`, `arun`, `run_stream` and `arun_stream` are one run behind four doors."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from tests.helpers import NO_WAIT, add, check_events, check_result, shape, types

from pure_agent_loop import (
    Agent,
    EventType,
    LLMError,
    LoopLimits,
    RetryConfig,
    tool,
)
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.testing import (
    Gate,
    ScriptedLLM,
    ScriptedServer,
    Signal,
    answer,
    call,
    deltas,
    raw_call,
    status,
)


async def collect(events):
    return [event async for event in events]


def without_exceptions(told):
    """Each run raises exceptions of its own; only in the process are they part of an event."""
    return [(kind, step, {k: v for k, v in data.items() if k != "exception"}) for kind, step, data in told]


def in_a_loop(function):
    """Call sync code from inside a running event loop."""

    async def main():
        return function()

    return asyncio.run(main())


def run(agent):
    return agent.run("go").events


def arun(agent):
    return asyncio.run(agent.arun("go")).events


def run_stream(agent):
    return list(agent.run_stream("go"))


def arun_stream(agent):
    return asyncio.run(collect(agent.arun_stream("go")))


WAYS = {
    "run": run,
    "arun": arun,
    "run_stream": run_stream,
    "arun_stream": arun_stream,
    "run in a loop": lambda agent: in_a_loop(lambda: run(agent)),
    "run_stream in a loop": lambda agent: in_a_loop(lambda: run_stream(agent)),
}


@tool
def fails() -> str:
    """Fail."""
    raise ValueError("no luck")


FULL_SCRIPT = [
    answer("I add.", call("add", a=1, b=2), call("fails"), call("nothing"), reasoning="Let me think"),
    LLMError("try later", kind="overloaded"),
    deltas("Half a", LLMError("cut", kind="connection")),
    [call("add", a=3, b=3), raw_call("add", "{")],
    answer("The sum is", finish_reason="length"),
    " 3.",
]
SCRIPTS = {
    "text": ["Hello there."],
    "everything": FULL_SCRIPT,
    "error": [LLMError("no such model", kind="not_found")],
    "hard limit": [*[call("add", a=n, b=n) for n in range(5)], "So far 8."],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_all_ways_give_the_same_events(name):
    seen = {}
    for way, start in WAYS.items():
        with ScriptedLLM(SCRIPTS[name], tools_may_fail=True) as llm:
            agent = Agent(
                llm=llm,
                tools=[add, fails],
                retry=NO_WAIT,
                limits=LoopLimits(max_steps=2, max_turns=5),
                emit_reasoning_events=True,
            )
            events = start(agent)
        check_events(events)
        requests = [(r.messages, r.tools, r.options) for r in llm.requests]
        seen[way] = (without_exceptions(shape(events)), requests)
    assert len(seen) == 6
    for way, found in seen.items():
        assert found == seen["run"], way


def test_a_stream_leads_to_the_same_result():
    results = []
    for streamed in (False, True):
        llm = ScriptedLLM(FULL_SCRIPT)
        prepared = Agent(llm=llm, tools=[add, fails], retry=NO_WAIT).prepare("go")
        if streamed:
            events = list(prepared.stream_sync())
            results.append(check_result(prepared.result()))
            assert events == results[-1].events
        else:
            results.append(check_result(prepared.wait_sync()))
    plain, streamed = results
    assert (plain.content, plain.steps, plain.stop_reason) == ("The sum is 3.", 4, "completed")
    assert plain.total_tokens == plain.usage == streamed.usage
    assert plain.usage.estimated  # the try that was cut off
    assert (plain.usage.prompt_tokens > 40, plain.usage.completion_tokens > 20) == (True, True)
    assert plain.messages == streamed.messages
    assert str(plain) == plain.content


@contextmanager
def served(*script):
    """A server, and an agent whose connections are given back at the end."""
    with ScriptedServer(script) as server:
        agent = Agent("m", "k", server.base_url, retry=RetryConfig(max_retries=0))
        yield server, agent
        run_sync(agent.aclose())


def test_the_first_event_comes_while_a_slow_server_still_writes():
    gate = Gate()
    with served(deltas("first ", gate, "second")) as (server, agent):
        events = agent.run_stream("go")
        seen = []
        while "text_delta" not in types(seen):
            seen.append(next(events))
        gate.reached.wait()
        assert not gate.is_open
        assert not server.requests[0].done.is_set
        assert seen[-1].content == "first "
        gate.open()
        rest = list(events)
    check_events(seen + rest)
    assert rest[-1].data["content"] == "first second"


@pytest.mark.anyio
async def test_the_first_event_comes_while_a_slow_server_still_writes_async():
    gate = Gate()
    with served(deltas("first ", gate, "second")) as (server, agent):
        events = agent.arun_stream("go")
        seen = []
        while "text_delta" not in types(seen):
            seen.append(await anext(events))
        await gate.reached.wait_async()
        assert not server.requests[0].done.is_set
        gate.open()
        seen += [event async for event in events]
        await agent.aclose()
    check_events(seen)
    assert seen[-1].data["content"] == "first second"


def test_one_agent_from_several_event_loops():
    with served("answer 0", "answer 1", "answer 2", "answer 3") as (_, agent):

        async def once():
            async with agent:
                return (await agent.arun("go")).content

        assert [asyncio.run(once()) for _ in range(3)] == ["answer 0", "answer 1", "answer 2"]
        assert agent.run("go").content == "answer 3"


@pytest.mark.parametrize("start", [run, run_stream], ids=["run", "run_stream"])
def test_a_refused_request_is_an_event_before_the_end(start):
    with served(status(401, "bad key")) as (_, agent):
        events = start(agent)
    check_events(events)
    assert types(events) == ["loop_start", "notice", "error", "loop_end"]
    assert events[-2].data["fatal"] is True
    assert events[-2].data["kind"] == "auth"


def test_sync_runs_from_several_threads_at_once():
    together = threading.Barrier(4, timeout=10)

    @tool
    def meet(name: str) -> str:
        """Wait until all runs are here."""
        together.wait()
        return name

    def one(name):
        with ScriptedLLM([call("meet", name=name), f"I am {name}"]) as llm:
            return check_result(Agent(llm=llm, tools=[meet]).run("go"))

    names = ["a", "b", "c", "d"]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(one, names))
    assert [result.content for result in results] == [f"I am {name}" for name in names]
    assert [result.messages[2]["content"] for result in results] == names


@pytest.mark.anyio
async def test_async_runs_at_once_in_one_loop():
    gates = [Gate(), Gate()]
    agents = [Agent(llm=ScriptedLLM([deltas("a", gate, "b")])) for gate in gates]
    runs = [asyncio.create_task(agent.arun("go")) for agent in agents]
    for gate in gates:
        await gate.reached.wait_async()
    for gate in reversed(gates):
        gate.open()
    assert [(await task).content for task in runs] == ["ab", "ab"]


def nested(depth, kind):
    """An agent whose tool runs an agent whose tool runs an agent ..."""
    if depth == 0:
        return Agent(llm=ScriptedLLM(["deep"]))
    inner = nested(depth - 1, kind)
    if kind(depth) == "async":

        @tool
        async def ask() -> str:
            """Ask another agent, from async code."""
            return inner.run("go").content
    else:

        @tool
        def ask() -> str:
            """Ask another agent, from sync code."""
            return "".join(e.data["content"] for e in inner.run_stream("go") if e.type is EventType.LOOP_END)

    def words(messages, tools, options):
        return messages[-1]["content"] + "er"

    return Agent(llm=ScriptedLLM([call("ask"), words]), tools=[ask], tool_timeout=20)


@pytest.mark.parametrize(
    "kind",
    [lambda _: "async", lambda _: "sync", lambda depth: "async" if depth % 2 else "sync"],
    ids=["in async tools", "in sync tools", "mixed"],
)
@pytest.mark.parametrize("start", [run, arun], ids=["run", "arun"])
def test_sync_runs_nested_in_tools_never_wait_for_themselves(kind, start):
    events = start(nested(4, kind))
    check_events(events)
    assert events[-1].data["content"] == "deeperererer"


def test_context_variables_of_the_caller_reach_sync_runs():
    user = contextvars.ContextVar("user", default="nobody")

    @tool
    def who() -> str:
        """Who is it?"""
        return user.get()

    @tool
    async def who_async() -> str:
        """Who is it?"""
        return user.get()

    user.set("ada")
    agent = Agent(llm=ScriptedLLM([[call("who"), call("who_async")], "ok"]), tools=[who, who_async])
    result = agent.run("go")
    assert [m["content"] for m in result.messages if m["role"] == "tool"] == ["ada", "ada"]


def test_a_client_that_exits_ends_its_own_run_and_no_other():
    class Exits:
        async def chat(self, messages, tools=None, **kwargs):
            raise SystemExit(3)

    prepared = Agent(llm=Exits()).prepare("go")
    with pytest.raises(SystemExit):
        prepared.wait_sync()
    check_events(prepared.events)
    assert prepared.state.stop_reason == "cancelled"
    assert Agent(llm=ScriptedLLM(["still here"])).run("go").content == "still here"


def test_a_run_that_was_prepared_starts_when_it_is_asked_to():
    llm = ScriptedLLM(["hello"])
    agent = Agent(llm=llm)
    agent.run_stream("go")
    agent.arun_stream("go")
    assert llm.requests == []
    assert agent.run("go").content == "hello"


def test_a_tool_may_signal_across_threads_while_the_reader_waits():
    seen, done = Signal("the action was read"), []

    @tool
    def wait_for_reader() -> str:
        """Return once the reader has seen that the call began."""
        seen.wait()
        return "seen"

    agent = Agent(llm=ScriptedLLM([call("wait_for_reader"), "ok"]), tools=[wait_for_reader])
    for event in agent.run_stream("go"):
        done.append(event)
        if event.type is EventType.ACTION:
            seen.set()
    check_events(done)
    assert done[-1].data["messages"][2]["content"] == "seen"
