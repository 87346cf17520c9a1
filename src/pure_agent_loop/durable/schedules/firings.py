"""Workers fire schedules; exactly one worker does each step: firing, submitting, delivering.

Each due time is inserted as a row, in the transaction that advances the schedule. Each later change to the
row's state is made by the first available worker, so it does no harm if a worker dies between two changes.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.database import Change
from pure_agent_loop.durable.listener import SCHEDULES, WORK, ChangeWatch
from pure_agent_loop.durable.schedules.delivery import Delivery
from pure_agent_loop.durable.schedules.schedule import HEARTBEAT_OK, Schedule, Times, due_times
from pure_agent_loop.durable.schedules.schedules import FIRE, stamp
from pure_agent_loop.durable.values import FIRED, RunExistsError, TaskInfo
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.media import ImageError
from pure_agent_loop.sessions.cost import SCHEDULE
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import safe_str

MAX_ENDED = 100  # number of ended firings to keep per schedule
MAX_COUNTED = 10_000  # maximum number of due times that the detail of a skipped firing counts exactly
MAX_PROMPT_BYTES = 1_000_000
_DUE = "SELECT name, spec, anchor, next_at, revision FROM @schedules WHERE enabled = 1 AND next_at <= ?"
_ADVANCE = """
UPDATE @schedules SET next_at = ?, revision = revision + 1 WHERE name = ? AND next_at = ? AND revision = ?
"""
_COUNT_UNFINISHED = "SELECT count(*) FROM @firings WHERE schedule = ? AND state IN ('due', 'running')"
_PRUNE = """
DELETE FROM @firings WHERE schedule = ? AND state NOT IN ('due', 'running', 'answered', 'delivering')
AND number NOT IN (SELECT number FROM @firings WHERE schedule = ? ORDER BY number DESC LIMIT ?)
"""
_SELECT_READY = """
SELECT run, due, spec FROM @firings AS one WHERE state = 'due' AND NOT EXISTS (
    SELECT 1 FROM @firings AS earlier
    WHERE earlier.schedule = one.schedule AND earlier.number < one.number
    AND earlier.state IN ('due', 'running')
) ORDER BY number
"""
_LEFT = """
SELECT (SELECT MIN(next_at) FROM @schedules WHERE enabled = 1),
(SELECT MIN(not_before) FROM @firings WHERE state = 'answered'),
EXISTS (SELECT 1 FROM @firings WHERE state IN ('due', 'running', 'answered'))
"""
_DELIVERIES = "SELECT run, spec, due, answer, tries, detail FROM @firings WHERE {condition} ORDER BY number"
_NEXT_STATE = "UPDATE @firings SET state = ?, answer = ?, detail = ?, changed = ? WHERE run = ? AND state = ?"
_CLAIM = """
UPDATE @firings SET state = 'delivering', owner = ?, tries = tries + 1, detail = '', changed = ?
WHERE run = ? AND state = 'answered'
"""
_END = """
UPDATE @firings SET state = ?, detail = ?, not_before = ?, owner = '', changed = ?
WHERE run = ? AND state = 'delivering' AND owner = ?
"""
_INSERT_NOTICE = """
INSERT INTO @notices (run, session, schedule, due, answer) VALUES (?, ?, ?, ?, ?) ON CONFLICT (run) DO NOTHING
"""


class PendingDelivery(NamedTuple):
    """An answer to be delivered.

    Args:
        detail: Note about the last attempt.
    """

    run_id: str
    schedule: Schedule
    due: float
    answer: str
    tries: int
    detail: str

    @property
    def delivery(self) -> Delivery:
        """Target of the answer."""
        assert self.schedule.deliver is not None
        return self.schedule.deliver


class Firings:
    """Operations of a worker on schedules. May be used from several threads."""

    def __init__(self, client: Client, owner: str, now: Callable[[], float] = time.time) -> None:
        self._client, self._database, self.owner, self.now = client, client.database, owner, now

    def look(self) -> tuple[float, bool]:
        """If anything is to be done, record ended runs, fire schedules and submit runs. Return `left`."""
        seconds, is_open = self.left()
        if not is_open and seconds > 0:
            return seconds, is_open
        self.collect()
        self.fire()
        self.submit()
        return self.left()

    def left(self) -> tuple[float, bool]:
        """Return the seconds until a schedule or a retry is due, and True if a firing needs more work."""
        ((due, retry, is_open),) = self._database.rows(_LEFT)
        return min(math.inf if at is None else at for at in (due, retry)) - self.now(), bool(is_open)

    def watch(self, seconds: float) -> contextlib.AbstractContextManager[ChangeWatch]:
        """Watch schedules and the ends of their runs; poll every `seconds` if there are no notifications."""
        return self._database.listener.watch(WORK, SCHEDULES, poll=seconds)

    def fire(self) -> list[str]:
        """Create a firing for each due time, and return the run ids of the firings."""
        fired: list[str] = []
        for name, spec, anchor, next_at, revision in self._database.rows(_DUE, self.now()):
            now = self.now()
            schedule = _load_schedule(name, spec)
            if schedule is None:
                continue
            times = schedule.times(anchor)
            dues = due_times(times, next_at, now, schedule.missed, schedule.max_missed)
            planned = [*_left_out(schedule, times, next_at, dues, now), *((due, "due", "") for due in dues)]
            advance = (times.after(now), name, next_at, revision)
            for run_id, state, detail in self._database.transaction(
                partial(_fire, schedule, spec, planned, now, advance)
            ):
                fired.append(run_id)
                if state == "skipped":
                    LOG.warning("Schedule %s: %s is skipped: %s.", name, run_id, detail)
        return fired

    def is_loss(self, error: BaseException) -> bool:
        """Return True if an error means that the database is unavailable; see `Database.is_loss`."""
        return self._database.is_loss(error)

    def submit(self) -> None:
        """Submit pending firings, one run per schedule at a time; the run's id prevents duplicates."""
        # After a firing that has ended without a run, the next firing of its schedule can start.
        while any([self._submit(*row) for row in self._database.rows(_SELECT_READY)]):  # noqa: C419 - all
            pass

    def _submit(self, run_id: str, due: float, spec: str) -> bool:
        """Submit a firing; return True if it has ended without a run."""
        schedule = _load_schedule(run_id, spec)
        if schedule is None:
            return False
        state, detail = "running", ""
        try:
            prompt = _prompt(schedule)
            if prompt.strip():
                prompt = prompt.replace("{due}", schedule.shown_due(due))
                session = schedule.session_id()
                media = [_check_file("media", Path(name)) for name in schedule.media] or None
                about = {SCHEDULE: schedule.name}
                self._client.submit(
                    schedule.agent, prompt, run_id=run_id, session_id=session, media=media, metadata=about
                )
            else:
                state, detail = "empty", f"{schedule.prompt_file} is missing or empty"
        except RunExistsError:  # a worker submitted the run and died, and the prompt has changed since then
            pass
        except (ConfigError, ImageError, OSError) as error:
            state, detail = "failed", safe_str(error)
            LOG.error("Schedule %s: %s did not start: %s", schedule.name, run_id, detail)
        self._move(run_id, "due", state, detail=detail)
        return state != "running"

    def collect(self) -> None:
        """Record the outcome of ended runs."""
        running = self._database.rows(
            "SELECT run, spec FROM @firings WHERE state = 'running' ORDER BY number"
        )
        if not running:
            return
        runs = self._client.queue.find_runs(workflow_ids=[run_id for run_id, _ in running])
        ended = {info.run_id: info for info in runs if info.has_ended}
        for run_id, spec in running:
            schedule = _load_schedule(run_id, spec) if run_id in ended else None
            if schedule is not None:
                state, detail = _after_run(schedule, ended[run_id])
                self._move(run_id, "running", state, ended[run_id].content, detail)

    # -- deliveries -----------------------------------------------------------------------------

    def waiting(self) -> list[str]:
        """Return runs whose answer this machine can deliver now."""
        waiting = self._deliveries("state = 'answered' AND not_before <= ?", self.now())
        return [pending.run_id for pending in waiting]

    def claim(self, run_id: str) -> PendingDelivery | None:
        """Claim a delivery for this worker; return None if another worker has it."""
        if not self._database.change(_CLAIM, self.owner, self.now(), run_id):
            return None
        return self._deliveries("run = ?", run_id)[0]

    def record_progress(self, run_id: str, detail: str) -> None:
        """Record the detail of a delivery before the next step, for recovery after a crash."""
        self._database.change(
            "UPDATE @firings SET detail = ? WHERE run = ? AND owner = ?", detail, run_id, self.owner
        )

    def end(self, run_id: str, state: str, detail: str, *, not_before: float = 0.0, owner: str = "") -> None:
        """Record the outcome of a delivery, unless another worker has taken it over."""
        self._database.change(_END, state, detail, not_before, self.now(), run_id, owner or self.owner)

    def leave_notice(self, pending: PendingDelivery) -> None:
        """Deliver to a session: write the notice and the new state in one transaction."""
        row = (pending.schedule.name, pending.schedule.shown_due(pending.due), pending.answer)

        def write(run: Change) -> None:
            run(_INSERT_NOTICE, pending.run_id, pending.delivery.target, *row)
            run(_END, "delivered", str(pending.delivery), 0.0, self.now(), pending.run_id, self.owner)

        self._database.transaction(write)

    def deliverers(self) -> list[str]:
        """Return the other workers with a claimed delivery."""
        rows = self._database.rows("SELECT DISTINCT owner FROM @firings WHERE state = 'delivering'")
        return [str(owner) for (owner,) in rows if owner != self.owner]

    def deliveries_of(self, owner: str) -> list[PendingDelivery]:
        """Return the deliveries that a worker has claimed."""
        return self._deliveries("state = 'delivering' AND owner = ?", owner)

    def _deliveries(self, condition: str, *values: Any) -> list[PendingDelivery]:
        """Return the deliveries that match a condition, if this machine can use their schedules."""
        rows = self._database.rows(_DELIVERIES.format(condition=condition), *values)
        loaded = [(run_id, _load_schedule(run_id, spec), *rest) for run_id, spec, *rest in rows]
        return [
            PendingDelivery(run_id, schedule, *rest)
            for run_id, schedule, *rest in loaded
            if schedule is not None
        ]

    def _move(self, run_id: str, old: str, new: str, answer: str = "", detail: str = "") -> None:
        self._database.change(_NEXT_STATE, new, answer, detail, self.now(), run_id, old)


def _left_out(
    schedule: Schedule, times: Times, next_at: float, dues: Sequence[float], now: float
) -> Iterator[tuple[float, str, str]]:
    """If due times get no run, yield the newest of these, its state, and a detail with their number."""
    if dues and dues[0] <= next_at:
        return
    until = dues[0] - 0.001 if dues else now  # due times have a resolution of milliseconds
    if times_left := times.latest(next_at, until, MAX_COUNTED + 1):
        count = len(times_left) if len(times_left) <= MAX_COUNTED else f"more than {MAX_COUNTED}"
        since, reason = schedule.shown_due(next_at), "no worker fired them in time"
        detail = f"due times left out since {since}: {count} ({reason}; missed={schedule.missed!r})"
        yield times_left[-1], "skipped", detail


def _fire(
    schedule: Schedule,
    spec: str,
    planned: Sequence[tuple[float, str, str]],
    now: float,
    advance: tuple[Any, ...],
    run: Change,
) -> list[tuple[str, str, str]]:
    """Write one row per due time; return the run id, state and detail of each row."""
    if not run(_ADVANCE, *advance).rowcount:
        return []  # another worker was faster, or the schedule has just been changed
    unfinished = run(_COUNT_UNFINISHED, schedule.name).fetchone()[0]
    is_busy = bool(unfinished) and schedule.overlap == "skip"
    fired = []
    for due, state, detail in planned:
        run_id = f"{FIRED}{schedule.name}.{stamp(due)}"
        if is_busy and state == "due":
            row = (run_id, "skipped", "the previous run has not ended")
        else:
            row = (run_id, state, detail)
        run(FIRE, run_id, schedule.name, due, spec, *row[1:], now)
        fired.append(row)
    run(_PRUNE, schedule.name, schedule.name, MAX_ENDED)
    return fired


def _load_schedule(name: str, spec: str) -> Schedule | None:
    """Load a schedule; return None if this machine lacks the time zone, which another machine may have."""
    try:
        return Schedule.from_dict(read_json(spec))
    except PureAgentLoopError as error:
        LOG.warning("Schedule %s cannot be used here: %s", name, error)
        return None


def _after_run(schedule: Schedule, info: TaskInfo) -> tuple[str, str]:
    """Return a firing's state after its run has ended, and the reason for that state."""
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
    with _check_file("prompt_file", path).open("rb") as file:
        content = file.read(MAX_PROMPT_BYTES + 1)
    if len(content) > MAX_PROMPT_BYTES:
        raise ConfigError(notice("library.prompt_file_large", path=path, max_prompt_bytes=MAX_PROMPT_BYTES))
    return content.decode("utf-8", "replace")


def _check_file(field: str, path: Path) -> Path:
    """Return a path; reject a pipe or a folder, because reading a pipe would block all schedules."""
    if path.exists() and not path.is_file():
        raise ConfigError(notice("library.field_not_a_file", field=field, path=path))
    return path
