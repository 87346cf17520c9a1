"""Call async code from sync code, even where an event loop is already running.

One background thread runs one event loop for all sync calls of the process, so connections are reused from
call to call, and a notebook's own loop is not affected.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import queue
import sys
import threading
import weakref
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
CLOSE_SECONDS = 1.0
WAKE_SECONDS = 0.25
# Nesting depth of the portal that runs this code; worker threads of tools inherit it.
_DEPTH: contextvars.ContextVar[int] = contextvars.ContextVar("pal_portal", default=0)
_THREAD = threading.local()
_OPEN: weakref.WeakSet[Closable] = weakref.WeakSet()


def _own_depth() -> int:
    """Return the depth of the portal that owns this thread, or -1."""
    return int(getattr(_THREAD, "depth", -1))


class Portal:
    """An event loop in a daemon thread.

    Each portal has a number. The thread of a portal waits only for portals with a higher number, so that
    nested calls never wait for their own portal.

    Args:
        depth: Number of the portal.
    """

    def __init__(self, depth: int) -> None:
        self.loop = asyncio.new_event_loop()
        self._depth = depth
        self._ended = False
        self._left: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._serve, name="pal-loop", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        _THREAD.depth = self._depth
        while not self._ended:
            # A SystemExit in a task is raised in its caller, and the loop continues.
            with suppress(BaseException):
                self.loop.run_forever()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the portal's loop, with the caller's context variables, and wait for its result.

        Ctrl-C cancels the coroutine, waits until it has ended, and raises KeyboardInterrupt.
        """
        context = contextvars.copy_context()
        context.run(_DEPTH.set, self._depth)
        started: list[asyncio.Task[T]] = []
        # Not an Event, because Ctrl-C could leave an Event's lock held.
        ended: queue.SimpleQueue[None] = queue.SimpleQueue()

        def start() -> None:
            task = context.run(self.loop.create_task, coroutine)
            started.append(task)
            task.add_done_callback(lambda _: ended.put(None))

        def stop() -> None:
            if started:
                started[0].cancel()
            else:  # Ctrl-C came before the task was scheduled
                coroutine.close()
                ended.put(None)

        try:
            self.loop.call_soon_threadsafe(start)
            _wait(ended)
        except KeyboardInterrupt:
            self.loop.call_soon_threadsafe(stop)
            if not (started and started[0].done()):
                _wait(ended)
            raise
        return started[0].result()

    def leave(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as `call` does, but do not wait if that could cause a deadlock.

        Garbage collection may close a forgotten stream in any thread, even in the portal's, and at the end of
        the program.
        """
        if sys.is_finalizing() or not self._thread.is_alive():
            coroutine.close()
        elif _own_depth() < self._depth:
            self.call(coroutine)
        else:
            self.loop.call_soon_threadsafe(self._start_left, coroutine)

    def _start_left(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(coroutine)
        self._left.add(task)
        task.add_done_callback(self._left.discard)

    def close(self) -> None:
        """Close the registered resources, then end the thread, waiting only briefly for each."""
        try:
            asyncio.run_coroutine_threadsafe(_close_all(), self.loop).result(CLOSE_SECONDS)
        except Exception:  # noqa: BLE001 - the program is ending; the error has no handler
            return
        self._ended = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CLOSE_SECONDS)
        if not self._thread.is_alive():
            self.loop.close()


def _wait(ended: queue.SimpleQueue[None]) -> None:
    """Wait in short intervals, because a signal just before a wait does not interrupt the wait."""
    while True:
        with suppress(queue.Empty):
            ended.get(timeout=WAKE_SECONDS)
            return


class Closable(Protocol):
    """Object that holds connections of the running event loop."""

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""


def close_at_exit(resource: Closable) -> None:
    """Close `resource` at program exit, on the event loop of every portal that used it.

    Sync callers have no access to that loop.
    """
    _OPEN.add(resource)


async def _close_all() -> None:
    for resource in list(_OPEN):
        await resource.aclose()
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        _, running = await asyncio.wait(others, timeout=CLOSE_SECONDS / 4)
        for task in running:  # abandoned runs
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=CLOSE_SECONDS / 4)


class _Portals:
    """Portals of this process: one, and further ones for nested calls."""

    def __init__(self) -> None:
        self._portals: list[Portal] = []
        self._lock = threading.Lock()

    def get(self) -> Portal:
        depth = max(_DEPTH.get(), _own_depth() + 1)
        with self._lock:
            while len(self._portals) <= depth:
                self._portals.append(Portal(len(self._portals)))
            return self._portals[depth]

    def forget(self) -> None:
        """Drop the portals after a fork: their threads do not exist in the child."""
        self._portals, self._lock = [], threading.Lock()

    def close(self) -> None:
        with self._lock:
            portals, self._portals = self._portals, []
        for portal in portals:
            portal.close()


_PORTALS = _Portals()
atexit.register(_PORTALS.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_PORTALS.forget)


def get_portal() -> Portal:
    """Return a portal that this thread may wait for."""
    return _PORTALS.get()


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result; works inside a running event loop too."""
    return get_portal().call(coroutine)
