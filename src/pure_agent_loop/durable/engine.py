"""The engine: durable runs in one database, from the side of those who submit and of those who work."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pure_agent_loop.agent import Agent
from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.database import Database, default_database
from pure_agent_loop.durable.handle import Handle
from pure_agent_loop.durable.schedules.notices import bring_notices
from pure_agent_loop.durable.schedules.schedules import Schedules
from pure_agent_loop.durable.values import Rate, TaskInfo, check_agent_name
from pure_agent_loop.durable.worker import Worker
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.prompts import Prompts, prompts_for
from pure_agent_loop.sessions import SessionStore
from pure_agent_loop.sessions.store import close_store

if TYPE_CHECKING:
    from typing_extensions import Self


class Engine:
    """Durable runs: what is submitted is done, whatever happens to a process.

        engine = Engine("sqlite:///work.sqlite", agents={"helper": agent})
        with engine:  # works in a thread of this process
            print(engine.submit("helper", "What is 2 + 3?").result().content)

    Without `agents` it is a client: it submits, asks, answers and cancels, and others work.

    Args:
        database: ``sqlite:///PATH`` or ``postgresql://...``; None for ``PAL_DATABASE``, else a file in the
            data folder.
        agents: Who can do what, by name.
        concurrency: Runs of each model at once in this process.
        rates: How many runs of a model may begin in a time, all workers together, by model.
        lease: Seconds of silence after which a worker on PostgreSQL is taken for dead.
        grace: Seconds that tools at work get to end when this process is to stop.

    Raises:
        ConfigError: An argument cannot work.
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
    ) -> None:
        if concurrency < 1:
            raise ConfigError(f"concurrency={concurrency!r:.40} must be 1 or more.")
        for name, seconds in (("lease", lease), ("grace", grace)):
            if not 0 < seconds < 86_400:
                raise ConfigError(f"{name}={seconds!r:.40} must be a number of seconds above 0.")
        self.agents = {check_agent_name(name): agent for name, agent in (agents or {}).items()}
        for name, agent in self.agents.items():
            if not isinstance(agent, Agent):
                raise ConfigError(f"agents[{name!r}] must be an Agent; it is {agent!r:.80}.")
        self.database = Database(default_database() if database is None else database)
        self._client = Client(self.database)
        self._concurrency, self._rates = concurrency, dict(rates or {})
        self._lease, self._grace = lease, grace
        self._store: SessionStore | None = None
        self._stop: Callable[[], None] | None = None
        self._thread: threading.Thread | None = None

    # -- from any process -----------------------------------------------------------------------

    def submit(
        self,
        agent: str,
        task: str,
        *,
        run_id: str | None = None,
        priority: int | None = None,
        session_id: str | None = None,
    ) -> Handle:
        """Submit a task. It is done once, however often it is submitted under the same id.

        Args:
            agent: The name of the agent, as a worker knows it.
            task: What to do.
            run_id: Names the run; a new id if None.
            priority: From 1 on, lower goes first; those without one go before all others.
            session_id: The session to go on with; one of its own, with the run's id, if None.

        Raises:
            ConfigError: There is no such agent, or an argument cannot work.
            DurableError: The database cannot be used.
            MissingExtraError: The extra ``[durable]`` is not installed.
        """
        found = self._client.submit(agent, task, run_id=run_id, priority=priority, session_id=session_id)
        return Handle(self._client, found)

    async def asubmit(
        self,
        agent: str,
        task: str,
        *,
        run_id: str | None = None,
        priority: int | None = None,
        session_id: str | None = None,
    ) -> Handle:
        """Submit a task from async code; see `submit`."""
        return await asyncio.to_thread(
            self.submit, agent, task, run_id=run_id, priority=priority, session_id=session_id
        )

    def handle(self, run_id: str) -> Handle:
        """A run that was submitted before, in whatever process.

        Raises:
            DurableError: There is none of that id.
        """
        self._client.info(run_id)
        return Handle(self._client, run_id)

    @property
    def schedules(self) -> Schedules:
        """The schedules of this database: what workers run again and again."""
        return Schedules(self._client)

    @property
    def sessions(self) -> SessionStore:
        """The sessions of its runs, for ``agent.prepare(sessions=)``: a person can go on in one of them."""
        if self._store is None:
            self._store = self.database.sessions(lease=self._lease)
        return self._store

    def bring_notices(self, session_id: str, inbox: Inbox, prompts: Prompts | None = None) -> None:
        """Put answers of schedules that wait for a session into the inbox of a run there, each of them once.

            inbox = Inbox()
            run = agent.prepare(task, session_id="chat", sessions=engine.sessions, inbox=inbox)
            engine.bring_notices("chat", inbox)
            print(run.wait_sync().content)

        Durable runs get them without this.

        Args:
            session_id: The session. It must be open for that run, as it is after `Agent.prepare`.
            inbox: The one of the run.
            prompts: The words of the agent; those of the default language if None.

        Raises:
            DurableError: The database cannot be used.
            SessionError: The session cannot be read.
        """
        records = self.sessions.read(session_id).records
        bring_notices(self.database, session_id, records, prompts or prompts_for(), inbox)

    def tasks(
        self, status: str | None = None, agent: str | None = None, limit: int | None = 100
    ) -> list[TaskInfo]:
        """Runs, the newest first.

        Args:
            status: Only those of this status.
            agent: Only those of this agent.
            limit: How many at most; None for all.

        Raises:
            ConfigError: There is no such status.
            DurableError: The database cannot be used.
        """
        return self._client.tasks(status, agent, limit)

    def close(self) -> None:
        """Stop working, and give the connections back."""
        self.stop()
        close_store(self._store)
        self._store = None
        self._client.close()

    # -- working --------------------------------------------------------------------------------

    async def work(self, ready: Callable[[Worker], None] | None = None) -> None:
        """Work on runs until `stop` is called, or this is cancelled.

        Args:
            ready: Called when runs can be taken.

        Raises:
            ConfigError: There are no agents, or this or another engine works in this process already.
            DurableError: The database cannot be used.
            MissingExtraError: The extra ``[durable]`` is not installed.
        """
        if not self.agents:
            raise ConfigError('There is nobody to work: Engine(agents={"name": agent}).')
        if self._stop is not None:
            raise ConfigError("This engine works already. Call stop() before it is to work again.")
        worker = Worker(
            self._client,
            self.agents,
            concurrency=self._concurrency,
            rates=self._rates,
            lease=self._lease,
            grace=self._grace,
        )
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def tell() -> None:
            loop.call_soon_threadsafe(stop.set)

        self._stop = tell
        try:
            await worker.work(stop, lambda: None if ready is None else ready(worker))
        finally:
            if self._stop is tell:
                self._stop = None

    def run_worker(
        self,
        ready: Callable[[Worker], None] | None = None,
        stopping: Callable[[int], None] | None = None,
    ) -> None:
        """Work until SIGTERM or Ctrl-C; then end or hand back what is at work.

        Args:
            ready: Called when runs can be taken.
            stopping: Called with the number of each such signal, before it is obeyed.
        """

        def on_signal(number: int) -> None:
            if stopping is not None:
                stopping(number)
            self.stop()

        async def main() -> None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                with contextlib.suppress(NotImplementedError, ValueError):  # not on Windows, or in a thread
                    loop.add_signal_handler(number, on_signal, number)
            await self.work(ready)

        asyncio.run(main())

    def start(self) -> None:
        """Work in a thread of this process; returns when runs can be taken.

        Raises:
            PureAgentLoopError: It cannot work; see `work`.
        """
        begun, failures = threading.Event(), list[BaseException]()

        def main() -> None:
            try:
                asyncio.run(self.work(lambda _: begun.set()))
            except BaseException as error:  # noqa: BLE001 - raised in the thread that has called this
                failures.append(error)
            finally:
                begun.set()

        thread = threading.Thread(target=main, name="pal-engine", daemon=True)
        thread.start()
        begun.wait()
        if failures:
            raise failures[0]
        self._thread = thread

    def stop(self) -> None:
        """Stop working: tools at work may end, the rest is handed back. Waits if `start` was called."""
        stop, self._stop = self._stop, None
        if stop is not None:
            with contextlib.suppress(RuntimeError):  # its event loop is gone
                stop()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def __enter__(self) -> Self:
        if self.agents:
            try:
                self.start()
            except BaseException:
                self.close()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
