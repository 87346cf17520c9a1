"""Operations on the schedules of a database, from any process: add, query, pause, run now, remove."""

from __future__ import annotations

import builtins
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.listener import SCHEDULES, WORK
from pure_agent_loop.durable.schedules.schedule import Schedule
from pure_agent_loop.durable.values import FIRED, DurableNotFoundError
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.parsing import read_json

_ALL = "SELECT name, spec, enabled, anchor, next_at, revision FROM @schedules"
_ADD = "INSERT INTO @schedules (name, spec, enabled, anchor, next_at, revision) VALUES (?, ?, ?, ?, ?, 0)"
_REPLACE = """ ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, enabled = excluded.enabled,
    anchor = excluded.anchor, next_at = excluded.next_at, revision = @schedules.revision + 1"""
_KEEP = " ON CONFLICT (name) DO NOTHING"
_SWITCH = "UPDATE @schedules SET enabled = ?, next_at = ?, revision = revision + 1 WHERE name = ?"
FIRE = """
INSERT INTO @firings (run, schedule, due, spec, state, answer, detail, tries, not_before, owner, changed)
VALUES (?, ?, ?, ?, ?, '', ?, 0, 0, '', ?) ON CONFLICT (run) DO NOTHING
"""
_FIRINGS = "SELECT run, schedule, due, state, answer, detail, tries, changed FROM @firings WHERE schedule = ?"


@dataclass(frozen=True, slots=True)
class Firing:
    """A due time of a schedule, and its outcome.

    Args:
        run_id: Id of the durable run.
        schedule: Name of the schedule.
        due: Due time, in seconds since the epoch.
        state: ``due``, ``running``, ``answered``, ``delivering``; or the outcome: ``done`` (nothing to
            deliver), ``delivered``, ``quiet`` (the answer was HEARTBEAT_OK), ``skipped``, ``empty`` (no
            prompt), ``failed`` (the run), ``undelivered``, ``unknown`` (the delivery may have happened).
        answer: Answer of the agent.
        detail: Reason for the outcome, or output of the command.
        tries: Number of delivery attempts.
        changed: Time of the last change of state.
    """

    run_id: str
    schedule: str
    due: float
    state: str
    answer: str = ""
    detail: str = ""
    tries: int = 0
    changed: float = 0.0


@dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """Current information about a schedule.

    Args:
        schedule: The schedule, with the current value of `enabled`.
        next: Next due time; None while paused.
        last: Newest firing, if any.
        revision: Number of changes.
        anchor: Start of the first `every` interval.
    """

    schedule: Schedule
    next: float | None
    last: Firing | None
    revision: int
    anchor: float


class Schedules:
    """Schedules of a database. May be used from several threads.

    Args:
        client: Client of the database.
        now: Function that returns the current time.
    """

    def __init__(self, client: Client, now: Callable[[], float] = time.time) -> None:
        self._queue, self._database, self._now = client.queue, client.database, now

    def add(self, schedule: Schedule, *, replace: bool = False) -> ScheduleInfo:
        """Add a schedule. Its first due time is later than this call.

        Args:
            schedule: Schedule to add.
            replace: True to replace a schedule of the same name.

        Raises:
            ConfigError: The name is in use, or no worker has registered the agent.
            DurableError: The database is unavailable.
        """
        if self._queue.agents():
            self._queue.queue_for(schedule.agent)
        else:  # no worker has ever used this database, so no agent is known
            LOG.warning(
                "Schedule %s: agent %r cannot be checked until a worker runs.", schedule.name, schedule.agent
            )
        now = round(self._now(), 3)
        spec, next_at = json.dumps(schedule.to_dict()), schedule.times(now).after(now)
        ending = _REPLACE if replace else _KEEP
        changed = self._database.transaction(
            lambda run: run(_ADD + ending, schedule.name, spec, int(schedule.enabled), now, next_at).rowcount
        )
        if not changed:
            raise ConfigError(notice("library.schedule_twice", name=schedule.name))
        self._wake_workers()
        return self.get(schedule.name)

    def list(self) -> builtins.list[ScheduleInfo]:
        """Return all schedules, by name."""
        return [self._info(row) for row in self._database.rows(f"{_ALL} ORDER BY name")]

    def get(self, name: str) -> ScheduleInfo:
        """Return one schedule.

        Raises:
            DurableNotFoundError: The schedule does not exist.
        """
        rows = self._database.rows(f"{_ALL} WHERE name = ?", name)
        if not rows:
            raise DurableNotFoundError(
                notice("library.no_schedule", name=name, place=self._database.display_url)
            )
        return self._info(rows[0])

    def runs(self, name: str, limit: int = 20) -> builtins.list[Firing]:
        """Return the newest firings of a schedule, even of a removed one.

        Args:
            name: Name of the schedule.
            limit: Maximum number.
        """
        rows = self._database.rows(f"{_FIRINGS} ORDER BY number DESC LIMIT ?", name, limit)
        return [Firing(*row) for row in rows]

    def remove(self, name: str) -> None:
        """Remove a schedule. Runs that have started continue, and their answers are delivered.

        Raises:
            DurableNotFoundError: The schedule does not exist.
        """
        if not self._database.change("DELETE FROM @schedules WHERE name = ?", name):
            self.get(name)

    def pause(self, name: str) -> ScheduleInfo:
        """Pause a schedule until `resume`. Runs that have started continue.

        Raises:
            DurableNotFoundError: The schedule does not exist.
        """
        return self._switch(name, enabled=False)

    def resume(self, name: str) -> ScheduleInfo:
        """Resume a paused schedule. Due times during the pause do not count as missed.

        Raises:
            DurableNotFoundError: The schedule does not exist.
        """
        return self._switch(name, enabled=True)

    def run_now(self, name: str) -> str:
        """Start an extra run as soon as a worker is available, even if the schedule is paused.

        Returns:
            The id of the run. The run can be queried after a worker has submitted it.

        Raises:
            DurableNotFoundError: The schedule does not exist.
        """
        info, now = self.get(name), round(self._now(), 3)
        run_id = f"{FIRED}{name}.now-{stamp(now)}"
        spec = json.dumps(info.schedule.to_dict())
        self._database.change(FIRE, run_id, name, now, spec, "due", "", now)
        self._wake_workers()
        return run_id

    def _switch(self, name: str, *, enabled: bool) -> ScheduleInfo:
        info, now = self.get(name), self._now()
        if info.schedule.enabled is not enabled:
            next_at = info.schedule.times(info.anchor).after(now)
            self._database.change(_SWITCH, int(enabled), next_at, name)
            self._wake_workers()
        return self.get(name)

    def _wake_workers(self) -> None:
        self._database.listener.send(WORK, SCHEDULES)

    def _info(self, row: tuple[Any, ...]) -> ScheduleInfo:
        name, spec, enabled, anchor, next_at, revision = row
        schedule = Schedule.from_dict({**read_json(spec), "enabled": bool(enabled)})
        last = self.runs(name, 1)
        return ScheduleInfo(
            schedule,
            float(next_at) if enabled else None,
            last[0] if last else None,
            int(revision),
            float(anchor),
        )


def stamp(due: float) -> str:
    """Return a time in the form used in run ids."""
    moment = datetime.fromtimestamp(round(due, 3), timezone.utc)
    thousandths = f".{moment.microsecond // 1000:03}" if moment.microsecond else ""
    return f"{moment:%Y%m%dT%H%M%S}{thousandths}Z"
