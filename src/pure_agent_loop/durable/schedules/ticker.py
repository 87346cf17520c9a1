"""What a worker does for schedules while it works: looks once a second, and delivers what was answered."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from pure_agent_loop.durable.liveness import Liveness
from pure_agent_loop.durable.schedules.firings import Firings, Parcel
from pure_agent_loop.durable.schedules.posting import (
    STARTED,
    Outcome,
    after_death,
    after_stop,
    again,
    post_to_command,
    post_to_file,
)
from pure_agent_loop.support.text import safe_str

LOG = logging.getLogger("pure_agent_loop")
TICK_SECONDS = 1.0
MOST_AT_ONCE = 4


class Ticker:
    """Looks for what is due, and delivers.

    Args:
        firings: The schedules of the database, as this worker sees them.
        in_thread: Runs a function in a thread and gives something to await.
    """

    def __init__(self, firings: Firings, in_thread: Callable[..., Awaitable[Any]]) -> None:
        self._firings, self._in_thread = firings, in_thread
        self._jobs: set[asyncio.Task[None]] = set()
        self._ticking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._ticking = asyncio.create_task(self._tick())

    async def close(self, grace: float) -> None:
        """Look no more, and let deliveries end.

        Args:
            grace: Seconds they get; then a command is ended.
        """
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait({self._ticking})
        if self._jobs:
            await asyncio.wait(set(self._jobs), timeout=grace)
        for job in set(self._jobs):
            job.cancel()
        if self._jobs:
            await asyncio.wait(set(self._jobs))

    async def look(self) -> None:
        """Look once, and begin to deliver."""
        await self._in_thread(self._firings.look)
        for run_id in await self._in_thread(self._firings.waiting):
            if len(self._jobs) < MOST_AT_ONCE:
                job = asyncio.create_task(self._deliver(run_id))
                self._jobs.add(job)
                job.add_done_callback(self._jobs.discard)

    async def settle(self) -> None:
        """Wait until what is being delivered was."""
        while self._jobs:
            await asyncio.wait(set(self._jobs))

    def take_over(self, liveness: Liveness) -> None:
        """See to deliveries of workers that are gone. May be called in any thread."""
        for owner in self._firings.deliverers():
            with liveness.claim(owner) as is_dead:
                for parcel in self._firings.parcels_of(owner) if is_dead else ():
                    self._end(parcel, after_death(parcel, owner), owner)

    async def _tick(self) -> None:
        while True:
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - the database is away; the next round tries again
                LOG.warning("Looking after schedules failed: %s", safe_str(error))
            await asyncio.sleep(TICK_SECONDS)

    async def _deliver(self, run_id: str) -> None:
        try:
            parcel = await self._in_thread(self._firings.claim, run_id)
            if parcel is not None:
                await self._post(parcel)
        except Exception as error:  # noqa: BLE001 - it is said; the claim stands, and ends with this worker
            LOG.warning("The answer of %s was not delivered: %s", run_id, safe_str(error))

    async def _post(self, parcel: Parcel) -> None:
        put_down = partial(self._firings.put_down, parcel.run_id)
        kind = parcel.delivery.kind
        if kind == "session":
            await self._in_thread(self._firings.leave_notice, parcel)
            return
        if kind == "file":
            outcome = await self._in_thread(post_to_file, parcel, put_down)
        else:
            outcome = await self._run_command(parcel, put_down)
        await self._in_thread(self._end, parcel, outcome)

    async def _run_command(self, parcel: Parcel, put_down: Callable[[str], None]) -> Outcome:
        await self._in_thread(put_down, STARTED)
        try:
            return await post_to_command(parcel)
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                self._end(parcel, after_stop(parcel))
            raise
        except Exception as error:  # noqa: BLE001 - kept with the firing
            return again(parcel, safe_str(error))

    def _end(self, parcel: Parcel, outcome: Outcome, owner: str = "") -> None:
        if outcome.state in ("undelivered", "unknown"):
            LOG.warning("The answer of %s is %s: %s", parcel.run_id, outcome.state, outcome.detail)
        not_before = self._firings.now() + outcome.wait if outcome.wait else 0.0
        self._firings.end(parcel.run_id, outcome.state, outcome.detail, not_before=not_before, owner=owner)
