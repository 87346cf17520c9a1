"""Worker: executes durable runs from queues, and takes over the runs of dead workers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.durable.attempt import Attempt, delay_of, insist
from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.database import EventClock
from pure_agent_loop.durable.health import ENGINE
from pure_agent_loop.durable.listener import LONG_SECONDS, WORK
from pure_agent_loop.durable.liveness import FileLiveness, Liveness, PostgresLiveness
from pure_agent_loop.durable.schedules.firings import Firings
from pure_agent_loop.durable.schedules.ticker import Ticker
from pure_agent_loop.durable.serializer import import_dbos, json_serializer
from pure_agent_loop.durable.taking import POLL_SECONDS, check_engine, stop_polling, take_runs
from pure_agent_loop.durable.values import (
    APP_NAME,
    APP_VERSION,
    MAX_ATTEMPTS,
    PARKED_QUEUE,
    WORKFLOW,
    DurableError,
    Rate,
    new_executor,
    queue_of,
)
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.base import model_of
from pure_agent_loop.runs.settings import DepsOfRun
from pure_agent_loop.sessions import SessionStore
from pure_agent_loop.sessions.store import close_store
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.prometheus import USAGE, Gauge, Meters
from pure_agent_loop.support.text import safe_str

SWEEP_SECONDS = 0.5  # seconds between checks for dead workers, while other workers are executing runs
IDLE_SECONDS = 5.0  # seconds between these checks otherwise
ANSWERED_SECONDS = 5.0  # seconds between checks for answered runs that no process requeued
METRICS = {
    "pal_runs_started_total": ("counter", "Run attempts started by this worker, by agent."),
    "pal_runs_ended_total": ("counter", "Run attempts ended on this worker, by agent and stop reason."),
    **USAGE,
    "pal_runs": ("gauge", "Runs of this worker, by state."),
    **ENGINE,
}
_WAITING = "SELECT 1 FROM {table} WHERE queue_name = ? AND status = 'ENQUEUED' LIMIT 1"
_ENGINE_LOCK = threading.Lock()  # DBOS allows one engine per process


class Company:
    """Runs attempts together, but one that may crash the process alone, so that no other attempt is lost."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._number = self._waiting = 0
        self._is_alone = False

    @contextlib.asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """Run the block together with other attempts, after any attempt that must run alone."""
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
        """Run the block while no other attempt is running."""
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
        max_attempts: Maximum number of attempts per run without progress.
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
        self.executor = new_executor()
        models = {name: model_of(agent.llm) for name, agent in agents.items()}
        self.queues = {name: queue_of(model) for name, model in models.items()}
        self._limits = {queue_of(model): self._rates.get(model) for model in models.values()}
        if unknown := set(self._rates) - set(models.values()):
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
        self._next_look = self._next_release = 0.0
        self._ticker = Ticker(Firings(client, self.executor), self._in_thread)
        self._threads = ThreadPoolExecutor(thread_name_prefix="pal-durable-")
        self._clock = EventClock(client.database, self._in_thread)

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
        # Raises DurableError if the database is unavailable.
        await self._in_thread(lambda: self._queue.carrier)
        open_store = partial(self._queue.database.sessions, owner=self.executor, lease=self._lease)
        self._store: SessionStore = await self._in_thread(open_store)
        with self._queue.translate_errors():
            liveness = await self._in_thread(self._make_liveness)
        dbos = import_dbos()
        sweeper = threading.Thread(
            target=self._sweep_often, args=(liveness,), name="pal-sweeper", daemon=True
        )
        watches = contextlib.ExitStack()
        try:
            with self._queue.translate_errors():
                await self._launch(dbos, watches)
            await self._in_thread(self._queue.register_agents, self.queues)
            sweeper.start()
            await self._in_thread(self._take_over_strays, liveness)
            await self._in_thread(self._queue.note_outcomes)
            self._ticker.start()
            ready()
            await stop.wait()
            await asyncio.gather(self._drain(), self._ticker.close(self._grace))
        finally:
            self._stop_sweeping.set()
            await self._ticker.close(0.0)
            if sweeper.is_alive():
                await self._in_thread(sweeper.join)
            await self._shut_down(dbos.DBOS)
            watches.close()
            is_handed_over = False
            # If this fails, another worker detects that this one is dead.
            with contextlib.suppress(Exception):
                await self._in_thread(self._queue.hand_over, self.executor)
                is_handed_over = True
            await self._in_thread(close_store, self._store)
            liveness.close(has_runs=not is_handed_over)
            self._threads.shutdown(wait=False)

    # -- DBOS -----------------------------------------------------------------------------------

    async def _launch(self, dbos: Any, watches: contextlib.ExitStack) -> None:
        engine = dbos.DBOS(
            config={
                "name": APP_NAME,
                "system_database_url": self._queue.database.engine_url,
                "system_database_engine": self._queue.database.engine,
                "application_version": APP_VERSION,
                "executor_id": self.executor,
                "serializer": json_serializer(),
                "log_level": "CRITICAL",
                "enable_otlp": False,
                "use_listen_notify": False,
            }
        )
        dbos.DBOS.workflow(name=WORKFLOW)(self._make_workflow(dbos.DBOS))
        check_engine(dbos, engine)
        dbos.DBOS.listen_queues([])
        dbos.DBOS.launch()
        stop_polling(engine)
        for name, rate in self._limits.items():
            queue = await dbos.DBOS.register_queue_async(
                name,
                worker_concurrency=self._concurrency,
                limiter=None if rate is None else {"limit": rate.limit, "period": rate.seconds},
                polling_interval_sec=POLL_SECONDS,
                on_conflict="always_update",
            )
            watching = self._queue.database.listener.watch(WORK, name, poll=POLL_SECONDS)
            has_waiting = partial(self._has_waiting, name, rate)
            take_runs(dbos, engine, queue, watches.enter_context(watching), has_waiting)

    def _has_waiting(self, queue: str, rate: Rate | None) -> bool:
        """Return True while a queue's rate limit is delaying runs, or the database is unavailable."""
        try:
            return rate is not None and bool(
                self._queue.database.rows(_WAITING.format(table=self._queue.database.runs_table), queue)
            )
        except DurableError:
            return True

    async def _shut_down(self, dbos: Any) -> None:
        for attempt in self._attempts.values():
            attempt.guard.is_cut = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=self._grace)
        await self._in_thread(lambda: dbos.destroy(destroy_registry=True))
        # A new executor, because DBOS has replaced and closed the default one.
        self._loop.set_default_executor(ThreadPoolExecutor())

    def _make_workflow(self, dbos: Any) -> Callable[..., Any]:
        async def run_agent(
            agent: str,
            task: str,
            session_id: str,
            trace_context: Mapping[str, str] | None = None,
            inputs: str = "",
        ) -> Any:
            run_id = dbos.workflow_id
            with self._tracked(run_id):
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
        """Execute a run and return its outcome, which DBOS rejects if another process decides the outcome."""
        with self._tracked():
            agent = self._agents.get(name)
            if self.is_draining:
                await self._wait_for_shutdown()
            if agent is None:  # another worker on this queue has the agent
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
                name=name,
                deps=None if self._deps is None else DepsOfRun(self._deps),
                max_attempts=self._max_attempts,
                clock=self._clock,
            )
            earlier = (await self._insist(self._queue.runs.attempts, [run_id])).get(run_id, 0)
            await asyncio.sleep(delay_of(earlier))
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
                # Requeue this run at once if the run ahead has just ended.
                await self._insist(self._queue.runs.release, session_id)
                return {}
            if attempt.guard.is_draining and not attempt.guard.is_lost:
                LOG.info(notice("library.run_returned", run=run_id))
                await self._wait_for_shutdown()
            LOG.warning(notice("library.run_taken", run=run_id))
            return await self._requeue(run_id) if is_newest else {}

    def _note_end(self, run_id: str, agent: str, outcome: Mapping[str, Any], seconds: float) -> None:
        """Log and count that a run has ended or is waiting."""
        reason, tokens, cost = outcome["stop_reason"], outcome.get("tokens", 0), outcome.get("cost")
        self._meters.count("pal_runs_ended_total", agent=agent, reason=reason)
        if reason not in WAITING:
            self._meters.usage(agent, tokens, cost)
        about = {"run": run_id, "agent": agent, "reason": reason, "seconds": seconds}
        spent = {"steps": outcome["steps"], "tokens": tokens, "cost": cost}
        if reason in WAITING:
            LOG.info(notice("library.run_waits", **about, **spent))
        elif reason in ("completed", "cancelled"):
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
        """Wait until the shutdown of the worker cancels this task and requeues the run."""
        await asyncio.get_running_loop().create_future()

    @contextlib.contextmanager
    def _tracked(self, run_id: str = "") -> Any:
        """Track the current task; if `run_id` is given, notify the run's readers when the task ends."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        if run_id:
            task.add_done_callback(lambda _: self._wake_after(run_id))
        try:
            yield
        finally:
            self._tasks.discard(task)

    def _wake_after(self, run_id: str) -> None:
        self._queue.note_end(run_id)
        for queue in self._limits:  # one of these queues has a free slot now
            self._queue.database.listener.wake(WORK, queue)

    # -- shutdown and takeover ------------------------------------------------------------------

    async def _drain(self) -> None:
        """Let running tools finish, and start no new ones."""
        self.is_draining = True
        for attempt in self._attempts.values():
            attempt.guard.is_draining = True
        deadline = self._loop.time() + self._grace
        while self._attempts and self._loop.time() < deadline:
            await asyncio.sleep(0.02)

    def _sweep_often(self, liveness: Liveness) -> None:
        """Sweep at intervals, in a thread, because a tool may block the event loop."""
        with self._queue.database.listener.watch(WORK) as watch:
            until = next_sweep = 0.0
            while not self._stop_sweeping.wait(SWEEP_SECONDS):
                now = time.monotonic()
                if watch.wait(0.0):  # another worker may take a newly queued run and die
                    until = now + IDLE_SECONDS
                if now < next_sweep and now >= until and not liveness.has_work:
                    continue
                next_sweep = now + IDLE_SECONDS
                try:
                    self._sweep(liveness)
                except Exception as error:  # noqa: BLE001 - database unavailable; the next call tries again
                    if not self._queue.database.is_loss(error):
                        LOG.warning(notice("library.sweep_failed", error=safe_str(error)))

    def _sweep(self, liveness: Liveness) -> None:
        """Take over from dead workers; at longer intervals, finish what a process that died had begun."""
        suspects, now = liveness.suspects(), time.monotonic()
        if liveness.has_work:
            self._ticker.take_over(liveness)
        if now >= self._next_release:
            self._next_release = now + LONG_SECONDS
            for run_id in self._queue.runs.release():
                LOG.info(notice("library.run_released", run=run_id))
        if liveness.has_answers and now >= self._next_look:
            self._next_look = now + ANSWERED_SECONDS
            for run_id in self._queue.resume_answered():
                LOG.info(notice("library.run_answered", run=run_id))
        for executor in suspects:
            self._take_over(liveness, executor)

    def _take_over(self, liveness: Liveness, executor: str) -> None:
        with liveness.claim(executor) as is_dead:
            for run_id in self._queue.hand_over(executor) if is_dead else ():
                LOG.warning(notice("library.run_handed_over", run=run_id, worker=executor))

    def _take_over_strays(self, liveness: Liveness) -> None:
        """Take over runs whose executor is not a known worker. This reads all running runs."""
        known = {str(name) for (name,) in self._queue.database.rows("SELECT executor FROM @workers")}
        for executor in sorted(self._queue.runs.running_by_worker().keys() - known):
            self._take_over(liveness, executor)

    # -- dependencies ---------------------------------------------------------------------------

    def _make_liveness(self) -> Liveness:
        database = self._queue.database
        if database.is_sqlite:
            return FileLiveness(database, self.executor)
        return PostgresLiveness(database, self.executor, self._lease, self._give_up)

    def _give_up(self) -> None:
        """Stop the attempts, because another worker has taken over their runs. Running tools may finish."""
        LOG.warning(notice("library.worker_taken", worker=self.executor))
        for attempt in list(self._attempts.values()):
            attempt.guard.is_draining = attempt.guard.is_lost = True

    async def _insist(self, work: Callable[..., Any], *values: Any) -> Any:
        return await insist(self._queue, self._in_thread, work, *values)

    async def _in_thread(self, work: Callable[..., Any], *values: Any) -> Any:
        return await self._loop.run_in_executor(self._threads, lambda: work(*values))
