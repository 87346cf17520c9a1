"""A run can be stopped wherever it waits: one scene per await point, three ways to stop each.

Afterwards the history is valid, what was written and done is kept, and no task is left.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.helpers import add, check_events, check_result, nothing_left, start, tool_texts, until

from pure_agent_loop import CancelToken, Hooks, LLMError, PermissionRules, RetryConfig, TokenUsage, tool
from pure_agent_loop.kernel.journal import MemoryJournal
from pure_agent_loop.kernel.kit import Kit, ToolRetries
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.permissions import PermissionPolicy
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.runs.run import Run
from pure_agent_loop.support.clock import SystemClock
from pure_agent_loop.testing import Gate, ScriptedLLM, Signal, call, deltas
from pure_agent_loop.tool import ToolRegistry

pytestmark = pytest.mark.anyio


class Waiting:
    """Something that is waited for until it is cancelled."""

    def __init__(self) -> None:
        self.reached = Signal("the await point")

    async def wait(self, *_: Any) -> Any:
        self.reached.set()
        await asyncio.Event().wait()


@dataclass
class Scene:
    """A run that stands at one await point.

    Args:
        run: The run.
        reached: Set when it is there.
        texts: Results of its calls afterwards.
        content: What was written by then.
        after: Called at the end, to let go of threads.
    """

    run: Run
    reached: Signal
    texts: list[str] = field(default_factory=list)
    content: str = ""
    after: Callable[[], None] = lambda: None


TOKEN = "token"
ASKING = PermissionPolicy(rules=PermissionRules(ask=["add"]))


def run_of(llm: Any, tools: Any = (), **kit: Any) -> Run:
    settings = {"prompts": ENGLISH, "cancel_token": CancelToken(), **kit}
    return Run(start(), Kit(llm, ToolRegistry(tools), **settings))


def first_byte() -> Scene:
    waiting = Waiting()
    return Scene(run_of(ScriptedLLM([waiting.wait])), waiting.reached)


def mid_stream() -> Scene:
    gate = Gate()
    usage = Delta(usage=TokenUsage(7, 3, 10))
    llm = ScriptedLLM([call("add", a=1, b=1), deltas("Once upon ", "a time", usage, call("add", a=1), gate)])
    return Scene(run_of(llm, [add]), gate.reached, ["2"], "Once upon a time")


def retry_wait() -> Scene:
    waiting = Waiting()

    class Clock:
        def monotonic(self) -> float:
            return 0.0

        now = random = monotonic

        async def sleep(self, seconds: float) -> None:
            await waiting.wait()

    llm = ScriptedLLM([deltas("lost", LLMError("busy", kind="overloaded"))])
    return Scene(run_of(llm, clock=Clock(), retry=RetryConfig()), waiting.reached)


def permission_wait() -> Scene:
    waiting = Waiting()
    llm = ScriptedLLM([[call("add", a=1, b=1), call("add", a=2, b=2)]])
    run = run_of(llm, [add], can_use_tool=waiting.wait)
    return Scene(run, waiting.reached, [ENGLISH.tool_not_started] * 2)


def async_tool() -> Scene:
    waiting = Waiting()

    @tool
    async def wait() -> str:
        """Wait."""
        return await waiting.wait()

    return Scene(run_of(ScriptedLLM([call("wait")]), [wait]), waiting.reached, [ENGLISH.tool_cancelled])


def sync_tool() -> Scene:
    reached, let_go = Signal("the tool"), Signal("the end of the tool")

    @tool
    def wait() -> str:
        """Wait."""
        reached.set()
        let_go.wait()
        return "too late"

    run = run_of(ScriptedLLM([call("wait")]), [wait])
    return Scene(run, reached, [ENGLISH.tool_cancelled], after=let_go.set)


def parallel_tools() -> Scene:
    """One done, one failed, one refused, two running."""
    reached, ended, running = Signal("the tools"), [], []

    def arrive() -> None:
        if len(ended) == 2 and len(running) == 2:
            asyncio.get_running_loop().call_soon(reached.set)

    @tool
    async def done() -> str:
        """Be done."""
        ended.append(1)
        arrive()
        return "value"

    @tool
    async def fails() -> str:
        """Fail."""
        ended.append(1)
        arrive()
        raise ValueError("no luck")

    @tool
    async def runs() -> str:
        """Run."""
        running.append(1)
        arrive()
        await asyncio.Event().wait()
        return "never"

    calls = [call("runs"), call("done"), call("fails"), call("nothing"), call("runs")]
    run = run_of(ScriptedLLM([calls]), [done, fails, runs])
    texts = [ENGLISH.tool_cancelled, "value", "no luck", "Available tools", ENGLISH.tool_cancelled]
    return Scene(run, reached, texts)


def compaction() -> Scene:
    waiting = Waiting()

    class Slow:
        async def compact(self, state: Any) -> None:
            await waiting.wait()

    return Scene(run_of(ScriptedLLM([]), compactor=Slow()), waiting.reached)


def journal() -> Scene:
    """The value is there, but not yet written down."""
    waiting = Waiting()

    class Slow(MemoryJournal):
        async def effect(self, key: str, run: Any, about: Any = None) -> Any:
            value = await run()
            if key.startswith("2:"):
                await waiting.wait()
            return value

    llm = ScriptedLLM([call("add", a=1, b=1), "the answer"])
    return Scene(run_of(llm, [add], journal=Slow()), waiting.reached, ["2"], "the answer")


def question() -> Scene:
    waiting = Waiting()
    run = run_of(ScriptedLLM([call("add", a=1, b=1)]), [add], on_ask=waiting.wait, permissions=ASKING)
    return Scene(run, waiting.reached, [ENGLISH.tool_not_started])


def question_in_a_thread() -> Scene:
    reached, let_go = Signal("the question"), Signal("the end of the question")

    def ask(_: Any) -> str:
        reached.set()
        let_go.wait()
        return "allow"

    run = run_of(ScriptedLLM([call("add", a=1, b=1)]), [add], on_ask=ask, permissions=ASKING)
    return Scene(run, reached, [ENGLISH.tool_not_started], after=let_go.set)


def hook_before_a_tool() -> Scene:
    waiting = Waiting()
    run = run_of(ScriptedLLM([call("add", a=1, b=1)]), [add], hooks=Hooks(before_tool=[waiting.wait]))
    return Scene(run, waiting.reached, [ENGLISH.tool_not_started])


def hook_after_a_tool() -> Scene:
    """What the hook may have wanted to keep back is not shown."""
    waiting = Waiting()
    run = run_of(ScriptedLLM([call("add", a=1, b=1)]), [add], hooks=Hooks(after_tool=[waiting.wait]))
    return Scene(run, waiting.reached, [ENGLISH.tool_cancelled])


def stop_hook() -> Scene:
    waiting = Waiting()
    run = run_of(ScriptedLLM(["the answer"]), hooks=Hooks(on_stop=[waiting.wait]))
    return Scene(run, waiting.reached, content="the answer")


def wait_before_a_tool_is_tried_again() -> Scene:
    waiting = Waiting()

    class Slow(SystemClock):
        async def sleep(self, seconds: float) -> None:
            await waiting.wait()

    @tool(idempotent=True)
    def fails() -> str:
        """Fail."""
        raise ValueError("no luck")

    run = run_of(ScriptedLLM([call("fails")]), [fails], tool_retries=ToolRetries(3), clock=Slow())
    return Scene(run, waiting.reached, [ENGLISH.tool_cancelled])


SCENES = [
    question,
    question_in_a_thread,
    hook_before_a_tool,
    hook_after_a_tool,
    stop_hook,
    wait_before_a_tool_is_tried_again,
    first_byte,
    mid_stream,
    retry_wait,
    permission_wait,
    async_tool,
    sync_tool,
    parallel_tools,
    compaction,
    journal,
]
each_scene = pytest.mark.parametrize("make", SCENES, ids=lambda make: make.__name__)


def check(scene: Scene) -> None:
    result = check_result(scene.run.result())
    assert result.stop_reason == "cancelled"
    assert result.content == scene.content
    texts = tool_texts(result.messages)
    assert len(texts) == len(scene.texts)
    for text, wanted in zip(texts, scene.texts, strict=True):
        assert wanted in text


def cancel_from_a_thread(token: CancelToken) -> None:
    thread = threading.Thread(target=token.cancel, args=("enough",))
    thread.start()
    thread.join()


@each_scene
async def test_by_a_token_from_another_thread(make):
    scene = make()
    async with nothing_left():
        running = asyncio.create_task(scene.run.wait())
        await scene.reached.wait_async()
        cancel_from_a_thread(scene.run._kit.cancel_token)
        assert (await running).stop_reason == "cancelled"
    check(scene)
    scene.after()


@each_scene
async def test_by_cancelling_the_task(make):
    scene = make()
    async with nothing_left():
        running = asyncio.create_task(scene.run.wait())
        await scene.reached.wait_async()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert running.cancelled()
    check(scene)
    scene.after()


@each_scene
async def test_by_leaving_the_stream(make):
    scene = make()
    async with nothing_left():
        events = scene.run.stream()
        reading = asyncio.create_task(_read(events))
        await scene.reached.wait_async()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    check(scene)
    scene.after()


async def _read(events):
    async for _ in events:
        pass


@each_scene
async def test_by_a_token_while_the_stream_is_read(make):
    scene = make()
    async with nothing_left():
        reading = asyncio.create_task(_read(scene.run.stream()))
        await scene.reached.wait_async()
        scene.run._kit.cancel_token.cancel()
        await reading
    check(scene)
    scene.after()


@each_scene
async def test_by_both_at_once(make):
    scene = make()
    async with nothing_left():
        running = asyncio.create_task(scene.run.wait())
        await scene.reached.wait_async()
        scene.run._kit.cancel_token.cancel()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    check(scene)
    scene.after()


@each_scene
def test_by_a_token_while_sync_code_waits(make):
    scene = make()

    def watch() -> None:
        scene.reached.wait()
        scene.run._kit.cancel_token.cancel()

    thread = threading.Thread(target=watch)
    thread.start()
    assert scene.run.wait_sync().stop_reason == "cancelled"
    thread.join()
    check(scene)
    scene.after()


async def test_usage_of_a_broken_off_answer_is_kept():
    scene = mid_stream()
    running = asyncio.create_task(scene.run.wait())
    await scene.reached.wait_async()
    scene.run._kit.cancel_token.cancel()
    result = await running
    assert result.usage == TokenUsage(17, 14, 31, estimated=True)  # 8 were reported before the end
    assert result.messages[-1] == {"role": "assistant", "content": "Once upon a time"}


async def test_a_client_stream_is_closed():
    closed = Signal("closing")

    class Client:
        async def chat(self, messages, tools=None, **kwargs):
            raise AssertionError

        async def chat_stream(self, messages, tools=None, **kwargs):
            try:
                yield Delta("a")
                await asyncio.Event().wait()
            finally:
                closed.set()

    run = run_of(Client())
    running = asyncio.create_task(run.wait())
    await until(lambda: any(event.content == "a" for event in run.events))
    run._kit.cancel_token.cancel()
    assert (await running).content == "a"
    assert closed.is_set
    check_events(run.events)
