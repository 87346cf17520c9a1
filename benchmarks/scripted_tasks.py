"""Tasks whose right calls are known, done by an agent over an MCP server, with and without ``kill -9``.

A scripted model makes the right calls, one a response. After a kill, the agent is resumed in a new process.
A call without a result is not repeated: the model is told that its outcome is unknown, and reads the server's
log of calls before the next one. At the end the server must have made each call once, in order.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pure_agent_loop import Agent, LoopLimits
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.mcp import MCPServer
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.support.child import script_argv
from pure_agent_loop.testing import ScriptedLLM, call

MOMENTS = ("before", "after", "later")
DONE = "Done."
SCRIPT_STEPS = 100
PATIENCE = 300.0  # seconds of one process
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "benchmarks.model_choice",
        "benchmarks.scripted_tasks",
        "pure_agent_loop.mcp.connection",
        "mcp",
        "openai",
    ]
)
_SERVER = Path(__file__).with_name("tool_server.py")

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the user and what it takes.

    Args:
        text: The message.
        calls: The right calls, in order.
        hidden: Names of tools that are not offered in this turn.
        answer: The answer after the calls.
    """

    text: str
    calls: Sequence[Call] = ()
    hidden: Sequence[str] = ()
    answer: str = DONE


@dataclass(frozen=True, slots=True)
class ScriptedTask:
    """A task of several turns.

    Args:
        id: The task.
        turns: The turns.
        module: Module of the MCP server; its ``main`` keeps the state in the task's folder.
        paths: Folders from which the server imports.
        log: Name of the server's tool that lists the calls made so far; only scripts use it.
        logged: Pattern of which the log's text has one match for each call.
        arguments: Arguments of the server, given the task's folder and the number of the turn.
        env: Variables of the server, given the task's folder.
        max_steps: Steps of a turn; a script, which makes one call a step, may take more.
    """

    id: str
    turns: Sequence[Turn]
    module: str
    paths: Sequence[Path]
    log: str
    logged: str
    arguments: Callable[[Path, int], Sequence[str]]
    env: Callable[[Path], Mapping[str, str]] = lambda _: {}
    max_steps: int = SCRIPT_STEPS

    @property
    def calls(self) -> list[Call]:
        """All right calls."""
        return [call for turn in self.turns for call in turn.calls]

    def server(self, folder: Path, turn: int, kills: str, hidden: Sequence[str]) -> MCPServer:
        """Return the server of a turn."""
        return MCPServer(
            server_argv(self, folder, turn, kills),
            name="tasks",
            prefix="",
            pinned=False,
            resources=False,
            deny=[*self.turns[turn].hidden, *hidden],
            env=self.env(folder),
        )


def server_argv(task: ScriptedTask, folder: Path, turn: int, kills: str) -> list[str]:
    """Return the command of a task's server."""
    paths = os.pathsep.join(map(str, task.paths))
    return script_argv(_SERVER, str(folder), kills, paths, task.module, *task.arguments(folder, turn))


def scripted_model(task: ScriptedTask) -> ScriptedLLM:
    """Return a model that makes the right calls, and looks into the log where an outcome is unknown."""
    return ScriptedLLM(lambda messages, *_: next_answer(task, messages))


def next_answer(task: ScriptedTask, messages: Sequence[Mapping[str, Any]]) -> Any:
    """Return the script's answer to a history: the next call of the turn, or its end."""
    starts: list[int] = []
    for at, message in enumerate(messages):  # other messages of a user are notices
        if len(starts) < len(task.turns) and message.get("content") == task.turns[len(starts)].text:
            starts.append(at)
    turn = task.turns[len(starts) - 1]
    earlier = sum(len(other.calls) for other in task.turns[: len(starts) - 1])
    names = {one["id"]: one["function"]["name"] for each in messages for one in each.get("tool_calls") or ()}
    made, is_unknown = 0, False
    for message in messages[starts[-1] :]:
        if message["role"] != "tool":
            continue
        text = str(message["content"])
        is_unknown = ENGLISH.tool_interrupted in text
        if is_unknown:
            continue
        is_log = names[message["tool_call_id"]] == task.log
        made = len(re.findall(task.logged, text)) - earlier if is_log else made + 1
    if is_unknown:
        return call(task.log)
    return call(turn.calls[made][0], **turn.calls[made][1]) if made < len(turn.calls) else turn.answer


def run_task(
    task: ScriptedTask, model: ChatModel, folder: Path, kills: str = "", **options: Any
) -> list[dict[str, Any]]:
    """Do a task, or what is left of it, and return the history.

    Args:
        task: The task.
        model: The model.
        folder: Folder of the session and of the server's state.
        kills: Calls at which the server kills this process; see `tool_server`.
        options: Further options of the agent.
    """
    store = JsonlStore(folder / "sessions")
    messages: list[dict[str, Any]] = []
    is_script = isinstance(model, ScriptedLLM)
    hidden, max_steps = ((), SCRIPT_STEPS) if is_script else ((task.log,), task.max_steps)
    records = store.read(task.id).records if store.exists(task.id) else []
    begun = sum(record.type == "run" and record.data["task"] is not None for record in records)
    for number in range(max(begun - 1, 0), len(task.turns)):
        agent = Agent(
            llm=model,
            tools=[task.server(folder, number, kills, hidden)],
            sessions=store,
            limits=LoopLimits(max_steps=max_steps, max_tokens=None, doom_loop_threshold=None),
            **options,
        )
        text = task.turns[number].text if number >= begun else None
        result = agent.run(text, session_id=task.id)
        messages = result.messages
        if result.stop_reason == "error":
            raise PureAgentLoopError(f"{task.id} ended with an error: {result.error}")
    return messages


def random_kills(task: ScriptedTask, count: int, seed: int) -> str:
    """Return random calls of a task at which its agent is killed."""
    rng = random.Random(f"{seed}:{task.id}")
    numbers = sorted(rng.sample(range(1, len(task.calls) + 1), min(count, len(task.calls))))
    return ",".join(f"{number}:{rng.choice(MOMENTS)}" for number in numbers)


@dataclass(frozen=True, slots=True)
class KilledTask:
    """A task that was killed and resumed until it was done.

    Args:
        kills: Number of kills.
        unknown: Calls whose outcome the model was told to be unknown.
        error: Output of a process that failed; empty if none did.
    """

    kills: int
    unknown: int
    error: str = ""


def run_killed(
    task: ScriptedTask, folder: Path, kills: str, work: Callable[..., Any], *arguments: Any
) -> KilledTask:
    """Do a task in processes that are killed at some calls.

    Args:
        task: The task.
        folder: Folder of the session and of the server's state.
        kills: The calls; see `tool_server`.
        work: Calls `run_task`, in a process that has all modules in memory.
        arguments: Its arguments.
    """
    done, errors = 0, folder / "errors"
    while True:
        process = _FORKS.Process(target=_logged, args=(errors, work, *arguments))
        process.start()
        process.join(PATIENCE)
        process.kill()  # too late unless it hangs
        process.join()
        if process.exitcode != -signal.SIGKILL or done == kills.count(":"):
            break
        done += 1
    store = JsonlStore(folder / "sessions")
    records = store.read(task.id).records if store.exists(task.id) else []
    written = [
        message for record in records if record.type == "messages" for message in record.data["messages"]
    ]
    unknown = sum(ENGLISH.tool_interrupted in str(message.get("content")) for message in written)
    return KilledTask(done, unknown, errors.read_text()[-800:] if process.exitcode else "")


def _logged(errors: Path, work: Callable[..., Any], *arguments: Any) -> None:
    with errors.open("w") as file, contextlib.redirect_stderr(file):
        try:
            work(*arguments)
        except BaseException as error:
            file.write(f"{type(error).__name__}: {error}\n")
            raise


def in_threads(work: Callable[[Any], Any], items: Sequence[Any], count: int) -> list[Any]:
    """Return the results of a function for each item, with some items at once."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, items))


def same_calls(task: ScriptedTask, made: Sequence[Call]) -> bool:
    """Return whether the server made each right call once, in order."""
    return json.dumps(task.calls) == json.dumps([list(one) for one in made])
