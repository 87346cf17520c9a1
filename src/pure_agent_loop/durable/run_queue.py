"""Queue of the durable runs in one database: operations on a run for workers and handles, by run id."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from pure_agent_loop.durable.carrier import MAX_VALUES, Carrier, DbosCarrier
from pure_agent_loop.durable.database import Change, Database, reason_of, storable
from pure_agent_loop.durable.listener import EVENTS, RUNS, SCHEDULES, WORK
from pure_agent_loop.durable.run_table import RunTable
from pure_agent_loop.durable.task_options import store_options
from pure_agent_loop.durable.values import (
    APP_VERSION,
    FIRED,
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
from pure_agent_loop.runs.tracing import carrier as trace_carrier
from pure_agent_loop.sessions.questions import GivenAnswer, already_answered, author_of
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import as_text

_INSERT_ANSWER = """
INSERT INTO @answers (run, step, call, verdict) VALUES (?, ?, ?, ?)
ON CONFLICT (run, step, call) DO NOTHING
"""
# `taken` becomes 1 only after the run has been resumed, because the process may die before that.
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
_VOID_APPROVALS = """
SELECT answers.run, answers.call, answers.verdict, events.line FROM @answers AS answers
JOIN @events AS events ON events.run = answers.run AND events.step = answers.step
WHERE answers.run IN ({runs}) AND events.type = 'observation' ORDER BY events.number
"""


def result_key(call_id: str) -> str:
    """Return the key under which a call's result is stored; a call may have both an approval and a result."""
    return f"result:{call_id}"


class RunQueue:
    """Queue of the durable runs in one database. May be used from several threads.

    Args:
        carrier: Engine that moves runs to processes; None for DBOS.
        waits: True to wait without a time limit while the database is unavailable, as workers must.
    """

    def __init__(self, database: Database, *, carrier: Carrier | None = None, waits: bool = False) -> None:
        self.database, self.runs = database, RunTable(database)
        self._carrier: Carrier = carrier or DbosCarrier(database, waits=waits)

    @property
    def carrier(self) -> Carrier:
        """The open carrier, which delivers runs to processes.

        Raises:
            DurableError: The database is unavailable.
            MissingExtraError: The extra is not installed.
        """
        with self.translate_errors():
            self._carrier.open()
        return self._carrier

    @property
    def all_runs(self) -> RunTable:
        """The run table, after adding the runs of older versions. Raises the errors of `carrier`."""
        _ = self.carrier  # adds them
        return self.runs

    def close(self) -> None:
        """Close the connections."""
        self._carrier.close()
        self.database.close()

    def agents(self) -> dict[str, str]:
        """Return the queue of each registered agent, by agent name."""
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

    def enqueue(
        self,
        run_id: str,
        work: tuple[str, str, str],
        queue: str,
        packed: str,
        *,
        priority: int | None = None,
        max_attempts: int | None = None,
        add: Callable[[Change], None] = lambda _: None,
    ) -> None:
        """Queue a run unless it already exists; see `Client.submit`.

        Args:
            work: Agent name, task, and session id.
            queue: Queue of the agent.
            packed: Options of the task, in the form of `pack_options`.
            priority: Priority of the run, or None.
            max_attempts: Maximum number of attempts without progress; None for the worker's setting.
            add: Function that writes further rows in the same transaction.
        """
        agent, _, session_id = work
        enqueue_options: dict[str, Any] = {
            "workflow_name": WORKFLOW,
            "queue_name": queue,
            "workflow_id": run_id,
            "app_version": APP_VERSION,
            **({} if priority is None else {"priority": priority}),
        }

        def write(change: Change) -> None:
            self.runs.add(change, run_id, agent, session_id, time.time(), max_attempts or 0)
            add(change)

        with self.translate_errors():
            trace_context = trace_carrier()  # trace context of the caller, if there is one
            self.database.change("DELETE FROM @deleted WHERE run = ?", run_id)
            inputs = store_options(self.database, run_id, packed)
            extra_args = (
                (trace_context or {}, inputs) if inputs else (trace_context,) if trace_context else ()
            )
            self.carrier.enqueue(enqueue_options, (*work, *extra_args), write)

    def find_runs(self, **criteria: Any) -> list[TaskInfo]:
        """Return the runs that match criteria; see `Carrier.list`."""
        with self.translate_errors():
            return [task_info(run) for run in self.carrier.list(**criteria)]

    def with_attempts(self, infos: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Return the information about runs, with each run's number of attempts filled in."""
        attempts: dict[str, int] = {}
        for start in range(0, len(infos), MAX_VALUES):
            attempts |= self.runs.attempts([info.run_id for info in infos[start : start + MAX_VALUES]])
        return [replace(info, attempts=attempts.get(info.run_id, 0)) for info in infos]

    def brief(self, run_id: str) -> TaskInfo:
        """Return what the carrier knows about a run: everything except `attempts` and `run_ahead`.

        Raises:
            DurableNotFoundError: The run does not exist.
        """
        runs = self.find_runs(workflow_ids=[storable(str(run_id))])
        if not runs:
            raise DurableNotFoundError(
                notice("library.no_run", run_id=run_id, place=self.database.display_url)
            )
        return runs[0]

    def info(self, run_id: str) -> TaskInfo:
        """Return the current information about a run.

        Raises:
            DurableNotFoundError: The run does not exist.
        """
        (info,) = self.with_attempts([self.brief(run_id)])
        if info.status == "pending" and (ahead := self.run_ahead(info.run_id)):
            info.details["run_ahead"] = ahead
        return info

    def void_approvals(self, run_ids: Sequence[str]) -> dict[str, list[dict[str, str]]]:
        """Return the approved calls that were not made, by run.

        A call is not made if the worker's code has changed since the question: the tool is missing, or it
        rejects the arguments.
        """
        found: dict[str, list[dict[str, str]]] = {}
        for start in range(0, len(run_ids), MAX_VALUES):
            page = run_ids[start : start + MAX_VALUES]
            query = _VOID_APPROVALS.format(runs=", ".join("?" * len(page)))
            for run_id, call_id, verdict, line in self.database.rows(query, *page):
                data = read_json(line)["data"]
                is_approved = read_json(verdict).get("behavior") == "allow"
                if is_approved and data.get("call_id") == call_id and data.get("refused"):
                    void = {"call_id": call_id, "tool": data["tool"], "reason": data["refused"]}
                    known = found.setdefault(run_id, [])
                    if void not in known:  # several attempts may have reported the same call
                        known.append(void)
        return found

    def note_void_approvals(self, infos: Sequence[TaskInfo]) -> None:
        """Add to the runs' details, as `void_approvals`, the approved calls that were not made."""
        found = self.void_approvals([info.run_id for info in infos])
        for info in infos:
            if info.run_id in found:
                info.details["void_approvals"] = found[info.run_id]

    def cancel(self, run_id: str) -> TaskInfo:
        """Cancel a run in any state, unless it has ended."""
        info = self.brief(run_id)
        if info.has_ended:
            return info
        # Record this first, so that a concurrent requeue (after an answer or a dead worker) does not bring
        # the run back.
        self.database.change("INSERT INTO @cancelled (run) VALUES (?) ON CONFLICT DO NOTHING", run_id)
        if info.status in WAITING:
            # The carrier treats a waiting run as ended; `cancel` works only on a queued run.
            self.runs.resume(run_id)
        with self.translate_errors():
            if info.status in WAITING:
                self.carrier.wake(run_id, PARKED_QUEUE)
            self.carrier.cancel(run_id)
        info = self.info(run_id)
        if info.has_ended:
            self.stop(run_id, info.session_id, info.status)
            self.note_end(run_id)
        return info

    def answer(self, run_id: str, call_id: str, verdict: Verdict, by: str | None = None) -> None:
        """Answer a question of a run; see `Handle.answer`."""
        info = self.brief(run_id)
        steps = {question.call_id: question.step for question in info.questions}
        self._record_first(info, "question", call_id, steps, asdict(as_answer(verdict)), by)

    def give_result(
        self, run_id: str, call_id: str, result: Any, *, is_error: bool = False, by: str | None = None
    ) -> None:
        """Give the result of a call made outside the run; see `Handle.give_result`."""
        info = self.brief(run_id)
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
        """In one transaction, store an answer or a result unless there is one, and read the stored one."""
        run_id, verdict, author = info.run_id, json.dumps(plain), (author_of(by), time.time())
        call = call_id if what == "question" else result_key(call_id)

        def write(change: Change) -> list[tuple[Any, ...]]:
            if call_id not in steps:  # not pending: the call may already have an answer
                return list(change(_SELECT_ANSWER.format(which=">= ?"), run_id, call, 0).fetchall())
            step = steps[call_id]
            if change(_INSERT_ANSWER, run_id, step, call, verdict).rowcount:
                change(_INSERT_AUTHOR, run_id, step, call, *author)
            return list(change(_SELECT_ANSWER.format(which="= ?"), run_id, call, step).fetchall())

        rows = self.database.transaction(write)
        if not rows:
            check_waits(what, call_id, steps)
        first, first_by, at = rows[0]
        # If the transaction was repeated, it reads what its first attempt wrote, which is equal.
        if (first, first_by, at) != (verdict, *author):
            raise already_answered(call_id, read_json(first), first_by, at)
        self._resume_if_answered(self.brief(run_id))

    def resume_answered(self) -> list[str]:
        """Resume runs that have all their answers, but which the answering process did not requeue.

        Returns:
            The ids of the resumed runs.
        """
        steps_of_runs: dict[str, list[int]] = {}
        for run_id, step in self.database.rows("SELECT DISTINCT run, step FROM @answered WHERE taken = 0"):
            steps_of_runs.setdefault(run_id, []).append(step)
        resumed = []
        for run_id, steps in steps_of_runs.items():
            try:
                info = self.brief(run_id)
            except DurableError as error:  # skip a deleted run, so that it does not block other runs
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
        answers = {(int(step), str(call)): read_json(verdict) for step, call, verdict in rows}
        # Older versions used the call id alone as the key of a result.
        older = {key: value for key, value in answers.items() if "result" in value}
        return {(step, result_key(call)): value for (step, call), value in older.items()} | answers

    def given_answers(self, run_id: str) -> list[GivenAnswer]:
        """Return people's answers to the questions of a run."""
        given = []
        for call, plain, person, at in self.database.rows(_SELECT_GIVEN, run_id):
            verdict = read_json(plain)
            if "behavior" in verdict:  # not a result
                texts = (verdict["behavior"], verdict.get("message", ""), str(person))
                given.append(GivenAnswer(str(call), *texts, float(at)))
        return given

    def forget_answers(self, run_id: str) -> None:
        """Delete the answers of a run that is starting over, because they belong to earlier calls."""
        self.database.change("DELETE FROM @answers WHERE run = ?", run_id)
        self.database.change("DELETE FROM @answered WHERE run = ?", run_id)

    def _resume(self, info: TaskInfo) -> None:
        queue = self.queue_for(info.agent)
        self.runs.resume(info.run_id)
        with self.translate_errors():
            self.carrier.wake(info.run_id, queue)

    # -- for workers ----------------------------------------------------------------------------

    def is_cancelled(self, run_id: str) -> bool:
        """Return True if a run was cancelled, even if it was requeued at the same time."""
        return bool(self.database.rows("SELECT 1 FROM @cancelled WHERE run = ?", run_id))

    def take_turn(self, run_id: str) -> str:
        """Return the id of the unfinished run ahead in the session; empty if this run's turn has come.

        Durable runs of one session are executed one after another, in the order in which they were submitted.
        Until a run has ended, no other run of its session starts, even while the run is waiting for an answer
        or its worker is dead.
        """
        if not self.runs.has(run_id):  # submitted by an older version of this package
            self.runs.add_missing([self.brief(run_id)])
        return self.run_ahead(run_id)

    def run_ahead(self, run_id: str) -> str:
        """Return the id of the unfinished run ahead in the session; empty if there is none."""
        while (found := self.runs.ahead(run_id)) is not None:
            other, has_outcome = found
            infos = self.find_runs(workflow_ids=[other]) if has_outcome else []
            if not any(info.has_ended for info in infos):
                return other
            # The run was executed by an older version, which did not store its status.
            self.runs.note_status(other, infos[0].status)
        return ""

    def stop(self, run_id: str, session_id: str, stop_reason: str) -> None:
        """Record that a run has ended or is waiting; if it has ended, release the next run of its session."""
        self.runs.note_status(run_id, status_of(stop_reason))
        if stop_reason not in WAITING:
            self.runs.release(session_id)

    def note_end(self, run_id: str) -> None:
        """Wake the readers of a run that has ended, or is waiting."""
        for topic in (run_id, f"{run_id}{EVENTS}"):
            self.database.listener.send(RUNS, topic)
        if run_id.startswith(FIRED):
            self.database.listener.send(WORK, SCHEDULES)

    def register_agents(self, agents: Mapping[str, str]) -> None:
        """Register agents and their queues."""
        for name, queue in agents.items():
            self.database.change(
                "INSERT INTO @agents (name, queue) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET queue = excluded.queue",
                name,
                queue,
            )

    def hand_over(self, executor: str, run_id: str | None = None, queue: str = "") -> list[str]:
        """Requeue the runs that a worker is executing.

        Args:
            executor: Worker that is executing the runs.
            run_id: The only run to requeue; None for all.
            queue: Queue to use; empty for each run's own queue.

        Returns:
            The ids of the requeued runs.
        """
        carrier = self.carrier
        running = carrier.list(status="PENDING", executor_id=executor, load_input=False, load_output=False)
        runs = [run for run in running if run_id in (None, run.workflow_id)]
        for run in runs:
            carrier.requeue(run.workflow_id, queue or run.queue_name or PARKED_QUEUE)
            # If the run was cancelled in the meantime, the requeue has revived it.
            if self.is_cancelled(run.workflow_id):
                carrier.cancel(run.workflow_id)
        return [run.workflow_id for run in runs]

    @contextlib.contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise database errors as `DurableError`."""
        raised = (*self._carrier.errors(), *self.database.errors())
        try:
            yield
        except raised as error:
            raise self.database.unavailable(reason_of(error)) from error

    def is_away(self, error: DurableError) -> bool:
        """Return True if an error means that the database is unavailable, perhaps temporarily."""
        return self.database.means_loss(getattr(error.__cause__, "orig", None) or error.__cause__)

    def note_outcomes(self) -> None:
        """Record the status of runs executed by an older version, or by a worker that was interrupted."""
        stale = self.runs.stale()
        for start in range(0, len(stale), MAX_VALUES):
            for info in self.find_runs(workflow_ids=stale[start : start + MAX_VALUES]):
                if "SUCCESS" in states_of(info.status):  # skip a run that has since been resumed
                    self.runs.note_status(info.run_id, info.status)
