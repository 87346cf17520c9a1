"""Delivers the events of a session to any number of viewers.

A viewer has a cursor, not a queue: it reads the entries after its cursor when it is ready. A slow viewer
therefore blocks nothing and costs no memory; older entries come from the file. A viewer that falls too far
behind is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.server.entries import ChannelEntry
from pure_agent_loop.server.event_file import EventFile

LOG = logging.getLogger("pure_agent_loop.server")
BATCH, BATCH_OF_FILE = 200, 2_000
MAX_ENTRIES = 2_048
MAX_LAG = 20_000


@dataclass(frozen=True)
class Gap:
    """The requested events are no longer available: the viewer must reload the session.

    Args:
        first: The first available number.
        last: The last available number.
    """

    first: int
    last: int


class Channel:
    """The events of one session.

    Args:
        session: The session's id.
    """

    def __init__(
        self,
        session: str,
        file: EventFile,
        on_event: Callable[[ChannelEntry], None] = lambda _: None,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        self.session, self._file, self._on_event = session, file, on_event
        self.viewers = 0
        self._assigned = self.last = file.last_number()
        self._entries: deque[ChannelEntry] = deque(maxlen=max_entries)
        self._due: list[ChannelEntry] = []
        self._wakeup: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_failing = False

    @property
    def is_quiet(self) -> bool:
        """True if the channel may be discarded: it has no viewers, and its file contains all entries."""
        return not self.viewers and not self._due

    def add(self, plain: Mapping[str, Any], run: str = "") -> ChannelEntry:
        """Number an event. Viewers get the event in the next iteration of the event loop.

        Args:
            plain: The event; see `entries.plain_event`.
            run: The run's id; empty if this event starts a new run.
        """
        self._assigned += 1
        entry = ChannelEntry(self._assigned, self.session, run or f"{self.session}:{self._assigned}", plain)
        if not self._due:
            asyncio.get_running_loop().call_soon(self.flush)
        self._due.append(entry)
        return entry

    def flush(self) -> None:
        """Write new entries to the file, then publish them. This order ensures that no number is reused."""
        due, self._due = self._due, []
        if not due:
            return
        try:
            self._file.append(due)
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                LOG.warning("Events of session %s could not be written: %s", self.session, error)
            self._is_failing = True
        self._entries.extend(due)
        self.last = due[-1].number
        for entry in due:
            self._on_event(entry)
        self.wake()

    def wake(self) -> None:
        """Wake all viewers."""
        wakeup, self._wakeup = self._wakeup, asyncio.get_running_loop().create_future()
        wakeup.set_result(None)

    async def wait(self, after: int, seconds: float) -> bool:
        """Wait up to `seconds` for entries after a number, or until `wake`; return whether there are any."""
        if self.last > after:
            return True
        await asyncio.wait([self._wakeup], timeout=seconds)
        return self.last > after

    async def read(self, after: int) -> list[ChannelEntry] | Gap:
        """Return the next batch of entries after a number, or a `Gap` if they are no longer available.

        Args:
            after: The viewer's last number; 0 at the beginning.
        """
        if after >= self.last:
            return [] if after == self.last else Gap(self.last + 1, self.last)
        entries = self._entries
        if entries and after >= entries[0].number - 1:
            start = after - entries[0].number + 1
            return [entries[index] for index in range(start, min(start + BATCH, len(entries)))]
        last = self.last
        stored = await asyncio.to_thread(self._file.after, after, BATCH_OF_FILE)
        if not stored or stored[0].number != after + 1:
            if entries and entries[0].number == after + 1:
                return list(entries)[:BATCH]
            return Gap(stored[0].number if stored else last + 1, last)
        return stored

    async def newest_source(self, run: str) -> int:
        """Return the engine's number of a run's newest copied event; 0 if there is none."""
        self.flush()
        first = int(run.rpartition(":")[2])
        entries = await asyncio.to_thread(self._file.after, first, self.last)
        return max((entry.plain.get("source", 0) for entry in entries if entry.run == run), default=0)

    def close(self) -> None:
        """Write pending entries and close the file."""
        self.flush()
        self._file.close()

    def delete(self) -> None:
        """Delete the file."""
        self._due.clear()
        self._file.delete()
