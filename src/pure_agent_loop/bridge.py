"""Calling async code from sync code, also where an event loop is already running.

One background thread runs one event loop for all sync calls of the process, so that connections are
reused between them and a notebook's own loop is left alone.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Portal:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pal-loop", daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """True in the portal's own thread, where waiting for it would wait for ever."""
        return threading.current_thread() is self._thread

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, with the caller's context variables, and wait for its result.

        Ctrl-C while waiting cancels it, waits for its end, and raises KeyboardInterrupt.
        """
        context = contextvars.copy_context()
        started: list[asyncio.Task[T]] = []
        ended = threading.Event()

        def start() -> None:
            task = context.run(self._loop.create_task, coroutine)
            started.append(task)
            task.add_done_callback(lambda _: ended.set())

        self._loop.call_soon_threadsafe(start)
        try:
            ended.wait()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in started])
            ended.wait()
            raise
        return started[0].result()


class _Portals:
    """The portal of this process; another one for calls that come from inside it."""

    def __init__(self) -> None:
        self._portals: list[Portal] = []
        self._lock = threading.Lock()

    def get(self) -> Portal:
        with self._lock:
            for portal in self._portals:
                if not portal.is_here:
                    return portal
            self._portals.append(Portal())
            return self._portals[-1]

    def forget(self) -> None:
        """After a fork the thread is gone."""
        self._portals, self._lock = [], threading.Lock()


_PORTALS = _Portals()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_PORTALS.forget)


def get_portal() -> Portal:
    """A portal that may be waited for from this thread."""
    return _PORTALS.get()


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result; works inside a running event loop too."""
    return get_portal().call(coroutine)
