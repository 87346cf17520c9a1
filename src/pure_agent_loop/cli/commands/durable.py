"""The commands about durable runs: ``worker``, ``submit``, ``tasks``, ``cancel``, ``answer``, ``logs``."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.cli.at_work import Stopping, said
from pure_agent_loop.cli.durable_agents import load_agents
from pure_agent_loop.cli.exits import DENIED, DONE, FAILED, INTERRUPTED, code_for_stop
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.task import read_task
from pure_agent_loop.cli.which_session import at_database, to_resume
from pure_agent_loop.durable import Engine, Handle, Rate, TaskInfo
from pure_agent_loop.durable.worker import Worker
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.permissions import Permission
from pure_agent_loop.sessions.export import moment
from pure_agent_loop.support.terminal import one_line, safe_text

SCHEMA_VERSION = 1
MOST_ID = 40  # columns of an id
_EXITS = {"waiting_permission": DENIED, "cancelled": INTERRUPTED, "killed": FAILED}


def durable(options: argparse.Namespace, output: Output) -> int:
    """Do what the command line says and return the exit code.

    Args:
        options: The parsed command line.
        output: Where to write.

    Raises:
        PureAgentLoopError: It did not work.
        ResultLostError: Standard output takes nothing more.
    """
    return _ACTIONS[options.command](options, output)


def _worker(options: argparse.Namespace, output: Output) -> int:
    agents = load_agents(options.agents, output)
    engine = Engine(
        options.database,
        agents=agents,
        concurrency=options.concurrency,
        rates=dict(map(_rate, options.rate)),
        lease=options.lease,
        grace=options.grace,
    )

    def ready(worker: Worker) -> None:
        output.say(f"worker {worker.executor}")
        output.say(f"database {engine.database.shown}")
        output.say(f"agents {', '.join(_described(agents))}")
        output.say(f"queues {', '.join(sorted(set(worker.queues.values())))}; SIGTERM or Ctrl-C ends it")

    with closing(engine), said(output):
        engine.run_worker(ready, Stopping(options.grace, output).asked)
    output.say("stopped; what had not ended was handed back")
    return DONE


def _described(agents: Mapping[str, Agent]) -> list[str]:
    return [f"{name} ({getattr(agent.llm, 'model', '') or 'own client'})" for name, agent in agents.items()]


def _rate(text: str) -> tuple[str, Rate]:
    model, _, value = text.rpartition("=")
    limit, _, seconds = value.partition("/")
    try:
        return model, Rate(int(limit), float(seconds))
    except ValueError as error:
        raise ConfigError(
            f"--rate={text} is none. Write the model, how many, and in how many seconds: "
            "--rate gpt-4o-mini=60/60"
        ) from error


def _submit(options: argparse.Namespace, output: Output) -> int:
    task = read_task(options.task, output.say, command="submit")
    with closing(Engine(options.database)) as engine:
        handle = engine.submit(
            options.agent,
            task,
            run_id=options.run_id,
            priority=options.priority,
            session_id=options.session,
        )
        to_see = f"to see it: pal logs -f {handle.run_id}{at_database(options.database)}"
        if not options.wait:
            output.result(f"{handle.run_id}\n")
            output.say(to_see)
            return DONE
        try:
            output.say(f"run {handle.run_id}")
            info = handle.result()
        except KeyboardInterrupt:
            output.say(f"the run goes on; {to_see}")
            return INTERRUPTED
        shown = engine.database.shown
    code = _end(info, options.database, output)
    if code == DONE:
        output.say(f'session {info.session_id}; to go on: pal run {to_resume(info.session_id, shown)} "..."')
    return code


def _end(info: TaskInfo, database: str | None, output: Output) -> int:
    if info.content:
        output.result(f"{safe_text(info.content)}\n")
    if info.error:
        output.fail(info.error)
    for line in _questions(info, database):
        output.say(line)
    if info.status != "completed":
        output.say(
            info.status if info.stop_reason in ("", info.status) else f"{info.status} ({info.stop_reason})"
        )
    code = code_for_stop(info.stop_reason, str(info.details.get("error_kind", "")))
    return _EXITS.get(info.status, code)


def _tasks(options: argparse.Namespace, output: Output) -> int:
    with closing(Engine(options.database)) as engine:
        found = engine.tasks(options.status, options.agent, options.limit + 1)
        shown = engine.database.shown
    is_all = len(found) <= options.limit
    found = found[: options.limit]
    if options.json:
        rows = [asdict(each) for each in found]
        output.result(json.dumps({"schema_version": SCHEMA_VERSION, "tasks": rows}, allow_nan=False) + "\n")
        return DONE
    columns = min(max((len(each.run_id) for each in found), default=0), MOST_ID)
    output.result("".join(_row(each, columns, options.database, output.width) for each in found))
    if not found:
        output.say(f"there are no such runs in {shown}")
    if not is_all:
        output.say(f"there are more: pal tasks -n {2 * options.limit}{at_database(options.database)}")
    return DONE


def _row(info: TaskInfo, columns: int, database: str | None, width: int) -> str:
    lines = [
        f"{info.run_id:<{columns}}  {moment(info.updated)}  {info.status}",
        f"    {one_line(f'{info.agent}: {info.task}', width - 4)}",
        *([f"    {one_line(info.error, width - 4)}"] if info.error else []),
        *(f"    {each}" for each in _questions(info, database)),
    ]
    return "\n".join(lines) + "\n"


def _questions(info: TaskInfo, database: str | None) -> list[str]:
    return [
        f"asks: {one_line(f'{each.tool} {json.dumps(each.args)}', 60)}; "
        f"to answer: pal answer {info.run_id} {each.call_id} allow{at_database(database)}"
        for each in info.questions
    ]


def _cancel(options: argparse.Namespace, output: Output) -> int:
    with closing(Engine(options.database)) as engine:
        info = engine.handle(options.run_id).cancel()
    output.say(f"{info.run_id} is {info.status}")
    return DONE if info.status == "cancelled" else FAILED


def _answer(options: argparse.Namespace, output: Output) -> int:
    with closing(Engine(options.database)) as engine:
        handle = engine.handle(options.run_id)
        handle.answer(options.call_id, Permission(options.verdict, options.message))
        output.say(f"{options.run_id} is {handle.status()}")
    return DONE


def _logs(options: argparse.Namespace, output: Output) -> int:
    with closing(Engine(options.database)) as engine:
        handle = engine.handle(options.run_id)
        return asyncio.run(_follow(handle, options, output))


async def _follow(handle: Handle, options: argparse.Namespace, output: Output) -> int:
    async for event in handle.events(follow=options.follow):
        if options.json:
            output.result(json.dumps(event.to_dict(), allow_nan=False) + "\n")
        elif line := _line(event, output.width):
            output.result(line + "\n")
    info = handle.info()
    if not options.json:
        output.say(info.status)
        for line in _questions(info, options.database):
            output.say(line)
    return DONE


def _line(event: Event, width: int) -> str:
    words = _WORDS.get(event.type)
    if words is None:
        return ""
    data: dict[str, Any] = event.data
    when = time.strftime("%H:%M:%S", time.gmtime(event.timestamp))  # as all other times
    what = one_line(
        words.format_map({"content": event.content, **_fields(data)}), width - len("00:00:00 999 ")
    )
    return f"{when} {event.step:>3} {what}"


def _fields(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "tool": data.get("tool", ""),
        "args": json.dumps(data.get("args", {})),
        "behavior": data.get("behavior", ""),
        "reason": data.get("stop_reason", ""),
        "task": data.get("task") or "(goes on)",
    }


_WORDS = {
    EventType.LOOP_START: "# {task}",
    EventType.THOUGHT: "{content}",
    EventType.ACTION: "-> {tool} {args}",
    EventType.OBSERVATION: "<- {tool} {content}",
    EventType.PERMISSION: "?? {tool} {args} {behavior}",
    EventType.NOTICE: "-- {content}",
    EventType.SOFT_LIMIT: "-- {content}",
    EventType.RETRY: "-- trying again: {content}",
    EventType.ERROR: "!! {content}",
    EventType.LOOP_END: "= {reason}",
}
_ACTIONS = {
    "worker": _worker,
    "submit": _submit,
    "tasks": _tasks,
    "cancel": _cancel,
    "answer": _answer,
    "logs": _logs,
}
