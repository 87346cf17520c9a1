"""Worker: executes durable runs from queues, and takes over the runs of dead workers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.durable.attempt import PAUSE_SECONDS, Attempt
from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.health import ENGINE
from pure_agent_loop.durable.liveness import FileLiveness, Liveness, PostgresLiveness
from pure_agent_loop.durable.schedules.firings import Firings
from pure_agent_loop.durable.schedules.ticker import Ticker
from pure_agent_loop.durable.serializer import import_dbos, json_serializer
from pure_agent_loop.durable.values import (
    APP_NAME,
    APP_VERSION,
    MAX_ATTEMPTS,
    PARKED_QUEUE,
    WORKFLOW,
    DurableError,
    Rate,
    queue_of,
)
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.base import model_of
from pure_agent_loop.runs.settings import DepsOfRun
from pure_agent_loop.sessions import SessionStore
from pure_agent_loop.sessions.store import close_store
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.prometheus import Gauge, Meters
from pure_agent_loop.support.text import safe_str

LOG = logging.getLogger("pure_agent_loop")
SWEEP_SECONDS = 0.5
POLL_SECONDS = 0.25
MAX_DELAY_SECONDS = 60.0  # before an attempt after several that ended with their process
ANSWERED_SECONDS = 5.0  # seconds between checks for answered runs that nobody requeued
METRICS = {
    "pal_runs_started_total": ("counter", "Run attempts started by this worker, by agent."),
    "pal_runs_ended_total": ("counter", "Run attempts ended on this worker, by agent and stop reason."),
    "pal_tokens_total": ("counter", "Tokens used by ended runs, by agent."),
    "pal_cost_total": ("counter", "Known cost of ended runs, by agent, in the currency of the prices."),
    "pal_runs": ("gauge", "Runs of this worker, by state."),
    **ENGINE,
}
_ENDED_WELL = ("completed", "cancelled")
_POOL = 6
_ENGINE_LOCK = threading.Lock()  # DBOS allows one engine per process


class Company:
    """Lets attempts run together, or one alone: an attempt that may end the process ends no other one."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._number = self._waiting = 0
        self._is_alone = False

    @contextlib.asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """Run with others; wait for one that runs alone, or waits to."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_alone and not self._waiting)
            self._number += 1
        try:
            yield
        finally:
            async with self._changed:
                self._number -= 1
                self._changed.notify_all()

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Run without others."""
        async with self._changed:
            self._waiting += 1
            try:
                await self._changed.wait_for(lambda: not self._is_alone and not self._number)
                self._is_alone = True
            finally:
                self._waiting -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            async with self._changed:
                self._is_alone = False
                self._changed.notify_all()


class Worker:
    """Executes runs until it is stopped.

    Args:
        client: Client of the database.
        agents: Agents by name.
        concurrency: Maximum number of concurrent runs per model.
        rates: Maximum rate at which runs start, by model, across all workers.
        lease: Seconds without a heartbeat after which a worker counts as dead (PostgreSQL).
        grace: Seconds for running tools to finish when the worker stops.
        deps: Function that makes the deps for each attempt; see `Engine`.
        max_attempts: Maximum number of attempts of a run without progress.
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
        deps: Callable[..., Any] | None = None,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> None:
        self._max_attempts, self._company = max_attempts, Company()
        self._queue, self._agents = client.queue, dict(agents)
        self._concurrency, self._rates = concurrency, dict(rates)
        self._lease, self._grace, self._deps = lease, grace, deps
        self.executor = f"{socket.gethostname()[:40]}-{os.getpid()}-{secrets.token_hex(3)}"
        models = {name: model_of(agent.llm) for name, agent in agents.items()}
        self.queues = {name: queue_of(model) for name, model in models.items()}
        self._limits = {queue_of(model): self._rates.get(model) for model in models.values()}
        unknown = set(self._rates) - set(models.values())
        if unknown:
            raise ConfigError(
                notice(
                    "library.rates_models",
                    unknown=", ".join(sorted(unknown)),
                    models=", ".join(sorted(set(models.values()))),
                )
            )
        self._attempts: dict[str, Attempt] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.is_draining = False
        self._meters = Meters(METRICS)
        self._stop_sweeping = threading.Event()
        self._next_look = 0.0
        self._ticker = Ticker(Firings(client, self.executor), self._in_thread)
        self._threads = ThreadPoolExecutor(thread_name_prefix="pal-durable-")

    async def work(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        """Execute runs until `stop` is set; then let running tools finish, and hand back unfinished runs.

        Args:
            stop: Event that stops the worker.
            ready: Function to call when the worker is ready for runs.

        Raises:
            ConfigError: Another engine is already running in this process.
            DurableError: The database is unavailable.
            MissingExtraError: The extra is not installed.
        """
        if not _ENGINE_LOCK.acquire(blocking=False):
            raise ConfigError("An engine is already running in this process; only one is allowed.")
        try:
            await self._work(stop, ready)
        finally:
            _ENGINE_LOCK.release()

    async def _work(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        await self._in_thread(lambda: self._queue.dbos_client)  # fails if the database is unavailable
        open_store = partial(self._queue.database.sessions, owner=self.executor, lease=self._lease)
        self._store: SessionStore = await self._in_thread(open_store)
        with self._queue.translate_errors():
            liveness = await self._in_thread(self._make_liveness)
        dbos = import_dbos().DBOS
        sweep, beat_seconds = partial(self._sweep, liveness), min(self._lease / 10, SWEEP_SECONDS)
        helpers = [
            threading.Thread(target=self._repeat, args=each, name=name, daemon=True)
            for name, each in {
                "pal-beat": (liveness.beat, beat_seconds),  # its own thread, so that no sweep delays it
                "pal-sweeper": (sweep, SWEEP_SECONDS),
            }.items()
        ]
        try:
            with self._queue.translate_errors():
                await self._launch(dbos)
            await self._in_thread(self._queue.register_agents, self.queues)
            for helper in helpers:
                helper.start()
            await self._in_thread(self._take_over_strays, liveness)
            await self._in_thread(self._queue.note_outcomes)
            self._ticker.start()
            ready()
            await stop.wait()
            await asyncio.gather(self._drain(), self._ticker.close(self._grace))
        finally:
            self._stop_sweeping.set()
            await self._ticker.close(0.0)
            for helper in helpers:
                if helper.is_alive():
                    await self._in_thread(helper.join)
            await self._shut_down(dbos)
            is_handed_over = False
            with contextlib.suppress(Exception):  # after a failure, another worker detects this one's death
                await self._in_thread(self._queue.hand_over, self.executor)
                is_handed_over = True
            await self._in_thread(close_store, self._store)
            liveness.close(has_runs=not is_handed_over)
            self._threads.shutdown(wait=False)

    # -- DBOS -----------------------------------------------------------------------------------

    async def _launch(self, dbos: Any) -> None:
        dbos(
            config={
                "name": APP_NAME,
                "system_database_url": self._queue.database.engine_url,
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
        self._loop.set_default_executor(ThreadPoolExecutor())  # DBOS has replaced and closed the default one

    def _make_workflow(self, dbos: Any) -> Callable[..., Any]:
        async def run_agent(
            agent: str,
            task: str,
            session_id: str,
            trace_context: Mapping[str, str] | None = None,
            inputs: str = "",
        ) -> Any:
            with self._tracked():
                run_id = dbos.workflow_id
                options = {"name": "attempt", "preemptible": True}
                args = (run_id, agent, task, session_id, trace_context or {}, inputs)
                return await dbos.run_step_async(options, self._attempt, *args)

        return run_agent

    async def _attempt(
        self,
        run_id: str,
        name: str,
        task: str,
        session_id: str,
        trace_context: Mapping[str, str],
        inputs: str = "",
    ) -> dict[str, Any]:
        """Return the outcome of a run; if another process decides the outcome, DBOS rejects this value."""
        with self._tracked():
            agent = self._agents.get(name)
            if self.is_draining:
                await self._wait_for_shutdown()
            if agent is None:  # another worker on this queue has this agent
                await asyncio.sleep(SWEEP_SECONDS)
                return await self._requeue(run_id)
            attempt = Attempt(
                self._queue,
                self._store,
                agent,
                run_id,
                task,
                session_id,
                self._in_thread,
                takeover=not self._queue.database.is_sqlite,
                trace_context=trace_context,
                inputs=inputs,
                deps=None if self._deps is None else DepsOfRun(self._deps),
                max_attempts=self._max_attempts,
            )
            earlier = (await self._insist(self._queue.runs.attempts, [run_id])).get(run_id, 0)
            if earlier:
                await asyncio.sleep(min(2.0 ** (earlier - 1), MAX_DELAY_SECONDS))
            async with self._company.alone() if earlier else self._company.together():
                if self.is_draining:
                    await self._wait_for_shutdown()
                self._attempts[run_id] = attempt
                self._meters.count("pal_runs_started_total", agent=name)
                LOG.info(notice("library.run_claimed", run=run_id, agent=name, session=session_id))
                started = time.monotonic()
                try:
                    outcome = await attempt.work()
                finally:
                    is_newest = self._attempts.get(run_id) is attempt
                    if is_newest:
                        del self._attempts[run_id]
            if outcome is not None:
                await self._insist(self._queue.stop, run_id, session_id, outcome["stop_reason"])
                void = await self._insist(self._queue.void_approvals, [run_id])
                for call in void.get(run_id, ()):
                    LOG.warning(notice("library.run_void", run=run_id, **call))
                self._note_end(run_id, name, outcome, time.monotonic() - started)
                return outcome
            if attempt.run_ahead:
                LOG.info(notice("library.run_parked", run=run_id, ahead=attempt.run_ahead))
                await self._requeue(run_id, PARKED_QUEUE)
                await self._insist(self._queue.runs.release, session_id)  # its turn may have come just now
                return {}
            if attempt.guard.is_draining:
                LOG.info(notice("library.run_returned", run=run_id))
                await self._wait_for_shutdown()
            LOG.warning(notice("library.run_taken", run=run_id))
            return await self._requeue(run_id) if is_newest else {}

    def _note_end(self, run_id: str, agent: str, outcome: Mapping[str, Any], seconds: float) -> None:
        """Log and count that a run has ended or waits."""
        reason, tokens, cost = outcome["stop_reason"], outcome.get("tokens", 0), outcome.get("cost")
        self._meters.count("pal_runs_ended_total", agent=agent, reason=reason)
        self._meters.count("pal_tokens_total", tokens, agent=agent)
        self._meters.count("pal_cost_total", cost or 0.0, agent=agent)
        about = {"run": run_id, "agent": agent, "reason": reason, "seconds": seconds}
        spent = {"steps": outcome["steps"], "tokens": tokens, "cost": cost}
        if reason in WAITING:
            LOG.info(notice("library.run_waits", **about, **spent))
        elif reason in _ENDED_WELL:
            LOG.info(notice("library.run_ended", **about, **spent))
        else:
            error = outcome["error"] or reason
            LOG.error(notice("library.run_failed", **about, **spent, error=error))

    def metrics(self, gauges: Mapping[str, Gauge]) -> str:
        """Return the metrics of this worker as text for Prometheus.

        Args:
            gauges: Further values measured now, by name.
        """
        running: Gauge = {(("state", "running"),): len(self._attempts)}
        return "\n".join([*self._meters.lines({"pal_runs": running, **gauges}), ""])

    async def _requeue(self, run_id: str, queue: str = "") -> dict[str, Any]:
        """Requeue a run, in its own or another queue, unless another worker has taken it."""
        await self._in_thread(self._queue.hand_over, self.executor, run_id, queue)
        return {}

    async def _wait_for_shutdown(self) -> None:
        """Wait until this process or the engine ends; the run is then handed over."""
        await asyncio.get_running_loop().create_future()

    @contextlib.contextmanager
    def _tracked(self) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    # -- shutdown and takeover ------------------------------------------------------------------

    async def _drain(self) -> None:
        """Let running tools finish, and start no new ones."""
        self.is_draining = True
        for attempt in self._attempts.values():
            attempt.guard.is_draining = True
        deadline = self._loop.time() + self._grace
        while self._attempts and self._loop.time() < deadline:
            await asyncio.sleep(0.02)

    def _repeat(self, work: Callable[[], None], seconds: float) -> None:
        """Call a function at intervals, in a thread: a tool that blocks the event loop does not delay it."""
        while not self._stop_sweeping.wait(seconds):
            try:
                work()
            except Exception as error:  # noqa: BLE001, PERF203 - database unavailable; the next call tries again
                if not self._queue.database.is_loss(error):
                    LOG.warning(notice("library.sweep_failed", error=safe_str(error)))

    def _sweep(self, liveness: Liveness) -> None:
        """Take over from dead workers; at longer intervals, finish what a dying process may have left."""
        self._ticker.take_over(liveness)
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + ANSWERED_SECONDS
            for run_id in self._queue.runs.release():
                LOG.info(notice("library.run_released", run=run_id))
            for run_id in self._queue.resume_answered():
                LOG.info(notice("library.run_answered", run=run_id))
        for executor in liveness.suspects():
            self._take_over(liveness, executor)

    def _take_over(self, liveness: Liveness, executor: str) -> None:
        with liveness.claim(executor) as is_dead:
            for run_id in self._queue.hand_over(executor) if is_dead else ():
                LOG.warning(notice("library.run_handed_over", run=run_id, worker=executor))

    def _take_over_strays(self, liveness: Liveness) -> None:
        """Take over the runs of executors that are not among the workers. This reads all running runs."""
        known = {str(name) for (name,) in self._queue.database.rows("SELECT executor FROM @workers")}
        for executor in sorted(self._queue.runs.running_by_worker().keys() - known):
            self._take_over(liveness, executor)

    # -- dependencies ---------------------------------------------------------------------------

    def _make_liveness(self) -> Liveness:
        database = self._queue.database
        if database.is_sqlite:
            return FileLiveness(database, self.executor)
        return PostgresLiveness(database, self.executor, self._lease)

    async def _insist(self, work: Callable[..., Any], *values: Any) -> Any:
        """Call a function in a thread, again while the database is unavailable, so that no run fails."""
        while True:
            try:
                return await self._in_thread(work, *values)
            except DurableError as error:
                if not self._queue.is_away(error):
                    raise
            await asyncio.sleep(PAUSE_SECONDS)

    async def _in_thread(self, work: Callable[..., Any], *values: Any) -> Any:
        return await self._loop.run_in_executor(self._threads, lambda: work(*values))
