"""The side of schedules that workers see: exactly one of them fires, submits, and claims each delivery.

A time that is due becomes a row, in the transaction that moves the schedule on. All that comes later is a
change of the state of that row by whoever sees it first, so a worker may die between any two of them.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.database import Change
from pure_agent_loop.durable.schedules.delivery import Delivery
from pure_agent_loop.durable.schedules.schedule import HEARTBEAT_OK, Schedule
from pure_agent_loop.durable.schedules.schedules import FIRE, stamp
from pure_agent_loop.durable.schedules.times import due_times
from pure_agent_loop.durable.values import TaskInfo, task_info
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.support.text import safe_str

LOG = logging.getLogger("pure_agent_loop")
KEPT = 100  # ended ones of each schedule
MAX_PROMPT_BYTES = 1_000_000
_DUE = "SELECT name, spec, anchor, next_at, revision FROM @schedules WHERE enabled = 1 AND next_at <= ?"
_ADVANCE = """
UPDATE @schedules SET next_at = ?, revision = revision + 1 WHERE name = ? AND next_at = ? AND revision = ?
"""
_UNDER_WAY = "SELECT count(*) FROM @firings WHERE schedule = ? AND state IN ('due', 'running')"
_PRUNE = """
DELETE FROM @firings WHERE schedule = ? AND state NOT IN ('due', 'running', 'answered', 'delivering')
AND number NOT IN (SELECT number FROM @firings WHERE schedule = ? ORDER BY number DESC LIMIT ?)
"""
_WAITING = """
SELECT run, due, spec FROM @firings AS one WHERE state = 'due' AND NOT EXISTS (
    SELECT 1 FROM @firings AS earlier
    WHERE earlier.schedule = one.schedule AND earlier.number < one.number
    AND earlier.state IN ('due', 'running')
) ORDER BY number
"""
_NEXT_STATE = "UPDATE @firings SET state = ?, answer = ?, detail = ?, changed = ? WHERE run = ? AND state = ?"
_CLAIM = """
UPDATE @firings SET state = 'delivering', owner = ?, tries = tries + 1, detail = '', changed = ?
WHERE run = ? AND state = 'answered'
"""
_END = """
UPDATE @firings SET state = ?, detail = ?, not_before = ?, owner = '', changed = ?
WHERE run = ? AND state = 'delivering' AND owner = ?
"""
_NOTE = """
INSERT INTO @notices (run, session, schedule, due, answer) VALUES (?, ?, ?, ?, ?) ON CONFLICT (run) DO NOTHING
"""


class Parcel(NamedTuple):
    """An answer on its way.

    Args:
        run_id: The run that gave it.
        schedule: What fired.
        due: For when.
        answer: What it says.
        tries: How often it was tried before.
        detail: What was put down about the last try.
    """

    run_id: str
    schedule: Schedule
    due: float
    answer: str
    tries: int
    detail: str

    @property
    def delivery(self) -> Delivery:
        """Where it goes."""
        assert self.schedule.deliver is not None
        return self.schedule.deliver


class Firings:
    """What a worker does for schedules. May be used from several threads.

    Args:
        client: The database.
        owner: This worker.
        now: Tells the time.
    """

    def __init__(self, client: Client, owner: str, now: Callable[[], float] = time.time) -> None:
        self._client, self._database, self.owner, self.now = client, client.database, owner, now

    def look(self) -> None:
        """Take in what has ended, fire what is due, and submit what waits."""
        self.collect()
        self.fire()
        self.submit()

    def fire(self) -> list[str]:
        """Make a row of each time that is due, and say which runs that makes."""
        fired: list[str] = []
        for name, spec, anchor, next_at, revision in self._database.rows(_DUE, self.now()):
            now = self.now()
            schedule = _usable(name, spec)
            if schedule is None:
                continue
            times = schedule.times(anchor)
            dues = due_times(times, next_at, now, schedule.missed, schedule.max_missed)
            advance = (times.after(now), name, next_at, revision)
            fired += self._database.together(partial(_fire, schedule, spec, dues, now, advance))
        return fired

    def submit(self) -> None:
        """Submit what waits, one run of a schedule at a time; the run's id keeps it from being done twice."""
        for run_id, due, spec in self._database.rows(_WAITING):
            schedule = _usable(run_id, spec)
            if schedule is None:
                continue
            try:
                prompt = _prompt(schedule)
                if not prompt.strip():
                    self._move(run_id, "due", "empty", detail=f"{schedule.prompt_file} is missing or empty")
                    continue
                prompt = prompt.replace("{due}", schedule.shown_due(due))
                session = schedule.session_id()
                self._client.submit(schedule.agent, prompt, run_id=run_id, session_id=session)
            except (ConfigError, OSError) as error:
                self._move(run_id, "due", "failed", detail=safe_str(error))
            else:
                self._move(run_id, "due", "running")

    def collect(self) -> None:
        """Take in what has come of runs."""
        running = self._database.rows(
            "SELECT run, spec FROM @firings WHERE state = 'running' ORDER BY number"
        )
        if not running:
            return
        found = self._client.engine.list_workflows(workflow_ids=[run_id for run_id, _ in running])
        ended = {each.run_id: each for each in map(task_info, found) if each.has_ended}
        for run_id, spec in running:
            schedule = _usable(run_id, spec) if run_id in ended else None
            if schedule is not None:
                state, detail = _after_run(schedule, ended[run_id])
                self._move(run_id, "running", state, ended[run_id].content, detail)

    # -- deliveries -----------------------------------------------------------------------------

    def waiting(self) -> list[str]:
        """Runs whose answer can be delivered now, by this machine."""
        rows = self._database.rows(
            "SELECT run, spec FROM @firings WHERE state = 'answered' AND not_before <= ? ORDER BY number",
            self.now(),
        )
        return [str(run_id) for run_id, spec in rows if _usable(run_id, spec) is not None]

    def claim(self, run_id: str) -> Parcel | None:
        """Say that this worker delivers an answer; None if another one does."""
        if not self._database.change(_CLAIM, self.owner, self.now(), run_id):
            return None
        return self._parcel(run_id)

    def put_down(self, run_id: str, detail: str) -> None:
        """Keep what is about to be done, before it is done."""
        self._database.change(
            "UPDATE @firings SET detail = ? WHERE run = ? AND owner = ?", detail, run_id, self.owner
        )

    def end(self, run_id: str, state: str, detail: str, *, not_before: float = 0.0, owner: str = "") -> None:
        """Keep what came of a delivery, unless it is no longer this worker's."""
        self._database.change(_END, state, detail, not_before, self.now(), run_id, owner or self.owner)

    def leave_notice(self, parcel: Parcel) -> None:
        """Deliver to a session: the notice and the new state are one transaction."""
        words = (parcel.schedule.name, parcel.schedule.shown_due(parcel.due), parcel.answer)

        def write(run: Change) -> None:
            run(_NOTE, parcel.run_id, parcel.delivery.target, *words)
            run(_END, "delivered", str(parcel.delivery), 0.0, self.now(), parcel.run_id, self.owner)

        self._database.together(write)

    def deliverers(self) -> list[str]:
        """Other workers that have claimed a delivery."""
        rows = self._database.rows("SELECT DISTINCT owner FROM @firings WHERE state = 'delivering'")
        return [str(owner) for (owner,) in rows if owner != self.owner]

    def parcels_of(self, owner: str) -> list[Parcel]:
        """What a worker was delivering."""
        rows = self._database.rows(
            "SELECT run, spec FROM @firings WHERE state = 'delivering' AND owner = ?", owner
        )
        return [self._parcel(run_id) for run_id, spec in rows if _usable(run_id, spec) is not None]

    def _parcel(self, run_id: str) -> Parcel:
        (row,) = self._database.rows(
            "SELECT spec, due, answer, tries, detail FROM @firings WHERE run = ?", run_id
        )
        spec, *rest = row
        return Parcel(run_id, Schedule.from_dict(json.loads(spec)), *rest)

    def _move(self, run_id: str, old: str, new: str, answer: str = "", detail: str = "") -> None:
        self._database.change(_NEXT_STATE, new, answer, detail, self.now(), run_id, old)


def _fire(
    schedule: Schedule, spec: str, dues: list[float], now: float, advance: tuple[Any, ...], run: Change
) -> list[str]:
    if not run(_ADVANCE, *advance).rowcount:
        return []  # another worker was first, or it was changed just now
    under_way = run(_UNDER_WAY, schedule.name).fetchone()[0]
    skips = bool(under_way) and schedule.overlap == "skip"
    state, detail = ("skipped", "the run before it had not ended") if skips else ("due", "")
    fired = []
    for due in dues:
        run_id = f"schedule.{schedule.name}.{stamp(due)}"
        run(FIRE, run_id, schedule.name, due, spec, state, detail, now)
        fired.append(run_id)
    run(_PRUNE, schedule.name, schedule.name, KEPT)
    return fired


def _usable(name: str, spec: str) -> Schedule | None:
    """A schedule; None if this machine does not know its zone: another one may."""
    try:
        return Schedule.from_dict(json.loads(spec))
    except PureAgentLoopError as error:
        LOG.warning("The schedule of %s cannot be used here: %s", name, error)
        return None


def _after_run(schedule: Schedule, info: TaskInfo) -> tuple[str, str]:
    """The state that follows the end of a run, and why."""
    if info.status != "completed":
        return "failed", f"the run is {info.status}: {info.error or info.stop_reason}"
    if schedule.prompt_file is not None and info.content.strip() == HEARTBEAT_OK:
        return "quiet", ""
    return ("done" if schedule.deliver is None else "answered"), ""


def _prompt(schedule: Schedule) -> str:
    if schedule.prompt_file is None:
        return schedule.prompt
    path = Path(schedule.prompt_file)
    if not path.exists():
        return ""
    if not path.is_file():  # to read from a pipe would wait for ever, and all schedules with it
        raise ConfigError(f"prompt_file={path} is no file.")
    with path.open("rb") as file:
        found = file.read(MAX_PROMPT_BYTES + 1)
    if len(found) > MAX_PROMPT_BYTES:
        raise ConfigError(f"prompt_file={path} has more than {MAX_PROMPT_BYTES} bytes. Make it shorter.")
    return found.decode("utf-8", "replace")
