"""Agents of the workers that tests start; the environment says which server and which file of marks."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

from pure_agent_loop import Agent, LoopLimits, Price, tool
from pure_agent_loop.llm.openai_client import OpenAIClient

LIMITS = LoopLimits(max_cost_per_day_by={"tenant": 0.2}, prices={"*": Price(10_000, 10_000)})
MARKS, GATE = "PAL_TEST_MARKS", "PAL_TEST_GATE"


def mark(text: str) -> None:
    """One write at the end of the file, which survives a kill."""
    handle = os.open(os.environ[MARKS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, f"{text}\n".encode())
    os.close(handle)


@tool
def put(n: int) -> str:
    """Put a thing in its place."""
    mark(f"start {n}")
    mark(f"end {n}")
    return f"{n} is put"


@tool
def wait(n: int) -> str:
    """Wait until the test opens the gate."""
    mark(f"start {n}")
    while not Path(os.environ[GATE]).exists():
        time.sleep(0.01)
    mark(f"end {n}")
    return f"{n} has waited"


@tool
def freeze(n: int) -> str:
    """Wait for ever in C, with the interpreter's lock: no other thread of the process can run."""
    mark(f"start {n}")
    ctypes.PyDLL(None).pause()
    return "awake"


@tool(external=True)
def far(n: int) -> str:
    """Done by somebody else."""
    raise AssertionError(n)


@tool
def odd(n: int) -> object:
    """Give back what has no JSON form."""
    return {object(), float("nan")} if n else threading_lock()


def threading_lock() -> object:
    import threading

    return threading.Lock()


def agents() -> dict[str, Agent]:
    """Four agents: one has another model, one a limit of cost, one asks before it acts."""
    url = os.environ["PAL_TEST_SERVER"]

    def client(model: str) -> OpenAIClient:
        return OpenAIClient(model, api_key="k", base_url=url)

    tools = [put, wait, odd, far, freeze]
    return {
        "worker": Agent(llm=client("scripted"), tools=tools),
        "other": Agent(llm=client("another"), tools=tools),
        "limited": Agent(llm=client("scripted"), tools=tools, limits=LIMITS),
        "careful": Agent(llm=client("scripted"), tools=tools, permission_mode="ask"),
    }
