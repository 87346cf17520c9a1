"""Durable runs: an engine executes the runs, in this process or in another one with the same database.

The server submits, answers and cancels durable runs, and copies the engine's events to the session's channel.
Each copy keeps the engine's number as `source`, so that a restarted server continues after the last copied
event.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from pure_agent_loop.agent import Agent
from pure_agent_loop.durable.attempt import failed_with
from pure_agent_loop.durable.client import has_stopped, looks
from pure_agent_loop.durable.database import Database, SharedLimits, handovers
from pure_agent_loop.durable.deletion import Deletion
from pure_agent_loop.durable.engine import Engine
from pure_agent_loop.durable.health import measure
from pure_agent_loop.durable.liveness import KnownWorker, known_workers
from pure_agent_loop.durable.values import DurableError, TaskInfo
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.limits import PERSON
from pure_agent_loop.permissions import Permission
from pure_agent_loop.server.entries import plain_event
from pure_agent_loop.server.hub import Hub
from pure_agent_loop.server.runs_file import ActiveRun, RunInfo
from pure_agent_loop.server.work import settings_of
from pure_agent_loop.sessions import SessionStore, new_session_id
from pure_agent_loop.sessions.questions import GivenAnswer
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.prometheus import Gauge

if TYPE_CHECKING:
    from pure_agent_loop.durable.schedules.schedules import Schedules

LOG = logging.getLogger("pure_agent_loop.server")
_DAY = 86_400.0  # seconds
_CLAIM_SECONDS = 3600.0  # time allowed for one server to complete a deletion
RETRY_SECONDS = 1.0  # seconds between two attempts while the database is unavailable


class FleetState(NamedTuple):
    """The state of an engine's database and of its workers.

    Args:
        tasks: The newest runs.
        handovers: Number of handovers per run.
        agents: Queue of each agent.
        workers: Workers sorted by name, including dead ones.
        busy: Number of running runs per worker.
        states: Number of runs per status.
        gauges: Gauges of `durable.health`, with the depth of each queue.
    """

    tasks: list[TaskInfo]
    handovers: dict[str, int]
    agents: dict[str, str]
    workers: list[KnownWorker]
    busy: dict[str, int]
    states: dict[str, int]
    gauges: dict[str, Gauge]


class EngineWork:
    """Connects a hub to an engine.

    Args:
        agents: The agents by name, for the worker in this process.
        grace: Seconds that running tools get to finish when the server stops.
        executes: Whether this process executes runs; otherwise, workers elsewhere do.
    """

    def __init__(self, database: str, agents: Mapping[str, Agent], grace: float, *, executes: bool) -> None:
        self._engine, self._executes = Engine(database, agents=agents, grace=grace), executes

    @property
    def sessions(self) -> SessionStore:
        """The engine's session store."""
        return self._engine.sessions

    @property
    def database(self) -> Database:
        """The engine's database."""
        return self._engine.database

    @property
    def schedules(self) -> Schedules:
        """The engine's schedules."""
        return self._engine.schedules

    def fleet(self, limit: int) -> FleetState:
        """Return the newest runs, and the workers, queues and run counts of the database.

        Raises:
            DurableError: The database is unavailable.
        """
        engine, queue = self._engine, self._engine.queue
        tasks, busy = engine.tasks(limit=limit), queue.runs.running_by_worker()
        # A worker that owns runs may be missing from the known workers.
        workers = {name: KnownWorker(name, "", 0.0, is_alive=False) for name in busy}
        workers |= {worker.name: worker for worker in known_workers(queue.database)}
        return FleetState(
            tasks,
            handovers(queue.database, [task.run_id for task in tasks]),
            queue.agents(),
            sorted(workers.values()),
            busy,
            engine.counts(),
            measure(queue.database),
        )

    async def start(self) -> None:
        """Start the worker; if this process has no worker, register the agents for workers elsewhere."""
        await asyncio.to_thread(self._engine.start if self._executes else self._engine.register)

    async def close(self) -> None:
        """Stop the worker; its unfinished runs go back to the queue."""
        await asyncio.to_thread(self._engine.close)

    def delete_session(self, session_id: str) -> None:
        """Delete a session with its runs."""
        with self.deletion() as deletion:
            deletion.delete(session_id)

    def deletion(self) -> AbstractContextManager[Deletion]:
        """Delete runs and sessions within a block; see `Client.deletion`."""
        return self._engine.deletion()

    def claim_day(self, *, is_done: bool = False) -> float:
        """Claim the daily deletion for an hour; if the deletion does not finish, it is due again after that.

        All servers on the same database share the claim.

        Args:
            is_done: True to record a finished deletion; the next one is due a day later.

        Returns:
            0 or less if the deletion is due; otherwise, the seconds until it is due.
        """

        def claim(ledger: dict[str, Any], now: float) -> float:
            wait = float(ledger.get("begun", 0.0)) + _DAY - now
            if is_done or wait <= 0:
                ledger["begun"] = now if is_done else now - _DAY + _CLAIM_SECONDS
            return wait

        with contextlib.closing(SharedLimits(self.database.url)) as shared:
            return shared.change("retention", claim)

    def cancel(self, run_id: str) -> None:
        """Cancel a run."""
        self._engine.handle(run_id).cancel()

    def waits(self, run_id: str) -> bool:
        """Return whether a run is waiting for an answer or a result."""
        return self._engine.handle(run_id).status() in WAITING

    def answered(self, run_id: str) -> Collection[tuple[int, str]]:
        """Return the step and call id of each answered question from a run.

        The session gets the answer only when a worker resumes the run.
        """
        return self._engine.queue.answers(run_id)

    def given_answers(self, run_id: str) -> list[GivenAnswer]:
        """Return people's answers to a run's questions."""
        return self._engine.queue.given_answers(run_id)

    def answer(self, run_id: str, call_id: str, permission: Permission, by: str) -> None:
        """Answer a question from a run."""
        self._engine.handle(run_id).answer(call_id, permission, by=by)

    def give_result(self, run_id: str, call_id: str, result: str, *, is_error: bool, by: str) -> None:
        """Deliver a result that a run is waiting for."""
        self._engine.handle(run_id).give_result(call_id, result, is_error=is_error, by=by)

    async def follow(self, hub: Hub, live: ActiveRun) -> None:
        """Submit a run and copy its events until it ends or suspends."""
        info = live.info
        if not info.durable:  # saved before submitting, so that a restarted server submits the same run
            hub.update(info, durable=new_session_id())
        task: TaskInfo | None = None
        try:
            while task is None:
                task = await self._try_copy_events(hub, info, live.media)
        except PureAgentLoopError as error:
            hub.outcome(info, failed_with(error))
            return
        outcome = {
            "content": task.content,
            "error": task.error,
            "questions": [asdict(question) for question in task.questions],
            "open_calls": [call.to_dict() for call in task.open_calls],
        }
        hub.outcome(info, {**task.details, **outcome, "stop_reason": task.stop_reason or task.status})

    async def _try_copy_events(self, hub: Hub, info: RunInfo, media: Sequence[Any]) -> TaskInfo | None:
        try:
            return await self._copy_events(hub, info, media)
        except DurableError as error:
            LOG.warning("Run %s: the database is unavailable, retrying: %s", info.id, error)
            await asyncio.sleep(RETRY_SECONDS)
            return None

    async def _copy_events(self, hub: Hub, info: RunInfo, media: Sequence[Any]) -> TaskInfo:
        """Submit the run (idempotent) and copy its events until it has stopped."""
        handle = await self._engine.asubmit(
            info.agent,
            info.task,
            run_id=info.durable,
            session_id=info.session,
            media=media or None,
            metadata={PERSON: info.owner},
            **settings_of(info),
        )
        channel = hub.channel(info.session)
        last = await channel.newest_source(info.id)
        async with aclosing(looks(handle, last)) as found:
            async for task, events in found:
                for event in events:
                    info.steps = max(info.steps, event.step)
                    channel.add({**plain_event(event), "source": event.number}, info.id)
                if not events and has_stopped(task):
                    return task
        raise AssertionError("unreachable")
