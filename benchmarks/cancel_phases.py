"""Measure how fast a cancelled run returns, in eight phases, and what it leaves behind.

    python -m benchmarks.cancel_phases --repetitions 50

Each run talks to a real HTTP server on loopback, is brought into one phase, and is then cancelled through
its token. The measured time is the caller's wait: from ``cancel()`` to the result. Afterwards the history is
checked as
strict servers do, the state is converted to JSON and back, and tasks, child processes and threads are
counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pure_agent_loop import Agent, CancelToken, PermissionRules, QueryState, RetryConfig, tool
from pure_agent_loop.testing import (
    Gate,
    ScriptedServer,
    Signal,
    Silence,
    answer,
    call,
    check_history,
    deltas,
    status,
)

GIVE_UP_SECONDS = 20.0


@dataclass
class Scene:
    """A run on its way into a phase.

    Args:
        script: The server's script.
        reached: Set when the run is in the phase.
        tools: Its tools.
        options: Further arguments of the agent.
        after: Releases threads that still block.
    """

    script: list[Any]
    reached: Signal
    tools: list[Any] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    after: Callable[[], None] = lambda: None


def before_the_first_byte() -> Scene:
    """The server has not answered yet."""
    gate = Gate()
    return Scene([Silence(gate)], gate.reached, after=gate.open)


def in_the_stream() -> Scene:
    """The model is in the middle of its answer."""
    gate = Gate()
    return Scene([deltas("Once upon ", gate, "a time")], gate.reached, after=gate.open)


def in_an_async_tool() -> Scene:
    """A tool awaits."""
    reached = Signal("the tool")

    @tool
    async def wait() -> str:
        """Wait."""
        reached.set()
        await asyncio.Event().wait()
        return "never"

    return Scene([call("wait")], reached, [wait])


def in_a_sync_tool() -> Scene:
    """A tool blocks a thread."""
    reached, let_go = Signal("the tool"), Signal("the end of the tool")

    @tool
    def wait() -> str:
        """Wait."""
        reached.set()
        let_go.wait()
        return "too late"

    return Scene([call("wait")], reached, [wait], after=let_go.set)


def in_parallel_tools() -> Scene:
    """One is done, one runs a child process, one blocks a thread."""
    reached, let_go, begun = Signal("the tools"), Signal("the end"), []

    def arrive() -> None:
        begun.append(1)
        if len(begun) == 3:
            reached.set()

    @tool
    async def done() -> str:
        """Be done."""
        arrive()
        return "done"

    @tool
    async def child() -> str:
        """Run a program."""
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(60)")
        arrive()
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return "ended"

    @tool
    def block() -> str:
        """Block."""
        arrive()
        let_go.wait()
        return "too late"

    return Scene(
        [[call("done"), call("child"), call("block")]], reached, [done, child, block], after=let_go.set
    )


def in_a_retry_wait() -> Scene:
    """The server was overloaded; the next attempt is a minute away."""
    reached = Signal("the retry")

    options = {"retry": RetryConfig(base_delay=60, max_delay=60, jitter=0)}
    scene = Scene([status(503, "busy")], reached, options=options)
    scene.options["on_event"] = lambda event: event.type.value == "retry" and reached.set()
    return scene


def at_a_question() -> Scene:
    """A person is asked about a call."""
    reached = Signal("the question")

    @tool
    def write() -> str:
        """Write."""
        return "written"

    async def ask(_: object) -> str:
        reached.set()
        await asyncio.Event().wait()
        return "allow"

    options = {"on_ask": ask, "permission_rules": PermissionRules(ask=["write"])}
    return Scene([call("write")], reached, [write], options)


def at_a_slow_reader() -> Scene:
    """The model writes faster than the consumer reads, so the loop waits for the consumer."""
    reached = Signal("the reader")
    scene = Scene([answer("word " * 400)], reached)
    scene.options["slow_reader"] = True
    return scene


PHASES: dict[str, Callable[[], Scene]] = {
    each.__name__.replace("_", " "): each
    for each in (
        before_the_first_byte,
        in_the_stream,
        in_an_async_tool,
        in_a_sync_tool,
        in_parallel_tools,
        in_a_retry_wait,
        at_a_question,
        at_a_slow_reader,
    )
}


@dataclass
class Outcome:
    """The results of the repetitions of one phase.

    Args:
        seconds: From the cancellation to the result, of each.
        valid: Runs with a valid history, the right stop reason and a state that survives JSON.
        tasks: Tasks left on the event loop, of all runs together.
        processes: Child processes left.
    """

    seconds: list[float] = field(default_factory=list)
    valid: int = 0
    tasks: int = 0
    processes: int = 0


async def cancel_once(scene: Scene, outcome: Outcome) -> None:
    """Bring one run into its phase, cancel it, and count what is left."""
    options = dict(scene.options)
    on_event, slow = options.pop("on_event", None), options.pop("slow_reader", False)
    before = asyncio.all_tasks()
    token = CancelToken()
    with ScriptedServer(scene.script, strict=False) as server:
        async with Agent("m", "k", server.base_url, tools=scene.tools, **options) as agent:
            run = agent.prepare("go", cancel_token=token)
            events = run.stream()

            async def read() -> None:
                async for event in events:
                    if on_event is not None:
                        on_event(event)
                    if slow and event.type.value == "text_delta":
                        scene.reached.set()
                        await until(lambda: token.is_cancelled)

            reader = asyncio.create_task(read())
            await scene.reached.wait_async(GIVE_UP_SECONDS)
            begun = time.perf_counter()
            token.cancel("measured")
            await asyncio.wait_for(reader, GIVE_UP_SECONDS)
            outcome.seconds.append(time.perf_counter() - begun)
            result = run.result()
        scene.after()
    outcome.tasks += len(asyncio.all_tasks() - before)
    outcome.processes += len(children())
    state = QueryState.from_dict(json.loads(json.dumps(result.state.to_dict(), allow_nan=False)))
    is_valid = result.stop_reason == "cancelled" and check_history(result.messages) == []
    outcome.valid += is_valid and state == result.state


async def until(condition: Callable[[], bool]) -> None:
    """Yield to other tasks until a condition holds."""
    while not condition():
        await asyncio.sleep(0)


def children() -> set[str]:
    """Process ids of the children of this process; Linux only, empty elsewhere."""
    path = Path("/proc/self/task")
    found = [each / "children" for each in path.iterdir()] if path.is_dir() else []
    return {pid for each in found if each.exists() for pid in each.read_text().split()}


def workers() -> list[str]:
    """Threads that are not daemons, which would keep a program from ending."""
    return [
        each.name for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()
    ]


def percentile(values: list[float], share: float) -> float:
    """Return a percentile by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def measure(repetitions: int, tell: Callable[[str], Awaitable[None] | None]) -> dict[str, Outcome]:
    """Run all phases, one run after another."""
    outcomes = {name: Outcome() for name in PHASES}
    for name, build in PHASES.items():
        for _ in range(repetitions):
            await cancel_once(build(), outcomes[name])
        tell(name)
    return outcomes


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=50)
    options = parser.parse_args()
    outcomes = asyncio.run(measure(options.repetitions, lambda name: print(f"{name} ...", file=sys.stderr)))
    heads = ("p50 ms", "p95 ms", "max ms")
    columns = " ".join(f"{head:>7}" for head in heads)
    print(f"{'phase':24} {'runs':>5} {'valid':>6} {columns} {'tasks':>6} {'processes':>10}")
    for name, each in outcomes.items():
        ms = [1000 * s for s in each.seconds]
        row = f"{name:24} {len(ms):5} {each.valid:6} {statistics.median(ms):7.1f} {percentile(ms, 0.95):7.1f}"
        print(f"{row} {max(ms):7.1f} {each.tasks:6} {each.processes:10}")
    runs = [1000 * s for each in outcomes.values() for s in each.seconds]
    valid = sum(each.valid for each in outcomes.values())
    print(f"all: {valid} of {len(runs)} valid, p95 {percentile(runs, 0.95):.1f} ms; ", end="")
    print(f"threads that would keep the program from ending: {workers() or 'none'}")
    sys.exit(0 if valid == len(runs) else 1)


if __name__ == "__main__":
    main()
