"""Engine: durable runs in one database, for submitters and workers."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pure_agent_loop.agent import Agent, served_agents
from pure_agent_loop.durable.client import Handle, RunningClient
from pure_agent_loop.durable.database import Database, default_database
from pure_agent_loop.durable.detaching import receiver
from pure_agent_loop.durable.schedules.delivery import Delivery
from pure_agent_loop.durable.schedules.notices import bring_notices
from pure_agent_loop.durable.schedules.schedules import Schedules
from pure_agent_loop.durable.values import MAX_ATTEMPTS, Rate, check_agent_name, check_settings, queues_of
from pure_agent_loop.durable.worker import Worker
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.journal import Journal
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.prompts import Prompts, prompts_for
from pure_agent_loop.schema.calling import checked_in_run
from pure_agent_loop.sessions import SessionStore
from pure_agent_loop.sessions.store import close_store


class Engine(RunningClient):
    """Engine for durable runs: a submitted task is completed even if processes die.

        engine = Engine("sqlite:///work.sqlite", agents={"helper": agent})
        with engine:  # runs a worker thread in this process
            print(engine.submit("helper", "What is 2 + 3?").result().content)

    Without `agents` the engine is only a client: it submits, queries, answers and cancels runs, and workers
    in other processes execute them.

    Args:
        database: ``sqlite:///PATH`` or ``postgresql://...``; None for ``PAL_DATABASE``, or else a file in the
            data folder.
        agents: Agents by name; they must not set `sessions`.
        concurrency: Maximum number of concurrent runs per model in this process.
        rates: Maximum rate at which runs start, by model, across all workers.
        lease: Seconds without a heartbeat after which a worker on PostgreSQL counts as dead.
        grace: Seconds for running tools to finish when this process stops.
        deps: Function that makes the deps for the `RunContext` of each attempt; it takes no argument, or a
            `RunContext`. A sync function runs in a thread.
        max_attempts: Maximum number of attempts per run without progress (a finished call or an answer) in
            between. If an attempt's process dies, the next attempt starts after a delay, and no other run
            shares its process. After the last attempt, the run is ``killed``.

    Raises:
        ConfigError: An argument is invalid.
    """

    def __init__(
        self,
        database: str | None = None,
        *,
        agents: Mapping[str, Agent] | None = None,
        concurrency: int = 4,
        rates: Mapping[str, Rate] | None = None,
        lease: float = 10.0,
        grace: float = 20.0,
        deps: Callable[..., Any] | None = None,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> None:
        check_settings({"concurrency": concurrency, "max_attempts": max_attempts}, lease=lease, grace=grace)
        self.agents = served_agents(agents or {}, "an Engine", "read them from engine.sessions")
        for name in self.agents:
            check_agent_name(name)
        super().__init__(
            Database(default_database() if database is None else database), waits=bool(self.agents)
        )
        self._concurrency, self._rates = concurrency, dict(rates or {})
        self._lease, self._grace, self._max_attempts = lease, grace, max_attempts
        self.deps = checked_in_run("deps", deps)
        self._store: SessionStore | None = None
        self._stop: Callable[[], None] | None = None
        self._thread: threading.Thread | None = None

    @property
    def schedules(self) -> Schedules:
        """Schedules of this database."""
        return Schedules(self)

    @property
    def _has_agents(self) -> bool:
        return bool(self.agents)

    @property
    def sessions(self) -> SessionStore:
        """Session store for the runs; pass it to ``agent.prepare(sessions=)`` to continue a run's session."""
        if self._store is None:
            self._store = self.database.sessions(lease=self._lease)
        return self._store

    def bring_notices(
        self,
        session_id: str,
        inbox: Inbox,
        prompts: Prompts | None = None,
        *,
        store: SessionStore | None = None,
    ) -> None:
        """Move the answers of scheduled runs, sent to a session, into the inbox of its run, each answer once.

            inbox = Inbox()
            run = agent.prepare(task, session_id="chat", sessions=engine.sessions, inbox=inbox)
            engine.bring_notices("chat", inbox)
            print(run.wait_sync().content)

        Durable runs do this automatically.

        Args:
            session_id: Id of the session. The session must be open for that run, as after `Agent.prepare`.
            inbox: Inbox of that run.
            prompts: Message catalogue of the agent; None for the default language.
            store: Store of the session; None for this engine's.

        Raises:
            DurableError: The database is unavailable.
            SessionError: The session cannot be read.
        """
        records = (store or self.sessions).read(session_id).records
        bring_notices(self.database, session_id, lambda: records, prompts or prompts_for(), inbox)

    def receive(
        self, journal: Journal, options: Mapping[str, Any], agent: str, deliver: Delivery | None
    ) -> Callable[[QueryState, Kit], Awaitable[Handle]]:
        """Check that a run can be continued, and return the function that hands it over; see `Run.detach`.

        Args:
            journal: Journal of the run.
            options: Settings of the run; ``deps`` are ignored if this engine makes its own.
            agent: Name of the agent that continues the run.
            deliver: Target of the answer; None to only store it.

        Raises:
            ConfigError: The session is not in this engine's store, the agent is unknown, or an argument or
                option is invalid or cannot be stored as JSON.
            DurableError: The database is unavailable.
        """
        kept = {name: value for name, value in options.items() if name != "deps" or self.deps is None}
        return receiver(self, self.sessions, journal, kept, agent, deliver)

    def close(self) -> None:
        """Stop working, and close the connections."""
        self.stop()
        close_store(self._store)
        self._store = None
        super().close()

    # -- worker ---------------------------------------------------------------------------------

    def register(self) -> None:
        """Create the tables and register the agents, so that runs can be submitted for other workers.

        Raises:
            DurableError: The database is unavailable.
            MissingExtraError: The extra ``[durable]`` is not installed.
        """
        _ = self.queue.carrier
        self.queue.register_agents(queues_of(self.agents))

    async def work(self, ready: Callable[[Worker], None] | None = None) -> None:
        """Execute runs until `stop` is called or this coroutine is cancelled.

        Args:
            ready: Function to call when the worker is ready for runs.

        Raises:
            ConfigError: There are no agents, or an engine is already running in this process.
            DurableError: The database is unavailable.
            MissingExtraError: The extra ``[durable]`` is not installed.
        """
        if not self.agents:
            raise ConfigError('Engine has no agents; pass agents={"name": agent}.')
        if self._stop is not None:
            raise ConfigError("This engine is already running. Call stop() first.")
        worker = Worker(
            self,
            self.agents,
            concurrency=self._concurrency,
            rates=self._rates,
            lease=self._lease,
            grace=self._grace,
            deps=self.deps,
            max_attempts=self._max_attempts,
        )
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def request_stop() -> None:
            loop.call_soon_threadsafe(stop.set)

        self._stop = request_stop
        try:
            await worker.work(stop, lambda: None if ready is None else ready(worker))
        finally:
            if self._stop is request_stop:
                self._stop = None

    def run_worker(
        self,
        ready: Callable[[Worker], None] | None = None,
        stopping: Callable[[int], None] | None = None,
    ) -> None:
        """Execute runs until SIGTERM or Ctrl-C; then finish running tools and hand back unfinished runs.

        Args:
            ready: Function to call when the worker is ready for runs.
            stopping: Function to call with the number of each signal, before the worker stops.
        """

        def on_signal(number: int) -> None:
            if stopping is not None:
                stopping(number)
            self.stop()

        async def main() -> None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                # Fails on Windows, and outside the main thread.
                with contextlib.suppress(NotImplementedError, ValueError):
                    loop.add_signal_handler(number, on_signal, number)
            await self.work(ready)

        asyncio.run(main())

    def start(self) -> None:
        """Start a worker thread in this process, and return when the worker is ready for runs.

        Raises:
            PureAgentLoopError: The worker cannot start; see `work`.
        """
        started, failures = threading.Event(), list[BaseException]()

        def main() -> None:
            try:
                asyncio.run(self.work(lambda _: started.set()))
            except BaseException as error:  # noqa: BLE001 - raised in the calling thread
                failures.append(error)
            finally:
                started.set()

        thread = threading.Thread(target=main, name="pal-engine", daemon=True)
        thread.start()
        started.wait()
        if failures:
            raise failures[0]
        self._thread = thread

    def stop(self) -> None:
        """Stop the worker: running tools may finish, and unfinished runs are handed back.

        After `start`, this waits for the thread to end.
        """
        stop, self._stop = self._stop, None
        if stop is not None:
            with contextlib.suppress(RuntimeError):  # the worker's event loop may be closed
                stop()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
