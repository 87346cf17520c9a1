"""The events of one session on their way to any number of viewers.

A viewer has a place, not a queue: it reads what is behind its place when it can. So a slow one holds nothing
up and costs no memory; what has left the memory it reads from the file. One too far behind is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.server.entries import Entry
from pure_agent_loop.server.event_file import EventFile

LOG = logging.getLogger("pure_agent_loop.server")
BATCH, BATCH_OF_FILE = 200, 2_000
MOST_ENTRIES = 2_048
MOST_LAG = 20_000


@dataclass(frozen=True)
class Gap:
    """What a viewer asked for is not there (any more): it has to read the session anew.

    Args:
        first: The first number that there is.
        last: The last one.
    """

    first: int
    last: int


class Channel:
    """The events of one session.

    Args:
        session: The session.
        file: Where they are kept.
        told: Called with each entry that was added.
        most: How many stay in memory.
    """

    def __init__(
        self,
        session: str,
        file: EventFile,
        told: Callable[[Entry], None] = lambda _: None,
        most: int = MOST_ENTRIES,
    ) -> None:
        self.session, self._file, self._told = session, file, told
        self.viewers = 0
        self._given = self.last = file.last_number()
        self._entries: deque[Entry] = deque(maxlen=most)
        self._due: list[Entry] = []
        self._news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_failing = False

    @property
    def is_quiet(self) -> bool:
        """True if nothing would be lost by forgetting it: the file has everything."""
        return not self.viewers and not self._due

    def add(self, plain: Mapping[str, Any], run: str = "") -> Entry:
        """Give an event its number. Viewers get it in the next turn of the event loop.

        Args:
            plain: The event; see `entries.plain_event`.
            run: The run it belongs to; empty for the one that begins with it.
        """
        self._given += 1
        entry = Entry(self._given, self.session, run or f"{self.session}:{self._given}", plain)
        if not self._due:
            asyncio.get_running_loop().call_soon(self.flush)
        self._due.append(entry)
        return entry

    def flush(self) -> None:
        """Write what was added, and let viewers see it: in this order, so that no number comes twice."""
        due, self._due = self._due, []
        if not due:
            return
        try:
            self._file.append(due)
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                LOG.warning("Events of %s are not kept: %s", self.session, error)
            self._is_failing = True
        self._entries.extend(due)
        self.last = due[-1].number
        for entry in due:
            self._told(entry)
        self.wake()

    def wake(self) -> None:
        """Have all viewers look."""
        news, self._news = self._news, asyncio.get_running_loop().create_future()
        news.set_result(None)

    async def wait(self, after: int, seconds: float) -> bool:
        """Wait until there is something behind a number, or all viewers are to look.

        Returns:
            False if there is nothing.
        """
        if self.last > after:
            return True
        await asyncio.wait([self._news], timeout=seconds)
        return self.last > after

    async def read(self, after: int) -> list[Entry] | Gap:
        """The next entries behind a number, some of them; empty if there are none.

        Args:
            after: The last one that the viewer has; 0 for none.
        """
        if after >= self.last:
            return [] if after == self.last else Gap(self.last + 1, self.last)
        entries = self._entries
        if entries and after >= entries[0].number - 1:
            start = after - entries[0].number + 1
            return [entries[index] for index in range(start, min(start + BATCH, len(entries)))]
        last = self.last
        found = await asyncio.to_thread(self._file.after, after, BATCH_OF_FILE)
        if not found or found[0].number != after + 1:
            if entries and entries[0].number == after + 1:
                return list(entries)[:BATCH]
            return Gap(found[0].number if found else last + 1, last)
        return found

    async def newest_source(self, run: str) -> int:
        """The number in the engine of the newest event of a run; 0 for none."""
        self.flush()
        first = int(run.rpartition(":")[2])
        found = await asyncio.to_thread(self._file.after, first, self.last)
        return max((each.plain.get("source", 0) for each in found if each.run == run), default=0)

    def close(self) -> None:
        """Write what is due, and close the file."""
        self.flush()
        self._file.close()

    def delete(self) -> None:
        """Take the file away too."""
        self._due.clear()
        self._file.delete()
