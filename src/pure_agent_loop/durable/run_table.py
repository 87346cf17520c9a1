"""Table of the durable runs, for listing runs and for deciding whose turn it is in a session.

DBOS stores whether a run is queued, running or finished; to DBOS, a run that is waiting for a person has
finished. This table adds the agent, the session, the run's place in it, and the status of a finished run. The
status is written before DBOS marks the run as finished, so it is valid only if DBOS's status agrees.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pure_agent_loop.durable.database import Change, Database
from pure_agent_loop.durable.listener import WORK
from pure_agent_loop.durable.values import PARKED_QUEUE, STATUS_BY_STATE, WORKFLOW, TaskInfo, states_of

_OVER = "('CANCELLED', 'ERROR', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')"
# Must equal the condition of the index `pal_runs_open`.
_OPEN = "status IN ('', 'waiting_permission', 'waiting_tool')"
_ADD = """
INSERT INTO @runs (run, agent, session, place, status, created, attempts, progress, max_attempts)
SELECT ?, ?, ?, COALESCE(MAX(place), 0) + 1, ?, ?, 0, 0, ? FROM @runs WHERE session = ?
ON CONFLICT DO NOTHING
"""
_AHEAD = f"""
SELECT ahead.run, workflow.status FROM @runs AS mine
JOIN @runs AS ahead ON ahead.session = mine.session AND ahead.place < mine.place AND ahead.{_OPEN}
JOIN {{workflows}} AS workflow ON workflow.workflow_uuid = ahead.run AND workflow.status NOT IN {_OVER}
WHERE mine.run = ? ORDER BY ahead.place LIMIT 1
"""  # noqa: S608 - constants
# In SQLite, `CROSS JOIN` makes the query start from `@runs`, because SQLite cannot use DBOS's index.
_RELEASABLE = f"""
SELECT mine.run, agents.queue FROM @runs AS mine
CROSS JOIN {{workflows}} AS parked CROSS JOIN @agents AS agents
WHERE mine.status = '' AND parked.workflow_uuid = mine.run AND agents.name = mine.agent
AND parked.status = 'ENQUEUED' AND parked.queue_name = '{PARKED_QUEUE}' {{more}} AND NOT EXISTS (
    SELECT 1 FROM @runs AS ahead JOIN {{workflows}} AS other ON other.workflow_uuid = ahead.run
    WHERE ahead.session = mine.session AND ahead.place < mine.place AND ahead.{_OPEN}
    AND other.status NOT IN {_OVER}
) {{first}}
"""  # noqa: S608 - constants
# DBOS's own `resume` would also restore a run that has just been cancelled.
_RELEASE = f"""
UPDATE {{workflows}} SET queue_name = ?
WHERE workflow_uuid = ? AND status = 'ENQUEUED' AND queue_name = '{PARKED_QUEUE}'
"""  # noqa: S608 - constants
# A run that has not stopped, or that DBOS has ended, has no status in the table.
_OF_STATUS = """
SELECT listed.run, listed.created FROM @runs AS listed CROSS JOIN {workflows} AS workflow
WHERE listed.status = ? AND workflow.workflow_uuid = listed.run AND workflow.status IN ({states}) {more}
ORDER BY {order} DESC LIMIT {limit}
"""
_ALL = """
SELECT listed.run, listed.created FROM @runs AS listed WHERE 1 = 1 {more} ORDER BY {order} DESC LIMIT {limit}
"""
_COUNT_STOPPED = """
SELECT listed.status, COUNT(*) FROM @runs AS listed
JOIN {workflows} AS workflow ON workflow.workflow_uuid = listed.run AND workflow.status = 'SUCCESS'
WHERE listed.status <> '' GROUP BY listed.status
"""
_COUNT_OTHERS = (
    "SELECT status, COUNT(*) FROM {workflows} WHERE name = ? AND status <> 'SUCCESS' GROUP BY status"
)
_BUSY = """
SELECT executor_id, COUNT(*) FROM {workflows}
WHERE name = ? AND status = 'PENDING' AND executor_id IS NOT NULL GROUP BY executor_id
"""
_BEGIN = """
UPDATE @runs SET attempts = CASE WHEN progress < ? THEN 1 ELSE attempts + 1 END, progress = ? WHERE run = ?
"""
# An answer counts as progress, so the attempts are counted from 0 again. A run that has since ended keeps its
# status.
_RESUME = f"UPDATE @runs SET status = '', attempts = 0 WHERE run = ? AND {_OPEN}"  # noqa: S608 - constants
_OF_PROCESS = """
SELECT workflow_uuid FROM {workflows}
WHERE name = ? AND status = 'PENDING'
AND executor_id IN (SELECT executor FROM @workers WHERE host = ? AND pid = ?)
"""
_EXIT = "INSERT INTO @exits (run, code) VALUES (?, ?) ON CONFLICT (run) DO UPDATE SET code = excluded.code"
_MISSING = """
SELECT workflow.workflow_uuid FROM {workflows} AS workflow
LEFT JOIN @runs AS listed ON listed.run = workflow.workflow_uuid {join}
WHERE workflow.name = ? AND listed.run IS NULL ORDER BY {order}workflow.created_at LIMIT ?
"""
_STALE = """
SELECT listed.run FROM @runs AS listed JOIN {workflows} AS workflow ON workflow.workflow_uuid = listed.run
WHERE listed.status = '' AND workflow.status = 'SUCCESS'
"""
_ENDED = f"""
SELECT listed.run, listed.session FROM @runs AS listed
JOIN {{workflows}} AS workflow ON workflow.workflow_uuid = listed.run
WHERE listed.run > ? AND workflow.updated_at < ?
AND (workflow.status IN {_OVER} OR workflow.status = 'SUCCESS' AND NOT listed.{_OPEN})
ORDER BY listed.run LIMIT 500
"""  # noqa: S608 - constants


class RunTable:
    """Run table of one database. May be used from several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        change: Change,
        run_id: str,
        agent: str,
        session_id: str,
        created: float,
        max_attempts: int = 0,
        status: str = "",
    ) -> None:
        """Add a run at the end of its session, unless it is already in the table.

        Args:
            max_attempts: See `begin_attempt`; 0 for the worker's setting.
            status: Status of a run that has stopped; empty for any other run.
            change: Function that executes one statement in the transaction that submits the run, so that
                places in a session follow the order of commits.
        """
        if not self._database.is_sqlite:  # SQLite has only one writer, so it needs no lock
            change("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", f"pal session {session_id}")
        change(_ADD, run_id, agent, session_id, status, created, max_attempts, session_id)

    def add_missing(self, infos: Iterable[TaskInfo]) -> None:
        """Add runs that were submitted by a version without this table, in the given order."""
        for info in infos:

            def write(change: Change, info: TaskInfo = info) -> None:
                status = info.status if "SUCCESS" in states_of(info.status) else ""
                self.add(change, info.run_id, info.agent, info.session_id, info.created, status=status)

            self._database.transaction(write)

    def has(self, run_id: str) -> bool:
        """Return True if the table has the run."""
        return bool(self._database.rows("SELECT 1 FROM @runs WHERE run = ?", run_id))

    def note_status(self, run_id: str, status: str) -> None:
        """Record how a run has stopped, before DBOS marks it as finished."""
        self._database.change("UPDATE @runs SET status = ? WHERE run = ?", status, run_id)

    def resume(self, run_id: str) -> None:
        """Record that a run is no longer waiting, before DBOS queues it."""
        self._database.change(_RESUME, run_id)

    def ahead(self, run_id: str) -> tuple[str, bool] | None:
        """Return the first unfinished run ahead in the session; None if there is none.

        Returns:
            Id of that run, and True if its outcome is stored (it is waiting, or was executed by an older
            version).
        """
        rows = self._database.rows(self._sql(_AHEAD), run_id)
        return (str(rows[0][0]), rows[0][1] == "SUCCESS") if rows else None

    def missing(self, number: int, *, has_turns: bool) -> list[str]:
        """Return the ids of runs that are missing from the table, in the order of their turns.

        Args:
            has_turns: True if an older version's turn table exists; runs in that table come first.
        """
        join = "LEFT JOIN @turns AS turns ON turns.run = workflow.workflow_uuid" if has_turns else ""
        order = "CASE WHEN turns.run IS NULL THEN 1 ELSE 0 END, turns.place, " if has_turns else ""
        rows = self._database.rows(self._sql(_MISSING, join=join, order=order), WORKFLOW, number)
        return [str(run_id) for (run_id,) in rows]

    def stale(self) -> list[str]:
        """Return the ids of runs whose outcome only DBOS stores. This reads all pending and running runs."""
        return [str(run_id) for (run_id,) in self._database.rows(self._sql(_STALE))]

    def ended(self, before: float, after: str) -> list[tuple[str, str]]:
        """Return a page of the runs that ended before a given time, with their sessions, ordered by run id.

        Args:
            before: Time in seconds since the epoch.
            after: Last run of the previous page; empty for the first page.
        """
        rows = self._database.rows(self._sql(_ENDED), after, int(before * 1000))
        return [(str(run_id), str(session_id)) for run_id, session_id in rows]

    def release(self, session_id: str | None = None) -> list[str]:
        """Requeue parked runs whose turn has come, in one session or in all; return the runs' ids."""
        more = first = ""
        if session_id is not None:
            more, first = f"AND mine.session = ? AND mine.{_OPEN}", "ORDER BY mine.place LIMIT 1"
        values = () if session_id is None else (session_id,)
        released = []
        for run_id, queue in self._database.rows(self._sql(_RELEASABLE, more=more, first=first), *values):
            if self._database.change(self._sql(_RELEASE), queue, run_id):
                self._database.listener.send(WORK, queue)
                released.append(str(run_id))
        return released

    def select(
        self, status: str | None, agent: str | None, session_id: str | None, limit: int, offset: int
    ) -> list[str]:
        """Return the ids of runs, newest first.

        Args:
            status: One of `TASK_STATES`; None for all. The agent and the session also filter the runs; None
                for all.
        """
        filters = {"listed.agent": agent, "listed.session": session_id}
        given = {column: value for column, value in filters.items() if value is not None}
        more = "".join(f" AND {column} = ?" for column in given)
        order = "listed.created" if session_id is None else "listed.place"
        some: dict[str, Any] = {"more": more, "order": order, "limit": limit + offset}
        found: list[tuple[Any, ...]] = []
        if status is None:
            found += self._database.rows(self._sql(_ALL, **some), *given.values())
        else:
            some["states"] = ", ".join(f"'{state}'" for state in states_of(status))
            for stored in (status, ""):
                found += self._database.rows(self._sql(_OF_STATUS, **some), stored, *given.values())
        found.sort(key=lambda row: row[1], reverse=True)
        return [str(run_id) for run_id, _ in found[offset : offset + limit]]

    def count(self) -> dict[str, int]:
        """Return the number of runs by status."""
        counts = {
            str(status): int(number) for status, number in self._database.rows(self._sql(_COUNT_STOPPED))
        }
        for state, number in self._database.rows(self._sql(_COUNT_OTHERS), WORKFLOW):
            status = STATUS_BY_STATE.get(str(state), "failed")
            counts[status] = counts.get(status, 0) + int(number)
        return counts

    def running_by_worker(self) -> dict[str, int]:
        """Return the number of running runs by worker."""
        return {str(name): int(number) for name, number in self._database.rows(self._sql(_BUSY), WORKFLOW)}

    def begin_attempt(self, run_id: str, progress: int) -> tuple[int, int]:
        """Count an attempt.

        Args:
            progress: Number of finished calls and answers so far.

        Returns:
            Number of attempts since the last progress, this one included, and the maximum that was set for
            the run; 0 for the worker's setting.
        """

        def write(change: Change) -> tuple[int, int]:
            change(_BEGIN, progress, progress, run_id)
            row = change("SELECT attempts, max_attempts FROM @runs WHERE run = ?", run_id).fetchone()
            return (int(row[0]), int(row[1])) if row else (1, 0)  # deleted meanwhile

        return self._database.transaction(write)

    def end_attempt(self, run_id: str) -> None:
        """Do not count the current attempt, because its process is handing the run back."""
        self._database.change("UPDATE @runs SET attempts = attempts - 1 WHERE run = ?", run_id)

    def note_exit(self, host: str, pid: int, code: int) -> tuple[bool, list[str]]:
        """Store the exit code of a worker process with the runs that it was executing.

        Returns:
            Whether the process was a worker of this database, and the ids of the runs.
        """
        known = self.has_worker(host, pid)
        runs = [str(run) for (run,) in self._database.rows(self._sql(_OF_PROCESS), WORKFLOW, host, pid)]
        self._database.change_many(_EXIT, [(run, code) for run in runs])
        return known, runs

    def has_worker(self, host: str, pid: int) -> bool:
        """Return True if a process is a worker of this database."""
        return bool(self._database.rows("SELECT 1 FROM @workers WHERE host = ? AND pid = ?", host, pid))

    def exit_code(self, run_id: str) -> int | None:
        """Return the exit code of the last process that ended while executing the run; None if unknown."""
        rows = self._database.rows("SELECT code FROM @exits WHERE run = ?", run_id)
        return int(rows[0][0]) if rows else None

    def attempts(self, run_ids: Sequence[str]) -> dict[str, int]:
        """Return the number of attempts since the last progress, by run."""
        places = ", ".join("?" * len(run_ids))
        rows = self._database.rows(f"SELECT run, attempts FROM @runs WHERE run IN ({places})", *run_ids)  # noqa: S608 - placeholders
        return {str(run_id): int(number) for run_id, number in rows}

    def _sql(self, statement: str, **parts: object) -> str:
        return statement.format(workflows=self._database.runs_table, **parts)
