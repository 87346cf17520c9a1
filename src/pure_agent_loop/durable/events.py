"""Events of durable runs, on their way to readers in other processes: rows that only grow.

Whole things are kept. Pieces of an answer are joined, and go when the whole answer is there. Events are for
looking at: what counts stands in the session, so a run does not fail because an event could not be written.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.values import DurableError
from pure_agent_loop.events import AnyEvent, Event, EventType

LOG = logging.getLogger("pure_agent_loop")
FLUSH_SECONDS = 0.05
_PIECES = (EventType.TEXT_DELTA, EventType.REASONING_DELTA)
_LEFT_OUT = (EventType.PART, EventType.TOOL_CALL_DELTA)
_INSERT = """
INSERT INTO @events (run, attempt, place, step, type, line) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (run, attempt, place) DO NOTHING
"""
_ATTEMPTS = """
SELECT run, SUM(CASE WHEN type = ? THEN 1 ELSE 0 END), MAX(number) FROM @events
WHERE run IN ({runs}) GROUP BY run, attempt ORDER BY 3
"""
_FORGET = "DELETE FROM @events WHERE run = ? AND attempt = ? AND step = ? AND type = ?"


class EventWriter:
    """Writes the events of one attempt, a few at a time.

    Args:
        attempt: Names the attempt.
        in_thread: Runs a function in a thread and gives something to await.
    """

    def __init__(
        self, database: Database, run_id: str, attempt: str, in_thread: Callable[..., Awaitable[Any]]
    ) -> None:
        self._database, self._run, self._attempt = database, run_id, attempt
        self._in_thread = in_thread
        self._waiting: list[AnyEvent] = []
        self._place = 0
        self._task: asyncio.Task[None] | None = None

    def add(self, event: AnyEvent) -> None:
        """Take an event; it is written soon."""
        if event.type in _LEFT_OUT:
            return
        last = self._waiting[-1] if self._waiting else None
        if last is not None and event.type in _PIECES and (last.type, last.step) == (event.type, event.step):
            whole = {"content": f"{last.content}{event.content}"}
            self._waiting[-1] = replace(event, data=whole)
        else:
            self._waiting.append(event)
        if self._task is None:
            self._task = asyncio.create_task(self._later())

    async def close(self) -> None:
        """Write what is left."""
        if self._task is not None:
            await asyncio.wait({self._task})
        await self._flush()

    async def _later(self) -> None:
        try:
            while self._waiting:  # others may have come in while these were written
                await asyncio.sleep(FLUSH_SECONDS)
                await self._flush()
        finally:
            self._task = None

    async def _flush(self) -> None:
        batch, self._waiting = self._waiting, []
        if not batch:
            return
        first, self._place = self._place, self._place + len(batch)
        try:
            await self._in_thread(self._write, batch, first)
        except DurableError as error:
            LOG.warning("%d events of the run %s were not written: %s", len(batch), self._run, error)

    def _write(self, batch: list[AnyEvent], first: int) -> None:
        rows = [
            (self._run, self._attempt, first + number, event.step, event.type.value, _line(event))
            for number, event in enumerate(batch)
        ]
        self._database.change_many(_INSERT, rows)
        for event in batch:
            if event.type in (EventType.THOUGHT, EventType.REASONING):
                piece = _PIECES[event.type is EventType.REASONING]
                self._database.change(_FORGET, self._run, self._attempt, event.step, piece.value)


def read_events(database: Database, run_id: str, after: int) -> list[AnyEvent]:
    """The next events of a run. Their numbers grow, and some are left out.

    Args:
        after: The number of the last one that is known; 0 for none.
    """
    found = database.rows(
        "SELECT number, line FROM @events WHERE run = ? AND number > ? ORDER BY number LIMIT 500",
        run_id,
        after,
    )
    return [Event.from_dict(json.loads(line), int(number)) for number, line in found]


def handovers(database: Database, run_ids: Sequence[str]) -> dict[str, int]:
    """How often each run was left before it ended or waited, and another attempt went on with it: the process
    was killed, or stopped and handed it back, or lost it to another one.

    Args:
        run_ids: Of which runs; one that was never left is not in the result.
    """
    if not run_ids:
        return {}
    found = database.rows(
        _ATTEMPTS.format(runs=", ".join("?" * len(run_ids))), EventType.LOOP_END.value, *run_ids
    )
    left: dict[str, list[bool]] = {}
    for run, ends, _ in found:
        left.setdefault(str(run), []).append(not ends)
    return {
        run: count for run, each in left.items() if (count := sum(each[:-1]))
    }  # the newest may be at work


def _line(event: Event) -> str:
    plain = event.to_dict()
    if event.type is EventType.LOOP_END:
        plain["data"]["messages"] = []  # the whole history stands in the session
    return json.dumps(plain)
