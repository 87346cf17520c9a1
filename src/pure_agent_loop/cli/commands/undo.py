"""The command ``undo``: take back what the steps of a run changed in a workspace."""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import TYPE_CHECKING

from pure_agent_loop.cli.arguments import add_json, describe
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.output import Output
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.terminal import one_line

if TYPE_CHECKING:
    from pure_agent_loop.snapshots import StepInfo, UndoReport, WorkspaceSnapshots

_EPILOG = """\
Exit codes: 0 done, or there was nothing to undo, 1 something was left as it is (it is named),
2 wrong usage, 130 stopped by Ctrl-C.

examples:
  pal undo --list
  pal undo
  pal undo --to 2 --dry-run
  pal undo --redo
"""


def add_undo(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    describe(
        parser,
        "Make the files of a workspace what they were before the last step that changed "
        "something, or before any step. Files that were changed since by somebody else are left.",
        _EPILOG,
    )
    parser.add_argument(
        "--session",
        metavar="ID",
        default="last",
        help="whose steps (default: last, the one that changed last)",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--to", type=int, metavar="STEP", help="take back this step and all after it")
    what.add_argument("--list", action="store_true", help="only show the steps that changed something")
    what.add_argument("--redo", action="store_true", help="take the last undo back")
    parser.add_argument("--workspace", metavar="DIR", default=".", help="the folder (default: this one)")
    parser.add_argument("--force", action="store_true", help="restore also what was changed since")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    add_json(parser)


def undo(options: argparse.Namespace, output: Output) -> int:
    """Do what the command line says and return the exit code."""
    from pure_agent_loop.snapshots import WorkspaceSnapshots

    snapshots = WorkspaceSnapshots(options.workspace)
    return asyncio.run(_undo(options, snapshots, output))


async def _undo(options: argparse.Namespace, snapshots: WorkspaceSnapshots, output: Output) -> int:
    session = await _session(options.session, snapshots)
    if session is None:
        output.say(f"nothing was changed in {snapshots.root} that could be undone")
        return DONE
    if options.list:
        return _show(await snapshots.steps(session), output, as_json=options.json)
    choice = {"force": options.force, "dry_run": options.dry_run}
    if options.redo:
        report = await snapshots.redo(session, **choice)
    else:
        report = await snapshots.undo(session, to_step=options.to, **choice)
    return _report(report, output, as_json=options.json)


async def _session(wanted: str, snapshots: WorkspaceSnapshots) -> str | None:
    known = await snapshots.sessions()
    if wanted == "last":
        return known[-1] if known else None
    if wanted not in known:
        there = f"Sessions that did: {', '.join(known[-3:])}." if known else "None did."
        raise ConfigError(f"The session {one_line(wanted)!r} changed nothing in {snapshots.root}. {there}")
    return wanted


def _show(steps: list[StepInfo], output: Output, *, as_json: bool) -> int:
    if as_json:
        output.json({"steps": [step.to_dict() for step in steps]})
        return DONE
    lines = []
    for step in steps:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(step.time))
        notes = [*(["undone"] if step.is_undone else []), *([] if step.is_whole else ["cut off"])]
        words = f"  ({', '.join(notes)})" if notes else ""
        files = f"{step.files} file{'s' * (step.files != 1)}"
        lines.append(
            f"{one_line(step.session_id, 60)}  run {step.run}  step {step.step}  {when}  "
            f"{files} +{step.added} -{step.removed}{words}\n"
        )
    output.result("".join(lines))
    return DONE


def _report(report: UndoReport, output: Output, *, as_json: bool) -> int:
    code = FAILED if report.conflicts else DONE
    if as_json:
        output.json(report.to_dict())
        return code
    if not report.steps:
        output.say("nothing to undo")
        return DONE
    rows = [("restored", path) for path in report.restored] + [("removed", path) for path in report.removed]
    output.result("".join(f"{what} {one_line(path)}\n" for what, path in rows))
    for conflict in report.conflicts:
        output.say(f"left {one_line(conflict.path)}: {conflict.reason}")
    steps = ", ".join(str(step) for step in report.steps)
    words = "would change" if report.is_dry else "changed back"
    output.say(f"step {steps} {words}" + (" in part; see --force" if report.conflicts else ""))
    return code
