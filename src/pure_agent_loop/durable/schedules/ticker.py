"""In a worker: check the schedules when one is due or has changed, and deliver answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from pure_agent_loop.durable.listener import ChangeWatch
from pure_agent_loop.durable.liveness import Liveness
from pure_agent_loop.durable.schedules.firings import Firings, PendingDelivery
from pure_agent_loop.durable.schedules.posting import (
    STARTED,
    DeliveryOutcome,
    after_death,
    after_stop,
    post_to_command,
    post_to_file,
    retry_or_fail,
)
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.text import safe_str

TICK_SECONDS = 1.0
MAX_DELIVERIES = 4


class Ticker:
    """Checks for due schedules, and delivers answers.

    Args:
        in_thread: Function that runs a function in a thread and returns an awaitable.
    """

    def __init__(self, firings: Firings, in_thread: Callable[..., Awaitable[Any]]) -> None:
        self._firings, self._in_thread = firings, in_thread
        self._jobs: set[asyncio.Task[None]] = set()
        self._loop_task: asyncio.Task[None] | None = None
        self._watch: ChangeWatch | None = None

    def start(self) -> None:
        """Start the periodic check."""
        self._loop_task = asyncio.create_task(self._run())

    async def close(self, grace: float) -> None:
        """Stop checking, and let deliveries finish.

        Args:
            grace: Seconds to wait before a running command is killed.
        """
        if self._loop_task is not None:
            self._loop_task.cancel()
            await asyncio.wait({self._loop_task})
        if self._jobs:
            await asyncio.wait(set(self._jobs), timeout=grace)
        for job in set(self._jobs):
            job.cancel()
        if self._jobs:
            await asyncio.wait(set(self._jobs))

    async def look(self) -> float:
        """Check once, and start deliveries; return the seconds until the next check."""
        seconds: float
        seconds, is_open = await self._in_thread(self._firings.look)
        for run_id in await self._in_thread(self._firings.waiting) if is_open else ():
            if len(self._jobs) < MAX_DELIVERIES:
                job = asyncio.create_task(self._deliver(run_id))
                self._jobs.add(job)
                job.add_done_callback(self._forget)
        return max(seconds, TICK_SECONDS)

    def take_over(self, liveness: Liveness) -> None:
        """Take over deliveries of dead workers. May be called from any thread."""
        for owner in self._firings.deliverers():
            with liveness.claim(owner) as is_dead:
                for pending in self._firings.deliveries_of(owner) if is_dead else ():
                    self._end(pending, after_death(pending, owner), owner)

    def _forget(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        if self._watch is not None:
            self._watch.wake()

    async def _run(self) -> None:
        with self._firings.watch(TICK_SECONDS) as self._watch:
            while True:
                seconds = TICK_SECONDS
                try:
                    seconds = await self.look()
                except Exception as error:  # noqa: BLE001 - database unavailable; the next tick tries again
                    if not self._firings.is_loss(error):
                        LOG.warning("Checking schedules failed: %s", safe_str(error))
                await self._watch.wait_in_loop(seconds)

    async def _deliver(self, run_id: str) -> None:
        try:
            pending = await self._in_thread(self._firings.claim, run_id)
            if pending is not None:
                await self._post(pending)
        except Exception as error:  # noqa: BLE001 - logged; the claim remains until this worker ends
            LOG.warning("The answer of %s was not delivered: %s", run_id, safe_str(error))

    async def _post(self, pending: PendingDelivery) -> None:
        record_progress = partial(self._firings.record_progress, pending.run_id)
        kind = pending.delivery.kind
        if kind == "session":
            await self._in_thread(self._firings.leave_notice, pending)
            return
        if kind == "file":
            outcome = await self._in_thread(post_to_file, pending, record_progress)
        else:
            outcome = await self._run_command(pending, record_progress)
        await self._in_thread(self._end, pending, outcome)

    async def _run_command(
        self, pending: PendingDelivery, record_progress: Callable[[str], None]
    ) -> DeliveryOutcome:
        await self._in_thread(record_progress, STARTED)
        try:
            return await post_to_command(pending)
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                self._end(pending, after_stop(pending))
            raise
        except Exception as error:  # noqa: BLE001 - recorded with the firing
            return retry_or_fail(pending, safe_str(error))

    def _end(self, pending: PendingDelivery, outcome: DeliveryOutcome, owner: str = "") -> None:
        if outcome.state in ("undelivered", "unknown"):
            LOG.warning("The answer of %s is %s: %s", pending.run_id, outcome.state, outcome.detail)
        not_before = self._firings.now() + outcome.wait if outcome.wait else 0.0
        self._firings.end(pending.run_id, outcome.state, outcome.detail, not_before=not_before, owner=owner)
