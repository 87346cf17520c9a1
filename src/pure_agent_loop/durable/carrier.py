"""Carrier: the part of an engine that delivers run ids to processes; DBOS is the default.

A carrier stores the state of each run, and delivers the run to a process that executes an `Attempt`.
Everything else is the
same for every engine and is stored in this package's tables: turns, answers, attempts, and the session with
its journal.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from sqlite3 import sqlite_version, sqlite_version_info
from typing import Any, Protocol

from pure_agent_loop.durable.database import Change, Database
from pure_agent_loop.durable.listener import WORK
from pure_agent_loop.durable.run_table import RunTable
from pure_agent_loop.durable.serializer import import_dbos, json_serializer
from pure_agent_loop.durable.values import APP_NAME, WORKFLOW, DurableError, task_info
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice

MAX_VALUES = 500  # maximum values per query
_MIGRATION = "runs"  # name of the migration that filled the run table
DBOS_RUNS = "workflow_status", "dbos.workflow_status"  # DBOS's table of runs on SQLite and on PostgreSQL


class Carrier(Protocol):
    """Stores run states, and delivers run ids to processes. May be used from several threads.

    A state is one of DBOS's: ``ENQUEUED``, ``PENDING`` (a process is executing the run), ``SUCCESS`` (an
    outcome is stored, because the run has ended or is waiting), ``CANCELLED`` or ``ERROR``. A process that
    has claimed a run executes an `Attempt`; its outcome is used only if no other process has since claimed
    the run.
    """

    def errors(self) -> tuple[type[BaseException], ...]:
        """Return the exception types, besides the driver's, that mean the database is unavailable."""

    def open(self) -> None:
        """Create missing tables, and connect. Called before each use of the carrier.

        Raises:
            DurableError: The database is unavailable.
            MissingExtraError: The extra is not installed.
        """

    def enqueue(self, options: Mapping[str, Any], args: Sequence[Any], add: Callable[[Change], None]) -> None:
        """Queue a run unless it already exists; call `add` in the same transaction.

        Args:
            options: ``workflow_id``, ``queue_name`` and ``priority``, as in DBOS.
            args: Arguments of the run: agent, task, session, and, if set, trace context and options digest.
            add: Function that records the run's place in its session; called even if the run exists.
        """

    def list(self, **criteria: Any) -> Sequence[Any]:
        """Return runs with the attributes of DBOS's ``WorkflowStatus``.

        Args:
            criteria: ``workflow_ids``, ``status`` (one or a list), ``executor_id``.
        """

    def wake(self, run_id: str, queue: str) -> None:
        """Requeue a run in the state ``SUCCESS``; do nothing in other states."""

    def requeue(self, run_id: str, queue: str) -> None:
        """Requeue a run that a process is executing."""

    def cancel(self, run_id: str) -> None:
        """Cancel a queued or executing run, and stop its attempt within about a second."""

    def close(self) -> None:
        """Close the connections."""


class DbosCarrier:
    """DBOS queues, from which workers claim runs; see `Worker`.

    Args:
        waits: True to wait without a time limit while the database is unavailable, as workers must.
    """

    def __init__(self, database: Database, *, waits: bool = False) -> None:
        self._database, self._waits = database, waits
        self._lock = threading.RLock()
        self._client: Any = None

    def errors(self) -> tuple[type[BaseException], ...]:
        """See `Carrier.errors`."""
        import_dbos()  # call this first: it raises the right error if the extra is missing
        from sqlalchemy.exc import SQLAlchemyError

        return (SQLAlchemyError,)

    def open(self) -> None:
        """Connect, and add the runs of older versions, which had no run table; see `Carrier.open`."""
        with self._lock:
            if self._client is None:
                dbos = import_dbos()
                self._database.prepare()
                if self._database.rows("SELECT 1 FROM @migrations WHERE name = 'carried'"):
                    place = self._database.display_url
                    raise ConfigError(notice("library.carried_elsewhere", place=place, engine="RayEngine"))
                self._migrate(dbos)
                self._client = dbos.DBOSClient(
                    system_database_url=self._database.engine_url,
                    system_database_engine=self._database.engine,
                    serializer=json_serializer(),
                    application_name=APP_NAME,
                    system_database_pool_size=2,
                    lazy=True,
                    retry_connection_errors=self._waits,
                )
                if not self._database.rows("SELECT 1 FROM @migrations WHERE name = ?", _MIGRATION):
                    self.adopt_runs()

    def enqueue(self, options: Mapping[str, Any], args: Sequence[Any], add: Callable[[Change], None]) -> None:
        """See `Carrier.enqueue`."""
        import sqlalchemy

        # DBOS offers no public access to its transaction.
        with self._client._sys_db.engine.begin() as connection:

            def change(statement: str, *values: Any) -> Any:
                return connection.exec_driver_sql(self._database.sql(statement), values)

            add(change)
            known = sqlalchemy.text(f"SELECT 1 FROM {self._database.runs_table} WHERE workflow_uuid = :run")  # noqa: S608 - our name
            if connection.execute(known, {"run": options["workflow_id"]}).fetchone() is None:
                self._client.enqueue_in_transaction(connection, options, *args)
        self._database.listener.send(WORK, options["queue_name"])

    def list(self, **criteria: Any) -> Sequence[Any]:
        """See `Carrier.list`."""
        return [*self._client.list_workflows(name=WORKFLOW, **criteria)]

    def wake(self, run_id: str, queue: str) -> None:
        """See `Carrier.wake`."""
        # If two answers race, the second rewind does nothing.
        with contextlib.suppress(import_dbos().error.DBOSException):
            self._client.rewind_workflow(run_id, queue_name=queue)
        self._database.listener.send(WORK, queue)

    def requeue(self, run_id: str, queue: str) -> None:
        """See `Carrier.requeue`."""
        self._client.resume_workflow(run_id, queue_name=queue)
        self._database.listener.send(WORK, queue)

    def cancel(self, run_id: str) -> None:
        """See `Carrier.cancel`."""
        self._client.cancel_workflow(run_id)

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._client is not None:
                self._client.destroy()
            self._client = None

    def adopt_runs(self) -> None:
        """Add the runs of older versions, which had no run table; safe to interrupt or run concurrently."""
        table, has_turns = (
            RunTable(self._database),
            self._database.has_table("pal_turns", "pal_durable.turns"),
        )
        while missing := table.missing(MAX_VALUES, has_turns=has_turns):
            infos = {run.workflow_id: task_info(run) for run in self.list(workflow_ids=missing)}
            table.add_missing(infos[run_id] for run_id in missing if run_id in infos)
        self._database.change("INSERT INTO @migrations (name) VALUES (?) ON CONFLICT DO NOTHING", _MIGRATION)

    def _migrate(self, dbos: Any) -> None:
        if not self._database.has_table(*DBOS_RUNS):
            # On these versions of Python, DBOS uses a millisecond function that SQLite before 3.42 lacks.
            if self._database.is_sqlite and sys.version_info >= (3, 12) and sqlite_version_info < (3, 42):
                raise DurableError(notice("library.sqlite_old", sqlite_version=sqlite_version))
            dbos.DBOS.migrate(self._database.engine_url)
