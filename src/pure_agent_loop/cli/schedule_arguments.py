"""The command line, as far as it is about schedules. Imports nothing heavy."""

from __future__ import annotations

import argparse
from typing import Any

_EPILOG = """\
Workers run what is due (pal worker). Exit codes: 0 done, 1 failed, 2 wrong usage.

examples:
  pal schedule add news --cron "0 9 * * 1-5" --tz local --agent helper --prompt "News?" --to-file news.md
  pal schedule add beat --every 30m --agent helper --prompt-file HEARTBEAT.md --to-command "mail -s Note me"
  pal schedule list
  pal schedule pause news
"""
_ACTIONS = (
    ("show", "a schedule, and what came of its newest runs"),
    ("remove", "take a schedule away; what it has begun goes on"),
    ("pause", "run it no more until 'resume'"),
    ("resume", "run it again from now on"),
    ("run", "run it once more, now"),
)


def add_schedule(commands: Any) -> None:
    """Add the command.

    Args:
        commands: The sub-parsers of the whole command line.
    """
    parser = commands.add_parser(
        "schedule",
        help="run agents again and again",
        description="Runs of agents at set times. They need the extra [durable].",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_options(_action(actions, "add", "put a schedule in", named=True))
    _action(actions, "list", "all schedules, by name", named=False)
    for name, meaning in _ACTIONS:
        _action(actions, name, meaning, named=True)


def _action(actions: Any, name: str, meaning: str, *, named: bool) -> argparse.ArgumentParser:
    description = f"{meaning[0].upper()}{meaning[1:]}."
    action: argparse.ArgumentParser = actions.add_parser(
        name, help=meaning, description=description, allow_abbrev=False
    )
    if named:
        action.add_argument("name", metavar="NAME", help="the schedule")
    action.add_argument(
        "--database",
        metavar="URL",
        help="sqlite:///PATH or postgresql://...; else PAL_DATABASE, else a file in the data folder",
    )
    action.add_argument("--json", action="store_true", help="print one JSON object")
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
