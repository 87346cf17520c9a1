"""The embedded model as subagents of an agent that gives each task it is told to give."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from tests.helpers import E, check_result, of_type
from tests.subagents.family import notices

from pure_agent_loop import Agent, BaseLLMClient, LLMResponse, LoopLimits, ToolCall
from pure_agent_loop.local import open_local
from pure_agent_loop.local.engine import models
from pure_agent_loop.subagents import AgentDefinition, SubagentManager, TaskStore

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.local_model

ORDER = "Give the task: "


class Parent(BaseLLMClient):
    """Gives what it was told to give to the helper, in the background."""

    async def chat(self, messages, tools=None, **options):
        last = messages[-1]
        if last["role"] != "user" or not last["content"].startswith(ORDER):
            return LLMResponse("Fine.", finish_reason="stop")
        arguments = {"agent": "helper", "prompt": last["content"].removeprefix(ORDER), "background": True}
        return LLMResponse(
            None, [ToolCall(f"call_{len(messages)}", "task", arguments)], finish_reason="tool_calls"
        )


@pytest.fixture(scope="module")
def model_file():
    """The default model, pulled once by our own code and kept between runs of the tests."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pure-agent-loop-tests"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAL_HOME", str(cache))
        return models.pull_model(models.DEFAULT)


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))


async def work(model_file, *tasks, on_event=None):
    """One run that begins some tasks, by messages one after the other, and waits for them."""
    helper = AgentDefinition(
        "helper", "Answers.", "Answer in one short sentence.", tools=[], llm=open_local(str(model_file))
    )
    async with Agent(
        llm=Parent(), subagents=SubagentManager([helper]), temperature=0, limits=LoopLimits(max_turns=12)
    ) as agent:
        run = agent.prepare(ORDER + tasks[0], session_id="trip")
        for task in tasks[1:]:
            run.follow_up(ORDER + task)
        async for event in run.stream():
            if on_event is not None:
                on_event(event)
        return check_result(run.result())


def test_two_background_tasks_bring_both_results(model_file):
    result = asyncio.run(work(model_file, "What is the capital of France?", "What is the capital of Italy?"))
    calls = [event.data["args"] for event in of_type(result.events, E.ACTION)]
    assert len(calls) >= 2, calls
    told = notices(result.messages)
    assert sum("completed]" in text for text in told) >= 2, (calls, told)


def test_killed_subagent_is_reported(model_file):
    killers = []

    def kill(event):
        record = event.data["task"] if event.type is E.TASK else {"state": ""}
        if record["state"] == "backgrounded" and "Count" in record["prompt"] and not killers:
            killers.append(threading.Thread(target=TaskStore().kill, args=(record["id"],)))
            killers[0].start()

    tasks = ("Count from one to one thousand in words.", "What is the capital of Italy?")
    result = asyncio.run(work(model_file, *tasks, on_event=kill))
    killers[0].join()
    told = notices(result.messages)
    assert sum("killed]" in text for text in told) == 1, told
    assert sum("completed]" in text for text in told) >= 1, told
