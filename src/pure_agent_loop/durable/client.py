"""What can be done with durable runs from any process, also from one that does not know the agents' code."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from sqlite3 import sqlite_version, sqlite_version_info
from typing import Any

from pure_agent_loop.durable.database import Database, storable
from pure_agent_loop.durable.serial import import_dbos, json_serializer
from pure_agent_loop.durable.values import (
    APP_NAME,
    APP_VERSION,
    PARKED_QUEUE,
    WORKFLOW,
    DurableError,
    TaskInfo,
    check_agent_name,
    task_info,
)
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import TASK_STATES
from pure_agent_loop.kernel.tools.ledger import check_waits
from pure_agent_loop.permissions import Verdict, as_answer
from pure_agent_loop.runs.tracing import carrier
from pure_agent_loop.sessions import check_session_id, new_session_id
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.text import as_text, clean_text

_PAGE = 200
_MOST_PRIORITY = 2_147_483_647
_STATES = {
    "pending": ["ENQUEUED", "DELAYED"],
    "running": ["PENDING"],
    "cancelled": ["CANCELLED", "SUCCESS"],
    "failed": ["ERROR", "SUCCESS"],
    "killed": ["MAX_RECOVERY_ATTEMPTS_EXCEEDED", "SUCCESS"],
}
_SAY = """
INSERT INTO @answers (run, step, call, verdict) VALUES (?, ?, ?, ?)
ON CONFLICT (run, step, call) DO UPDATE SET verdict = excluded.verdict
"""


class Client:
    """Durable runs in one database. May be used from several threads.

    Args:
        database: Where they are kept.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._lock = threading.Lock()
        self._made: Any = None

    @property
    def engine(self) -> Any:
        """The client of DBOS.

        Raises:
            DurableError: The database cannot be used.
            MissingExtraError: The extra is not installed.
        """
        with self._lock:
            if self._made is None:
                dbos = import_dbos()
                self.database.prepare()
                self._migrate(dbos)
                self._made = dbos.DBOSClient(
                    system_database_url=self.database.engine_url,
                    serializer=json_serializer(),
                    application_name=APP_NAME,
                    system_database_pool_size=2,
                    lazy=True,
                )
            return self._made

    def close(self) -> None:
        """Give the connections back."""
        with self._lock:
            made, self._made = self._made, None
            if made is not None:
                made.destroy()
        self.database.close()

    # -- submitting -----------------------------------------------------------------------------

    def submit(
        self,
        agent: str,
        task: str,
        *,
        run_id: str | None = None,
        priority: int | None = None,
        session_id: str | None = None,
    ) -> str:
        """Put a task where a worker takes it up, and return the run's id; `Engine.submit` says more."""
        given: object = task
        if not isinstance(given, str) or not given.strip():
            raise ConfigError(f"task must be text; it is {task!r:.80}.")
        if priority is not None and not 1 <= priority <= _MOST_PRIORITY:
            raise ConfigError(f"priority={priority!r:.40} must be from 1 (first) to {_MOST_PRIORITY}.")
        run_id = check_session_id(run_id or new_session_id())
        options: dict[str, Any] = {
            "workflow_name": WORKFLOW,
            "queue_name": self._queue_of(check_agent_name(agent)),
            "workflow_id": run_id,
            "app_version": APP_VERSION,
            **({} if priority is None else {"priority": priority}),
        }
        session = run_id if session_id is None else check_session_id(session_id)
        with self.asking():
            carried = carrier()  # the trace that the run belongs to, if it does
            more = (carried,) if carried else ()
            self.engine.enqueue(options, agent, clean_text(task), session, *more)
        return run_id

    def agents(self) -> dict[str, str]:
        """The agents that workers have had so far, each with the queue of its runs."""
        return {str(name): str(queue) for name, queue in self._agents()}

    def _agents(self) -> list[tuple[Any, ...]]:
        return self.database.rows("SELECT name, queue FROM @agents ORDER BY name")

    def _queue_of(self, agent: str) -> str:
        known = self.agents()
        if agent in known:
            return known[agent]
        if not known:
            raise ConfigError(
                f"No worker has used {self.database.shown} yet, so nobody knows the agent {agent!r}. Start "
                f"one first: pal worker --agents MODULE:NAME --database {self.database.shown}"
            )
        raise ConfigError(f"There is no agent {agent!r}. There are: {', '.join(known)}.")

    # -- looking --------------------------------------------------------------------------------

    def info(self, run_id: str) -> TaskInfo:
        """A run as it stands.

        Raises:
            DurableError: There is none of that id.
        """
        with self.asking():
            found = self.engine.list_workflows(workflow_ids=[storable(str(run_id))], name=WORKFLOW)
        if not found:
            raise DurableError(f"There is no run {run_id!r:.100} in {self.database.shown}.")
        return task_info(found[0])

    def tasks(
        self, status: str | None = None, agent: str | None = None, limit: int | None = None
    ) -> list[TaskInfo]:
        """Runs, the newest first; `Engine.tasks` says more."""
        if status is not None and status not in TASK_STATES:
            raise ConfigError(f"status={status!r:.40} is not known. Use one of: {', '.join(TASK_STATES)}.")
        wanted: list[TaskInfo] = []
        for each in self._all(status):
            if limit is not None and len(wanted) >= limit:
                break
            if status in (None, each.status) and agent in (None, each.agent):
                wanted.append(each)
        return wanted

    def _all(self, status: str | None) -> Iterator[TaskInfo]:
        options: dict[str, Any] = {"name": WORKFLOW, "sort_desc": True, "limit": _PAGE}
        if status is not None:
            options["status"] = _STATES.get(status, ["SUCCESS"])
        offset = 0
        while True:
            with self.asking():
                page = self.engine.list_workflows(**options, offset=offset)
            yield from map(task_info, page)
            if len(page) < _PAGE:
                return
            offset += _PAGE

    # -- changing -------------------------------------------------------------------------------

    def cancel(self, run_id: str) -> TaskInfo:
        """Cancel a run, whatever it does or waits for. One that has ended stays as it is."""
        if self.info(run_id).status in WAITING:
            # For the engine it is done; where nobody takes it up it can be cancelled.
            with self.asking(), contextlib.suppress(import_dbos().error.DBOSException):
                self.engine.rewind_workflow(run_id, queue_name=PARKED_QUEUE)
        with self.asking():
            self.engine.cancel_workflow(run_id)
        return self.info(run_id)

    def answer(self, run_id: str, call_id: str, verdict: Verdict) -> None:
        """Answer a question of a run; it goes on when none is left.

        Raises:
            ConfigError: Nothing is asked about that call, or it is answered with something else.
            DurableError: There is no such run.
        """
        info = self.info(run_id)
        asked = {each.call_id: each for each in info.questions}
        check_waits("question", call_id, asked)
        plain = json.dumps(asdict(as_answer(verdict)))
        self.database.change(_SAY, run_id, asked[call_id].step, call_id, plain)
        answered = self.answers(run_id)
        if all((each.step, each.call_id) in answered for each in info.questions):
            self._go_on(info)

    def give_result(self, run_id: str, call_id: str, result: Any, *, is_error: bool = False) -> None:
        """Bring the result of a call that is made elsewhere; the run goes on when none is left.

        Raises:
            ConfigError: The result of no such call is awaited.
            DurableError: There is no such run.
        """
        info = self.info(run_id)
        awaited = [each.id for each in info.open_calls]
        check_waits("result", call_id, awaited)
        plain, step = json.dumps({"result": as_text(result), "is_error": is_error}), info.details["steps"]
        self.database.change(_SAY, run_id, step, call_id, plain)
        given = self.answers(run_id)
        if all((step, each) in given for each in awaited):
            self._go_on(info)

    def answers(self, run_id: str) -> dict[tuple[int, str], Mapping[str, Any]]:
        """What was answered to the questions of a run, and given as results, by step and call."""
        found = self.database.rows("SELECT step, call, verdict FROM @answers WHERE run = ?", run_id)
        return {(int(step), str(call)): json.loads(verdict) for step, call, verdict in found}

    def forget_answers(self, run_id: str) -> None:
        """A run begins again: what was answered before was about other calls."""
        self.database.change("DELETE FROM @answers WHERE run = ?", run_id)

    def _go_on(self, info: TaskInfo) -> None:
        queue = self._queue_of(info.agent)
        # Two who answer at the same moment both come here: the second finds that it goes on already.
        with self.asking(), contextlib.suppress(import_dbos().error.DBOSException):
            self.engine.rewind_workflow(info.run_id, queue_name=queue)

    # -- for workers ----------------------------------------------------------------------------

    def offer(self, agents: Mapping[str, str]) -> None:
        """Say which agents there are, and which queue each takes its runs from."""
        for name, queue in agents.items():
            self.database.change(
                "INSERT INTO @agents (name, queue) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET queue = excluded.queue",
                name,
                queue,
            )

    def running(self, executor: str | None = None) -> dict[str, list[tuple[str, str]]]:
        """The runs that are at work by executor, each with its queue; of all executors if None."""
        found: dict[str, list[tuple[str, str]]] = {}
        only = {} if executor is None else {"executor_id": executor}
        listed = self.engine.list_workflows(
            status="PENDING", name=WORKFLOW, load_input=False, load_output=False, **only
        )
        for each in listed:
            row = (each.workflow_id, each.queue_name or PARKED_QUEUE)
            found.setdefault(str(each.executor_id), []).append(row)
        return found

    def hand_over(self, executor: str) -> list[str]:
        """Put the runs of an executor that is gone back into their queues, for another one."""
        rows = self.running(executor).get(executor, [])
        for run_id, queue in rows:
            self.engine.resume_workflow(run_id, queue_name=queue)
        return [run_id for run_id, _ in rows]

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """What the database said, as an error of ours."""
        from sqlalchemy.exc import SQLAlchemyError

        raised: tuple[type[BaseException], ...] = (SQLAlchemyError, *self.database.errors())
        try:
            yield
        except raised as error:
            words = str(getattr(error, "orig", None) or error).splitlines()[0]
            raise DurableError(f"The database {self.database.shown} cannot be used: {words}") from error

    def _migrate(self, dbos: Any) -> None:
        if self.database.is_sqlite:
            made = self.database.rows("SELECT 1 FROM sqlite_master WHERE name = 'workflow_status'")
        else:
            made = self.database.rows("SELECT 1 WHERE to_regclass('dbos.workflow_status') IS NOT NULL")
        if not made:
            # There the engine asks SQLite for milliseconds, whatever its version.
            if self.database.is_sqlite and sys.version_info >= (3, 12) and sqlite_version_info < (3, 42):
                raise DurableError(
                    f"SQLite {sqlite_version} is too old for the durable engine, which needs 3.42 or newer "
                    "on Python 3.12 and later. Use PostgreSQL, a Python with a newer SQLite, or Python 3.11."
                )
            with self.asking():
                dbos.DBOS.migrate(self.database.engine_url)
