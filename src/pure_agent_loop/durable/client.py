"""Operations on durable runs from any process, even without the agents' code."""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pure_agent_loop.durable.carrier import Carrier
from pure_agent_loop.durable.database import PAGE, Database, read_events
from pure_agent_loop.durable.deletion import Deletion
from pure_agent_loop.durable.listener import EVENTS, RUNS, ChangeWatch
from pure_agent_loop.durable.liveness import known_workers
from pure_agent_loop.durable.run_queue import RunQueue
from pure_agent_loop.durable.task_options import pack_options
from pure_agent_loop.durable.values import (
    TASK_STATES,
    DurableError,
    RunExistsError,
    TaskInfo,
    check_agent_name,
    check_settings,
)
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import AnyEvent
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import PermissionRequest, Verdict
from pure_agent_loop.sessions import check_session_name, new_session_id
from pure_agent_loop.sessions.store import close_store
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.language import checked_choice, notice
from pure_agent_loop.support.text import clean_text

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from pure_agent_loop.llm.messages import Message
    from pure_agent_loop.runs.options import RunOptions

_T = TypeVar("_T")
AWAY_SECONDS = 0.5  # poll interval in seconds while the database is unavailable
_PAGE = 200
_MAX_PRIORITY = 2_147_483_647


class Client:
    """Durable runs in one database. May be used from several threads.

    Args:
        database: Database of the runs.
        waits: True to wait without a time limit while the database is unavailable, as workers must.
        carrier: Engine that moves runs to processes; None for DBOS.
    """

    def __init__(self, database: Database, *, waits: bool = False, carrier: Carrier | None = None) -> None:
        self.database = database
        self.queue = RunQueue(database, carrier=carrier, waits=waits)

    def submit(
        self,
        agent: str,
        task: str,
        messages: list[Message] | None = None,
        *,
        run_id: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        **options: Unpack[RunOptions],
    ) -> Handle:
        """Submit a task. The task runs once, however often it is submitted with the same id.

        The options of the first submission apply.

        Args:
            agent: Name of the agent, as registered by a worker.
            task: Task to do.
            messages: History to continue, for a new session.
            run_id: Id of the run; None for a new id.
            priority: 1 or more, lower values first; runs without a priority come before all others.
            max_attempts: Maximum number of attempts without progress; None for the worker's setting.
            options: Options of `Agent.run`. `session_id` is the session to continue; None for a new one.
                `media` is read immediately and stored in the database. Options that cannot be stored as JSON,
                such as `tools`, must be set on the workers' agent.

        Raises:
            ConfigError: The agent is unknown, or an argument is invalid or cannot be stored as JSON.
            RunExistsError: A run with this id already exists, for a different agent, task or session.
            ImageError: An item of `media` cannot be sent.
            HistoryError: `messages` is not a list of messages.
            DurableError: The database is unavailable.
            MissingExtraError: The extra ``[durable]`` is not installed.
        """
        text: object = task
        if not isinstance(text, str) or not text.strip():
            raise ConfigError(notice("library.task_blank", task=task))
        if priority is not None and not 1 <= priority <= _MAX_PRIORITY:
            raise ConfigError(notice("library.priority", priority=priority, max_priority=_MAX_PRIORITY))
        check_settings({} if max_attempts is None else {"max_attempts": max_attempts})
        is_new = not run_id
        run_id = check_session_name(run_id or new_session_id())
        task = clean_text(task)
        session_id = options.pop("session_id", None)
        session_id = run_id if session_id is None else check_session_name(session_id)
        packed = pack_options({"messages": messages, **options})
        queue, work = self.queue.queue_for(check_agent_name(agent)), (agent, task, session_id)
        self.queue.enqueue(run_id, work, queue, packed, priority=priority, max_attempts=max_attempts)
        if not is_new:
            found = self.queue.brief(run_id)
            if (found.agent, found.task, found.session_id) != (agent, task, session_id):
                raise RunExistsError(notice("library.run_exists", run_id=run_id))
        return Handle(self, run_id)

    async def asubmit(
        self,
        agent: str,
        task: str,
        messages: list[Message] | None = None,
        *,
        run_id: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        **options: Unpack[RunOptions],
    ) -> Handle:
        """Submit a task from async code; see `submit`."""
        return await asyncio.to_thread(
            self.submit,
            agent,
            task,
            messages,
            run_id=run_id,
            priority=priority,
            max_attempts=max_attempts,
            **options,
        )

    def handle(self, run_id: str) -> Handle:
        """Return the handle of a run, whichever process submitted it.

        Raises:
            DurableNotFoundError: The run does not exist.
        """
        self.queue.brief(run_id)
        return Handle(self, run_id)

    def tasks(
        self,
        status: str | None = None,
        agent: str | None = None,
        limit: int | None = 100,
        *,
        session_id: str | None = None,
        offset: int = 0,
    ) -> list[TaskInfo]:
        """Return runs, newest first.

        Args:
            status: Status to match.
            agent: Agent name to match.
            limit: Maximum number; None for all.
            session_id: Session to match.
            offset: Number of runs to skip, for the next page.

        Raises:
            ConfigError: The status is unknown.
            DurableError: The database is unavailable.
        """
        if status is not None:
            checked_choice("status", status, TASK_STATES)
        client, tasks = self.queue, []
        run_ids = client.all_runs.select(
            status, agent, session_id, sys.maxsize if limit is None else limit, offset
        )
        for start in range(0, len(run_ids), _PAGE):
            page = run_ids[start : start + _PAGE]
            infos = {info.run_id: info for info in client.find_runs(workflow_ids=page)}
            tasks += [infos[run_id] for run_id in page if run_id in infos]
        tasks = client.with_attempts(tasks)
        # Check again, because the status may have changed since the ids were read.
        tasks = [info for info in tasks if status in (None, info.status)]
        client.note_void_approvals(tasks)
        return tasks

    def workers(self) -> list[str]:
        """Return the workers that are alive.

        Raises:
            DurableError: The database is unavailable.
        """
        return [worker.name for worker in known_workers(self.queue.database) if worker.is_alive]

    def counts(self) -> dict[str, int]:
        """Return the number of runs by status.

        Raises:
            DurableError: The database is unavailable.
        """
        return self.queue.all_runs.count()

    def delete(self, *run_ids: str, stop: bool = False) -> None:
        """Delete runs with all their data: tasks, sessions, events, answers and subagents.

        The audit log and snapshots of a workspace are kept. On PostgreSQL, a vacuum frees the space.

        Args:
            run_ids: Ids of the runs.
            stop: True to cancel runs that have not ended.

        Raises:
            ConfigError: A run has not ended, or its session also holds runs that are not in `run_ids`.
            DurableError: A run does not exist, or the database is unavailable.
            SessionError: A session is in use, or cannot be deleted.
        """
        with self.deletion() as deletion:
            deletion.delete_runs(run_ids, stop=stop)

    @contextlib.contextmanager
    def deletion(self, *, is_trial: bool = False) -> Iterator[Deletion]:
        """Yield a `Deletion`; after the block, free the space of deleted data in the database file.

        Args:
            is_trial: True to only check, without deleting anything.
        """
        store = self.database.sessions()
        try:
            deletion = Deletion(self.queue, store, is_trial=is_trial)
            try:
                yield deletion
            finally:
                deletion.scrub()
        finally:
            close_store(store)

    def close(self) -> None:
        """Close the connections."""
        self.queue.close()


class RunningClient(Client, ABC):
    """Client that executes runs within a ``with`` block, if it has agents."""

    @property
    @abstractmethod
    def _has_agents(self) -> bool:
        """True if this client has agents that can execute runs."""

    @abstractmethod
    def start(self) -> None:
        """Start executing runs."""

    def __enter__(self) -> Self:
        if self._has_agents:
            try:
                self.start()
            except BaseException:
                self.close()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Handle:
    """Handle of a durable run; the run does not depend on its handle.

    Args:
        client: Client of the database.
        run_id: Id of the run.
    """

    def __init__(self, client: Client, run_id: str) -> None:
        self._queue = client.queue
        self.run_id = run_id

    def info(self) -> TaskInfo:
        """Return all information about the run.

        Raises:
            DurableError: The run does not exist, or the database is unavailable.
        """
        return self._complete(self._queue.info(self.run_id))

    def status(self) -> str:
        """Return the status: one of `pure_agent_loop.durable.TASK_STATES`."""
        return self.info().status

    @property
    def questions(self) -> list[PermissionRequest]:
        """Questions that a person must answer before the run resumes."""
        return self.info().questions

    def result(self, timeout: float | None = None) -> TaskInfo:
        """Wait until the run has ended, or is waiting for a permission or an external result.

        Args:
            timeout: Maximum seconds to wait, including any time in which the database is unavailable; None
                for no limit.

        Raises:
            TimeoutError: The run did not end in time; it continues.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        with contextlib.ExitStack() as stack:
            watch = None
            while (info := self._look()) is None or not has_stopped(info):
                seconds = self._seconds_left(deadline, timeout, info)
                watch = watch or stack.enter_context(self._watch())
                watch.wait(seconds)
        return info

    async def aresult(self, timeout: float | None = None) -> TaskInfo:
        """Wait until the run has ended or is waiting; see `result`."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        with contextlib.ExitStack() as stack:
            watch = None
            while (info := await asyncio.to_thread(self._look)) is None or not has_stopped(info):
                seconds = self._seconds_left(deadline, timeout, info)
                watch = watch or stack.enter_context(self._watch())
                await watch.wait_in_loop(seconds)
        return info

    async def events(self, *, follow: bool = True, after: int = 0) -> AsyncIterator[AnyEvent]:
        """Yield the events of the run from the start, as they happen, until it has ended.

        After a worker has died, there is another ``loop_start`` event. Deltas of an answer may be missing;
        the complete answer is always yielded.

        Args:
            follow: False to end after the events that have been stored so far.
            after: `Event.number` of the last known event, for a reader that reconnects.
        """
        async with aclosing(looks(self, after)) as found:
            async for info, new_events in found:
                for event in new_events:
                    yield event
                if (len(new_events) < PAGE and not follow) or (not new_events and info.has_ended):
                    return

    def cancel(self) -> TaskInfo:
        """Cancel the run. A running tool is stopped within about a second."""
        return self._queue.cancel(self.run_id)

    def answer(self, call_id: str, verdict: Verdict, *, by: str | None = None) -> None:
        """Answer one of the `questions`. The run resumes after the last answer.

        The first answer counts, whichever process gives it. The error for a second answer shows the first one
        and who gave it.

        Args:
            call_id: Id of the call.
            verdict: ``allow``, ``deny``, or a `Permission` with details.
            by: Name to record as the author of the answer; None for the user account of this process.

        Raises:
            AlreadyAnsweredError: The call already has an answer; the error holds the answer, its author and
                its time.
            ConfigError: The run did not ask about this call, or the verdict is invalid.
        """
        self._queue.answer(self.run_id, call_id, verdict, by)

    @property
    def open_calls(self) -> list[ToolCall]:
        """Calls whose results come from outside the run and have not been given yet."""
        return self.info().open_calls

    def give_result(
        self, call_id: str, result: Any, *, is_error: bool = False, by: str | None = None
    ) -> None:
        """Give the result of one of the `open_calls`. The run resumes after the last result.

        Args:
            call_id: Id of the call.
            result: A string, or a value that can be written as JSON.
            is_error: True if the call failed; `result` is then the error.
            by: Name to record as the author of the result; None for the user account of this process.

        Raises:
            AlreadyAnsweredError: The call already has a result.
            ConfigError: The run is not waiting for this call's result.
        """
        self._queue.give_result(self.run_id, call_id, result, is_error=is_error, by=by)

    def _watch(self, *, events: bool = False) -> contextlib.AbstractContextManager[ChangeWatch]:
        topic = f"{self.run_id}{EVENTS}" if events else self.run_id
        return self._queue.database.listener.watch(RUNS, topic)

    def _look(self) -> TaskInfo | None:
        """Return information about the run, with all details once it has stopped; None during an outage."""
        return self._unless_away(self._brief)

    def _brief(self) -> TaskInfo:
        info = self._queue.brief(self.run_id)
        return self._complete(self._queue.with_attempts([info])[0]) if has_stopped(info) else info

    def _unless_away(self, read: Callable[[], _T]) -> _T | None:
        """Return the result of a function that reads the database; None during an outage."""
        try:
            return read()
        except DurableError as error:
            if not self._queue.is_away(error):
                raise
            return None

    def _complete(self, info: TaskInfo) -> TaskInfo:
        if has_stopped(info):
            self._queue.note_void_approvals([info])
        return info

    def _seconds_left(self, deadline: float, timeout: float | None, info: TaskInfo | None) -> float:
        """Return the seconds until the next poll. Raises TimeoutError after the deadline."""
        if (seconds := deadline - time.monotonic()) > 0:
            return seconds if info is not None else min(seconds, AWAY_SECONDS)
        if info is None:
            raise TimeoutError(notice("library.run_unknown", run_id=self.run_id, timeout=timeout))
        ahead = self._queue.run_ahead(self.run_id) if info.status == "pending" else ""
        reason = notice("library.run_ahead", ahead=ahead) if ahead else ""
        raise TimeoutError(
            notice(
                "library.run_still", run_id=self.run_id, status=info.status, timeout=timeout, reason=reason
            )
        )


def has_stopped(info: TaskInfo) -> bool:
    """Return True if a run has ended, or is waiting."""
    return info.has_ended or info.status in WAITING


async def looks(handle: Handle, after: int) -> AsyncGenerator[tuple[TaskInfo, list[AnyEvent]], None]:
    """Yield information about a run, together with its new events, each time something may have changed.

    If an item shows that the run has stopped and contains no events, all events have been yielded.

    Args:
        after: `Event.number` of the last known event.
    """
    with contextlib.ExitStack() as stack:
        watch = None
        while True:
            # Read the state before the events, so that no event is missed at the end.
            info = await asyncio.to_thread(handle._look)
            events = None
            if info is not None:
                read = partial(read_events, handle._queue.database, handle.run_id, after)
                events = await asyncio.to_thread(handle._unless_away, read)
            if info is not None and events is not None:
                after = events[-1].number if events else after
                yield info, events
                if len(events) == PAGE or (events and has_stopped(info)):
                    continue
            watch = watch or stack.enter_context(handle._watch(events=True))
            await watch.wait_in_loop(AWAY_SECONDS if events is None else None)
