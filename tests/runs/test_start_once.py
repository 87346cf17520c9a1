"""A run is started once: a second start, in whatever way, is refused and disturbs nothing."""

from __future__ import annotations

import asyncio

import pytest
from tests.helpers import add, check_events, check_result, nothing_left

from pure_agent_loop import Agent, ConfigError, ReactLoop
from pure_agent_loop.testing import Gate, ScriptedLLM, call, deltas

SAID = "already started"


async def read(run):
    return [event async for event in run.stream()]


WAYS = {
    "wait": lambda run: asyncio.run(run.wait()),
    "wait_sync": lambda run: run.wait_sync(),
    "stream": lambda run: asyncio.run(read(run)),
    "stream_sync": lambda run: list(run.stream_sync()),
}


@pytest.mark.parametrize("second", WAYS)
@pytest.mark.parametrize("first", WAYS)
def test_a_second_start_is_refused(first, second):
    with ScriptedLLM([call("add", a=1, b=2), "3"]) as llm:
        run = Agent(llm=llm, tools=[add]).prepare("1 + 2?")
        WAYS[first](run)
        before = list(run.events)
        with pytest.raises(ConfigError, match=SAID):
            WAYS[second](run)
    assert run.events == before
    assert check_result(run.result()).content == "3"


@pytest.mark.anyio
async def test_second_start_is_rejected_while_the_first_run_continues():
    gate = Gate()
    run = Agent(llm=ScriptedLLM([deltas("half ", gate, "whole")])).prepare("go")
    async with nothing_left():
        first = asyncio.create_task(run.wait())
        await gate.reached.wait_async()
        with pytest.raises(ConfigError, match=SAID):
            await run.wait()
        with pytest.raises(ConfigError, match=SAID):
            await read(run)
        gate.open()
        assert check_result(await first).content == "half whole"


@pytest.mark.anyio
async def test_unread_stream_does_not_start_a_run():
    run = Agent(llm=ScriptedLLM(["ok"])).prepare("go")
    run.stream_sync()
    await run.stream().aclose()
    assert (await run.wait()).content == "ok"


@pytest.mark.anyio
async def test_a_run_of_the_loop_is_started_once_too():
    run = ReactLoop(ScriptedLLM(["ok"])).run("go")
    assert await run == "ok"
    with pytest.raises(ConfigError, match=SAID):
        await anext(aiter(run))
    run = ReactLoop(ScriptedLLM(["ok"])).run("go")
    check_events([event async for event in run])
    assert await run == "ok"
    gate = Gate()
    run = ReactLoop(ScriptedLLM([deltas("half ", gate, "whole")])).run("go")
    first = asyncio.ensure_future(run)
    await gate.reached.wait_async()
    with pytest.raises(ConfigError, match=r"loop.run\(task\)"):
        await run
    gate.open()
    assert await first == "half whole"
