"""One attempt to execute a durable run, from the start or from the session's records.

The session's journal records each intent and result, so that a finished effect is not repeated. DBOS only
ensures that a worker executes the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.durable.database import EventClock, EventWriter
from pure_agent_loop.durable.run_queue import RunQueue, result_key
from pure_agent_loop.durable.schedules.notices import bring_notices
from pure_agent_loop.durable.task_options import load_options
from pure_agent_loop.durable.values import MAX_ATTEMPTS, DurableError, shown_exit
from pure_agent_loop.errors import (
    LLMError,
    PureAgentLoopError,
    SessionError,
    SessionLockedError,
    SessionNotFoundError,
    SessionReadError,
    SessionWriteError,
)
from pure_agent_loop.events import EventType
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.permissions import Permission
from pure_agent_loop.result import AgentResult
from pure_agent_loop.runs.run import Run
from pure_agent_loop.runs.settings import DepsOfRun, naming
from pure_agent_loop.sessions import SessionStore
from pure_agent_loop.sessions.store import (
    Loaded,
    Row,
    SessionInfo,
    SessionLog,
    append_all,
    is_remote,
    needs_base,
    tail_option,
)
from pure_agent_loop.sessions.stores.records import BASE, Record
from pure_agent_loop.sessions.transcript import DURABLE_RUN, read_resume_point
from pure_agent_loop.stop_reasons import HANDED_OFF, SUSPENDED, WAITING, WAITING_TOOL
from pure_agent_loop.support.explained import explain
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import present, safe_str, to_jsonable
from pure_agent_loop.tool_context import run_moves

# -- session store for one attempt to execute a durable run ----------------------------------------------
# The store marks the session's runs with the id of the durable run, so that the next attempt resumes it. The
# store detects a takeover of the session, and can stop an attempt between two steps as if the process had
# died there.

PAUSE_SECONDS = 0.5
_MAX_DELAY_SECONDS = 60.0
_MARKED = ("run", BASE)
CANCEL_SECONDS = 5.0


class HandedBackError(SessionError):
    """This process has handed the run back and must write no more records; another one resumes it."""


@dataclass
class Guard:
    """State of an attempt, shared with the worker.

    Args:
        is_draining: True to end the attempt as soon as no tool is running.
        is_cut: True if no more records may be written.
        is_lost: True if another process has taken over the session.
    """

    is_draining: bool = False
    is_cut: bool = False
    is_lost: bool = False


class GuardedLog(SessionLog):
    """An attempt's open session.

    Args:
        run_id: Id of the durable run; None for a subagent's session.
    """

    def __init__(self, log: SessionLog, run_id: str | None, guard: Guard) -> None:
        self._log, self._run_id, self._guard = log, run_id, guard
        self._failure: SessionWriteError | None = None
        self.is_remote: bool = is_remote(log)  # True if the journal must append records in a thread

    @property
    def session_id(self) -> str:
        """Id of the session."""
        return self._log.session_id

    @property
    def records(self) -> Sequence[Record]:
        """Records that the session held when it was opened."""
        return self._log.records

    @property
    def problems(self) -> Sequence[str]:
        """Descriptions of damage found when the session was opened."""
        return self._log.problems

    def append(
        self,
        type: str,  # noqa: A002 - the name of the field
        data: Mapping[str, Any],
        *,
        parent: str | None = None,
        durable: bool = False,
    ) -> Record:
        """Write one record unless the attempt is over; see `SessionLog.append` and `append_all`."""
        return self._write([(type, data)], partial(self._append_one, parent), durable=durable)[0]

    def append_all(self, rows: Sequence[Row], *, durable: bool = False) -> list[Record]:
        """Write records in one commit unless the attempt is over; see `AppendsMany.append_all`.

        While the worker is stopping, records after the last point at which no tool is running are left out:
        they are intents of calls that will never begin.

        Raises:
            HandedBackError: The attempt is over.
            SessionWriteError: These or earlier records could not be written. The next attempt resumes from
                the written records, so this failure must not be recorded.
        """
        if self._guard.is_draining:
            rows = rows[: max((n for n, row in enumerate(rows, 1) if _is_safe_point(*row)), default=None)]
        return self._write(rows, partial(append_all, self._log), durable=durable)

    def _append_one(self, parent: str | None, rows: Sequence[Row], *, durable: bool) -> list[Record]:
        return [self._log.append(*row, parent=parent, durable=durable) for row in rows]

    def _write(
        self, rows: Sequence[Row], append: Callable[..., list[Record]], *, durable: bool
    ) -> list[Record]:
        if self._guard.is_cut:
            raise HandedBackError("This run was returned to the queue.")
        if self._failure is not None:
            raise self._failure
        if self._run_id is not None and any(kind in _MARKED for kind, _ in rows):
            mark, durable = {DURABLE_RUN: self._run_id}, True
            rows = [(kind, {**data, **mark} if kind in _MARKED else data) for kind, data in rows]
        try:
            records = append(rows, durable=durable)
        except SessionLockedError:
            self._guard.is_lost = self._guard.is_cut = True
            raise
        except SessionWriteError as error:
            self._failure = error
            raise
        if self._guard.is_draining and _is_safe_point(*rows[-1]):
            self._guard.is_cut = True
            raise HandedBackError("This run was returned to the queue.")
        return records

    @property
    def needs_base(self) -> bool:
        """True if it is time for a ``base`` record."""
        return needs_base(self._log)

    def close(self) -> None:
        """Release the session for other writers."""
        self._log.close()


def _is_safe_point(kind: str, data: Mapping[str, Any]) -> bool:
    """Return True if no tool is running after this record: after an answer, or at the start of a step."""
    return kind == "answer" or (kind == "state" and data.get("stop_reason") is None)


class GuardedStore:
    """Session store for one attempt of a durable run.

    Args:
        session_id: Session of the run. Sessions of the run's subagents are guarded too.
        seen: Session records on which the attempt is based.
        takeover: True to take the session from a writer that has lost the run, if the store supports it.
    """

    def __init__(
        self,
        store: SessionStore,
        run_id: str,
        session_id: str,
        guard: Guard,
        seen: Sequence[Record],
        *,
        takeover: bool,
    ) -> None:
        self._store, self._run_id, self._guard, self._seen = store, run_id, guard, seen
        self.shared = store  # the store that all attempts share
        self._session_id = session_id
        self._options: dict[str, Any] = {"takeover": True} if takeover else {}

    def open(self, session_id: str, *, create: bool = True) -> GuardedLog:
        """Open a session for writing.

        Raises:
            SessionLockedError: Another process has opened the session, or has written records after `seen`:
                this process may have been frozen, and the run may be over.
        """
        is_tail = session_id != self._session_id or [record.type for record in self._seen[:1]] == [BASE]
        tail = tail_option(self._store.open) if is_tail else {}
        log = self._store.open(session_id, create=create, **self._options, **tail)
        if session_id != self._session_id:
            return GuardedLog(log, None, self._guard)
        if [record.id for record in log.records[-1:]] != [record.id for record in self._seen[-1:]]:
            log.close()
            raise SessionLockedError(session_id, "another process, which has just written to it")
        return GuardedLog(log, self._run_id, self._guard)

    def read(self, session_id: str) -> Loaded:
        """Read a session."""
        return self._store.read(session_id)

    def list(self) -> Sequence[SessionInfo]:
        """Return all sessions."""
        return self._store.list()

    def exists(self, session_id: str) -> bool:
        """Return True if the session exists."""
        return self._store.exists(session_id)

    def delete(self, session_id: str) -> None:
        """Delete a session."""
        self._store.delete(session_id)


def delay_of(earlier: int) -> float:
    """Return the seconds to wait before an attempt, given the number of earlier attempts without progress."""
    return min(2.0 ** (earlier - 1), _MAX_DELAY_SECONDS) if earlier else 0.0


async def insist(
    queue: RunQueue, in_thread: Callable[..., Awaitable[Any]], work: Callable[..., Any], *values: Any
) -> Any:
    """Call a function in a thread; retry while the database is unavailable, so that no run fails."""
    while True:
        try:
            return await in_thread(work, *values)
        except DurableError as error:
            if not queue.is_away(error):
                raise
        await asyncio.sleep(PAUSE_SECONDS)


def attempts_of(records: Sequence[Record], run_id: str) -> int:
    """Count the attempts of a durable run in a session's records."""
    return sum(record.type == "run" and record.data.get(DURABLE_RUN) == run_id for record in records)


def begin_attempt(store: SessionStore, session_id: str, run_id: str) -> None:
    """Record that a run continues a copied session, whose newest run is waiting for answers."""
    with store.open(session_id) as log:
        data = next(record.data for record in reversed(log.records) if record.type == "run")
        log.append("run", {**data, "task": None, DURABLE_RUN: run_id}, durable=True)


def finished_calls(records: Sequence[Record]) -> int:
    """Count the calls that ended in the same attempt in which they began."""
    begun: set[object] = set()
    count = 0
    for record in records:
        if record.type == "run":
            begun.clear()
        elif record.type == "intent":
            begun.add(record.data.get("key"))
        elif record.type == "outcome":
            count += record.data.get("key") in begun
    return count


def records_of_run(records: Sequence[Record], run_id: str) -> Sequence[Record]:
    """Return the records before a later run with a different task; all records if there is no such run.

    Runs may share a session. While a run is waiting for an answer or its worker is dead, another run may
    continue the session; records after the start of the other run do not belong to this run.
    """
    own_starts = [
        n
        for n, record in enumerate(records)
        if record.type == "run" and record.data.get(DURABLE_RUN) == run_id
    ]
    for number in range(own_starts[-1] + 1 if own_starts else 0, len(records)):
        if records[number].type == "run" and isinstance(records[number].data.get("task"), str):
            return records[:number]
    return records


InThread = Callable[..., Any]


class Attempt:
    """One process's attempt to execute a run.

    Args:
        in_thread: Function that runs a function in a thread and returns an awaitable.
        takeover: True if the store can take a session from a writer that has lost its run.
        trace_context: Trace context of the run, in the form that `otel` uses; stored as metadata of the run.
        inputs: Digest of the task's stored options; see `task_options`. Empty if there are none.
        name: Registered name of the agent, used if the agent itself has no name.
        deps: Deps for the `RunContext` of functions.
        max_attempts: Maximum number of attempts without progress.
        clock: Writes the events of several attempts together; None for a new clock.
    """

    def __init__(
        self,
        queue: RunQueue,
        store: SessionStore,
        agent: Agent,
        run_id: str,
        task: str,
        session_id: str,
        in_thread: InThread,
        *,
        takeover: bool = False,
        trace_context: Mapping[str, str] | None = None,
        inputs: str = "",
        name: str = "",
        deps: DepsOfRun | None = None,
        max_attempts: int = MAX_ATTEMPTS,
        clock: EventClock | None = None,
    ) -> None:
        self._clock = clock or EventClock(queue.database, in_thread)
        self._trace_context, self._inputs, self._deps = trace_context, inputs, deps
        self._queue, self._store, self._agent, self._name = queue, store, agent, name
        self._run_id, self._task, self._session_id = run_id, task, session_id
        self._in_thread, self._takeover = in_thread, takeover
        self._max_attempts, self._is_counted = max_attempts, False
        self.guard = Guard()
        self.run_ahead = ""  # id of the unfinished run that holds the session
        self._token = CancelToken()

    async def work(self) -> dict[str, Any] | None:
        """Execute the run, and retry while its session is unavailable.

        Returns:
            The outcome, or None if another process decides the outcome, or if the run must wait for its turn
            in the session. In the latter case, `run_ahead` is the run that holds the session.
        """
        outcome = None
        try:
            outcome = await self._work()
        finally:
            if self._is_counted and outcome is None and not self.guard.is_lost:
                with contextlib.suppress(DurableError):
                    await self._in_thread(self._queue.runs.end_attempt, self._run_id)
        return outcome

    async def _work(self) -> dict[str, Any] | None:
        while not self.guard.is_draining:
            try:
                return await self._try_once()
            except SessionLockedError as error:
                if self.guard.is_lost:
                    return None
                LOG.info(notice("library.run_locked", run=self._run_id, reason=safe_str(error)))
            except PureAgentLoopError as error:
                if not self._is_unavailable(error):
                    return failed_with(error)
                LOG.warning(notice("library.run_database", run=self._run_id, reason=safe_str(error)))
            await asyncio.sleep(PAUSE_SECONDS)
        self.guard.is_cut = True
        return None

    def _is_unavailable(self, error: PureAgentLoopError) -> bool:
        """Return True if the database is unavailable or full: the run itself has not failed, so retry it."""
        away = (SessionWriteError, DurableError)
        return isinstance(error, away) or (self._takeover and isinstance(error, SessionReadError))

    async def _try_once(self) -> dict[str, Any] | None:
        if await self._in_thread(self._queue.is_cancelled, self._run_id):
            return _outcome_without_steps("cancelled")
        self.run_ahead = await self._in_thread(self._queue.take_turn, self._run_id)
        if self.run_ahead:
            return None
        records = await self._in_thread(self._records)
        count = attempts_of(records, self._run_id)
        part = records_of_run(records, self._run_id)
        done = already_done(part) if count else None
        if done is not None:
            return done
        if (killed := await self._counted(records)) is not None:
            return killed
        # Another run has used the session in the meantime, so this run starts over from the end of that run.
        must_restart = count > 0 and len(part) < len(records)
        if must_restart:
            await self._in_thread(self._queue.forget_answers, self._run_id)
        run: Run = await self._in_thread(partial(self._open, records, is_new=count == 0 or must_restart))
        await self._run_shielded(run)
        failure = run.state.failure
        if isinstance(failure, SessionError):  # a record was not written: resume from those that were
            if self.guard.is_cut:
                raise SessionLockedError(self._session_id, notice("library.another_process"))
            LOG.warning(notice("library.run_again", run=self._run_id, reason=safe_str(failure)))
            raise SessionLockedError(self._session_id, "a failed write")
        return outcome_of(run.result())

    async def _counted(self, records: Sequence[Record]) -> dict[str, Any] | None:
        """Count this attempt. If too many attempts died with their process, return the outcome ``killed``."""
        if self._is_counted:
            return None
        progress = finished_calls(records) + len(await self._in_thread(self._queue.answers, self._run_id))
        number, own_maximum = await self._in_thread(self._queue.runs.begin_attempt, self._run_id, progress)
        self._is_counted = True
        maximum = own_maximum or self._max_attempts
        if number > maximum:
            keys = (str(record.data.get("key", "")).partition(":")[0] for record in reversed(records))
            step = int(next(filter(str.isdecimal, keys), 0))  # step of the newest effect
            code = await self._in_thread(self._queue.runs.exit_code, self._run_id)
            reason = notice("library.exit_unknown") if code is None else shown_exit(code)
            error = notice("library.run_kills", attempts=maximum, step=step, reason=reason)
            known = {} if code is None else {"exit_code": code}
            return {**_outcome_without_steps("killed", error), "steps": step, **known}
        if number > 1:
            LOG.warning(notice("library.run_repeated", run=self._run_id, number=number, maximum=maximum))
        return None

    def _records(self) -> list[Record]:
        """Return the newest base and later records, or all records if this run began before that base.

        A durable run begins only after the session's earlier durable runs have ended, so only the newest one
        can be continued.
        """
        self._queue.database.check_file()
        try:
            records = self._store.read(self._session_id, **tail_option(self._store.read)).records
        except SessionNotFoundError:
            return []
        is_before = any(r.type == BASE and r.data.get(DURABLE_RUN) == self._run_id for r in records[:1])
        return self._all_records() if is_before and not attempts_of(records, self._run_id) else records

    def _all_records(self) -> list[Record]:
        return self._store.read(self._session_id).records

    def _open(self, records: list[Record], *, is_new: bool) -> Run:
        takeover = self._takeover and not is_new
        store = GuardedStore(
            self._store, self._run_id, self._session_id, self.guard, records, takeover=takeover
        )
        options = load_options(self._queue.database, self._run_id, self._inputs)
        if attempts_of(records, self._run_id):  # the session already has these messages
            options.pop("messages", None)
        if not is_new:
            options.pop("media", None)
        options["metadata"] = {**options.get("metadata", {}), **(self._trace_context or {})} or None
        inbox = Inbox()
        with naming(self._agent, self._name):
            run = self._agent.prepare(
                self._task if is_new else None,
                session_id=self._session_id,
                sessions=store,
                cancel_token=self._token,
                inbox=inbox,
                deps=self._deps,
                **options,
            )
        bring_notices(self._queue.database, self._session_id, self._all_records, run.prompts, inbox)
        answers = self._queue.answers(self._run_id)
        for question in run.state.questions:
            verdict = answers.get((question.step, question.call_id))
            if verdict is not None:
                run.state.answer_permission(question.call_id, Permission(**verdict))
        for call in run.state.open_calls:
            if (result := answers.get((run.state.step, result_key(call.id)))) is not None:
                run.state.give_result(call.id, result["result"], is_error=result["is_error"])
        return run

    async def _run_shielded(self, run: Run) -> None:
        """Run to the end. If cancelled, let the run end by itself, so that the events are complete."""
        running = asyncio.create_task(self._write_events(run))
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            self._token.cancel("The run was cancelled.")
            await asyncio.wait({running}, timeout=CANCEL_SECONDS)
            running.cancel()
            raise

    async def _write_events(self, run: Run) -> None:
        run_moves()
        writer = EventWriter(self._clock, self._run_id, secrets.token_hex(4))
        try:
            async with aclosing(run.stream()) as events:
                async for event in events:
                    if event.type is EventType.RETRY:
                        about = {"attempt": event.attempt, "delay": event.delay, "error": event.error}
                        LOG.warning(notice("library.run_retries", run=self._run_id, step=event.step, **about))
                    if not self.guard.is_cut:
                        writer.add(event)
        finally:
            await writer.close()


def outcome_of(result: AgentResult) -> dict[str, Any]:
    """Return the recorded part of a result, as JSON."""
    failure = result.state.failure
    kind: dict[str, Any] = {}
    if isinstance(failure, LLMError):
        kind = {"error_kind": failure.kind, "error_title": explain(failure).title}
    output, is_waiting = result.state.output, result.stop_reason == WAITING_TOOL
    outcome: dict[str, Any] = {
        "stop_reason": result.stop_reason,
        "content": result.content,
        "error": result.error,
        "steps": result.steps,
        "tokens": result.usage.total_tokens,
        "cost": result.cost,
        **kind,
        **({} if output is None else {"output": output["value"]}),
        **present(
            questions=[*map(asdict, result.questions)] if result.stop_reason == SUSPENDED else None,
            open_calls=[call.to_dict() for call in result.open_calls] if is_waiting else None,
        ),
    }
    plain: dict[str, Any] = to_jsonable(outcome)
    return plain


def failed_with(error: PureAgentLoopError) -> dict[str, Any]:
    """Return the recorded outcome of a run that could not continue."""
    return _outcome_without_steps("error", safe_str(error))


def _outcome_without_steps(stop_reason: str, error: str = "") -> dict[str, Any]:
    return {"stop_reason": stop_reason, "content": "", "error": error, "steps": 0}


def already_done(records: Sequence[Record]) -> dict[str, Any] | None:
    """Return the outcome of a run that ended before its process died; None for an unfinished run."""
    point = read_resume_point(records)
    reason = None if point.was_cut_off or point.state is None else point.state.get("stop_reason")
    is_unfinished = reason in (None, *WAITING, HANDED_OFF, "cancelled") or point.started_run is not None
    state = None if is_unfinished else point.to_state()
    return None if state is None else outcome_of(AgentResult.from_state(state, []))
