"""Work that a kill can interrupt anywhere: a model that reads only the history, and tools that leave marks.

The checks compare the marks of all processes with the results that the model received.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.hooks import Hooks
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.permissions import PermissionRequest, Verdict
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.testing.llm import ScriptedLLM
from pure_agent_loop.testing.script import call
from pure_agent_loop.tool import Tool, tool

Call = tuple[str, int]
KILL: Any = getattr(signal, "SIGKILL", signal.SIGTERM)  # SIGTERM on Windows, which has no SIGKILL

ROUNDS: list[list[Call]] = [
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


def next_answer(messages: Sequence[Mapping[str, Any]], rounds: Sequence[Sequence[Call]] = ROUNDS) -> Any:
    """Return the model's answer to a history: the calls of the next round, then `DONE`."""
    starts = [at for at, each in enumerate(messages) if str(each.get("content")).startswith("Task:")]
    count = sum(1 for each in messages[starts[-1] :] if each.get("tool_calls"))
    if count < len(rounds):
        return [call(name, n=number) for name, number in rounds[count]]
    return "Checked." if messages[-1].get("content") == "Check it." else DONE


def make_tools(mark: Callable[[str], None], seconds: float = 0.0) -> list[Tool]:
    """Return three tools; only calls of `again` may be repeated.

    Args:
        mark: Called with a line at the beginning and at the end of each call.
        seconds: Seconds that a call takes before its end is marked, and again afterwards.
    """

    def work(name: str, n: int) -> str:
        mark(f"start {name} {n}\n")
        time.sleep(seconds)
        mark(f"end {name} {n}\n")  # the call has taken effect, but is not recorded yet
        time.sleep(seconds)
        return f"{name} {n} is done"

    @tool
    def put(n: int) -> str:
        """Change something; not repeatable."""
        return work("put", n)

    @tool(read_only=True)
    def look(n: int) -> str:
        """Read something."""
        return work("look", n)

    @tool(idempotent=True)
    def again(n: int) -> str:
        """Change something; repeatable."""
        return work("again", n)

    return [put, look, again]


def file_mark(path: str) -> Callable[[str], None]:
    """Return a function that appends each mark to a file in one write, so that the marks survive a kill."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return lambda text: (os.write(handle, text.encode()), None)[1]


def told(messages: Iterable[Message | Mapping[str, Any]]) -> dict[Call, str]:
    """Return the result of each call in a history, in call order."""
    plain: list[Any] = list(messages)
    texts = {each["tool_call_id"]: each["content"] for each in plain if each["role"] == "tool"}
    calls = [one for each in plain for one in each.get("tool_calls") or ()]
    return {
        (one["function"]["name"], json.loads(one["function"]["arguments"])["n"]): texts[one["id"]]
        for one in calls
    }


def check_calls(results: Mapping[Call, str], marks: Iterable[str]) -> tuple[Counter[str], list[str]]:
    """Compare the results of calls with the marks that their tools left.

    Args:
        results: The result of each call, as returned by `told`.
        marks: Lines of all processes.

    Returns: counts of the findings, and one sentence per call that was lost or made twice.
    """
    counts, made, wrong = Counter[str](), Counter(marks), list[str]()
    for (name, number), text in results.items():
        starts, ends = made[f"start {name} {number}"], made[f"end {name} {number}"]
        is_done = text == f"{name} {number} is done"
        if name == "again":
            counts["reruns"] += starts - 1
            is_right = is_done and ends >= 1
        elif is_done:
            is_right = starts == ends == 1
        else:
            counts["ambiguous"] += 1
            counts["with an effect"] += ends
            is_right = UNKNOWN in text and starts <= 1
        if not is_right:
            wrong.append(f"{name} {number}: {starts} starts, {ends} ends; {text!r}")
    return counts, wrong


class WorkVersion:
    """Version of an agent's code: its calls, and the person who may be available to allow them.

    Args:
        rounds: Calls in each of the model's responses.
        is_new: True for changed code: another prompt, an additional tool, and a hook.
        person: True if a person is available to approve calls, False if nobody is; None if calls need no
            approval.
    """

    def __init__(
        self,
        rounds: Sequence[Sequence[Call]] = ROUNDS,
        *,
        is_new: bool = False,
        person: bool | None = None,
    ) -> None:
        self._rounds, self._is_new, self._person = rounds, is_new, person

    def agent(self, mark: Callable[[str], None]) -> Agent:
        """Return the agent; its tools and the person leave marks."""

        def allow(request: PermissionRequest) -> Verdict:
            mark(f"asked {request.call_id}\n")
            return "allow"

        tools = make_tools(mark)
        if self._is_new:
            tools = [Tool(_rest, name="rest", description="Rest."), *tools]
        return Agent(
            llm=ScriptedLLM(lambda messages, *_: next_answer(messages, self._rounds)),
            tools=tools,
            system_prompt="Work better." if self._is_new else "Work.",
            hooks=Hooks(before_tool=[_look_on] if self._is_new else []),
            permission_mode="bypass" if self._person is None else "ask",
            on_ask=allow if self._person else None,
            limits=LoopLimits(max_steps=None, max_tokens=None, timeout=None),
        )


def _rest() -> str:
    return "rested"


def _look_on(tool: str, args: dict[str, Any], context: Any) -> None:
    """Hook that changes nothing."""
