"""Measure what many runs leave behind in one process, and the cost of garbage collection.

    python -m benchmarks.many_runs [--runs 20000] [--at-once 50] [--new-objects 700]

Each run has two requests and one call of a tool, on a server of this machine in a process of its own. Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from pure_agent_loop import Agent, OpenAIClient, tool

FIRST = 2_000
SERVER = """
import sys, threading
from pure_agent_loop.testing import ScriptedServer, call
def answer(request):
    return "done" if request.messages[-1]["role"] == "tool" else call("add", a=1, b=2)
with ScriptedServer(handler=answer) as server:
    print(server.base_url, flush=True)
    while sys.stdin.readline():
        server.requests.clear()
"""


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def held() -> tuple[float, int, int]:
    """MB of memory, threads, sockets of this process."""
    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    files = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    sockets = sum(str(each.readlink()).startswith("socket:") for each in files if each.exists())
    return int(status["VmRSS"].split()[0]) / 1024, threading.active_count(), sockets


class Garbage:
    """The CPU seconds of Python's garbage collection."""

    def __init__(self) -> None:
        self.seconds = self._begun = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _: object) -> None:
        now = time.process_time()
        if phase == "start":
            self._begun = now
        else:
            self.seconds += now - self._begun


async def measure(url: str, runs: int, at_once: int, tidy: object) -> None:
    """Execute all runs, and print the held resources on the way."""
    garbage, cpu = Garbage(), time.process_time()
    agent = Agent(llm=OpenAIClient("m", "k", url), tools=[add])
    begun, done = 0.0, 0
    while done < runs:
        results = await asyncio.gather(*(agent.arun("x") for _ in range(at_once)))
        assert all(result.content == "done" for result in results)
        done += at_once
        print(file=tidy, flush=True)  # type: ignore[call-overload] # the server forgets what it was asked
        if done in (FIRST, runs // 2, runs):
            memory, threads, sockets = held()
            begun = begun or memory
            tasks = len(asyncio.all_tasks()) - 1
            grown = f"{100 * (memory / begun - 1):+.1f} %"
            print(
                f"{done} runs: {memory:.1f} MB ({grown}), {tasks} tasks, {threads} threads, {sockets} sockets"
            )
    cpu = time.process_time() - cpu
    print(f"{cpu:.1f} s of CPU, {garbage.seconds / cpu:.0%} of them to look for garbage")
    await agent.llm.aclose()  # type: ignore[attr-defined] # the default client
    await asyncio.sleep(0)
    memory, threads, sockets = held()
    print(f"closed: {memory:.1f} MB, {threads} threads, {sockets} sockets")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What many runs leave behind.")
    parser.add_argument("--runs", type=int, default=20_000, metavar="N")
    parser.add_argument("--at-once", type=int, default=50, metavar="N")
    parser.add_argument("--new-objects", type=int, default=gc.get_threshold()[0], metavar="N")
    options = parser.parse_args(argv)
    gc.set_threshold(options.new_objects, *gc.get_threshold()[1:])
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        asyncio.run(measure(url, options.runs, options.at_once, server.stdin))
        assert server.stdin is not None
        server.stdin.close()


if __name__ == "__main__":
    main()
