"""A process that works on durable runs: takes them from queues, does them, takes over those of the dead."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.durable.attempt import Attempt
from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.liveness import FileLiveness, Liveness, PostgresLiveness
from pure_agent_loop.durable.schedules.firings import Firings
from pure_agent_loop.durable.schedules.ticker import Ticker
from pure_agent_loop.durable.serial import import_dbos, json_serializer
from pure_agent_loop.durable.values import APP_NAME, APP_VERSION, WORKFLOW, Rate, queue_of
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.base import model_of
from pure_agent_loop.sessions import SessionStore
from pure_agent_loop.sessions.store import close_store
from pure_agent_loop.support.text import safe_str

LOG = logging.getLogger("pure_agent_loop")
SWEEP_SECONDS = 0.5
POLL_SECONDS = 0.25
_POOL = 6
_ONE = threading.Lock()  # the engine underneath is one for each process


class Worker:
    """Works on runs until it is told to stop.

    Args:
        client: The database.
        agents: Who can do what, by name.
        concurrency: Runs of each model at once.
        rates: How many runs of a model may begin in a time, all workers together.
        lease: Seconds of silence after which a worker is taken for dead (PostgreSQL).
        grace: Seconds that tools at work get to end when this is to stop.
    """

    def __init__(
        self,
        client: Client,
        agents: Mapping[str, Agent],
        *,
        concurrency: int,
        rates: Mapping[str, Rate],
        lease: float,
        grace: float,
    ) -> None:
        self._client, self._agents = client, dict(agents)
        self._concurrency, self._rates = concurrency, dict(rates)
        self._lease, self._grace = lease, grace
        self.executor = f"{socket.gethostname()[:40]}-{os.getpid()}-{secrets.token_hex(3)}"
        models = {name: model_of(agent.llm) for name, agent in agents.items()}
        self.queues = {name: queue_of(model) for name, model in models.items()}
        self._limits = {queue_of(model): self._rates.get(model) for model in models.values()}
        unknown = set(self._rates) - set(models.values())
        if unknown:
            raise ConfigError(
                f"rates names models that no agent uses: {', '.join(sorted(unknown))}. "
                f"There are: {', '.join(sorted(set(models.values())))}."
            )
        self._attempts: dict[str, Attempt] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_draining = False
        self._stop_sweeping = threading.Event()
        self._ticker = Ticker(Firings(client, self.executor), self._in_thread)
        self._threads = ThreadPoolExecutor(thread_name_prefix="pal-durable-")

    async def work(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        """Work until told to stop; then finish what is at work in tools, and hand the rest back.

        Args:
            stop: Set when it is to stop.
            ready: Called when runs can be taken.

        Raises:
            ConfigError: Another engine works in this process.
            DurableError: The database cannot be used.
            MissingExtraError: The extra is not installed.
        """
        if not _ONE.acquire(blocking=False):
            raise ConfigError("An engine works in this process already. There can be one in each process.")
        try:
            await self._work(stop, ready)
        finally:
            _ONE.release()

    async def _work(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        await self._in_thread(lambda: self._client.engine)  # says what is wrong with the database
        self._store = await self._in_thread(self._sessions)
        with self._client.asking():  # it may be away just now
            liveness = await self._in_thread(self._make_liveness)
        dbos = import_dbos().DBOS
        sweeper = threading.Thread(target=self._sweep, args=(liveness,), name="pal-sweeper", daemon=True)
        try:
            with self._client.asking():
                await self._launch(dbos)
            await self._in_thread(self._client.offer, self.queues)
            sweeper.start()
            self._ticker.start()
            ready()
            await stop.wait()
            await asyncio.gather(self._drain(), self._ticker.close(self._grace))
        finally:
            self._stop_sweeping.set()
            await self._ticker.close(0.0)
            if sweeper.is_alive():
                await self._in_thread(sweeper.join)
            await self._shut_down(dbos)
            with contextlib.suppress(Exception):  # else another worker finds them without being told
                await self._in_thread(self._client.hand_over, self.executor)
            await self._in_thread(close_store, self._store)
            liveness.close()
            self._threads.shutdown(wait=False)

    # -- the engine underneath ------------------------------------------------------------------

    async def _launch(self, dbos: Any) -> None:
        dbos(
            config={
                "name": APP_NAME,
                "system_database_url": self._client.database.engine_url,
                "application_version": APP_VERSION,
                "executor_id": self.executor,
                "serializer": json_serializer(),
                "log_level": "CRITICAL",
                "enable_otlp": False,
                "use_listen_notify": False,
                "sys_db_pool_size": _POOL,
            }
        )
        dbos.workflow(name=WORKFLOW)(self._make_workflow(dbos))
        dbos.listen_queues(sorted(self._limits))
        dbos.launch()
        for queue, rate in self._limits.items():
            limiter = None if rate is None else {"limit": rate.limit, "period": rate.seconds}
            await dbos.register_queue_async(
                queue,
                worker_concurrency=self._concurrency,
                limiter=limiter,
                polling_interval_sec=POLL_SECONDS,
                on_conflict="always_update",
            )

    async def _shut_down(self, dbos: Any) -> None:
        for attempt in self._attempts.values():
            attempt.guard.is_cut = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=self._grace)
        await self._in_thread(lambda: dbos.destroy(destroy_registry=True))
        self._loop.set_default_executor(ThreadPoolExecutor())  # the one that it had put there is closed

    def _make_workflow(self, dbos: Any) -> Callable[..., Any]:
        async def run_agent(
            agent: str, task: str, session_id: str, carried: Mapping[str, str] | None = None
        ) -> Any:
            with self._noted():
                run_id = dbos.workflow_id
                options = {"name": "attempt", "preemptible": True}
                given = (run_id, agent, task, session_id, carried or {})
                return await dbos.run_step_async(options, self._attempt, *given)

        return run_agent

    async def _attempt(
        self, run_id: str, name: str, task: str, session_id: str, carried: Mapping[str, str]
    ) -> dict[str, Any]:
        """What comes of a run; if that is not for this process to say, the engine refuses the value."""
        with self._noted():
            agent = self._agents.get(name)
            if self._is_draining:
                await self._park()
            if agent is None:  # another worker on this queue has it
                await asyncio.sleep(SWEEP_SECONDS)
                return await self._give_back(run_id)
            attempt = Attempt(
                self._client,
                self._store,
                agent,
                run_id,
                task,
                session_id,
                self._in_thread,
                takeover=not self._client.database.is_sqlite,
                carried=carried,
            )
            self._attempts[run_id] = attempt
            LOG.info("The run %s: at work, agent %s.", run_id, name)
            try:
                found = await attempt.work()
            finally:
                is_newest = self._attempts.get(run_id) is attempt
                if is_newest:
                    del self._attempts[run_id]
            if found is not None:
                why = f" {found['error']}" if found["error"] else ""
                LOG.info("The run %s: %s.%s", run_id, found["stop_reason"], why)
                return found
            if attempt.guard.is_draining:
                await self._park()
            LOG.warning("The run %s was taken over by another worker.", run_id)
            return await self._give_back(run_id) if is_newest else {}

    async def _give_back(self, run_id: str) -> dict[str, Any]:
        """Put a run back into its queue, unless another worker has it by now."""
        mine = dict((await self._in_thread(self._client.running, self.executor)).get(self.executor, []))
        if run_id in mine:
            engine = self._client.engine
            await self._in_thread(lambda: engine.resume_workflow(run_id, queue_name=mine[run_id]))
        return {}

    async def _park(self) -> None:
        """Wait for the end of this process, or of its engine; the run is handed over then."""
        await asyncio.get_running_loop().create_future()

    @contextlib.contextmanager
    def _noted(self) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    # -- ending, and taking over ----------------------------------------------------------------

    async def _drain(self) -> None:
        """Let tools that are at work end, and begin nothing."""
        self._is_draining = True
        for attempt in self._attempts.values():
            attempt.guard.is_draining = True
        give_up = self._loop.time() + self._grace
        while self._attempts and self._loop.time() < give_up:
            await asyncio.sleep(0.02)

    def _sweep(self, liveness: Liveness) -> None:
        """In a thread of its own: a tool that blocks the event loop must not look like death."""
        while not self._stop_sweeping.wait(SWEEP_SECONDS):
            self._look_around(liveness)

    def _look_around(self, liveness: Liveness) -> None:
        try:
            if liveness.beat():
                self._take_over(liveness)
        except Exception as error:  # noqa: BLE001 - the database is away; the next round tries again
            LOG.warning("Looking after other workers failed: %s", safe_str(error))

    def _take_over(self, liveness: Liveness) -> None:
        self._ticker.take_over(liveness)
        others = [each for each in self._client.running() if each != self.executor]
        for executor in liveness.suspects(others):
            with liveness.claim(executor) as is_dead:
                for run_id in self._client.hand_over(executor) if is_dead else ():
                    LOG.warning("The run %s of %s, which is gone, goes on elsewhere.", run_id, executor)

    # -- parts ----------------------------------------------------------------------------------

    def _sessions(self) -> SessionStore:
        return self._client.database.sessions(owner=self.executor, lease=self._lease)

    def _make_liveness(self) -> Liveness:
        database = self._client.database
        if database.is_sqlite:
            return FileLiveness(database, self.executor)
        return PostgresLiveness(database, self.executor, self._lease)

    async def _in_thread(self, work: Callable[..., Any], *values: Any) -> Any:
        return await self._loop.run_in_executor(self._threads, lambda: work(*values))
