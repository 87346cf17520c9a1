"""The command ``schedule``: runs of agents at set times."""

from __future__ import annotations

import argparse
import json
import shlex
from contextlib import closing
from dataclasses import asdict
from typing import Any

from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.output import Output
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
from pure_agent_loop.terminal import one_line, safe_text

SCHEMA_VERSION = 1
WIDTH = 100
SHOWN_RUNS = 10


def schedule(options: argparse.Namespace, output: Output) -> int:
    """Do what the command line says and return the exit code.

    Args:
        options: The parsed command line.
        output: Where to write.

    Raises:
        PureAgentLoopError: It did not work.
        ResultLostError: Standard output takes nothing more.
    """
    with closing(Engine(options.database)) as engine:
        found, text, said = _ACTIONS[options.action](options, engine.schedules)
        shown = engine.database.shown
    if options.json:
        output.result(json.dumps({"schema_version": SCHEMA_VERSION, **found}, allow_nan=False) + "\n")
        return DONE
    output.result(text)
    if said:
        output.say(said.format(database=shown))
    return DONE


_Done = tuple[dict[str, Any], str, str]  # as JSON, as text, and what is said beside it


def _add(options: argparse.Namespace, schedules: Schedules) -> _Done:
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
    return _said(schedules.add(made, replace=options.replace))


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


def _list(options: argparse.Namespace, schedules: Schedules) -> _Done:  # noqa: ARG001 - one of several
    found = schedules.list()
    said = "" if found else "there are no schedules in {database}"
    return {"schedules": [_plain(each) for each in found]}, "".join(map(_row, found)), said


def _show(options: argparse.Namespace, schedules: Schedules) -> _Done:
    info, runs = schedules.get(options.name), schedules.runs(options.name, SHOWN_RUNS)
    fields = {**_plain(info), "next": _next(info), "deliver": info.schedule.deliver}
    del fields["last"], fields["enabled"]
    lines = [f"{name:<12} {one_line(str(value), WIDTH)}\n" for name, value in fields.items() if value]
    found = {"schedule": _plain(info), "runs": [asdict(each) for each in runs]}
    return found, "".join([*lines, *map(_run_row, runs)]), ""


def _remove(options: argparse.Namespace, schedules: Schedules) -> _Done:
    schedules.remove(options.name)
    return {"removed": options.name}, "", f"{options.name} is removed"


def _pause(options: argparse.Namespace, schedules: Schedules) -> _Done:
    return _said(schedules.pause(options.name))


def _resume(options: argparse.Namespace, schedules: Schedules) -> _Done:
    return _said(schedules.resume(options.name))


def _run(options: argparse.Namespace, schedules: Schedules) -> _Done:
    run_id = schedules.run_now(options.name)
    return {"run_id": run_id}, f"{run_id}\n", f"a worker takes it up soon; to see it: pal logs -f {run_id}"


def _said(info: ScheduleInfo) -> _Done:
    return {"schedule": _plain(info)}, "", f"{info.schedule.name}: {_next(info)}"


def _plain(info: ScheduleInfo) -> dict[str, Any]:
    last = None if info.last is None else asdict(info.last)
    return {**info.schedule.to_dict(), "next": info.next, "last": last}


def _next(info: ScheduleInfo) -> str:
    return "paused" if info.next is None else f"next at {info.schedule.shown_due(info.next)}"


def _row(info: ScheduleInfo) -> str:
    one = info.schedule
    when = one.cron if one.cron is not None else f"every {one.every:g} s"
    last = "" if info.last is None else f"; last {info.last.state} {moment(info.last.changed)}"
    what = one.prompt or f"file {one.prompt_file}"
    where = "" if one.deliver is None else f" -> {one.deliver}"
    head = f"{one.name:<20}  {when:<16}  {one.agent:<12}  {_next(info)}{last}"
    return f"{head}\n    {one_line(f'{what}{where}', WIDTH - 4)}\n"


def _run_row(firing: Firing) -> str:
    head = f"{moment(firing.due)}  {firing.state:<11}  {firing.run_id}"
    words = [one_line(safe_text(each), WIDTH - 4) for each in (firing.answer, firing.detail) if each]
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
