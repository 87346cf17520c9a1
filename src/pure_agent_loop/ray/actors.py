"""Actors: one executes a session's runs, and the keeper starts such an actor for each session with a run.

Ray does not repeat an actor call that failed, so any call may be lost. A lost call does no harm: the
session's journal records what happened, and the next actor resumes from the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.agent import Agent, served_agents
from pure_agent_loop.durable.session_worker import SessionWorker, open_runs
from pure_agent_loop.durable.values import MAX_ATTEMPTS, queues_of
from pure_agent_loop.ray.cluster import import_ray
from pure_agent_loop.support.clock import set_within
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import safe_str

SWEEP_SECONDS = 1.0
ANSWERED_SECONDS = 5.0  # seconds between checks for answered or released runs that no process queued
LEAVE_SECONDS = 10.0  # idle seconds after which a process exits if its keeper is dead


@dataclass(frozen=True)
class Setup:
    """Settings of an engine, sent to its actors.

    Args:
        url: URL of the database.
        agents: Function that makes the agents, by name, in each process.
        deps: Function that makes the deps for each attempt.
        concurrency: Maximum number of session actors.
        actor_options: Ray options for the session actors.
    """

    url: str
    agents: Callable[[], Mapping[str, Agent]]
    namespace: str
    deps: Callable[..., Any] | None = None
    max_attempts: int = MAX_ATTEMPTS
    lease: float = 10.0
    concurrency: int = 16
    actor_options: Mapping[str, Any] = field(default_factory=dict)

    def actor_name(self, session_id: str = "") -> str:
        """Return the name of a session's actor, or of the keeper if the session is empty."""
        database = hashlib.sha256(self.url.encode()).hexdigest()[:12]
        return f"pal {database} {session_id}" if session_id else f"pal-keeper {database}"


class SessionActor:
    """Executes one session's runs in a separate process.

    Args:
        session_id: The session.
    """

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._lock = asyncio.Lock()
        self._worker: SessionWorker | None = None
        self._is_draining = False
        self._leaving: asyncio.TimerHandle | None = None

    async def work(self, setup: Setup) -> None:
        """Execute the session's runs until none is left, or the next run has to wait."""
        async with self._lock:
            if self._leaving is not None:
                self._leaving.cancel()
            more: dict[str, Any] = {"max_attempts": setup.max_attempts, "lease": setup.lease}
            worker = SessionWorker(setup.url, self._session_id, setup.agents(), deps=setup.deps, **more)
            self._worker = worker
            if self._is_draining:
                worker.drain()
            try:
                await worker.work()
            finally:
                self._worker = None
                self._leaving = asyncio.get_running_loop().call_later(LEAVE_SECONDS, os._exit, 0)

    async def agents(self, setup: Setup) -> dict[str, str]:
        """Return the queue of each agent, by the agent's name."""
        return queues_of(served_agents(setup.agents(), "a RayEngine", "read them from engine.sessions"))

    async def cancel(self, run_id: str) -> None:
        """Stop the attempt of a cancelled run."""
        if self._worker is not None:
            self._worker.cancel(run_id)

    async def status(self) -> dict[str, Any]:
        """Return the id of this process, and of the run that it is executing."""
        return {"pid": os.getpid(), "run": "" if self._worker is None else self._worker.run_id}

    async def drain(self) -> None:
        """Let running tools finish, and hand back the run."""
        self._is_draining = True
        if self._worker is not None:
            self._worker.drain()

    async def leave(self) -> None:
        """End this process, unless it is executing a run."""
        if not self._lock.locked():
            import_ray().actor.exit_actor()


class Keeper:
    """Actor that starts an actor for each session with a run; one keeper for each database and namespace."""

    def __init__(self, setup: Setup) -> None:
        self._setup, self._ray = setup, import_ray()
        self._queue, self._carrier = open_runs(setup.url)
        self._actors: dict[str, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._next_look = 0.0
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    async def poke(self, what: str, run_id: str) -> None:
        """Check for runs now; if `what` is ``cancel``, stop the attempt of this run."""
        self._wake.set()
        for actor in self._actors.values() if what == "cancel" else ():
            actor.cancel.remote(run_id)

    async def status(self) -> dict[str, Any]:
        """Return the id of this process, and the sessions that have an actor."""
        return {"pid": os.getpid(), "sessions": list(self._actors)}

    async def stop(self, grace: float) -> None:
        """Start no more runs, and have the actors hand back theirs.

        Args:
            grace: Seconds for running tools to finish.
        """
        self._keeping.cancel()
        for actor in self._actors.values():
            actor.drain.remote()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=grace)
        for actor in self._actors.values():
            self._ray.kill(actor)

    async def _keep(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._sweep()
            except Exception as error:  # noqa: BLE001 - database unavailable; the next sweep tries again
                LOG.warning(notice("library.sweep_failed", error=safe_str(error)))
            await set_within(SWEEP_SECONDS, self._wake)

    async def _sweep(self) -> None:
        if time.monotonic() >= self._next_look:
            await asyncio.to_thread(self._queue.all_runs.release)
            await asyncio.to_thread(self._queue.resume_answered)
            self._next_look = time.monotonic() + ANSWERED_SECONDS
        while len(self._actors) < self._setup.concurrency:
            session = await asyncio.to_thread(self._carrier.next_session, list(self._actors))
            if session is None:
                return
            self._actors[session] = await asyncio.to_thread(self._actor, session)
            task = asyncio.create_task(self._carry(session))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _actor(self, session: str) -> Any:
        """Return a session's actor; start one if it does not exist."""
        options = {
            "num_cpus": 0,
            **self._setup.actor_options,
            "name": self._setup.actor_name(session),
            "namespace": self._setup.namespace,
            "get_if_exists": True,
            "lifetime": "detached",  # the actor survives the keeper
            "max_restarts": 0,  # no automatic restart, because a restarted actor would have lost its state
            "max_task_retries": 0,
        }
        return self._ray.remote(SessionActor).options(**options).remote(session)

    async def _carry(self, session: str) -> None:
        """Have a session's actor execute its runs once, then end the actor."""
        actor = self._actors[session]
        try:
            await actor.work.remote(self._setup)
            with contextlib.suppress(self._ray.exceptions.RayActorError):
                await actor.leave.remote()
            self._wake.set()
        except self._ray.exceptions.RayActorError as error:
            # The process is dead or unreachable. The next sweep finds the run and its journal.
            LOG.warning(notice("library.actor_lost", session=session, error=safe_str(error).split("\n")[0]))
            await asyncio.sleep(SWEEP_SECONDS / 2)
        except Exception as error:  # noqa: BLE001 - such as agents that cannot be made
            LOG.warning(notice("library.sweep_failed", error=safe_str(error)))
            self._ray.kill(actor)
            await asyncio.sleep(ANSWERED_SECONDS)
        finally:
            del self._actors[session]
