"""Measure the memory of evaluations by their number of trials, and how often chance is called a difference.

    python -m benchmarks.trials --count 1000 100000           # peak memory, a process for each count
    python -m benchmarks.trials --count 1000 20000 --ray 2    # the trials in that many processes of Ray
    python -m benchmarks.trials --chance 20                   # the same agent with other seeds

Each trial has two requests of a model in the process, one call of a tool, and a history of about 3,000 bytes.
The report is printed, compared with itself and written as chat lines; the peak includes that. Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pure_agent_loop import Agent, BaseLLMClient, LLMResponse, TokenUsage, ToolCall
from pure_agent_loop.evaluation import Case, CaseOutcome, Contains, Dataset

ANSWER = "fine " * 400
SHARE = 0.7


def look(word: str) -> str:
    """Look up a word."""
    return word * 100


class Model(BaseLLMClient):
    """Calls the tool, then answers: right with a probability of 0.7, by the question and the seed."""

    model = "in-process"

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **options: Any
    ) -> LLMResponse:
        """Answer at once."""
        usage = TokenUsage(100, 10, 110)
        if tools and messages[-1]["role"] != "tool":
            return LLMResponse(None, [ToolCall("c", "look", {"word": "answer"})], usage)
        question = next(each["content"] for each in messages if each["role"] == "user")
        is_right = random.Random(f"{question}/{options.get('seed')}").random() < SHARE
        return LLMResponse(ANSWER if is_right else ANSWER[::-1], [], usage)


def make_agent() -> Agent:
    """Return the agent of a trial."""
    return Agent(llm=Model(), tools=[look], system_prompt="Look up, then answer.")


def dataset(cases: int) -> Dataset:
    """Return cases that expect the answer of the model."""
    return Dataset([Case(f"question {number}", "fine") for number in range(cases)], [Contains()])


def peak(process: int | str = "self") -> float:
    """Return the largest memory of a process so far, in MB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))


class Processes:
    """The peaks of the processes of Ray, looked up at each hundredth outcome."""

    def __init__(self) -> None:
        self._count, self.peak = 0, 0.0

    def note(self, _: CaseOutcome) -> None:
        """Count an outcome."""
        self._count += 1
        if self._count % 100:
            return
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended
                if (folder / "cmdline").read_bytes().startswith(b"ray::TrialActor"):
                    self.peak = max(self.peak, peak(folder.name))


def measure(count: int, cases: int, processes: int) -> None:
    """Evaluate and use the report; print the time and the peak."""
    asked, begun, actors = dataset(cases), time.perf_counter(), Processes()
    options: dict[str, Any] = {"repeats": -(-count // cases), "seed": 1}
    if processes:
        report = asked.run(make_agent, on="ray", concurrency=processes, on_outcome=actors.note, **options)
    else:
        report = asked.run(make_agent(), concurrency=4, **options)
    seconds = time.perf_counter() - begun
    report.table()
    str(report.compare(report))
    report.to_chat_jsonl(os.devnull)
    held = sum(len(str(outcome.messages)) for outcome in report.outcomes) / 1e6
    workers = f" (processes of Ray: {actors.peak:.0f} MB)" if processes else ""
    trials = f"{len(report.outcomes):,} trials in {seconds:.0f} s"
    print(f"{trials}: peak {peak():.0f} MB{workers}; their histories are {held:.0f} MB of text", flush=True)


async def chance(times: int) -> None:
    """Compare an agent with itself under other seeds; print the verdicts."""
    asked, verdicts = dataset(40), list[str]()
    former = await asked.arun(make_agent(), repeats=4, seed=0, concurrency=4)
    for number in range(1, times + 1):
        now = await asked.arun(make_agent(), repeats=4, seed=1_000 * number, concurrency=4)
        compared = now.compare(former)
        verdicts.append("worse" if compared.worse else "better" if compared.better else "chance")
        print(f"{number}: {compared.differences[0]} {verdicts[-1]}")
    print(f"the same agent {times} times: {verdicts.count('worse')} worse, {verdicts.count('better')} better")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, nargs="+", default=[1_000, 100_000], help="trials to run")
    parser.add_argument("--cases", type=int, default=100, help="cases; the rest are repeats")
    parser.add_argument("--ray", type=int, default=0, metavar="N", help="run in N processes of Ray")
    parser.add_argument("--chance", type=int, metavar="N", help="compare the same agent N times instead")
    options = parser.parse_args()
    if options.chance:
        asyncio.run(chance(options.chance))
    elif len(options.count) == 1:
        measure(options.count[0], options.cases, options.ray)
    else:
        for count in options.count:
            words = ["--count", str(count), "--cases", str(options.cases), "--ray", str(options.ray)]
            subprocess.run([sys.executable, "-m", "benchmarks.trials", *words], check=True)


if __name__ == "__main__":
    main()
