"""The command ``undo``: undo the workspace changes made in the steps of a run."""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import TYPE_CHECKING

from pure_agent_loop.cli.arguments import add_json, describe
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.terminal import one_line

if TYPE_CHECKING:
    from pure_agent_loop.snapshots import StepInfo, UndoReport, WorkspaceSnapshots

_EPILOG = """\
Exit codes: 0 done or nothing to undo, 1 some files were left unchanged (they are listed),
2 wrong usage, 130 stopped by Ctrl-C.

examples:
  pal undo --list
  pal undo
  pal undo --to 2 --dry-run
  pal undo --redo
"""


def add_undo(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe(
        parser,
        "Restore a workspace's files to how they were before the last step that changed "
        "something, or before an earlier step. Files changed since then are left alone.",
        _EPILOG,
    )
    parser.add_argument(
        "--session",
        metavar="ID",
        default="last",
        help="session to undo (default: the last that changed files)",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--to", type=int, metavar="STEP", help="undo this step and all later ones")
    what.add_argument("--list", action="store_true", help="list the steps that changed files")
    what.add_argument("--redo", action="store_true", help="redo the last undo")
    parser.add_argument(
        "--workspace", metavar="DIR", default=".", help="workspace folder (default: current folder)"
    )
    parser.add_argument("--force", action="store_true", help="also restore files changed since then")
    parser.add_argument("--dry-run", action="store_true", help="show what would change without changing it")
    add_json(parser)


def undo(options: argparse.Namespace, output: CommandOutput) -> int:
    """Run the action and return the exit code."""
    from pure_agent_loop.snapshots import WorkspaceSnapshots

    return asyncio.run(_undo(options, WorkspaceSnapshots(options.workspace), output))


async def _undo(options: argparse.Namespace, snapshots: WorkspaceSnapshots, output: CommandOutput) -> int:
    session = await _session(options.session, snapshots)
    if session is None:
        output.info(notice("cli.undo_none_in", root=snapshots.root))
        return DONE
    if options.list:
        return _show(await snapshots.steps(session), output, as_json=options.json)
    choice = {"force": options.force, "dry_run": options.dry_run}
    if options.redo:
        report = await snapshots.redo(session, **choice)
    else:
        report = await snapshots.undo(session, to_step=options.to, **choice)
    return _report(report, output, as_json=options.json)


async def _session(session: str, snapshots: WorkspaceSnapshots) -> str | None:
    known = await snapshots.sessions()
    if session == "last":
        return known[-1] if known else None
    if session not in known:
        hint = (
            notice("cli.undo_known", sessions=", ".join(known[-3:]))
            if known
            else notice("cli.undo_no_session")
        )
        raise ConfigError(
            notice("cli.undo_session", session=one_line(session), root=snapshots.root, hint=hint)
        )
    return session


def _show(steps: list[StepInfo], output: CommandOutput, *, as_json: bool) -> int:
    if as_json:
        output.json({"steps": [step.to_dict() for step in steps]})
        return DONE
    lines = []
    for step in steps:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(step.time))
        notes = [*(["undone"] if step.is_undone else []), *([] if step.is_whole else ["interrupted"])]
        suffix = f"  ({', '.join(notes)})" if notes else ""
        files = f"{step.files} file{'s' * (step.files != 1)}"
        lines.append(
            f"{one_line(step.session_id, 60)}  run {step.run}  step {step.step}  {when}  "
            f"{files} +{step.added} -{step.removed}{suffix}\n"
        )
    output.lines("".join(lines))
    return DONE


def _report(report: UndoReport, output: CommandOutput, *, as_json: bool) -> int:
    code = FAILED if report.conflicts else DONE
    if as_json:
        output.json(report.to_dict())
        return code
    if not report.steps:
        output.info(notice("cli.undo_none"))
        return DONE
    rows = [("restored", path) for path in report.restored] + [("removed", path) for path in report.removed]
    output.lines("".join(f"{user_text(f'cli.{what}', path=one_line(path))}\n" for what, path in rows))
    for conflict in report.conflicts:
        output.info(notice("cli.left", path=one_line(conflict.path), reason=conflict.reason))
    steps = ", ".join(str(step) for step in report.steps)
    part = notice("cli.in_part") if report.conflicts else ""
    output.info(notice("cli.would_undo" if report.is_dry else "cli.undone", steps=steps, part=part))
    return code
