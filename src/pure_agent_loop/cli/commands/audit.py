"""The command ``audit``: which tools were called, and whether the record of it is whole."""

from __future__ import annotations

import argparse
import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

from pure_agent_loop.audit import ToolCallEntry, default_folder, find_call, history, verify
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.output import Output
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.terminal import excerpt, one_line, safe_text

SCHEMA_VERSION = 1
WIDTH = 80  # where no terminal says another one
MOST_WIDTH = 140
_LONG_TEXT = 40  # lines


def audit(options: argparse.Namespace, output: Output) -> int:
    """Do what the command line says and return the exit code.

    Args:
        options: The parsed command line.
        output: Where to write.

    Raises:
        PureAgentLoopError: It did not work.
        ResultLostError: Standard output takes nothing more.
    """
    return _ACTIONS[options.action](options, output)


def _log(options: argparse.Namespace) -> Path:
    if options.file is None:
        return default_folder()
    path = Path(options.file).expanduser()
    if not path.exists():
        raise ConfigError(f"--file: there is no {path}")
    return path


def _list(options: argparse.Namespace, output: Output) -> int:
    log = _log(options)
    found = history(
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
        _write_json({"calls": [entry.to_dict() for entry in found]}, output)
        return DONE
    width = shutil.get_terminal_size((WIDTH, 24)).columns if output.out_is_terminal else WIDTH
    output.result("".join(_row(entry, min(width, MOST_WIDTH)) for entry in found))
    if not found:
        output.say("no call fits" if log.exists() else _no_log(log))
    return DONE


def _no_log(log: Path) -> str:
    return f"there is no audit log yet in {log}; a run with an audit log begins one"


def _row(entry: ToolCallEntry, width: int) -> str:
    seconds = "" if entry.seconds is None else f"{entry.seconds:.3f} s"
    session = one_line(entry.session or "-", 24)
    first = f"{entry.number:>6}  {moment(entry.time)}  {entry.status:<10}  {seconds:>10}  {session}"
    args = one_line(json.dumps(entry.args, ensure_ascii=False), max(20, width - 10 - len(entry.tool[:40])))
    return f"{first}\n        {one_line(entry.tool, 40)} {args}\n"


def moment(seconds: float) -> str:
    """A time in this machine's zone, with the zone."""
    try:
        return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
    except (ValueError, OverflowError, OSError):
        return f"at {seconds!r}"


def _show(options: argparse.Namespace, output: Output) -> int:
    entry = find_call(_log(options), options.number)
    if entry is None:
        raise ConfigError(f"There is no call with the number {options.number}. See: pal audit list")
    if options.json:
        _write_json({"call": entry.to_dict()}, output)
        return DONE
    output.result("".join(_line(name, value) for name, value in _shown(entry)))
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


def _line(name: str, value: str) -> str:
    if not value:
        return ""
    shown = excerpt(safe_text(value), _LONG_TEXT).replace("\n", "\n" + " " * 11)
    return f"{name:<10} {shown}\n"


def _verify(options: argparse.Namespace, output: Output) -> int:
    log = _log(options)
    if options.file is None and not log.exists():
        output.say(_no_log(log))
    report = verify(log, contains=options.contains)
    if options.json:
        _write_json(report.to_dict(), output)
        return DONE if report.ok else FAILED
    for note in report.notes:
        output.say(note)
    if report.first_problem is not None:
        output.fail(f"{report.first_problem}\n({report.lines} lines before that are good)")
        return FAILED
    sealed = "sealed with a key" if report.keyed else "without a key: whoever can write it can forge it whole"
    output.result(f"whole: {report.lines} lines, {sealed}\nlast hash: {report.last_hash}\n")
    return DONE


def _path(options: argparse.Namespace, output: Output) -> int:  # noqa: ARG001 - it takes none
    output.result(f"{safe_text(str(default_folder()))}\n")
    return DONE


def _write_json(value: dict[str, Any], output: Output) -> None:
    output.result(json.dumps({"schema_version": SCHEMA_VERSION, **value}, allow_nan=False) + "\n")


_ACTIONS = {"list": _list, "show": _show, "verify": _verify, "path": _path}
