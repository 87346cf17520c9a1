"""Execute one session's durable runs, for engines that start processes: `TableEngine`, Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.durable.attempt import Attempt, delay_of, failed_with, insist
from pure_agent_loop.durable.run_queue import RunQueue
from pure_agent_loop.durable.table_carrier import StatesDatabase, TableCarrier
from pure_agent_loop.durable.values import MAX_ATTEMPTS, PARKED_QUEUE, new_executor
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.runs.settings import DepsOfRun
from pure_agent_loop.sessions import SessionStore
from pure_agent_loop.sessions.store import close_store
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import safe_str

WATCH_SECONDS = 1.0  # seconds between checks for cancellation of the current run


def open_runs(url: str) -> tuple[RunQueue, TableCarrier]:
    """Open a database's run queue and carrier."""
    database = StatesDatabase(url)
    carrier = TableCarrier(database)
    return RunQueue(database, carrier=carrier, waits=True), carrier


class SessionWorker:
    """Executes one session's runs in this process.

    Args:
        database: URL of the database.
        session_id: The session.
        agents: Agents by name.
        deps: Function that makes the deps for each attempt; see `Engine`.
        max_attempts: Maximum number of attempts without progress; see `Engine`.
        lease: Seconds without a heartbeat after which a writer on PostgreSQL may be replaced.
    """

    def __init__(
        self,
        database: str,
        session_id: str,
        agents: Mapping[str, Agent],
        *,
        deps: Callable[..., Any] | None = None,
        max_attempts: int = MAX_ATTEMPTS,
        lease: float = 10.0,
    ) -> None:
        self._url, self._session_id, self._agents = database, session_id, agents
        self._deps, self._max_attempts, self._lease = deps, max_attempts, lease
        self._executor = new_executor()
        self.run_id = ""
        """Id of the run being executed; empty if none."""
        self._attempt: Attempt | None = None
        self._task: asyncio.Task[dict[str, Any] | None] | None = None
        self._is_draining = False

    async def work(self) -> None:
        """Execute the session's runs until no run is left, or the next one has to wait."""
        queue, carrier = open_runs(self._url)
        open_store = partial(queue.database.sessions, owner=self._executor, lease=self._lease)
        store = await asyncio.to_thread(open_store)
        try:
            while not self._is_draining:
                first = await insist(queue, asyncio.to_thread, carrier.first_run, self._session_id)
                if first is None or not await self._execute(queue, carrier, store, *first):
                    break
        finally:
            await asyncio.to_thread(close_store, store)
            await asyncio.to_thread(queue.close)

    def cancel(self, run_id: str) -> None:
        """Stop the attempt of a cancelled run at once."""
        if self._task is not None and run_id == self.run_id:
            self._task.cancel()

    def drain(self) -> None:
        """Let running tools finish, and hand back the run."""
        self._is_draining = True
        if self._attempt is not None:
            self._attempt.guard.is_draining = True

    async def _execute(
        self, queue: RunQueue, carrier: TableCarrier, store: SessionStore, run_id: str, args: Sequence[Any]
    ) -> bool:
        """Execute a run; return False if no further run of the session can be executed here now."""
        name, task, session_id, trace_context, inputs = [*args, None, None][:5]
        outcome: dict[str, Any] | None
        if not await insist(queue, asyncio.to_thread, carrier.claim, run_id, self._executor):
            return True
        if (agent := self._agents.get(name)) is None:
            known = ", ".join(self._agents)
            outcome = failed_with(ConfigError(notice("library.unknown_agent", agent=name, agents=known)))
        else:
            earlier = (await insist(queue, asyncio.to_thread, queue.runs.attempts, [run_id])).get(run_id, 0)
            await asyncio.sleep(delay_of(earlier))
            self._attempt = attempt = Attempt(
                queue,
                store,
                agent,
                run_id,
                task,
                session_id,
                asyncio.to_thread,
                takeover=not queue.database.is_sqlite,
                trace_context=trace_context,
                inputs=inputs or "",
                name=name,
                deps=None if self._deps is None else DepsOfRun(self._deps),
                max_attempts=self._max_attempts,
            )
            LOG.info(notice("library.run_claimed", run=run_id, agent=name, session=session_id))
            outcome = await self._watched(queue, run_id, attempt)
            if outcome is None and attempt.run_ahead:
                await insist(queue, asyncio.to_thread, queue.hand_over, self._executor, run_id, PARKED_QUEUE)
                return bool(await insist(queue, asyncio.to_thread, queue.runs.release, session_id))
            # The run was cancelled, or another process took the session.
            if outcome is None and not self._is_draining:
                return not attempt.guard.is_lost
            if outcome is None:
                await insist(queue, asyncio.to_thread, queue.hand_over, self._executor, run_id)
                return False
        await insist(queue, asyncio.to_thread, queue.stop, run_id, session_id, outcome["stop_reason"])
        await insist(queue, asyncio.to_thread, carrier.finish, run_id, self._executor, outcome)
        queue.note_end(run_id)
        return True

    async def _watched(self, queue: RunQueue, run_id: str, attempt: Attempt) -> dict[str, Any] | None:
        """Return the outcome of an attempt; None if the run was cancelled or another process took it over."""
        self.run_id = run_id
        self._task = work = asyncio.create_task(attempt.work())
        try:
            while not (await asyncio.wait({work}, timeout=WATCH_SECONDS))[0]:
                if await insist(queue, asyncio.to_thread, queue.is_cancelled, run_id):
                    work.cancel()
            return await work
        except asyncio.CancelledError:
            return None
        except Exception as error:  # noqa: BLE001 - a bug fails the run; otherwise it would be retried forever
            LOG.exception("Run %s failed.", run_id)
            return failed_with(PureAgentLoopError(safe_str(error)))
        finally:
            self.run_id, self._task, self._attempt = "", None, None
