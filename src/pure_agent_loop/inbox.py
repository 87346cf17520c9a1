"""Messages that reach a run while it works: steering by people, notices from background work."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class Incoming(NamedTuple):
    """A message on its way in. `synthetic` marks one that no person wrote."""

    text: str
    synthetic: bool = False


class Inbox:
    """A queue that may be filled from any thread and is emptied at each step boundary."""

    def __init__(self) -> None:
        self._waiting: deque[Incoming] = deque()

    def put(self, text: str, *, synthetic: bool = False) -> None:
        """Leave a message for the next step."""
        self._waiting.append(Incoming(text, synthetic))

    def take(self) -> list[Incoming]:
        """Take out everything that has come so far, oldest first."""
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        return taken
