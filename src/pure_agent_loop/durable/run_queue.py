"""Queue of the durable runs in one database: what workers and handles do to a run, by run id."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from sqlite3 import sqlite_version, sqlite_version_info
from typing import Any

from pure_agent_loop.durable.database import Change, Database, reason_of, storable
from pure_agent_loop.durable.run_table import RunTable
from pure_agent_loop.durable.serializer import import_dbos, json_serializer
from pure_agent_loop.durable.values import (
    APP_NAME,
    PARKED_QUEUE,
    WORKFLOW,
    DurableError,
    DurableNotFoundError,
    TaskInfo,
    states_of,
    status_of,
    task_info,
)
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.tool_ledger import check_waits
from pure_agent_loop.permissions import Verdict, as_answer
from pure_agent_loop.sessions.questions import GivenAnswer, already_answered, author_of
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import as_text

LOG = logging.getLogger("pure_agent_loop")
_INSERT_ANSWER = """
INSERT INTO @answers (run, step, call, verdict) VALUES (?, ?, ?, ?)
ON CONFLICT (run, step, call) DO NOTHING
"""
# `taken` is set to 1 only after the run has been resumed, because the process may die before that.
_INSERT_AUTHOR = "INSERT INTO @answered (run, step, call, person, at, taken) VALUES (?, ?, ?, ?, ?, 0)"
_SELECT_ANSWER = """
SELECT answers.verdict, answered.person, answered.at FROM @answers AS answers
LEFT JOIN @answered AS answered
ON answered.run = answers.run AND answered.step = answers.step AND answered.call = answers.call
WHERE answers.run = ? AND answers.call = ? AND answers.step {which} ORDER BY answers.step DESC
"""
_SELECT_GIVEN = """
SELECT answers.call, answers.verdict, answered.person, answered.at FROM @answers AS answers
JOIN @answered AS answered
ON answered.run = answers.run AND answered.step = answers.step AND answered.call = answers.call
WHERE answers.run = ?
"""

_MIGRATION = "runs"  # the table of runs holds all runs
_MAX_VALUES = 500  # maximum values per query
_VOID_APPROVALS = """
SELECT answers.run, answers.call, answers.verdict, events.line FROM @answers AS answers
JOIN @events AS events ON events.run = answers.run AND events.step = answers.step
WHERE answers.run IN ({runs}) AND events.type = 'observation' ORDER BY events.number
"""
_TURNS = {
    True: "SELECT 1 FROM sqlite_master WHERE name = 'pal_turns'",
    False: "SELECT 1 WHERE to_regclass('pal_durable.turns') IS NOT NULL",
}


def result_key(call_id: str) -> str:
    """Return the key under which a call's result is stored; a call may have both an approval and a result."""
    return f"result:{call_id}"


class RunQueue:
    """Queue of the durable runs in one database. May be used from several threads.

    Args:
        waits: True to wait without limit for an unavailable database, as workers must.
    """

    def __init__(self, database: Database, *, waits: bool = False) -> None:
        self.database, self._waits = database, waits
        self.runs = RunTable(database)
        self._lock = threading.RLock()
        self._dbos_client: Any = None

    @property
    def dbos_client(self) -> Any:
        """Client of DBOS, which keeps the queues.

        Raises:
            DurableError: The database is unavailable.
            MissingExtraError: The extra is not installed.
        """
        with self._lock:
            if self._dbos_client is None:
                dbos = import_dbos()
                self.database.prepare()
                self._migrate(dbos)
                self._dbos_client = dbos.DBOSClient(
                    system_database_url=self.database.engine_url,
                    serializer=json_serializer(),
                    application_name=APP_NAME,
                    system_database_pool_size=2,
                    lazy=True,
                    retry_connection_errors=self._waits,
                )
                if not self.database.rows("SELECT 1 FROM @migrations WHERE name = ?", _MIGRATION):
                    self.adopt_runs()
            return self._dbos_client

    @property
    def all_runs(self) -> RunTable:
        """The table of runs, with those of an older version. Raises the errors of `dbos_client`."""
        _ = self.dbos_client  # adds them
        return self.runs

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._dbos_client is not None:
                self._dbos_client.destroy()
            self._dbos_client = None
        self.database.close()

    def agents(self) -> dict[str, str]:
        """Return the names of the registered agents, each with the queue of its runs."""
        rows = self.database.rows("SELECT name, queue FROM @agents ORDER BY name")
        return {str(name): str(queue) for name, queue in rows}

    def queue_for(self, agent: str) -> str:
        """Return the queue of an agent's runs.

        Raises:
            ConfigError: No worker has registered the agent.
        """
        agents = self.agents()
        if agent in agents:
            return agents[agent]
        if not agents:
            raise ConfigError(notice("library.no_worker", place=self.database.display_url, agent=agent))
        raise ConfigError(notice("library.unknown_agent", agent=agent, agents=", ".join(agents)))

    def find_runs(self, **criteria: Any) -> list[TaskInfo]:
        """Return the runs that match criteria in the form that DBOS takes."""
        with self.translate_errors():
            infos = [task_info(run) for run in self.dbos_client.list_workflows(name=WORKFLOW, **criteria)]
        attempts: dict[str, int] = {}
        for start in range(0, len(infos), _MAX_VALUES):
            attempts |= self.runs.attempts([info.run_id for info in infos[start : start + _MAX_VALUES]])
        return [replace(info, attempts=attempts.get(info.run_id, 0)) for info in infos]

    def info(self, run_id: str) -> TaskInfo:
        """Return the current information about a run.

        Raises:
            DurableNotFoundError: The run does not exist.
        """
        runs = self.find_runs(workflow_ids=[storable(str(run_id))])
        if not runs:
            raise DurableNotFoundError(
                notice("library.no_run", run_id=run_id, place=self.database.display_url)
            )
        (info,) = runs
        if info.status == "pending" and (ahead := self.run_ahead(info.run_id)):
            info.details["run_ahead"] = ahead
        return info

    def void_approvals(self, run_ids: Sequence[str]) -> dict[str, list[dict[str, str]]]:
        """Return the approved calls that were not made, by run.

        The worker's code has changed since the question: the tool is missing, or rejects the arguments.
        """
        found: dict[str, list[dict[str, str]]] = {}
        for start in range(0, len(run_ids), _MAX_VALUES):
            page = run_ids[start : start + _MAX_VALUES]
            query = _VOID_APPROVALS.format(runs=", ".join("?" * len(page)))
            for run_id, call_id, verdict, line in self.database.rows(query, *page):
                data = json.loads(line)["data"]
                is_approved = json.loads(verdict).get("behavior") == "allow"
                if is_approved and data.get("call_id") == call_id and data.get("refused"):
                    void = {"call_id": call_id, "tool": data["tool"], "reason": data["refused"]}
                    known = found.setdefault(run_id, [])
                    if void not in known:  # several attempts may have reported it
                        known.append(void)
        return found

    def note_void_approvals(self, infos: Sequence[TaskInfo]) -> None:
        """Add the approved calls that were not made to the details of runs, as `void_approvals`."""
        found = self.void_approvals([info.run_id for info in infos])
        for info in infos:
            if info.run_id in found:
                info.details["void_approvals"] = found[info.run_id]

    def cancel(self, run_id: str) -> TaskInfo:
        """Cancel a run in any state, unless it has ended."""
        info = self.info(run_id)
        if info.has_ended:
            return info
        # Recorded first, so that a concurrent requeue (after an answer or a dead worker) does not bring the
        # run back.
        self.database.change("INSERT INTO @cancelled (run) VALUES (?) ON CONFLICT DO NOTHING", run_id)
        if info.status in WAITING:
            # For DBOS a waiting run has ended; `cancel` works only after it is queued again.
            self.runs.resume(run_id)
            with self.translate_errors(), contextlib.suppress(import_dbos().error.DBOSException):
                self.dbos_client.rewind_workflow(run_id, queue_name=PARKED_QUEUE)
        with self.translate_errors():
            self.dbos_client.cancel_workflow(run_id)
        info = self.info(run_id)
        if info.has_ended:
            self.stop(run_id, info.session_id, info.status)
        return info

    def answer(self, run_id: str, call_id: str, verdict: Verdict, by: str | None = None) -> None:
        """Answer a question of a run; see `Handle.answer`."""
        info = self.info(run_id)
        steps = {question.call_id: question.step for question in info.questions}
        self._record_first(info, "question", call_id, steps, asdict(as_answer(verdict)), by)

    def give_result(
        self, run_id: str, call_id: str, result: Any, *, is_error: bool = False, by: str | None = None
    ) -> None:
        """Give the result of a call made outside the run; see `Handle.give_result`."""
        info = self.info(run_id)
        steps = {call.id: int(info.details["steps"]) for call in info.open_calls}
        plain = {"result": as_text(result), "is_error": is_error}
        self._record_first(info, "result", call_id, steps, plain, by)

    def _record_first(
        self,
        info: TaskInfo,
        what: str,
        call_id: str,
        steps: Mapping[str, int],
        plain: Mapping[str, Any],
        by: str | None,
    ) -> None:
        """Write an answer or a result if there is none, and read the first one, in one transaction."""
        run_id, verdict, author = info.run_id, json.dumps(plain), (author_of(by), time.time())
        call = call_id if what == "question" else result_key(call_id)

        def write(change: Change) -> list[tuple[Any, ...]]:
            if call_id not in steps:  # the question may already have been answered
                return list(change(_SELECT_ANSWER.format(which=">= ?"), run_id, call, 0).fetchall())
            step = steps[call_id]
            if change(_INSERT_ANSWER, run_id, step, call, verdict).rowcount:
                change(_INSERT_AUTHOR, run_id, step, call, *author)
            return list(change(_SELECT_ANSWER.format(which="= ?"), run_id, call, step).fetchall())

        rows = self.database.transaction(write)
        if not rows:
            check_waits(what, call_id, steps)
        first, first_by, at = rows[0]
        if (first, first_by, at) != (verdict, *author):  # equal if the first try of this transaction wrote it
            raise already_answered(call_id, json.loads(first), first_by, at)
        self._resume_if_answered(self.info(run_id))

    def resume_answered(self) -> list[str]:
        """Resume runs that are fully answered, but were not requeued by the process that answered.

        Returns:
            The ids of the resumed runs.
        """
        steps_of_runs: dict[str, list[int]] = {}
        for run_id, step in self.database.rows("SELECT DISTINCT run, step FROM @answered WHERE taken = 0"):
            steps_of_runs.setdefault(run_id, []).append(step)
        resumed = []
        for run_id, steps in steps_of_runs.items():
            try:
                info = self.info(run_id)
            except DurableError as error:  # a deleted run must not block other runs
                LOG.warning("An answer belongs to a missing run: %s", error)
                continue
            if info.status not in WAITING:
                self._mark_taken(run_id, steps)
            elif self._resume_if_answered(info):
                resumed.append(run_id)
        return resumed

    def _resume_if_answered(self, info: TaskInfo) -> bool:
        answered = self.answers(info.run_id)
        pending = [(question.step, question.call_id) for question in info.questions]
        pending += [(int(info.details["steps"]), result_key(call.id)) for call in info.open_calls]
        if not pending or not all(key in answered for key in pending):
            return False
        self._resume(info)
        self._mark_taken(info.run_id, [pending[0][0]])
        return True

    def _mark_taken(self, run_id: str, steps: Sequence[int]) -> None:
        for step in steps:
            self.database.change("UPDATE @answered SET taken = 1 WHERE run = ? AND step = ?", run_id, step)

    def answers(self, run_id: str) -> dict[tuple[int, str], Mapping[str, Any]]:
        """Return the answers and results of a run, by step and call."""
        rows = self.database.rows("SELECT step, call, verdict FROM @answers WHERE run = ?", run_id)
        answers = {(int(step), str(call)): json.loads(verdict) for step, call, verdict in rows}
        older = {key: value for key, value in answers.items() if "result" in value}  # key: call id alone
        return {(step, result_key(call)): value for (step, call), value in older.items()} | answers

    def given_answers(self, run_id: str) -> list[GivenAnswer]:
        """Return people's answers to the questions of a run."""
        given = []
        for call, plain, person, at in self.database.rows(_SELECT_GIVEN, run_id):
            verdict = json.loads(plain)
            if "behavior" in verdict:  # not a result
                texts = (verdict["behavior"], verdict.get("message", ""), str(person))
                given.append(GivenAnswer(str(call), *texts, float(at)))
        return given

    def forget_answers(self, run_id: str) -> None:
        """Delete the answers of a run that starts again, because they belong to earlier calls."""
        self.database.change("DELETE FROM @answers WHERE run = ?", run_id)
        self.database.change("DELETE FROM @answered WHERE run = ?", run_id)

    def _resume(self, info: TaskInfo) -> None:
        queue = self.queue_for(info.agent)
        self.runs.resume(info.run_id)
        # If two answers race, the second resume does nothing.
        with self.translate_errors(), contextlib.suppress(import_dbos().error.DBOSException):
            self.dbos_client.rewind_workflow(info.run_id, queue_name=queue)

    # -- for workers ----------------------------------------------------------------------------

    def is_cancelled(self, run_id: str) -> bool:
        """Return True if a run was cancelled, even if it was requeued at the same time."""
        return bool(self.database.rows("SELECT 1 FROM @cancelled WHERE run = ?", run_id))

    def submit(
        self,
        options: Mapping[str, Any],
        agent: str,
        task: str,
        session_id: str,
        *more: Any,
        max_attempts: int = 0,
    ) -> None:
        """Queue a run, and take its turn in the session, in one transaction; do nothing if the run exists.

        Args:
            options: Options of DBOS for the run.
            max_attempts: Maximum number of attempts without progress; 0 for the worker's setting.
            more: Further arguments of the workflow.
        """
        import sqlalchemy

        client, run_id = self.dbos_client, options["workflow_id"]
        with client._sys_db.engine.begin() as connection:  # the only way into DBOS's transaction

            def change(statement: str, *values: Any) -> Any:
                return connection.exec_driver_sql(self.database.sql(statement), values)

            self.runs.add(change, run_id, agent, session_id, time.time(), max_attempts)
            known = sqlalchemy.text(f"SELECT 1 FROM {self.database.runs_table} WHERE workflow_uuid = :run")  # noqa: S608 - our name
            if connection.execute(known, {"run": run_id}).fetchone() is None:
                client.enqueue_in_transaction(connection, options, agent, task, session_id, *more)

    def take_turn(self, run_id: str) -> str:
        """Return the id of the unfinished run ahead in the session; empty if it is this run's turn.

        Durable runs of one session are executed one after another, in the order in which they were submitted.
        Until a run has ended, even while it waits for an answer or its worker is dead, no other run starts in
        its session.
        """
        if not self.runs.has(run_id):  # submitted by an older version
            self.runs.add_missing([self.info(run_id)])
        return self.run_ahead(run_id)

    def run_ahead(self, run_id: str) -> str:
        """Return the id of the unfinished run ahead in the session; empty if there is none."""
        while (found := self.runs.ahead(run_id)) is not None:
            other, has_outcome = found
            infos = self.find_runs(workflow_ids=[other]) if has_outcome else []
            if not any(info.has_ended for info in infos):
                return other
            self.runs.note_status(other, infos[0].status)  # an older version has executed it
        return ""

    def stop(self, run_id: str, session_id: str, stop_reason: str) -> None:
        """Store that a run has ended or waits; if it has ended, release the next run of its session."""
        self.runs.note_status(run_id, status_of(stop_reason))
        if stop_reason not in WAITING:
            self.runs.release(session_id)

    def register_agents(self, agents: Mapping[str, str]) -> None:
        """Register agents, each with the queue it takes its runs from."""
        for name, queue in agents.items():
            self.database.change(
                "INSERT INTO @agents (name, queue) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET queue = excluded.queue",
                name,
                queue,
            )

    def hand_over(self, executor: str, run_id: str | None = None, queue: str = "") -> list[str]:
        """Requeue the runs that a worker executes.

        Args:
            executor: Worker that executes the runs.
            run_id: Only run to requeue; None for all.
            queue: Queue to use; empty for each run's own queue.

        Returns:
            The ids of the requeued runs.
        """
        running = self.dbos_client.list_workflows(
            status="PENDING", name=WORKFLOW, executor_id=executor, load_input=False, load_output=False
        )
        runs = [run for run in running if run_id in (None, run.workflow_id)]
        for run in runs:
            queue_name = queue or run.queue_name or PARKED_QUEUE
            self.dbos_client.resume_workflow(run.workflow_id, queue_name=queue_name)
        return [run.workflow_id for run in runs]

    @contextlib.contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise database errors as `DurableError`."""
        from sqlalchemy.exc import SQLAlchemyError

        raised: tuple[type[BaseException], ...] = (SQLAlchemyError, *self.database.errors())
        try:
            yield
        except raised as error:
            raise self.database.unavailable(reason_of(error)) from error

    def is_away(self, error: DurableError) -> bool:
        """Return True if an error means that the database is unavailable, perhaps temporarily."""
        return self.database.means_loss(getattr(error.__cause__, "orig", None) or error.__cause__)

    def adopt_runs(self) -> None:
        """Add the runs of a version without the table of runs; may be interrupted, or run twice at once."""
        has_turns = bool(self.database.rows(_TURNS[self.database.is_sqlite]))
        while missing := self.runs.missing(_MAX_VALUES, has_turns=has_turns):
            infos = {info.run_id: info for info in self.find_runs(workflow_ids=missing)}
            self.runs.add_missing(infos[run_id] for run_id in missing if run_id in infos)
        self.database.change("INSERT INTO @migrations (name) VALUES (?) ON CONFLICT DO NOTHING", _MIGRATION)

    def note_outcomes(self) -> None:
        """Store the status of runs that an older version has executed, or whose worker was interrupted."""
        stale = self.runs.stale()
        for start in range(0, len(stale), _MAX_VALUES):
            for info in self.find_runs(workflow_ids=stale[start : start + _MAX_VALUES]):
                if "SUCCESS" in states_of(info.status):  # it has not been resumed meanwhile
                    self.runs.note_status(info.run_id, info.status)

    def _migrate(self, dbos: Any) -> None:
        if self.database.is_sqlite:
            exists = self.database.rows("SELECT 1 FROM sqlite_master WHERE name = 'workflow_status'")
        else:
            exists = self.database.rows("SELECT 1 WHERE to_regclass('dbos.workflow_status') IS NOT NULL")
        if not exists:
            # On these versions, DBOS uses a millisecond function that SQLite does not have.
            if self.database.is_sqlite and sys.version_info >= (3, 12) and sqlite_version_info < (3, 42):
                raise DurableError(notice("library.sqlite_old", sqlite_version=sqlite_version))
            with self.translate_errors():
                dbos.DBOS.migrate(self.database.engine_url)
