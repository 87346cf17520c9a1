"""Work that can be cut off anywhere: a model that looks only at the history, tools that leave marks."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from pure_agent_loop import tool
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.testing import call

ROUNDS: list[list[tuple[str, int]]] = [
    [("put", 1)],
    [("put", 2), ("put", 3), ("look", 4)],
    [("again", 5), ("put", 6)],
    [("put", 7), ("look", 8)],
    [("put", 9), ("put", 10), ("again", 11)],
]
CALLS = [each for one in ROUNDS for each in one]
TASK = "Task: put everything in its place."
DONE = "Done after 5 rounds."
UNKNOWN = ENGLISH.tool_interrupted


def next_answer(messages: Sequence[dict[str, Any]]) -> Any:
    """What the model says, whatever the history is."""
    starts = [at for at, each in enumerate(messages) if str(each.get("content")).startswith("Task:")]
    rounds = sum(1 for each in messages[starts[-1] :] if each.get("tool_calls"))
    if rounds < len(ROUNDS):
        return [call(name, n=number) for name, number in ROUNDS[rounds]]
    return "Checked." if messages[-1].get("content") == "Check it." else DONE


def make_tools(mark: Callable[[str], None], seconds: float = 0.0) -> list[Any]:
    """Three tools, of which only one may be repeated. Each marks its beginning and its end."""

    def work(name: str, n: int) -> str:
        mark(f"start {name} {n}\n")
        time.sleep(seconds)
        mark(f"end {name} {n}\n")  # it has taken effect, and nobody knows yet
        time.sleep(seconds)
        return f"{name} {n} is done"

    @tool
    def put(n: int) -> str:
        """Put a thing in its place."""
        return work("put", n)

    @tool(read_only=True)
    def look(n: int) -> str:
        """Look at a thing."""
        return work("look", n)

    @tool(idempotent=True)
    def again(n: int) -> str:
        """Do what can be repeated."""
        return work("again", n)

    return [put, look, again]


def file_mark(path: str) -> Callable[[str], None]:
    """Marks that survive a kill: each is one write at the end of a file."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return lambda text: (os.write(handle, text.encode()), None)[1]


def told(messages: Sequence[dict[str, Any]]) -> dict[tuple[str, int], str]:
    """What the model was told about each call."""
    texts = {each["tool_call_id"]: each["content"] for each in messages if each["role"] == "tool"}
    calls = [one for each in messages for one in each.get("tool_calls") or ()]
    return {
        (one["function"]["name"], json.loads(one["function"]["arguments"])["n"]): texts[one["id"]]
        for one in calls
    }
