"""The command ``schedule``: run agents on a schedule."""

from __future__ import annotations

import argparse
import shlex
from contextlib import closing
from dataclasses import asdict
from typing import Any

from pure_agent_loop.cli.arguments import add_actions, add_durable_database, add_json, describe
from pure_agent_loop.cli.database import at_database, engine_to_read
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.durable import (
    Delivery,
    Engine,
    Firing,
    Schedule,
    ScheduleInfo,
    Schedules,
    read_when,
    to_command,
    to_file,
    to_session,
)
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import in_user_language, notice, user_text
from pure_agent_loop.support.terminal import one_line, safe_text

SHOWN_RUNS = 10
_EPILOG = """\
Workers (pal worker) start the due runs. Exit codes: 0 done, 1 failed, 2 wrong usage.

examples:
  pal schedule add news --cron "0 9 * * 1-5" --tz local --agent helper --prompt "News?" --to-file news.md
  pal schedule add beat --every 30m --agent helper --prompt-file HEARTBEAT.md --to-command "mail -s Note me"
  pal schedule list
  pal schedule pause news
"""
_ON_ONE = (
    ("show", "show a schedule and its newest runs"),
    ("remove", "remove a schedule; runs already started continue"),
    ("pause", "pause a schedule until 'resume'"),
    ("resume", "resume a paused schedule"),
    ("run", "start a run now"),
)


def add_schedule(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe(parser, "Run agents on a schedule. Needs the extra [durable].", _EPILOG)
    actions = add_actions(parser)
    _add_options(_action(actions, "add", "add a schedule", named=True))
    _action(actions, "list", "list all schedules by name", named=False)
    for name, summary in _ON_ONE:
        _action(actions, name, summary, named=True)


def _action(actions: Any, name: str, summary: str, *, named: bool) -> argparse.ArgumentParser:
    description = f"{summary[0].upper()}{summary[1:]}."
    action: argparse.ArgumentParser = actions.add_parser(name, help=summary, description=description)
    if named:
        action.add_argument("name", metavar="NAME", help="name of the schedule")
    add_durable_database(action)
    add_json(action)
    return action


def _add_options(add: argparse.ArgumentParser) -> None:
    when = add.add_mutually_exclusive_group(required=True)
    when.add_argument("--cron", metavar="LINE", help="cron line with five fields: '0 9 * * 1-5'")
    when.add_argument(
        "--when", metavar="WORDS", help="time in words: 'weekdays at 18:30', 'every 15 minutes'"
    )
    when.add_argument("--every", type=_seconds, metavar="TIME", help="interval: seconds, or 10m, 2h, 1d")
    what = add.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--prompt", default="", metavar="TEXT", help="the task; {due} is replaced by the due time"
    )
    what.add_argument("--prompt-file", metavar="FILE", help="file with the task, read for each run")
    add.add_argument(
        "--attach",
        action="append",
        default=[],
        metavar="FILE",
        help="attach an image or a PDF to each run; repeatable",
    )
    where = add.add_mutually_exclusive_group()
    where.add_argument("--to-file", metavar="FILE", help="append the answer to a file")
    where.add_argument("--to-session", metavar="ID", help="deliver the answer to a session")
    where.add_argument("--to-command", metavar="COMMAND", help="pipe the answer to a command (no shell)")
    add.add_argument(
        "--agent", default="default", metavar="NAME", help="agent that runs the task (default: default)"
    )
    add.add_argument(
        "--tz", default="UTC", metavar="ZONE", help="time zone for --cron, or 'local' (default: UTC)"
    )
    add.add_argument(
        "--missed",
        choices=("skip", "once", "all"),
        default="skip",
        help="runs missed while no worker ran (default: skip)",
    )
    add.add_argument(
        "--overlap",
        choices=("skip", "queue"),
        default="skip",
        help="if the previous run has not ended (default: skip)",
    )
    add.add_argument("--session", metavar="ID", help="session to continue; 'same': one for this schedule")
    add.add_argument(
        "--timeout",
        type=_seconds,
        default=60.0,
        metavar="TIME",
        help="timeout for --to-command (default: 60)",
    )
    add.add_argument("--paused", action="store_true", help="add the schedule paused")
    add.add_argument("--replace", action="store_true", help="replace a schedule of the same name")


def _seconds(text: str) -> float:
    units = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
    try:
        number = float(text[:-1]) * units[text[-1]] if text[-1:] in units else float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(user_text("cli.interval", text=text))
    return number


def schedule(options: argparse.Namespace, output: CommandOutput) -> int:
    """Run the action and return the exit code."""
    is_new = options.action == "add"
    with closing(Engine(options.database)) if is_new else engine_to_read(options.database) as engine:
        data, text, message = _ACTIONS[options.action](options, engine.schedules, output.width)
        shown = engine.database.display_url
    if options.json:
        output.json(data)
        return DONE
    output.lines(text)
    if message or not text:
        output.info(message or notice("cli.schedule_none", database=shown))
    return DONE


_Done = tuple[dict[str, Any], str, str]  # JSON result, text result, and message for standard error


def _add(options: argparse.Namespace, schedules: Schedules, _: int) -> _Done:
    new = Schedule(
        options.name,
        options.agent,
        options.prompt,
        prompt_file=options.prompt_file,
        media=options.attach,
        **(read_when(options.when) if options.when else {"cron": options.cron, "every": options.every}),
        timezone=options.tz,
        missed=options.missed,
        deliver=_delivery(options),
        enabled=not options.paused,
        session=options.session,
        overlap=options.overlap,
    )
    return _info_of(schedules.add(new, replace=options.replace))


def _delivery(options: argparse.Namespace) -> Delivery | None:
    if options.to_file is not None:
        return to_file(options.to_file)
    if options.to_session is not None:
        return to_session(options.to_session)
    if options.to_command is None:
        return None
    try:
        argv = shlex.split(options.to_command)
    except ValueError as error:
        raise ConfigError(notice("cli.to_command", to_command=options.to_command, error=error)) from error
    return to_command(argv, options.timeout)


def _list(options: argparse.Namespace, schedules: Schedules, width: int) -> _Done:  # noqa: ARG001 - the signature of all actions
    infos = schedules.list()
    return {"schedules": list(map(_plain, infos))}, "".join(_row(info, width) for info in infos), ""


def _show(options: argparse.Namespace, schedules: Schedules, width: int) -> _Done:
    info, runs = schedules.get(options.name), schedules.runs(options.name, SHOWN_RUNS)
    fields = {**_plain(info), "every": _every(info), "next": _due(info), "deliver": info.schedule.deliver}
    del fields["last"], fields["enabled"]
    lines = [f"{name:<12} {one_line(str(value), width - 13)}\n" for name, value in fields.items() if value]
    data = {"schedule": _plain(info), "runs": [asdict(run) for run in runs]}
    return data, "".join([*lines, *(_run_row(info.schedule, run, width) for run in runs)]), ""


def _remove(options: argparse.Namespace, schedules: Schedules, _: int) -> _Done:
    schedules.remove(options.name)
    return {"removed": options.name}, "", notice("cli.schedule_removed", name=options.name)


def _pause_or_resume(options: argparse.Namespace, schedules: Schedules, _: int) -> _Done:
    change = schedules.pause if options.action == "pause" else schedules.resume
    return _info_of(change(options.name))


def _run(options: argparse.Namespace, schedules: Schedules, _: int) -> _Done:
    run_id, database = schedules.run_now(options.name), at_database(options.database)
    return (
        {"run_id": run_id},
        f"{run_id}\n",
        notice("cli.schedule_queued", run=f"{run_id}{database}"),
    )


def _info_of(info: ScheduleInfo) -> _Done:
    return (
        {"schedule": _plain(info)},
        "",
        notice("cli.schedule_state", name=info.schedule.name, state=_next(info)),
    )


def _plain(info: ScheduleInfo) -> dict[str, Any]:
    last = None if info.last is None else asdict(info.last)
    return {**info.schedule.to_dict(), "next": info.next, "last": last}


def _next(info: ScheduleInfo) -> str:
    return notice("cli.paused") if info.next is None else notice("cli.schedule_next", due=_due(info))


def _due(info: ScheduleInfo) -> str:
    return user_text("cli.paused") if info.next is None else info.schedule.shown_due(info.next)


def _every(info: ScheduleInfo) -> str:
    seconds = info.schedule.every
    if seconds is None:
        return ""
    units = ((86_400, "d"), (3_600, "h"), (60, "m"))
    return next((f"{seconds / size:g}{unit}" for size, unit in units if not seconds % size), f"{seconds:g}s")


def _row(info: ScheduleInfo, width: int) -> str:
    planned = info.schedule
    when = (
        planned.cron if planned.cron is not None else user_text("cli.schedule_every", interval=_every(info))
    )
    last = (
        ""
        if info.last is None
        else user_text("cli.schedule_last", state=info.last.state, at=planned.shown_due(info.last.changed))
    )
    what = planned.prompt or user_text("cli.schedule_file", path=planned.prompt_file)
    where = "" if planned.deliver is None else f" -> {planned.deliver}"
    head = f"{planned.name:<20}  {when:<16}  {planned.agent}"
    return f"{head}\n    {in_user_language(_next(info))}{last}\n    {one_line(f'{what}{where}', width - 4)}\n"


def _run_row(planned: Schedule, firing: Firing, width: int) -> str:
    head = f"{planned.shown_due(firing.due)}  {firing.state:<11}  {firing.run_id}"
    details = [one_line(safe_text(text), width - 4) for text in (firing.answer, firing.detail) if text]
    return "\n".join([head, *(f"    {detail}" for detail in details)]) + "\n"


_ACTIONS = {
    "add": _add,
    "list": _list,
    "show": _show,
    "remove": _remove,
    "pause": _pause_or_resume,
    "resume": _pause_or_resume,
    "run": _run,
}
