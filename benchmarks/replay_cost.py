"""What a replay costs, for each step of a session with one tool call a step.

    python -m benchmarks.replay_cost [--steps 200] [--bytes 500] [--runs 5]

``reading`` is what the journal takes to hand out what is recorded: three effects a step (an answer, a
decision, a tool result). ``loop`` is the whole replay: the loop driven again, and compared at checkpoints.
``file`` is reading the session's file before that. In the end the history has about two messages for each
step of all runs.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pure_agent_loop import Agent, LoopLimits, tool
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.sessions import JsonlStore, Record
from pure_agent_loop.sessions.replay import ReplayJournal, Window, replay_session
from pure_agent_loop.sessions.transcript import EFFECTS
from pure_agent_loop.testing import ScriptedLLM, call

REPEAT = 7


def record(folder: Path, runs: int, steps: int, size: int) -> JsonlStore:
    """Return a session with these runs and steps."""

    @tool(polls=True)
    def look(number: int) -> str:
        """Look at something."""
        return f"{number} " + "x" * size

    store = JsonlStore(folder)
    limits = LoopLimits(max_steps=None, max_tokens=None, doom_loop_threshold=None)
    for _ in range(runs):
        script: list[Any] = [call("look", number=number) for number in range(steps - 1)]
        agent = Agent(
            llm=ScriptedLLM([*script, "Done."]),
            tools=[look],
            sessions=store,
            limits=limits,
            can_use_tool=lambda *_: "allow",
        )
        agent.run("Look at everything.", session_id="s")
    return store


def read_effects(records: list[Record]) -> None:
    """Ask for every recorded effect once, as the loop would."""

    async def nothing() -> None:
        raise AssertionError

    async def ask() -> None:
        effects = {r.data["key"]: (r.type, r.data["value"]) for r in records if r.type in EFFECTS}
        keys = list(effects)
        journal = ReplayJournal(1, iter([Window(effects)]), QueryState())
        for key in keys:
            await journal.effect(key, nothing)

    asyncio.run(ask())


def measure(what: Callable[[], object], steps: int) -> str:
    """Return the milliseconds per step: the minimum and the median of several repetitions."""
    taken = []
    for _ in range(REPEAT):
        begun = time.perf_counter()
        what()
        taken.append((time.perf_counter() - begun) * 1000 / steps)
    return f"{min(taken):8.4f} {statistics.median(taken):8.4f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What a replay costs.")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--bytes", type=int, default=500)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = record(Path(folder), given.runs, given.steps, given.bytes)
        records = store.read("s").records
        report = replay_session(records)
        assert report.difference is None, str(report)
        steps = given.runs * given.steps
        assert report.steps == steps
        print(f"{given.runs} runs of {given.steps} steps, {len(records)} records; milliseconds a step")
        print("            least   median")
        one_run = records[: len(records) // given.runs]
        print(f"reading  {measure(lambda: read_effects(one_run), given.steps)}")
        print(f"loop     {measure(lambda: replay_session(records), steps)}")
        print(f"file     {measure(lambda: store.read('s'), steps)}")


if __name__ == "__main__":
    main()
