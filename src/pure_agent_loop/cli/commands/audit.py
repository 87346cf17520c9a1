"""The command ``audit``: list tool calls from the audit log and verify its integrity."""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pure_agent_loop.audit import ToolCallEntry, default_folder, find_call, history, verify
from pure_agent_loop.cli.arguments import add_actions, add_count, add_json, describe
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.output import RED, CommandOutput, counted
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.numbers import positive
from pure_agent_loop.support.terminal import excerpt, one_line, one_row, safe_text, width_of

_SIGNS = {"ok": "✓", "denied": "⊘", "unfinished": "…"}
_LONG_TEXT = 40  # lines
_AGO = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_EPILOG = """\
Exit codes of 'verify': 0 intact, 1 damaged or missing, 2 wrong usage.

examples:
  pal audit list --since 2h --status error
  pal audit list --session trip --tool write_file --json
  pal audit show 17
  pal audit verify
"""


def add_audit(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe(parser, "Show the audit log of tool calls and verify that it is unchanged.", _EPILOG)
    actions = add_actions(parser)
    listing = _with_file(actions, "list", "list matching calls, newest last")
    listing.add_argument("--session", metavar="ID", help="only calls in this session")
    listing.add_argument("--tool", metavar="NAME", help="only calls to this tool")
    moment = "2h (ago), or a local time: 2026-01-31T18:00"
    listing.add_argument("--since", type=point_in_time, metavar="T", help=f"only since T: {moment}")
    listing.add_argument("--until", type=point_in_time, metavar="T", help="only before T")
    listing.add_argument(
        "--status",
        metavar="STATUS",
        help="only ok, error, denied, stopped or unfinished calls",
    )
    listing.add_argument("--text", metavar="WORDS", help="only calls with WORDS in arguments, task or result")
    add_count(listing, "newest calls to list")
    show = _with_file(actions, "show", "show all details of one call")
    show.add_argument("number", type=positive, metavar="SEQ", help="number from 'pal audit list'")
    verify = _with_file(actions, "verify", "check that no line was changed, removed or inserted")
    verify.add_argument(
        "--contains",
        default="",
        metavar="HASH",
        help="last hash from an earlier check; the log must contain it",
    )
    actions.add_parser("path", help="print the path of the log")


def _with_file(actions: Any, name: str, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=summary)
    parser.add_argument("--file", metavar="PATH", help="folder or file of another log")
    add_json(parser)
    return parser


def point_in_time(text: str) -> float:
    """Convert ``2h`` (two hours ago), a date or a time to seconds since the epoch.

    A time without a zone is local.

    Raises:
        argparse.ArgumentTypeError: The text is none of these.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return time.time() - float(ago[1]) * _SECONDS[ago[2]]
    try:
        moment = datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        moment = math.nan
    if math.isnan(moment):
        raise argparse.ArgumentTypeError(user_text("cli.since_time", text=text))
    return moment


def audit(options: argparse.Namespace, output: CommandOutput) -> int:
    """Run the action and return the exit code."""
    return _ACTIONS[options.action](options, output)


def _log(options: argparse.Namespace) -> Path:
    if options.file is None:
        return default_folder()
    path = Path(options.file).expanduser()
    if not path.exists():
        raise ConfigError(notice("cli.audit_no_file", path=path))
    return path


def _list(options: argparse.Namespace, output: CommandOutput) -> int:
    log = _log(options)
    calls = history(
        log,
        session=options.session,
        tool=options.tool,
        since=options.since,
        until=options.until,
        status=options.status,
        text=options.text,
        limit=options.limit,
    )
    if options.json:
        output.json({"calls": [entry.to_dict() for entry in calls]})
        return DONE
    for title, group in _by_session(calls):
        rows = "".join(_row(entry, output.width, output) for entry in group)
        output.lines(f"{title}\n{rows}")
    if not calls:
        output.info(notice("cli.audit_none") if log.exists() else _no_log(log))
    return DONE


def _no_log(log: Path) -> str:
    return notice("cli.audit_no_log", log=log)


def _by_session(calls: Sequence[ToolCallEntry]) -> Iterator[tuple[str, list[ToolCallEntry]]]:
    """Yield a title and the calls for each session and day, the most recent group last."""
    groups: dict[str, list[ToolCallEntry]] = {}
    for entry in calls:
        day = " ".join(moment(entry.time).split(" ")[::2])  # the date and the zone
        title = f"{one_line(entry.session, 60) or user_text('cli.audit_no_session')}  {day}"
        groups[title] = [*groups.pop(title, ()), entry]
    yield from groups.items()


def _row(entry: ToolCallEntry, width: int, output: CommandOutput) -> str:
    clock, sign = moment(entry.time).split(" ")[1], _SIGNS.get(entry.status, "✗")
    sign = output.paint(RED, sign) if sign == "✗" else sign
    first = f"  {sign} {entry.number:>6}  {clock}  {one_line(entry.tool, 40)} "
    facts = [] if entry.status == "ok" else [entry.status]
    if entry.exit_code:
        facts = [user_text("screen.exit_code", code=entry.exit_code)]
    if entry.seconds is not None and entry.seconds >= 1:
        facts.append(f"{entry.seconds:.1f} s")
    end = f"  {', '.join(facts)}" if facts else ""
    room = max(20, width - width_of(first) - width_of(end))
    values = list(entry.args.values()) if isinstance(entry.args, dict) else []
    is_plain = len(values) == 1 and isinstance(values[0], str) and bool(values[0].strip())
    shown = values[0] if is_plain else json.dumps(entry.args, ensure_ascii=False)
    return f"{first}{one_row(shown, room)}{end}\n"


def moment(seconds: float) -> str:
    """Format a time in the local zone, with the zone."""
    try:
        return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
    except (ValueError, OverflowError, OSError):
        return f"at {seconds!r}"


def _show(options: argparse.Namespace, output: CommandOutput) -> int:
    entry = find_call(_log(options), options.number)
    if entry is None:
        raise ConfigError(notice("cli.audit_no_call", number=options.number))
    if options.json:
        output.json({"call": entry.to_dict()})
        return DONE
    for name, value in _shown(entry):
        if value:
            shown = excerpt(safe_text(value), _LONG_TEXT).replace("\n", "\n" + " " * 11)
            output.lines(f"{name:<10} {shown}\n")
    return DONE


def _shown(entry: ToolCallEntry) -> list[tuple[str, str]]:
    seconds = "" if entry.seconds is None else f"{entry.seconds:.3f} s"
    digest = f"{entry.result_sha256} ({entry.result_length} characters)" if entry.result_sha256 else ""
    return [
        ("call", f"{entry.number} ({entry.call_id})" if entry.call_id else str(entry.number)),
        ("time", moment(entry.time)),
        ("tool", entry.tool),
        ("arguments", json.dumps(entry.args, ensure_ascii=False, indent=2)),
        ("verdict", f"{entry.verdict}: {entry.reason}" if entry.reason else entry.verdict),
        ("status", entry.status),
        ("exit", "" if entry.exit_code is None else str(entry.exit_code)),
        ("duration", seconds),
        ("session", entry.session),
        ("step", str(entry.step)),
        ("agent", entry.agent),
        ("who", f"{entry.user} on {entry.host}, process {entry.pid}"),
        ("asked", entry.user_message),
        ("notes", json.dumps(entry.notes, ensure_ascii=False) if entry.notes else ""),
        ("result", entry.result or ""),
        ("sha256", digest),
    ]


def _verify(options: argparse.Namespace, output: CommandOutput) -> int:
    log = _log(options)
    if options.file is None and not log.exists():
        output.info(_no_log(log))
    report = verify(log, contains=options.contains)
    if options.json:
        output.json(report.to_dict())
        return DONE if report.ok else FAILED
    for note in report.notes:
        output.info(note)
    if report.first_problem is not None:
        output.fail(notice("cli.audit_damaged", first_problem=report.first_problem, lines=report.lines))
        return FAILED
    sealed = notice("cli.audit_sealed" if report.keyed else "cli.audit_unsealed")
    output.lines(
        user_text(
            "cli.audit_intact", lines=counted(report.lines, "line"), sealed=sealed, last_hash=report.last_hash
        )
    )
    return DONE


def _path(options: argparse.Namespace, output: CommandOutput) -> int:  # noqa: ARG001 - the signature of all actions
    output.result(f"{safe_text(str(default_folder()))}\n")
    return DONE


_ACTIONS = {"list": _list, "show": _show, "verify": _verify, "path": _path}
