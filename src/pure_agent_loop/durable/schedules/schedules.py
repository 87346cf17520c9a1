"""The schedules of a database, from any process: add, look, pause, run now, remove."""

from __future__ import annotations

import builtins
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.schedules.schedule import Schedule
from pure_agent_loop.durable.values import DurableError
from pure_agent_loop.errors import ConfigError

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
    """One time that a schedule was due, and what came of it.

    Args:
        run_id: The durable run.
        schedule: The name of the schedule.
        due: The time it was due, in seconds since the epoch.
        state: ``due``, ``running``, ``answered``, ``delivering``; or how it ended: ``done`` (nothing to
            deliver), ``delivered``, ``quiet`` (it said HEARTBEAT_OK), ``skipped``, ``empty`` (no prompt),
            ``failed`` (the run), ``undelivered``, ``unknown`` (nobody knows whether it was delivered).
        answer: What the agent said.
        detail: Why it ended so, or what the command wrote.
        tries: How often it was tried to deliver it.
        changed: When the state changed last.
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
    """A schedule as it stands.

    Args:
        schedule: What it says; `enabled` is as it is now.
        next: When it is due next; None while it is paused.
        last: The newest time it was due, if there was one.
        revision: Counts each change.
        anchor: From when on `every` counts.
    """

    schedule: Schedule
    next: float | None
    last: Firing | None
    revision: int
    anchor: float


class Schedules:
    """The schedules of a database. May be used from several threads.

    Args:
        client: The database.
        now: Tells the time.
    """

    def __init__(self, client: Client, now: Callable[[], float] = time.time) -> None:
        self._client, self._database, self._now = client, client.database, now

    def add(self, schedule: Schedule, *, replace: bool = False) -> ScheduleInfo:
        """Put a schedule in. It is due for the first time after this moment.

        Args:
            schedule: What is to be run when.
            replace: Put it in the place of one of the same name.

        Raises:
            ConfigError: There is one of that name, or no worker has an agent of that name.
            DurableError: The database cannot be used.
        """
        known = self._client.agents()
        if known and schedule.agent not in known:
            raise ConfigError(f"There is no agent {schedule.agent!r}. There are: {', '.join(known)}.")
        now = round(self._now(), 3)
        spec, next_at = json.dumps(schedule.to_dict()), schedule.times(now).after(now)
        ending = _REPLACE if replace else _KEEP
        done = self._database.together(
            lambda run: run(_ADD + ending, schedule.name, spec, int(schedule.enabled), now, next_at).rowcount
        )
        if not done:
            raise ConfigError(
                f"name={schedule.name!r}: there is such a schedule. Remove it first, or use replace=True "
                "(--replace)."
            )
        return self.get(schedule.name)

    def list(self) -> builtins.list[ScheduleInfo]:
        """All of them, by name."""
        return [self._info(row) for row in self._database.rows(f"{_ALL} ORDER BY name")]

    def get(self, name: str) -> ScheduleInfo:
        """One of them.

        Raises:
            DurableError: There is none of that name.
        """
        found = self._database.rows(f"{_ALL} WHERE name = ?", name)
        if not found:
            raise DurableError(f"There is no schedule {name!r:.80} in {self._database.shown}.")
        return self._info(found[0])

    def runs(self, name: str, limit: int = 20) -> builtins.list[Firing]:
        """The newest times a schedule was due; also of one that was removed.

        Args:
            name: The schedule.
            limit: How many at most.
        """
        rows = self._database.rows(f"{_FIRINGS} ORDER BY number DESC LIMIT ?", name, limit)
        return [Firing(*row) for row in rows]

    def remove(self, name: str) -> None:
        """Take a schedule away. What it has begun goes on, and is delivered.

        Raises:
            DurableError: There is none of that name.
        """
        if not self._database.change("DELETE FROM @schedules WHERE name = ?", name):
            self.get(name)

    def pause(self, name: str) -> ScheduleInfo:
        """Run it no more until `resume`. What it has begun goes on.

        Raises:
            DurableError: There is none of that name.
        """
        return self._switch(name, enabled=False)

    def resume(self, name: str) -> ScheduleInfo:
        """Run it again from now on. The times of the pause were not missed.

        Raises:
            DurableError: There is none of that name.
        """
        return self._switch(name, enabled=True)

    def run_now(self, name: str) -> str:
        """Run it as soon as a worker is there, once more than it is due, also while it is paused.

        Returns:
            The id of the run. It can be looked at once a worker has taken it up.

        Raises:
            DurableError: There is none of that name.
        """
        info, now = self.get(name), round(self._now(), 3)
        run_id = f"schedule.{name}.now-{stamp(now)}"
        spec = json.dumps(info.schedule.to_dict())
        self._database.change(FIRE, run_id, name, now, spec, "due", "", now)
        return run_id

    def _switch(self, name: str, *, enabled: bool) -> ScheduleInfo:
        info, now = self.get(name), self._now()
        if info.schedule.enabled is not enabled:
            next_at = info.schedule.times(info.anchor).after(now)
            self._database.change(_SWITCH, int(enabled), next_at, name)
        return self.get(name)

    def _info(self, row: tuple[Any, ...]) -> ScheduleInfo:
        name, spec, enabled, anchor, next_at, revision = row
        schedule = Schedule.from_dict({**json.loads(spec), "enabled": bool(enabled)})
        last = self.runs(name, 1)
        return ScheduleInfo(
            schedule,
            float(next_at) if enabled else None,
            last[0] if last else None,
            int(revision),
            float(anchor),
        )


def stamp(due: float) -> str:
    """A time as part of the id of a run."""
    moment = datetime.fromtimestamp(round(due, 3), timezone.utc)
    thousandths = f".{moment.microsecond // 1000:03}" if moment.microsecond else ""
    return f"{moment:%Y%m%dT%H%M%S}{thousandths}Z"
