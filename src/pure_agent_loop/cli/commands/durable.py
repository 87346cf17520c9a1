"""The commands for durable runs: ``submit``, ``tasks``, ``cancel``, ``answer``, ``logs``."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any

from pure_agent_loop.cli.arguments import (
    add_count,
    add_durable_database,
    add_json,
    describe,
)
from pure_agent_loop.cli.database import at_database, database_of, engine_to_read
from pure_agent_loop.cli.deletion import is_deletion_confirmed
from pure_agent_loop.cli.exits import DENIED, DONE, FAILED, INTERRUPTED, code_for_stop
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.task import read_task
from pure_agent_loop.cli.which_session import to_resume
from pure_agent_loop.durable import TASK_STATES, Engine, Handle, TaskInfo
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.permissions import Permission
from pure_agent_loop.sessions.export import moment
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.numbers import positive
from pure_agent_loop.support.terminal import one_line, one_row, safe_text

MAX_ID_WIDTH = 40  # columns
_EPILOG = """\
Durable runs survive when a process dies. They need the extra [durable].
Exit codes: 0 done, 1 failed or unknown run, 2 wrong usage; 'submit --wait' exits like 'pal run'.

examples:
  pal worker --agents my_agents:agents    # 'agents' in ./my_agents.py; in another terminal
  pal submit --agent helper --wait "Which files are in the docs folder?"
  pal tasks --status waiting_permission
  pal tasks show RUN_ID
  pal answer RUN_ID CALL_ID allow
  pal logs -f RUN_ID
"""
# Options shared by 'pal tasks' and its actions; a value after the action overrides one before it.
_LISTING = {"database", "status", "agent", "limit", "json"}
_WHY_VOID = {"UnknownTool": "cli.void_tool"}
_EXITS = {"waiting_permission": DENIED, "waiting_tool": DENIED, "cancelled": INTERRUPTED, "killed": FAILED}
_TEMPLATES = {
    EventType.LOOP_START: "# {task}",
    EventType.THOUGHT: "{content}",
    EventType.ACTION: "-> {tool} {args}",
    EventType.OBSERVATION: "<- {tool} {content}",
    EventType.PERMISSION: "?? {tool} {args} {behavior}",
    EventType.NOTICE: "-- {content}",
    EventType.SOFT_LIMIT: "-- {content}",
    EventType.RETRY: "-- retrying: {content}",
    EventType.ERROR: "!! {content}",
    EventType.LOOP_END: "= {reason}",
}


def describe_durable(parser: argparse.ArgumentParser) -> None:
    """Add the epilog and the database option that these commands share."""
    describe(parser, parser.description or "", _EPILOG)
    add_durable_database(parser)


def _describe_one(parser: argparse.ArgumentParser) -> None:
    describe_durable(parser)
    parser.add_argument("run_id", metavar="RUN_ID", help="run ID")


def add_submit(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe_durable(parser)
    parser.add_argument("task", nargs="*", help="the task; piped text is its context")
    parser.add_argument(
        "--agent", default="default", metavar="NAME", help="agent that runs the task (default: default)"
    )
    parser.add_argument("--id", dest="run_id", metavar="ID", help="run ID; submitting it again does nothing")
    parser.add_argument("--session", metavar="ID", help="session to continue (default: a new one)")
    parser.add_argument("--priority", type=positive, metavar="N", help="1 or more; lower numbers run first")
    parser.add_argument(
        "--max-attempts", type=positive, metavar="N", help="attempts for a run that crashes its process"
    )
    parser.add_argument("--wait", action="store_true", help="wait for the answer and print it")


def submit(options: argparse.Namespace, output: CommandOutput) -> int:
    """Submit a run, wait for it if ``--wait`` is given, and return the exit code."""
    task = read_task(options.task, output.info, command="submit")
    with closing(Engine(options.database)) as engine:
        handle = engine.submit(
            options.agent,
            task,
            run_id=options.run_id,
            priority=options.priority,
            max_attempts=options.max_attempts,
            session_id=options.session,
        )
        hint = notice("cli.durable_follow", run=f"{handle.run_id}{at_database(options.database)}")
        if not options.wait:
            output.result(f"{handle.run_id}\n")
            output.info(hint)
            return DONE
        try:
            output.info(notice("cli.durable_run", run=handle.run_id))
            info = handle.result()
        except KeyboardInterrupt:
            output.info(notice("cli.durable_continues", hint=hint))
            return INTERRUPTED
        # Without --database, the run is in a file that `pal run` does not search, so the hint names the file.
        shown = options.database if database_of(options.database) else engine.database.display_url
    code = _end(info, options.database, output)
    if code == DONE:
        output.info(
            notice(
                "cli.durable_session", session_id=info.session_id, to_resume=to_resume(info.session_id, shown)
            )
        )
    return code


def _end(info: TaskInfo, database: str | None, output: CommandOutput) -> int:
    if info.content:
        output.result(f"{safe_text(info.content)}\n")
    if info.error:
        output.fail(info.error)
    for line in _questions(info, database):
        output.info(line)
    if info.status != "completed":
        output.info(_status(info))
    code = code_for_stop(info.stop_reason, str(info.details.get("error_kind", "")))
    return _EXITS.get(info.status, code)


def add_tasks(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe_durable(parser)
    _add_listing(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="list durable runs, newest first")
    show = actions.add_parser("show", help="show a durable run: its state, answer and questions")
    show.add_argument("run_id", metavar="RUN_ID", help="run ID")
    add_json(show)
    delete = actions.add_parser("delete", help="delete durable runs with everything recorded in them")
    delete.add_argument("run_ids", nargs="+", metavar="RUN_ID", help="run ID")
    delete.add_argument("--stop", action="store_true", help="cancel runs that have not ended")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    _add_listing(listing)
    for action in (listing, show, delete):
        add_durable_database(action)
        for option in action._actions:
            if option.dest in _LISTING:
                option.default = argparse.SUPPRESS


def _add_listing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--status", choices=TASK_STATES, metavar="STATUS", help=f"one of {', '.join(TASK_STATES)}"
    )
    parser.add_argument("--agent", metavar="NAME", help="only runs of this agent")
    add_count(parser)
    add_json(parser)


def tasks(options: argparse.Namespace, output: CommandOutput) -> int:
    """List, show or delete runs, and return the exit code."""
    return {"show": _show, "delete": _delete}.get(options.action, _list)(options, output)


def _delete(options: argparse.Namespace, output: CommandOutput) -> int:
    with engine_to_read(options.database) as engine:
        run_ids = list(dict.fromkeys(engine.handle(run_id).run_id for run_id in options.run_ids))
        if not options.yes and not is_deletion_confirmed(run_ids, output):
            output.info(notice("cli.nothing_deleted"))
            return FAILED
        engine.delete(*run_ids, stop=options.stop)
    for run_id in run_ids:
        output.info(notice("cli.deleted", session_id=run_id))
    return DONE


def _show(options: argparse.Namespace, output: CommandOutput) -> int:
    with engine_to_read(options.database) as engine:
        info = engine.handle(options.run_id).info()
    if options.json:
        output.json({"task": asdict(info)})
        return DONE
    fields = {
        "run": info.run_id,
        "status": _status(info),
        "agent": info.agent,
        "session": info.session_id,
        "worker": info.worker,
        "created": moment(info.created),
        "updated": moment(info.updated),
        "attempts": info.attempts,
        "steps": info.details.get("steps"),
        "tokens": info.details.get("tokens"),
        "cost": info.details.get("cost"),
        "ahead": info.details.get("run_ahead"),
        "task": info.task,
        "error": info.error,
    }
    lines = [f"{name:<10} {one_line(str(value), 400)}\n" for name, value in fields.items() if value]
    lines += [f"{line}\n" for line in [*_void(info), *_questions(info, options.database)]]
    output.result("".join(lines) + (f"\n{safe_text(info.content)}\n" if info.content else ""))
    return DONE


def _status(info: TaskInfo) -> str:
    return info.status if info.stop_reason in ("", info.status) else f"{info.status} ({info.stop_reason})"


def _list(options: argparse.Namespace, output: CommandOutput) -> int:
    with engine_to_read(options.database) as engine:
        runs = engine.tasks(options.status, options.agent, options.limit + 1)
        shown = engine.database.display_url
    is_all = len(runs) <= options.limit
    runs = runs[: options.limit]
    if options.json:
        output.json({"tasks": [asdict(run) for run in runs]})
        return DONE
    columns = min(max((len(run.run_id) for run in runs), default=0), MAX_ID_WIDTH)
    output.lines("".join(_row(run, columns, options.database, output.width) for run in runs))
    if not runs:
        is_chosen = options.status or options.agent
        output.info(notice("cli.durable_none", shown=shown) if is_chosen else notice("cli.durable_none_yet"))
    if not is_all:
        output.info(
            notice("cli.durable_more", number=2 * options.limit, at_database=at_database(options.database))
        )
    return DONE


def _row(info: TaskInfo, columns: int, database: str | None, width: int) -> str:
    lines = [
        f"{info.run_id:<{columns}}  {moment(info.updated)}  {info.status}",
        f"    {one_row(f'{info.agent}: {info.task}', width - 4)}",
        *([f"    {one_row(info.error, width - 4)}"] if info.error else []),
        *(f"    {line}" for line in [*_void(info), *_questions(info, database)]),
    ]
    return "\n".join(lines) + "\n"


def _void(info: TaskInfo) -> list[str]:
    """Return a line for each approved call that was not made."""
    return [
        user_text(
            "cli.approval_void",
            tool=one_line(void["tool"], 60),
            why=user_text(_WHY_VOID.get(void["reason"], "cli.void_arguments")),
        )
        for void in info.details.get("void_approvals", ())
    ]


def _questions(info: TaskInfo, database: str | None) -> list[str]:
    return [
        user_text(
            "cli.durable_asks",
            call=one_line(f"{question.tool} {json.dumps(question.args)}", 60),
            answer=f"{info.run_id} {question.call_id} allow{at_database(database)}",
        )
        for question in info.questions
    ]


def add_cancel(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _describe_one(parser)


def cancel(options: argparse.Namespace, output: CommandOutput) -> int:
    """Cancel a run; return the exit code."""
    with engine_to_read(options.database) as engine:
        info = engine.handle(options.run_id).cancel()
    output.info(f"{info.run_id} is {info.status}")
    return DONE if info.status == "cancelled" else FAILED


def add_answer(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _describe_one(parser)
    parser.add_argument("call_id", metavar="CALL_ID", help="id of the call; 'pal tasks' shows it")
    parser.add_argument("verdict", choices=("allow", "deny"), help="allow or deny the call")
    parser.add_argument("--message", default="", metavar="TEXT", help="reason for the model when denied")


def answer(options: argparse.Namespace, output: CommandOutput) -> int:
    """Answer a question; return the exit code."""
    with engine_to_read(options.database) as engine:
        handle = engine.handle(options.run_id)
        handle.answer(options.call_id, Permission(options.verdict, options.message))
        output.info(f"{options.run_id} is {handle.status()}")
    return DONE


def add_logs(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _describe_one(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="follow until the run has ended")
    parser.add_argument("--json", action="store_true", help="print one JSON object per event")


def logs(options: argparse.Namespace, output: CommandOutput) -> int:
    """Show the events and return the exit code."""
    with engine_to_read(options.database) as engine:
        return asyncio.run(_follow(engine.handle(options.run_id), options, output))


async def _follow(handle: Handle, options: argparse.Namespace, output: CommandOutput) -> int:
    async for event in handle.events(follow=options.follow):
        if options.json:
            output.result(json.dumps(event.to_dict(), allow_nan=False) + "\n")
        elif line := _line(event, output.width):
            output.result(line + "\n")
    info = handle.info()
    if not options.json:
        output.info(info.status)
        for line in _questions(info, options.database):
            output.info(line)
    return DONE


def _line(event: Event, width: int) -> str:
    template = _TEMPLATES.get(event.type)
    if template is None:
        return ""
    data: Mapping[str, Any] = event.data
    fields = {
        "content": event.content,
        "tool": data.get("tool", ""),
        "args": json.dumps(data.get("args", {})),
        "behavior": data.get("behavior", ""),
        "reason": data.get("stop_reason", ""),
        "task": data.get("task") or "(resumed)",
    }
    when = time.strftime("%H:%M:%S", time.gmtime(event.timestamp))  # in UTC, like all other times
    what = one_line(template.format_map(fields), width - len("00:00:00 999 "))
    return f"{when} {event.step:>3} {what}"
