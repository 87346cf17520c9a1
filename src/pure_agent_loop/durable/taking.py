"""Queue threads of a worker: DBOS's threads, woken by notifications.

DBOS 3.4 polls each queue at intervals, and its schedules, delays and deadlines every second. A notification
cannot wake these threads. A worker therefore stops DBOS's thread manager, and for each queue starts a thread
that runs DBOS's own function for taking runs. This thread gets a stop event whose `wait` also ends after a
notification.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from typing import Any

from pure_agent_loop.durable.listener import ChangeWatch
from pure_agent_loop.durable.values import DurableError

POLL_SECONDS = 0.25  # DBOS's poll interval, used on SQLite and while a rate limit is delaying runs
_GATHER_SECONDS = 0.02  # seconds to wait for further notifications before the queue is polled
_OF_ENGINE = ("background_thread_stop_events", "_background_jobs_stop_event", "_background_threads")


class Wakeable:
    """Stop event of a DBOS thread that takes runs from a queue; `wait` ends soon after a notification.

    DBOS itself polls a queue at intervals.

    Args:
        watch: Watch for changes of the queue.
        has_waiting: Function that returns True while the queue's rate limit is delaying runs; in that case,
            DBOS's own interval applies.
    """

    def __init__(self, watch: ChangeWatch, has_waiting: Callable[[], bool]) -> None:
        self._watch, self._has_waiting, self._is_set = watch, has_waiting, False

    def set(self) -> None:
        """Stop the thread."""
        self._is_set = True
        self._watch.wake()

    def is_set(self) -> bool:
        """Return True if the thread must stop."""
        return self._is_set

    def wait(self, timeout: float) -> bool:
        """Wait until there may be runs; return True if the thread must stop.

        Args:
            timeout: DBOS's interval.
        """
        if not self._is_set:
            is_woken = self._watch.wait(timeout if self._has_waiting() else None)
            if is_woken and not self._is_set:
                time.sleep(_GATHER_SECONDS)
        return self._is_set


def check_engine(dbos: Any, engine: Any) -> Callable[..., None]:
    """Return DBOS's function that takes runs from a queue until its stop event is set.

    Args:
        dbos: The module ``dbos``.
        engine: DBOS's engine, before it is launched.

    Raises:
        DurableError: This version of DBOS is not supported.
    """
    function: Any = getattr(getattr(dbos, "_queue", None), "queue_worker_thread", None)
    parameters = [] if function is None else list(inspect.signature(function).parameters)
    missing = [name for name in _OF_ENGINE if not hasattr(engine, name)]
    if parameters != ["stop_event", "dbos", "queue"] or missing:
        raise DurableError(
            "This version of DBOS is not supported: its parts differ from those of 3.4: queue_worker_thread("
            f"{', '.join(parameters)}), missing {missing}. Install dbos 3.4."
        )
    taking: Callable[..., None] = function
    return taking


def stop_polling(engine: Any) -> None:
    """Stop DBOS's own threads for queues, schedules, delays and deadlines."""
    for event in (*engine.background_thread_stop_events, engine._background_jobs_stop_event):
        event.set()


def take_runs(
    dbos: Any, engine: Any, queue: Any, watch: ChangeWatch, has_waiting: Callable[[], bool]
) -> None:
    """Start a thread that takes runs from a queue until DBOS is destroyed; see `Wakeable`."""
    stop = Wakeable(watch, has_waiting)
    thread = threading.Thread(
        target=check_engine(dbos, engine), args=(stop, engine, queue), name=f"pal-{queue.name}", daemon=True
    )
    thread.start()
    engine.background_thread_stop_events.append(stop)
    engine._background_threads.append(thread)
