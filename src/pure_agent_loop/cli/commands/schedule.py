"""The command ``schedule``: runs of agents at set times."""

from __future__ import annotations

import argparse
import shlex
from contextlib import closing
from dataclasses import asdict
from typing import Any

from pure_agent_loop.cli.arguments import add_actions, add_durable_database, add_json, describe
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.which_session import at_database
from pure_agent_loop.durable import (
    Delivery,
    Engine,
    Firing,
    Schedule,
    ScheduleInfo,
    Schedules,
    to_command,
    to_file,
    to_session,
)
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.sessions.export import moment
from pure_agent_loop.support.terminal import one_line, safe_text

SHOWN_RUNS = 10
_EPILOG = """\
Workers run what is due (pal worker). Exit codes: 0 done, 1 failed, 2 wrong usage.

examples:
  pal schedule add news --cron "0 9 * * 1-5" --tz local --agent helper --prompt "News?" --to-file news.md
  pal schedule add beat --every 30m --agent helper --prompt-file HEARTBEAT.md --to-command "mail -s Note me"
  pal schedule list
  pal schedule pause news
"""
_ON_ONE = (
    ("show", "a schedule, and what came of its newest runs"),
    ("remove", "take a schedule away; what it has begun goes on"),
    ("pause", "run it no more until 'resume'"),
    ("resume", "run it again from now on"),
    ("run", "run it once more, now"),
)


def add_schedule(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    describe(parser, "Runs of agents at set times. They need the extra [durable].", _EPILOG)
    actions = add_actions(parser)
    _add_options(_action(actions, "add", "put a schedule in", named=True))
    _action(actions, "list", "all schedules, by name", named=False)
    for name, meaning in _ON_ONE:
        _action(actions, name, meaning, named=True)


def _action(actions: Any, name: str, meaning: str, *, named: bool) -> argparse.ArgumentParser:
    description = f"{meaning[0].upper()}{meaning[1:]}."
    action: argparse.ArgumentParser = actions.add_parser(name, help=meaning, description=description)
    if named:
        action.add_argument("name", metavar="NAME", help="the schedule")
    add_durable_database(action)
    add_json(action)
    return action


def _add_options(add: argparse.ArgumentParser) -> None:
    when = add.add_mutually_exclusive_group(required=True)
    when.add_argument("--cron", metavar="LINE", help="five parts of cron: '0 9 * * 1-5'")
    when.add_argument("--every", type=_seconds, metavar="TIME", help="seconds, or 10m, 2h, 1d")
    what = add.add_mutually_exclusive_group(required=True)
    what.add_argument("--prompt", default="", metavar="TEXT", help="what to do; {due} stands for the time")
    what.add_argument("--prompt-file", metavar="FILE", help="a file that is read for each run")
    where = add.add_mutually_exclusive_group()
    where.add_argument("--to-file", metavar="FILE", help="put the answer at the end of a file")
    where.add_argument("--to-session", metavar="ID", help="leave the answer for a session")
    where.add_argument("--to-command", metavar="COMMAND", help="give the answer to a command; no shell")
    add.add_argument("--agent", default="default", metavar="NAME", help="who does it (default: default)")
    add.add_argument("--tz", default="UTC", metavar="ZONE", help="zone of --cron, or 'local' (default: UTC)")
    add.add_argument(
        "--missed",
        choices=("skip", "once", "all"),
        default="skip",
        help="times at which no worker was up (default: skip)",
    )
    add.add_argument(
        "--overlap",
        choices=("skip", "queue"),
        default="skip",
        help="when the run before has not ended (default: skip)",
    )
    add.add_argument(
        "--session", metavar="ID", help="go on in this session each time; 'same': in one of its own"
    )
    add.add_argument(
        "--timeout", type=_seconds, default=60.0, metavar="TIME", help="of --to-command (default: 60)"
    )
    add.add_argument("--paused", action="store_true", help="do not run it until 'resume'")
    add.add_argument("--replace", action="store_true", help="take the place of one of the same name")


def _seconds(text: str) -> float:
    units = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
    try:
        number = float(text[:-1]) * units[text[-1]] if text[-1:] in units else float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 30s, 10m, 2h or 1d")
    return number


def schedule(options: argparse.Namespace, output: Output) -> int:
    """Do what the command line says and return the exit code."""
    with closing(Engine(options.database)) as engine:
        found, text, said = _ACTIONS[options.action](options, engine.schedules, output.width)
        shown = engine.database.shown
    if options.json:
        output.json(found)
        return DONE
    output.result(text)
    if said:
        output.say(said.replace("{database}", shown))
    return DONE


_Done = tuple[dict[str, Any], str, str]  # as JSON, as text, and what is said beside it


def _add(options: argparse.Namespace, schedules: Schedules, _: int) -> _Done:
    made = Schedule(
        options.name,
        options.agent,
        options.prompt,
        prompt_file=options.prompt_file,
        cron=options.cron,
        every=options.every,
        timezone=options.tz,
        missed=options.missed,
        deliver=_delivery(options),
        enabled=not options.paused,
        session=options.session,
        overlap=options.overlap,
    )
    return _info_of(schedules.add(made, replace=options.replace))


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
        raise ConfigError(f"--to-command={options.to_command!r:.200} cannot be read: {error}.") from error
    return to_command(argv, options.timeout)


def _list(options: argparse.Namespace, schedules: Schedules, width: int) -> _Done:  # noqa: ARG001 - one of several
    found = schedules.list()
    said = "" if found else "there are no schedules in {database}"
    return {"schedules": [_plain(each) for each in found]}, "".join(_row(each, width) for each in found), said


def _show(options: argparse.Namespace, schedules: Schedules, width: int) -> _Done:
    info, runs = schedules.get(options.name), schedules.runs(options.name, SHOWN_RUNS)
    fields = {**_plain(info), "every": _every(info), "next": _due(info), "deliver": info.schedule.deliver}
    del fields["last"], fields["enabled"]
    lines = [f"{name:<12} {one_line(str(value), width - 13)}\n" for name, value in fields.items() if value]
    found = {"schedule": _plain(info), "runs": [asdict(each) for each in runs]}
    return found, "".join([*lines, *(_run_row(each, width) for each in runs)]), ""


def _remove(options: argparse.Namespace, schedules: Schedules, _: int) -> _Done:
    schedules.remove(options.name)
    return {"removed": options.name}, "", f"{options.name} is removed"


def _pause(options: argparse.Namespace, schedules: Schedules, _: int) -> _Done:
    return _info_of(schedules.pause(options.name))


def _resume(options: argparse.Namespace, schedules: Schedules, _: int) -> _Done:
    return _info_of(schedules.resume(options.name))


def _run(options: argparse.Namespace, schedules: Schedules, _: int) -> _Done:
    run_id, there = schedules.run_now(options.name), at_database(options.database)
    return (
        {"run_id": run_id},
        f"{run_id}\n",
        f"a worker takes it up soon; to see it: pal logs -f {run_id}{there}",
    )


def _info_of(info: ScheduleInfo) -> _Done:
    return {"schedule": _plain(info)}, "", f"{info.schedule.name}: {_next(info)}"


def _plain(info: ScheduleInfo) -> dict[str, Any]:
    last = None if info.last is None else asdict(info.last)
    return {**info.schedule.to_dict(), "next": info.next, "last": last}


def _next(info: ScheduleInfo) -> str:
    return "paused" if info.next is None else f"next at {_due(info)}"


def _due(info: ScheduleInfo) -> str:
    return "paused" if info.next is None else info.schedule.shown_due(info.next)


def _every(info: ScheduleInfo) -> str:
    seconds = info.schedule.every
    if seconds is None:
        return ""
    units = ((86_400, "d"), (3_600, "h"), (60, "m"))
    return next((f"{seconds / size:g}{unit}" for size, unit in units if not seconds % size), f"{seconds:g}s")


def _row(info: ScheduleInfo, width: int) -> str:
    one = info.schedule
    when = one.cron if one.cron is not None else f"every {_every(info)}"
    last = "" if info.last is None else f"; last {info.last.state} {moment(info.last.changed)} UTC"
    what = one.prompt or f"file {one.prompt_file}"
    where = "" if one.deliver is None else f" -> {one.deliver}"
    head = f"{one.name:<20}  {when:<16}  {one.agent}"
    return f"{head}\n    {_next(info)}{last}\n    {one_line(f'{what}{where}', width - 4)}\n"


def _run_row(firing: Firing, width: int) -> str:
    head = f"{moment(firing.due)}  {firing.state:<11}  {firing.run_id}"
    words = [one_line(safe_text(each), width - 4) for each in (firing.answer, firing.detail) if each]
    return "\n".join([head, *(f"    {each}" for each in words)]) + "\n"


_ACTIONS = {
    "add": _add,
    "list": _list,
    "show": _show,
    "remove": _remove,
    "pause": _pause,
    "resume": _resume,
    "run": _run,
}
