"""Worker threads for synchronous tools: daemons, reused while warm, never joined.

The executor of the event loop is joined when the program ends, so one tool that hangs would keep the
program from ending. A thread that was given up here dies with the process.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

T = TypeVar("T")
IDLE_SECONDS = 10.0


class _Job(NamedTuple):
    function: Callable[[], Any]
    context: contextvars.Context
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class Raised(NamedTuple):
    """What a function raised, as a value: some exceptions cannot pass through a future."""

    error: BaseException


class _Workers:
    """Idle threads, and new ones as needed."""

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[_Job]] = []
        self._lock = threading.Lock()

    def start(self, job: _Job) -> None:
        with self._lock:
            jobs = self._idle.pop() if self._idle else None
        if jobs is None:
            jobs = queue.SimpleQueue()
            threading.Thread(target=self._work, args=(jobs,), name="pal-tool", daemon=True).start()
        jobs.put(job)

    def _work(self, jobs: queue.SimpleQueue[_Job]) -> None:
        while True:
            try:
                job = jobs.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if jobs in self._idle:
                        self._idle.remove(jobs)
                        return
                continue  # a job was put in just now
            _deliver(job, _outcome(job))
            del job  # an idle thread must not keep the last call's arguments alive
            with self._lock:
                self._idle.append(jobs)

    def forget(self) -> None:
        """After a fork the threads are gone."""
        self._idle, self._lock = [], threading.Lock()


def _outcome(job: _Job) -> Any:
    try:
        return job.context.run(job.function)
    except BaseException as error:  # noqa: BLE001 - SystemExit and the like belong to the tool, not to us
        return Raised(error)


def _deliver(job: _Job, outcome: Any) -> None:
    def settle() -> None:
        if not job.future.done():  # nobody waits any more after a deadline or a cancel
            job.future.set_result(outcome)

    try:
        job.loop.call_soon_threadsafe(settle)
    except RuntimeError:  # the loop is closed: the run is long over
        return


_WORKERS = _Workers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WORKERS.forget)


async def run_in_thread(function: Callable[[], Any]) -> Any:
    """Run a blocking function in a worker thread, with a copy of the caller's context variables.

    Returns:
        What it returned, or `Raised` with what it raised. When the caller is cancelled, the thread is
        left to itself.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    _WORKERS.start(_Job(function, contextvars.copy_context(), loop, future))
    return await future


async def in_thread(function: Callable[[], T]) -> T:
    """The same, raising what the function raised."""
    found = await run_in_thread(function)
    if isinstance(found, Raised):
        raise found.error
    return cast("T", found)
