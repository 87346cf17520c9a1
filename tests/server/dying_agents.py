"""Agents whose tools and deps end their process; the environment names the model's server and a folder."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

from pure_agent_loop import Agent, RunContext, tool
from pure_agent_loop.llm.openai_client import OpenAIClient

FOLDER = Path(os.environ["PAL_TEST_FOLDER"])


@tool
def die(how: str) -> str:
    """End the process."""
    end(how)
    return "alive"


def end(how: str) -> None:
    if how == "exit":
        os._exit(3)
    if how == "killed":  # as the kernel does when memory runs out
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "hang":  # in C, with the interpreter's lock: no other thread can run
        (FOLDER / "hangs").write_text(str(os.getpid()))
        ctypes.PyDLL(None).pause()


def make_deps(context: RunContext[None]) -> str:
    """Die in one session."""
    if context.session_id == "needy":
        os._exit(4)
    return "deps"


def agents() -> dict[str, Agent]:
    client = OpenAIClient("scripted", api_key="k", base_url=os.environ["PAL_TEST_SERVER"])
    return {"helper": Agent(llm=client, tools=[die])}
