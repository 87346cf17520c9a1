"""Messages that reach a run while it works: steering and follow-ups of people, notices of background work."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal, NamedTuple

from pure_agent_loop.errors import ConfigError

When = Literal["step", "end"]


class Incoming(NamedTuple):
    """A message on its way in.

    Args:
        text: What it says.
        synthetic: No person wrote it.
        when: ``step``: it goes in before the next request; ``end``: when the agent would have stopped.
        spent: What the work behind it used, for the account of the run; see `ToolOutcome`.
    """

    text: str
    synthetic: bool = False
    when: When = "step"
    spent: dict[str, Any] | None = None


class Inbox:
    """A queue that may be filled from any thread and is emptied at each step boundary."""

    def __init__(self) -> None:
        self._waiting: deque[Incoming] = deque()

    def put(
        self, text: str, *, synthetic: bool = False, when: When = "step", spent: dict[str, Any] | None = None
    ) -> None:
        """Leave a message; see `Incoming`.

        Raises:
            ConfigError: It is no text.
        """
        if not isinstance(text, str):
            raise ConfigError(f"A message for the agent must be text; it is {text!r:.80}.")
        self._waiting.append(Incoming(text, synthetic, when, spent))

    def steer(self, text: str) -> None:
        """Say something to the agent while it works: it reads it before its next step."""
        self.put(text)

    def follow_up(self, text: str) -> None:
        """Say something to the agent that it takes up when it would have stopped."""
        self.put(text, when="end")

    @property
    def is_empty(self) -> bool:
        """True if nothing waits. (An empty inbox is still true: ``inbox or Inbox()`` must keep it.)"""
        return not self._waiting

    def __contains__(self, text: object) -> bool:
        return any(each.text == text for each in list(self._waiting))

    def take(self, *, at_end: bool = False) -> list[Incoming]:
        """Take out what is due, oldest first.

        Args:
            at_end: The agent would stop now: everything is due.
        """
        if not self._waiting:
            return []
        taken: list[Incoming] = []
        left: list[Incoming] = []
        while self._waiting:
            each = self._waiting.popleft()
            (taken if at_end or each.when == "step" else left).append(each)
        self._waiting.extendleft(reversed(left))  # before what came in meanwhile
        return taken
