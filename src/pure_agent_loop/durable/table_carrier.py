"""Run states in a table of this package, for engines that start processes but store no states."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.durable.carrier import DBOS_RUNS
from pure_agent_loop.durable.database import Change, Database
from pure_agent_loop.durable.values import PARKED_QUEUE, WORKFLOW
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import to_jsonable

# The columns have the names that DBOS gives them, so that `RunTable` reads both tables.
_TABLES = (
    """CREATE TABLE IF NOT EXISTS @carried (
        workflow_uuid TEXT PRIMARY KEY, name TEXT NOT NULL, status TEXT NOT NULL, queue_name TEXT NOT NULL,
        priority INTEGER NOT NULL, executor_id TEXT NOT NULL, input TEXT NOT NULL, output TEXT NOT NULL,
        created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL
    )""",
    """CREATE INDEX IF NOT EXISTS pal_carried_open ON @carried (priority, created_at)
    WHERE status IN ('ENQUEUED', 'PENDING')""",
    "CREATE INDEX IF NOT EXISTS pal_carried_status ON @carried (status, executor_id)",
    "INSERT INTO @migrations (name) VALUES ('carried') ON CONFLICT DO NOTHING",
)
_ADD = f"""
INSERT INTO @carried VALUES (?, '{WORKFLOW}', 'ENQUEUED', ?, ?, '', ?, '', ?, ?) ON CONFLICT DO NOTHING
"""  # noqa: S608 - constants
_MOVE = "UPDATE @carried SET {changes}, updated_at = ? WHERE workflow_uuid = ? AND status IN ({states})"
_LIST = """
SELECT workflow_uuid, status, queue_name, executor_id, input, output, created_at, updated_at FROM @carried
WHERE {condition} ORDER BY created_at
"""
_NEXT = f"""
SELECT mine.session FROM @carried AS carried JOIN @runs AS mine ON mine.run = carried.workflow_uuid
WHERE carried.status IN ('ENQUEUED', 'PENDING') AND carried.queue_name <> '{PARKED_QUEUE}' {{more}}
ORDER BY carried.priority, carried.created_at LIMIT 1
"""  # noqa: S608 - constants
_FIRST = f"""
SELECT carried.workflow_uuid, carried.input FROM @runs AS mine
JOIN @carried AS carried ON carried.workflow_uuid = mine.run
WHERE mine.session = ? AND carried.status IN ('ENQUEUED', 'PENDING')
AND carried.queue_name <> '{PARKED_QUEUE}'
ORDER BY mine.place LIMIT 1
"""  # noqa: S608 - constants
_FINISH = """
UPDATE @carried SET status = 'SUCCESS', output = ?, updated_at = ?
WHERE workflow_uuid = ? AND status = 'PENDING' AND executor_id = ?
"""
_UNFINISHED = "'ENQUEUED', 'PENDING'"


@dataclass(frozen=True, slots=True)
class CarriedRun:
    """State of a run, with the attributes that `Carrier.list` requires; times in milliseconds."""

    workflow_id: str
    status: str
    queue_name: str
    executor_id: str
    input: Mapping[str, Any]
    output: Mapping[str, Any] | None
    created_at: int
    updated_at: int
    error: str | None = None


class StatesDatabase(Database):
    """Database with run states in this package's own table."""

    @property
    def runs_table(self) -> str:
        """Name of the table with the states."""
        return "@carried"


class TableCarrier:
    """Carrier that stores run states, and which process executes each run; it starts no processes itself.

    A process that executes runs calls `first_run` and `claim`, executes an `Attempt`, and calls `finish`. If
    it dies in between, the next process starts at `first_run`, because the session's journal has recorded all
    finished effects.

    Args:
        database: Database of the runs.
        poke: Function to call with ``wake`` or ``cancel``, and the run id, after a run has been queued or
            cancelled. The call only saves time, because whatever starts the processes also checks for runs at
            intervals.
    """

    def __init__(
        self, database: StatesDatabase, poke: Callable[[str, str], None] = lambda _what, _run: None
    ) -> None:
        self._database, self._poke = database, poke
        self._lock, self._is_open = threading.Lock(), False

    def errors(self) -> tuple[type[BaseException], ...]:
        """Return no exception types, because `Database` translates its own errors."""
        return ()

    def open(self) -> None:
        """Create missing tables; see `Carrier.open`.

        Raises:
            ConfigError: The run states of this database are kept by DBOS.
        """
        with self._lock:
            if self._is_open:
                return
            if self._database.has_table(*DBOS_RUNS):
                raise ConfigError(
                    notice("library.carried_elsewhere", place=self._database.display_url, engine="Engine")
                )

            def create(change: Change) -> None:
                # One process at a time, because creating the same table concurrently fails.
                if not self._database.is_sqlite:
                    change("SELECT pg_advisory_xact_lock(7036874)")
                for statement in _TABLES:
                    change(statement)

            self._database.transaction(create)
            self._is_open = True

    def enqueue(self, options: Mapping[str, Any], args: Sequence[Any], add: Callable[[Change], None]) -> None:
        """See `Carrier.enqueue`."""
        run_id, now = str(options["workflow_id"]), _now()
        row = (
            run_id,
            options["queue_name"],
            options.get("priority", 0),
            json.dumps({"args": args}),
            now,
            now,
        )

        def write(change: Change) -> None:
            add(change)
            change(_ADD, *row)

        self._database.transaction(write)
        self._poke("wake", run_id)

    def list(self, **criteria: Any) -> Sequence[CarriedRun]:
        """See `Carrier.list`."""
        columns = {"workflow_ids": "workflow_uuid", "status": "status", "executor_id": "executor_id"}
        conditions, values = ["1 = 1"], list[Any]()
        for name, column in columns.items():
            if (wanted := criteria.get(name)) is not None:
                among = [wanted] if isinstance(wanted, str) else [*wanted]
                conditions.append(f"{column} IN ({', '.join('?' * len(among))})")
                values += among
        rows = self._database.rows(_LIST.format(condition=" AND ".join(conditions)), *values)
        return [
            CarriedRun(
                row[0],
                row[1],
                row[2],
                row[3],
                read_json(row[4]),
                read_json(row[5] or "null"),
                row[6],
                row[7],
            )
            for row in rows
        ]

    def wake(self, run_id: str, queue: str) -> None:
        """See `Carrier.wake`."""
        self._move(run_id, "'SUCCESS'", "status = 'ENQUEUED', output = '', queue_name = ?", queue)
        self._poke("wake", run_id)

    def requeue(self, run_id: str, queue: str) -> None:
        """See `Carrier.requeue`."""
        self._move(run_id, "'PENDING'", "status = 'ENQUEUED', queue_name = ?", queue)
        self._poke("wake", run_id)

    def cancel(self, run_id: str) -> None:
        """See `Carrier.cancel`."""
        self._move(run_id, _UNFINISHED, "status = 'CANCELLED'")
        self._poke("cancel", run_id)

    def close(self) -> None:
        """Do nothing: `RunQueue` closes the database."""

    # -- for processes that execute runs --------------------------------------------------------

    def next_session(self, without: Collection[str] = ()) -> str | None:
        """Return the session of the first queued or interrupted run; None if there is no such run.

        Args:
            without: Sessions to exclude.
        """
        more = f"AND mine.session NOT IN ({', '.join('?' * len(without))})" if without else ""
        rows = self._database.rows(_NEXT.format(more=more), *without)
        return str(rows[0][0]) if rows else None

    def first_run(self, session_id: str) -> tuple[str, Sequence[Any]] | None:
        """Return a session's first queued or interrupted run with its arguments; None if there is none."""
        rows = self._database.rows(_FIRST, session_id)
        return (str(rows[0][0]), read_json(rows[0][1])["args"]) if rows else None

    def claim(self, run_id: str, executor: str) -> bool:
        """Claim a run for a process; return False if the run was cancelled."""
        return bool(self._move(run_id, _UNFINISHED, "status = 'PENDING', executor_id = ?", executor))

    def finish(self, run_id: str, executor: str, outcome: Mapping[str, Any]) -> bool:
        """Store the outcome of a run; return False if the run was cancelled or claimed by another process."""
        output = json.dumps(to_jsonable(outcome), allow_nan=False)
        return bool(self._database.change(_FINISH, output, _now(), run_id, executor))

    def _move(self, run_id: str, states: str, changes: str, *values: Any) -> int:
        """Change a run if it is in one of the given states; return the number of changed rows."""
        return self._database.change(_MOVE.format(changes=changes, states=states), *values, _now(), run_id)


def _now() -> int:
    return time.time_ns() // 1_000_000
