"""Base class for engines that start processes; their run states are in a database table."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pure_agent_loop.agent import Agent, served_agents
from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.database import default_database
from pure_agent_loop.durable.session_worker import SessionWorker
from pure_agent_loop.durable.table_carrier import StatesDatabase, TableCarrier
from pure_agent_loop.durable.values import queues_of

ANSWERED_SECONDS = 5.0  # seconds between checks for answered or released runs that no process queued


class TableEngine(Client):
    """Durable runs, executed by processes that you start. DBOS is not needed.

    One of your processes calls `next_session` repeatedly, and for each session starts another process that
    executes ``await engine.worker(session).work()``. If that process dies, `next_session` returns the
    session again.

    Args:
        database: ``sqlite:///PATH`` or ``postgresql://...``; None for ``PAL_DATABASE``, or else a file in the
            data folder. `Engine` needs a different database.
        agents: Function that returns the agents by name; None for a process that executes no runs.
    """

    def __init__(
        self, database: str | None = None, *, agents: Callable[[], Mapping[str, Agent]] = dict
    ) -> None:
        states = StatesDatabase(default_database() if database is None else database)
        self._table, self._make_agents = TableCarrier(states, self.poke), agents
        super().__init__(states, carrier=self._table)
        self._next_look = 0.0

    def poke(self, what: str, run_id: str) -> None:
        """Called when a run needs attention before the next `next_session`; does nothing unless overridden.

        Args:
            what: ``wake`` after a run has been queued, ``cancel`` after it has been cancelled.
            run_id: The run.
        """

    def register(self) -> None:
        """Create the tables and register the agents, so that runs can be submitted.

        Raises:
            ConfigError: An agent is invalid, or has its own `sessions`.
            DurableError: The database is unavailable.
        """
        _ = self.queue.carrier
        self.queue.register_agents(queues_of(self._agents()))

    def next_session(self, without: Collection[str] = ()) -> str | None:
        """Return the session of the first queued or interrupted run; None if there is no such run.

        Args:
            without: Sessions to exclude, because a process is working on them.

        Raises:
            DurableError: The database is unavailable.
        """
        if time.monotonic() >= self._next_look:
            self.queue.all_runs.release()
            self.queue.resume_answered()
            self._next_look = time.monotonic() + ANSWERED_SECONDS
        return self._table.next_session(without)

    def worker(self, session_id: str, **options: Any) -> SessionWorker:
        """Return the worker that executes a session's runs in this process: ``await worker.work()``.

        Args:
            session_id: The session.
            options: ``deps``, ``max_attempts`` and ``lease``; see `SessionWorker`.
        """
        return SessionWorker(self.database.url, session_id, self._agents(), **options)

    def _agents(self) -> dict[str, Agent]:
        return served_agents(self._make_agents(), "a TableEngine", "read them from engine.sessions")
