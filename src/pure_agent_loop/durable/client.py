"""Operations on durable runs from any process, even without the agents' code."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict
from sqlite3 import sqlite_version, sqlite_version_info
from typing import Any

from pure_agent_loop.durable.database import Change, Database, read_events, storable
from pure_agent_loop.durable.task_options import keep_options, pack_options
from pure_agent_loop.durable.values import (
    APP_NAME,
    APP_VERSION,
    PARKED_QUEUE,
    TASK_STATES,
    WORKFLOW,
    DurableError,
    DurableNotFoundError,
    TaskInfo,
    check_agent_name,
    import_dbos,
    json_serializer,
    task_info,
)
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import AnyEvent
from pure_agent_loop.kernel.ledgers import check_waits
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import PermissionRequest, Verdict, as_answer
from pure_agent_loop.runs.live import carrier
from pure_agent_loop.sessions import check_session_name, new_session_id
from pure_agent_loop.sessions.questions import already_answered, check_by
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.account import account_here
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import as_text, clean_text

LOG = logging.getLogger("pure_agent_loop")
_PAGE = 200
_MAX_PRIORITY = 2_147_483_647
_ENGINE_STATES = {
    "pending": ["ENQUEUED", "DELAYED"],
    "running": ["PENDING"],
    "cancelled": ["CANCELLED", "SUCCESS"],
    "failed": ["ERROR", "SUCCESS"],
    "killed": ["MAX_RECOVERY_ATTEMPTS_EXCEEDED", "SUCCESS"],
}
_INSERT_ANSWER = """
INSERT INTO @answers (run, step, call, verdict) VALUES (?, ?, ?, ?)
ON CONFLICT (run, step, call) DO NOTHING
"""
# `taken` is set to 1 after the run is resumed: a process may die in between.
_INSERT_AUTHOR = "INSERT INTO @answered (run, step, call, person, at, taken) VALUES (?, ?, ?, ?, ?, 0)"
_SELECT_ANSWER = """
SELECT answers.verdict, answered.person, answered.at FROM @answers AS answers
LEFT JOIN @answered AS answered
ON answered.run = answers.run AND answered.step = answers.step AND answered.call = answers.call
WHERE answers.run = ? AND answers.call = ? AND answers.step {which} ORDER BY answers.step DESC
"""

_QUEUE_TURN = """
INSERT INTO @turns (run, session, place)
SELECT ?, ?, COALESCE(MAX(place), 0) + 1 FROM @turns WHERE session = ? ON CONFLICT DO NOTHING
"""
_RUNS_AHEAD = """
SELECT ahead.run FROM @turns AS ahead JOIN @turns AS mine ON ahead.session = mine.session
WHERE mine.run = ? AND ahead.place < mine.place ORDER BY ahead.place
"""
# DBOS's own `resume` would also bring back a run that has just been cancelled.
_UNPARK = (
    "UPDATE {table} SET queue_name = ? WHERE workflow_uuid = ? AND status = 'ENQUEUED' AND queue_name = ?"
)


def result_key(call_id: str) -> str:
    """Return the key of a result among the answers; a call may have both an approval and a result."""
    return f"result:{call_id}"


class Client:
    """Durable runs in one database. May be used from several threads."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._lock = threading.Lock()
        self._engine: Any = None

    @property
    def engine(self) -> Any:
        """Client of DBOS.

        Raises:
            DurableError: The database is unavailable.
            MissingExtraError: The extra is not installed.
        """
        with self._lock:
            if self._engine is None:
                dbos = import_dbos()
                self.database.prepare()
                self._migrate(dbos)
                self._engine = dbos.DBOSClient(
                    system_database_url=self.database.engine_url,
                    serializer=json_serializer(),
                    application_name=APP_NAME,
                    system_database_pool_size=2,
                    lazy=True,
                )
            return self._engine

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            engine, self._engine = self._engine, None
            if engine is not None:
                engine.destroy()
        self.database.close()

    # -- submitting -----------------------------------------------------------------------------

    def submit(
        self,
        agent: str,
        task: str,
        *,
        run_id: str | None = None,
        priority: int | None = None,
        **options: Any,
    ) -> str:
        """Queue a task for a worker, and return the run's id; see `Engine.submit`."""
        text: object = task
        if not isinstance(text, str) or not text.strip():
            raise ConfigError(notice("library.task_blank", task=task))
        if priority is not None and not 1 <= priority <= _MAX_PRIORITY:
            raise ConfigError(notice("library.priority", priority=priority, max_priority=_MAX_PRIORITY))
        run_id, session_id = check_session_name(run_id or new_session_id()), options.pop("session_id", None)
        packed = pack_options(options)
        enqueue_options: dict[str, Any] = {
            "workflow_name": WORKFLOW,
            "queue_name": self._queue_of(check_agent_name(agent)),
            "workflow_id": run_id,
            "app_version": APP_VERSION,
            **({} if priority is None else {"priority": priority}),
        }
        session = run_id if session_id is None else check_session_name(session_id)
        with self.translate_errors():
            trace_context = carrier()  # trace of the caller, if any
            inputs = keep_options(self.database, run_id, packed)
            extra_args = (
                (trace_context or {}, inputs) if inputs else (trace_context,) if trace_context else ()
            )
            self.engine.enqueue(enqueue_options, agent, clean_text(task), session, *extra_args)
        return run_id

    def agents(self) -> dict[str, str]:
        """Return the registered agents, each with the queue of its runs."""
        rows = self.database.rows("SELECT name, queue FROM @agents ORDER BY name")
        return {str(name): str(queue) for name, queue in rows}

    def _queue_of(self, agent: str) -> str:
        agents = self.agents()
        if agent in agents:
            return agents[agent]
        if not agents:
            raise ConfigError(notice("library.no_worker", place=self.database.display_url, agent=agent))
        raise ConfigError(notice("library.unknown_agent", agent=agent, agents=", ".join(agents)))

    # -- querying -------------------------------------------------------------------------------

    def info(self, run_id: str) -> TaskInfo:
        """Return the current information about a run.

        Raises:
            DurableNotFoundError: The run does not exist.
        """
        with self.translate_errors():
            workflows = self.engine.list_workflows(workflow_ids=[storable(str(run_id))], name=WORKFLOW)
        if not workflows:
            raise DurableNotFoundError(
                notice("library.no_run", run_id=run_id, place=self.database.display_url)
            )
        info = task_info(workflows[0])
        if info.status == "pending" and (ahead := self.run_ahead(info.run_id)):
            info.details["run_ahead"] = ahead
        return info

    def tasks(
        self, status: str | None = None, agent: str | None = None, limit: int | None = None
    ) -> list[TaskInfo]:
        """Return runs, newest first; see `Engine.tasks`."""
        if status is not None and status not in TASK_STATES:
            raise ConfigError(
                notice("library.unknown_status", status=status, task_states=", ".join(TASK_STATES))
            )
        tasks: list[TaskInfo] = []
        for info in self._iterate(status):
            if limit is not None and len(tasks) >= limit:
                break
            if status in (None, info.status) and agent in (None, info.agent):
                tasks.append(info)
        return tasks

    def _iterate(self, status: str | None) -> Iterator[TaskInfo]:
        options: dict[str, Any] = {"name": WORKFLOW, "sort_desc": True, "limit": _PAGE}
        if status is not None:
            options["status"] = _ENGINE_STATES.get(status, ["SUCCESS"])
        offset = 0
        while True:
            with self.translate_errors():
                page = self.engine.list_workflows(**options, offset=offset)
            yield from map(task_info, page)
            if len(page) < _PAGE:
                return
            offset += _PAGE

    # -- changing -------------------------------------------------------------------------------

    def cancel(self, run_id: str) -> TaskInfo:
        """Cancel a run in any state. A run that has ended is not changed."""
        info = self.info(run_id)
        if info.has_ended:
            return info
        # Recorded first, so that a concurrent requeue (after an answer or a dead worker) does not bring the
        # run back.
        self.database.change("INSERT INTO @cancelled (run) VALUES (?) ON CONFLICT DO NOTHING", run_id)
        if info.status in WAITING:
            # For DBOS a waiting run has ended; it can be cancelled in a queue without workers.
            with self.translate_errors(), contextlib.suppress(import_dbos().error.DBOSException):
                self.engine.rewind_workflow(run_id, queue_name=PARKED_QUEUE)
        with self.translate_errors():
            self.engine.cancel_workflow(run_id)
        return self.info(run_id)

    def answer(self, run_id: str, call_id: str, verdict: Verdict, by: str | None = None) -> None:
        """Answer a question of a run; the run resumes after the last answer. See `Handle.answer`.

        Raises:
            AlreadyAnsweredError: The call has an answer; the error holds it, its author and its time.
            ConfigError: The run has no question about this call.
            DurableNotFoundError: The run does not exist.
        """
        info = self.info(run_id)
        steps = {question.call_id: question.step for question in info.questions}
        self._record_first(info, "question", call_id, steps, asdict(as_answer(verdict)), by)

    def give_result(
        self, run_id: str, call_id: str, result: Any, *, is_error: bool = False, by: str | None = None
    ) -> None:
        """Give the result of a call made outside the run; the run resumes after the last one.

        Raises:
            AlreadyAnsweredError: The call has a result.
            ConfigError: The run does not wait for a result of this call.
            DurableNotFoundError: The run does not exist.
        """
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
        check_by(by)
        run_id, verdict, author = info.run_id, json.dumps(plain), (by or account_here(), time.time())
        call = call_id if what == "question" else result_key(call_id)

        def write(change: Change) -> list[tuple[Any, ...]]:
            if call_id not in steps:  # the question may have been answered before
                return list(change(_SELECT_ANSWER.format(which=">= ?"), run_id, call, 0).fetchall())
            step = steps[call_id]
            if change(_INSERT_ANSWER, run_id, step, call, verdict).rowcount:
                change(_INSERT_AUTHOR, run_id, step, call, *author)
            return list(change(_SELECT_ANSWER.format(which="= ?"), run_id, call, step).fetchall())

        rows = self.database.transaction(write)
        if not rows:
            check_waits(what, call_id, steps)
        first, first_by, at = rows[0]
        if (first, first_by, at) != (verdict, *author):  # equal if an earlier attempt of this call wrote it
            raise already_answered(call_id, json.loads(first), first_by, at)
        self._resume_if_answered(self.info(run_id))

    def resume_answered(self) -> list[str]:
        """Resume runs that are fully answered, but were not requeued by the process that answered.

        Returns:
            The ids of the resumed runs.
        """
        resumed = []
        for (run_id,) in self.database.rows("SELECT DISTINCT run FROM @answered WHERE taken = 0"):
            steps = self.database.rows(
                "SELECT DISTINCT step FROM @answered WHERE run = ? AND taken = 0", run_id
            )
            try:
                info = self.info(run_id)
            except DurableError as error:  # the run was deleted: do not block other runs
                LOG.warning("An answer belongs to a missing run: %s", error)
                continue
            if info.status in WAITING:
                resumed += [run_id] if self._resume_if_answered(info) else []
            else:
                self._mark_taken(run_id, [step for (step,) in steps])
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
        older = {key: value for key, value in answers.items() if "result" in value}  # stored by call id alone
        return {(step, result_key(call)): value for (step, call), value in older.items()} | answers

    def forget_answers(self, run_id: str) -> None:
        """Delete the answers of a run that starts again: they belong to other calls."""
        self.database.change("DELETE FROM @answers WHERE run = ?", run_id)
        self.database.change("DELETE FROM @answered WHERE run = ?", run_id)

    def _resume(self, info: TaskInfo) -> None:
        queue = self._queue_of(info.agent)
        # If two answers race, the second resume does nothing.
        with self.translate_errors(), contextlib.suppress(import_dbos().error.DBOSException):
            self.engine.rewind_workflow(info.run_id, queue_name=queue)

    # -- for workers ----------------------------------------------------------------------------

    def is_cancelled(self, run_id: str) -> bool:
        """Return True if a run was cancelled, even if it was requeued at the same time."""
        return bool(self.database.rows("SELECT 1 FROM @cancelled WHERE run = ?", run_id))

    def take_turn(self, run_id: str, session_id: str) -> str:
        """Queue a run for its session, or keep its place in the queue.

        Durable runs of one session are executed one after another. Until a run has ended, even while it waits
        for an answer or its worker is dead, no other run starts in its session.

        Returns:
            The id of the unfinished run ahead; empty if it is this run's turn.
        """
        while not self.database.rows("SELECT 1 FROM @turns WHERE run = ?", run_id):
            self.database.change(_QUEUE_TURN, run_id, session_id, session_id)
        return self.run_ahead(run_id)

    def run_ahead(self, run_id: str) -> str:
        """Return the id of the unfinished run ahead in the session; empty for none."""
        for (other,) in self.database.rows(_RUNS_AHEAD, run_id):
            with self.translate_errors():
                workflows = self.engine.list_workflows(workflow_ids=[other], name=WORKFLOW)
            if workflows and not task_info(workflows[0]).has_ended:
                return str(other)
            self.database.change("DELETE FROM @turns WHERE run = ?", other)
        return ""

    def release_parked(self) -> list[str]:
        """Requeue parked runs whose turn in their session has come.

        Returns:
            The ids of these runs.
        """
        released = []
        parked = self.engine.list_workflows(status="ENQUEUED", name=WORKFLOW, queue_name=PARKED_QUEUE)
        unpark = _UNPARK.format(
            table="workflow_status" if self.database.is_sqlite else "dbos.workflow_status"
        )
        for info in map(task_info, parked):
            if self.run_ahead(info.run_id):
                continue
            if self.database.change(unpark, self._queue_of(info.agent), info.run_id, PARKED_QUEUE):
                released.append(info.run_id)
        return released

    def register_agents(self, agents: Mapping[str, str]) -> None:
        """Register agents, each with the queue it takes its runs from."""
        for name, queue in agents.items():
            self.database.change(
                "INSERT INTO @agents (name, queue) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET queue = excluded.queue",
                name,
                queue,
            )

    def running(self, executor: str | None = None) -> dict[str, list[tuple[str, str]]]:
        """Return the running runs by executor, each with its queue; None for all executors."""
        by_executor: dict[str, list[tuple[str, str]]] = {}
        only = {} if executor is None else {"executor_id": executor}
        workflows = self.engine.list_workflows(
            status="PENDING", name=WORKFLOW, load_input=False, load_output=False, **only
        )
        for workflow in workflows:
            row = (workflow.workflow_id, workflow.queue_name or PARKED_QUEUE)
            by_executor.setdefault(str(workflow.executor_id), []).append(row)
        return by_executor

    def hand_over(self, executor: str) -> list[str]:
        """Requeue the runs of a dead executor for another one."""
        rows = self.running(executor).get(executor, [])
        for run_id, queue in rows:
            self.engine.resume_workflow(run_id, queue_name=queue)
        return [run_id for run_id, _ in rows]

    @contextlib.contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise database errors as `DurableError`."""
        from sqlalchemy.exc import SQLAlchemyError

        raised: tuple[type[BaseException], ...] = (SQLAlchemyError, *self.database.errors())
        try:
            yield
        except raised as error:
            reason = str(getattr(error, "orig", None) or error).splitlines()[0]
            raise DurableError(
                notice("library.database_unavailable_why", place=self.database.display_url, reason=reason)
            ) from error

    def _migrate(self, dbos: Any) -> None:
        if self.database.is_sqlite:
            exists = self.database.rows("SELECT 1 FROM sqlite_master WHERE name = 'workflow_status'")
        else:
            exists = self.database.rows("SELECT 1 WHERE to_regclass('dbos.workflow_status') IS NOT NULL")
        if not exists:
            # In this combination DBOS uses an SQL function for milliseconds that older SQLite lacks.
            if self.database.is_sqlite and sys.version_info >= (3, 12) and sqlite_version_info < (3, 42):
                raise DurableError(notice("library.sqlite_old", sqlite_version=sqlite_version))
            with self.translate_errors():
                dbos.DBOS.migrate(self.database.engine_url)


# -- handle of a durable run, for any process ------------------------------------------------------------

POLL_SECONDS = 0.1


class Handle:
    """Handle of a durable run, which runs independently of the handle.

    Args:
        client: Client of the database.
        run_id: Id of the run.
    """

    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self.run_id = run_id

    def info(self) -> TaskInfo:
        """Return all information about the run.

        Raises:
            DurableError: The run does not exist, or the database is unavailable.
        """
        return self._client.info(self.run_id)

    def status(self) -> str:
        """Return the status: one of `pure_agent_loop.durable.TASK_STATES`."""
        return self.info().status

    @property
    def questions(self) -> list[PermissionRequest]:
        """Questions that a person must answer before the run resumes."""
        return self.info().questions

    def result(self, timeout: float | None = None) -> TaskInfo:
        """Wait until the run has ended, or waits for a permission or an external result.

        Args:
            timeout: Maximum seconds to wait; None for no limit.

        Raises:
            TimeoutError: The run has not ended by then; it continues.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not _has_stopped(info := self.info()):
            self._check_deadline(deadline, timeout, info)
            time.sleep(POLL_SECONDS)
        return info

    async def aresult(self, timeout: float | None = None) -> TaskInfo:
        """Wait until the run has ended; see `result`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not _has_stopped(info := await asyncio.to_thread(self.info)):
            self._check_deadline(deadline, timeout, info)
            await asyncio.sleep(POLL_SECONDS)
        return info

    async def events(self, *, follow: bool = True, after: int = 0) -> AsyncIterator[AnyEvent]:
        """Yield the events of the run from the start, as they happen, until it has ended.

        After the death of a worker there is another ``loop_start``. Deltas of an answer may be missing; the
        whole answer always comes.

        Args:
            follow: False to end after the present events.
            after: `Event.number` of the last known event, for a reader that returns.
        """
        last = after
        while True:
            info = await asyncio.to_thread(self.info)
            new_events = await asyncio.to_thread(read_events, self._client.database, self.run_id, last)
            for event in new_events:
                last = event.number
                yield event
            if not new_events and (info.has_ended or not follow):
                return
            if not new_events:
                await asyncio.sleep(POLL_SECONDS)

    def cancel(self) -> TaskInfo:
        """Cancel the run. A running tool is stopped within about a second."""
        return self._client.cancel(self.run_id)

    def answer(self, call_id: str, verdict: Verdict, *, by: str | None = None) -> None:
        """Answer one of the `questions`. The run resumes after the last answer.

        The first answer wins, in whichever process. The error for a repeated answer shows the first one and
        its author.

        Args:
            call_id: Id of the call.
            verdict: ``allow``, ``deny``, or a `Permission` with details.
            by: Author of the answer, for the record; None for this account.

        Raises:
            AlreadyAnsweredError: The call has an answer; the error holds it, its author and its time.
            ConfigError: The run has no question about this call, or the verdict is invalid.
        """
        self._client.answer(self.run_id, call_id, verdict, by)

    @property
    def open_calls(self) -> list[ToolCall]:
        """Calls whose results come from outside the run and are missing."""
        return self.info().open_calls

    def give_result(
        self, call_id: str, result: Any, *, is_error: bool = False, by: str | None = None
    ) -> None:
        """Give the result of one of the `open_calls`. The run resumes after the last one.

        Args:
            call_id: Id of the call.
            result: A text, or a value with a JSON form.
            is_error: True if the call failed; `result` is then the error.
            by: Author of the result, for the record; None for this account.

        Raises:
            AlreadyAnsweredError: The call has a result.
            ConfigError: The run does not wait for a result of this call.
        """
        self._client.give_result(self.run_id, call_id, result, is_error=is_error, by=by)

    def _check_deadline(self, deadline: float | None, timeout: float | None, info: TaskInfo) -> None:
        if deadline is not None and time.monotonic() >= deadline:
            ahead = info.details.get("run_ahead")
            reason = notice("library.run_ahead", ahead=ahead) if ahead else ""
            raise TimeoutError(
                notice(
                    "library.run_still",
                    run_id=self.run_id,
                    status=info.status,
                    timeout=timeout,
                    reason=reason,
                )
            )


def _has_stopped(info: TaskInfo) -> bool:
    return info.has_ended or info.status in WAITING
