"""A Ray cluster for tests, and a check of what happened to the calls of many runs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

from pure_agent_loop import Agent, LoopLimits, tool
from pure_agent_loop.testing import CarrierPlace, ScriptedLLM, call, carrier_agents

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "RAY_DEDUP_LOGS": "0"}
PATIENCE = 120.0
LOCAL = {
    "namespace": "pal",
    "include_dashboard": False,
    "object_store_memory": 80 * 2**20,
    "log_to_driver": False,
    "configure_logging": False,
}


@contextlib.contextmanager
def cluster():
    """A cluster of one node in a short folder: the path of a socket has at most 104 bytes."""
    import ray

    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    ray.init(address="local", num_cpus=2, _temp_dir=folder, **LOCAL)
    try:
        yield ray
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def make_agents(folder: str):
    """The agents of the contract, and one whose tool ends its process once."""

    @tool
    def leave(n: int) -> str:
        """Leave a mark, and end this process the first time."""
        with Path(folder, "effects").open("a") as effects:
            effects.write(f"leaver {n} {os.getpid()}\n")
        if n == 1:
            os._exit(3)
        return f"put {n}"

    def script(messages, tools, options):
        done = sum(message["role"] == "tool" for message in messages)
        texts = [str(message["content"]) for message in messages if message["role"] == "tool"]
        return call("leave", n=done) if done < 3 else json.dumps(texts)

    leaver = Agent(llm=ScriptedLLM(script, strict=False), tools=[leave], limits=LoopLimits(max_steps=50))
    return {**carrier_agents(folder), "leaver": leaver}


def make_agent() -> Agent:
    """An agent that answers with the id of its process, and ends it where it is asked to."""

    @tool
    def leave(marks: str) -> str:
        """Leave a mark, and end this process."""
        with Path(marks).open("a") as file:
            file.write("left\n")
        os._exit(3)

    def script(messages, tools, options):
        task = str(messages[-1]["content"])
        return (
            call("leave", marks=task.removeprefix("leave "))
            if task.startswith("leave")
            else f"pid {os.getpid()}"
        )

    return Agent(llm=ScriptedLLM(script, strict=False), tools=[leave])


@contextlib.contextmanager
def ray_place(folder: Path, url: str = "", **options):
    """An engine on a cluster that is already up."""
    from pure_agent_loop.ray import RayEngine

    url = url or f"sqlite:///{folder / 'd.sqlite'}"
    engine = RayEngine(url, agents=partial(make_agents, str(folder)), grace=5.0, **options)
    try:
        engine.start()
        yield CarrierPlace(engine, lambda: None)
    finally:
        engine.stop()
        engine.close()


class Tally:
    """Runs of one engine, and the effects that their calls had."""

    def __init__(self, engine, folder: Path) -> None:
        self.engine, self.folder, self.handles = engine, folder, []

    def submit(self, calls: int, width: int = 1):
        """Submit a run that makes calls, in a session with the name of the run."""
        run_id = f"run{len(self.handles)}"
        task = f"{run_id}: {calls} calls in rounds of {width} for put"
        self.handles.append(self.engine.submit("put", task, run_id=run_id, max_attempts=10**6))
        return self.handles[-1]

    def lines(self) -> list[str]:
        path = self.folder / "effects"
        return path.read_text().splitlines() if path.exists() else []

    def have_ended(self) -> bool:
        return all(handle.info().has_ended for handle in self.handles)

    def until(self, condition):
        give_up = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < give_up, "it has not happened"
            time.sleep(0.05)
        return found

    def check(self, calls: int) -> tuple[int, int, int, int]:
        """Wait for all runs; the numbers of doubled, lost, stranded and unknown calls or runs."""
        doubled = lost = stranded = unknown = 0
        for handle in self.handles:
            try:
                info = handle.result(timeout=PATIENCE)
            except TimeoutError:
                stranded += 1
                continue
            assert info.status == "completed", (info.status, info.error)
            results = json.loads(info.content)
            assert len(results) == calls
            effects = Counter(line.split()[1] for line in self.lines() if line.split()[0] == handle.run_id)
            doubled += sum(count > 1 for count in effects.values())
            reported = {str(n) for n, text in enumerate(results) if text != f"put {n}"}
            unknown += len(reported)
            lost += len({str(n) for n in range(calls)} - effects.keys() - reported)
        return doubled, lost, stranded, unknown
