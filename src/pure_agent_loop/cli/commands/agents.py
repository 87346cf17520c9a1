"""The command ``agents``: list and stop subagent tasks."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from pure_agent_loop.cli.arguments import DEFAULT_LISTED, add_actions, add_json, describe
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.output import CommandOutput, counted
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import in_user_language, notice
from pure_agent_loop.support.terminal import one_line, one_row, safe_text

if TYPE_CHECKING:
    from pure_agent_loop.subagents import TaskRecord, TaskStore

_EPILOG = """\
Tasks in runs without a session are neither recorded nor listed.
Exit codes: 0 done, 1 the task did not stop in time, 2 wrong usage or no such task.

examples:
  pal agents list
  pal agents show explore-3f2a91
  pal agents kill explore-3f2a91
"""


def add_agents(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe(
        parser,
        "List and stop the subagent tasks on this machine.",
        _EPILOG,
    )
    actions = add_actions(parser)
    listing = actions.add_parser("list", help="list tasks, newest first")
    listing.add_argument("--session", metavar="ID", help="only tasks in this session")
    add_json(listing)
    for name, summary in (("show", "show all details of a task"), ("kill", "stop a task in any process")):
        action = actions.add_parser(name, help=summary)
        action.add_argument("id", metavar="ID", help="task ID")
        add_json(action)


def agents(options: argparse.Namespace, output: CommandOutput) -> int:
    """Run the action and return the exit code."""
    from pure_agent_loop.subagents import TaskStore

    return {"list": _list, "show": _show, "kill": _kill}[options.action](options, TaskStore(), output)


def _list(options: argparse.Namespace, store: TaskStore, output: CommandOutput) -> int:
    records = store.list(options.session)
    if options.json:
        output.json({"tasks": [record.to_dict() for record in records]})
        return DONE
    output.lines("".join(_row(record, output.width) for record in records[:DEFAULT_LISTED]))
    if len(records) > DEFAULT_LISTED:
        output.info(notice("cli.more_agents", number=len(records) - DEFAULT_LISTED))
    if not records:
        output.info(notice("cli.no_agents"))
    return DONE


def _row(record: TaskRecord, width: int) -> str:
    from pure_agent_loop.sessions.export import moment

    what = f"{record.id:<24}  {moment(record.created)}  {record.state:<18}"
    used = "  ".join(map(in_user_language, (counted(record.calls, "call"), counted(record.tokens, "token"))))
    return f"{what}  {used}\n    {one_row(record.prompt, width - 4)}\n"


def _show(options: argparse.Namespace, store: TaskStore, output: CommandOutput) -> int:
    record = _existing(options.id, store)
    if options.json:
        output.json({"task": record.to_dict()})
        return DONE
    times = {name: _moment(getattr(record, name)) for name in ("created", "started", "ended")}
    fields = {**record.to_dict(), **times, "last_activity": _moment(record.last_activity)}
    answer = store.output(record.id) or str(fields.pop("result"))
    fields.pop("result", None)
    lines = [f"{name:<14} {one_line(str(value), 400)}\n" for name, value in fields.items() if value]
    output.lines("".join(lines) + (f"\n{safe_text(answer)}\n" if answer else ""))
    return DONE


def _kill(options: argparse.Namespace, store: TaskStore, output: CommandOutput) -> int:
    before = _existing(options.id, store)
    record = store.kill(options.id)
    if options.json:
        output.json({"task": record.to_dict()})
    elif before.is_over:
        output.info(notice("cli.already_ended", id=record.id, state=record.state))
    elif record.is_over:
        output.info(notice("cli.agent_ended", id=record.id, state=record.state))
    if not record.is_over:
        output.fail(notice("cli.not_stopped", id=record.id, state=record.state))
    return DONE if record.is_over else FAILED


def _existing(task_id: str, store: TaskStore) -> TaskRecord:
    from pure_agent_loop.subagents import TaskNotFoundError

    try:
        return store.get(task_id)
    except TaskNotFoundError as error:
        raise ConfigError(notice("cli.see_agents", error=error)) from error


def _moment(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds)) if seconds else ""
    except (ValueError, OverflowError, OSError):
        return "?"
