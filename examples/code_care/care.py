"""Code maintenance on a schedule: each night an agent repairs one thing in a repository, and reports.

    cd examples/code_care                     in a clone; needs the extra [durable]
    CARE_REPO=~/project python care.py work   a worker; on several machines name a DATABASE of PostgreSQL
    CARE_REPO=~/project python care.py now    once more, now
    CARE_REPO=~/project python care.py undo   take the changes of the last run back

What it may do is bounded by what it has: file tools and a shell that cannot leave the repository, commands in
a sandbox without network, rules that keep it from the tests, limits, an audit log, and snapshots.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from pure_agent_loop import Agent, LoopLimits, PermissionRules
from pure_agent_loop.audit import AuditLog
from pure_agent_loop.durable import Engine, Schedule, to_file
from pure_agent_loop.snapshots import WorkspaceSnapshots
from pure_agent_loop.toolbox import workspace_tools

REPO = Path(os.environ.get("CARE_REPO", "repo"))
DATABASE = os.environ.get("PAL_DATABASE", "sqlite:///care.sqlite")

snapshots = WorkspaceSnapshots(REPO)
agent = Agent(
    system_prompt="You maintain a repository. Run its tests, repair one thing, and run them again.",
    tools=workspace_tools(REPO),
    permission_rules=PermissionRules(deny=["edit_file(path=tests/*)", "write_file(path=tests/*)"]),
    limits=LoopLimits(max_turns=40, max_seconds=1800, max_tokens=500_000),
    snapshots=snapshots,
    audit=AuditLog("audit"),
)
agents = {"care": agent}
nightly = Schedule(
    "nightly",
    agent="care",
    prompt="Repair what the tests find. End with a report of three lines: found, changed, left open.",
    cron="0 3 * * *",
    timezone="Europe/Oslo",
    missed="once",  # nothing was up at three: once, as soon as a worker is
    overlap="skip",
    deliver=to_file("report.md"),
)


def work() -> None:
    """Run what is due, until Ctrl-C or SIGTERM."""
    with Engine(DATABASE, agents=agents) as engine:
        engine.schedules.add(nightly, replace=True)
    Engine(DATABASE, agents=agents).run_worker()


def now() -> None:
    """Run it once more than it is due, and print the report."""
    with Engine(DATABASE, agents=agents) as engine:
        engine.schedules.add(nightly, replace=True)
        engine.schedules.run_now("nightly")
        while (last := engine.schedules.get("nightly").last) is None or last.state != "delivered":
            time.sleep(0.1)
        print(last.answer)


def undo() -> None:
    """Take the changes of the last run back; files that somebody has changed since are left alone."""
    with Engine(DATABASE) as engine:
        last = engine.schedules.get("nightly").last
    if last is None:
        sys.exit("There was no run yet.")
    report = asyncio.run(snapshots.undo(last.run_id, to_step=1))
    print(f"restored: {report.restored}, removed: {report.removed}, left alone: {report.conflicts}")


if __name__ == "__main__":
    {"work": work, "now": now, "undo": undo}[sys.argv[1]]()
