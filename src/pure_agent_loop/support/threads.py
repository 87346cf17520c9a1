"""Worker threads for synchronous tools: daemons, reused while warm, never joined.

The event loop's executor joins its threads when the program ends, so a single hanging tool would keep the
program from ending. An abandoned thread here ends with the process.
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
    """A function's exception as a value, because some exceptions cannot be set on a future."""

    error: BaseException


class _Workers:
    """Pool of idle threads; starts new ones as needed."""

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
                continue  # the timeout expired just as a job was queued
            _deliver(job, _outcome(job))
            del job  # an idle thread must not keep the arguments of the last call alive
            with self._lock:
                self._idle.append(jobs)

    def forget(self) -> None:
        """Drop the threads after a fork: they do not exist in the child."""
        self._idle, self._lock = [], threading.Lock()


def _outcome(job: _Job) -> Any:
    try:
        return job.context.run(job.function)
    except BaseException as error:  # noqa: BLE001 - SystemExit and the like are errors of the tool
        return Raised(error)


def _deliver(job: _Job, outcome: Any) -> None:
    def settle() -> None:
        if not job.future.done():  # the caller is no longer waiting, after a deadline or a cancellation
            job.future.set_result(outcome)

    try:
        job.loop.call_soon_threadsafe(settle)
    except RuntimeError:  # the loop is closed: the run has ended
        return


_WORKERS = _Workers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WORKERS.forget)


async def run_in_thread(function: Callable[[], Any]) -> Any:
    """Run a blocking function in a worker thread, with a copy of the caller's context variables.

    Returns:
        The function's result, or `Raised` with its exception. If the caller is cancelled, the thread
        continues in the background.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    _WORKERS.start(_Job(function, contextvars.copy_context(), loop, future))
    return await future


async def in_thread(function: Callable[[], T]) -> T:
    """Run a blocking function as `run_in_thread` does, and raise its exception."""
    result = await run_in_thread(function)
    if isinstance(result, Raised):
        raise result.error
    return cast("T", result)
