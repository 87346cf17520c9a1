"""Messages to a running agent: steering and follow-ups from people, notices from background work."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal, NamedTuple

from pure_agent_loop.support.checks import require

When = Literal["step", "end"]


class Incoming(NamedTuple):
    """Message in an inbox.

    Args:
        synthetic: True if no person wrote it.
        when: Time of delivery: ``step``, before the next request; ``end``, when the agent would
            otherwise stop.
        spent: Usage of the background work, added to the run's totals; see `ToolOutcome`.
    """

    text: str
    synthetic: bool = False
    when: When = "step"
    spent: dict[str, Any] | None = None


class Inbox:
    """Thread-safe queue of messages, drained at each step boundary."""

    def __init__(self) -> None:
        self._waiting: deque[Incoming] = deque()

    def put(
        self, text: str, *, synthetic: bool = False, when: When = "step", spent: dict[str, Any] | None = None
    ) -> None:
        """Add a message; see `Incoming`.

        Raises:
            ConfigError: `text` is not a string.
        """
        require(isinstance(text, str), "A message for the agent", text, "text")
        self._waiting.append(Incoming(text, synthetic, when, spent))

    def steer(self, text: str) -> None:
        """Add a message that the agent reads before its next step."""
        self.put(text)

    def follow_up(self, text: str) -> None:
        """Add a message that the agent reads when it would otherwise stop."""
        self.put(text, when="end")

    @property
    def is_empty(self) -> bool:
        """True if no message is pending. (An empty inbox is truthy: ``inbox or Inbox()`` must keep it.)"""
        return not self._waiting

    def __contains__(self, text: object) -> bool:
        return any(entry.text == text for entry in list(self._waiting))

    def take(self, *, at_end: bool = False) -> list[Incoming]:
        """Remove and return the messages that are due, oldest first.

        Args:
            at_end: True if the agent would otherwise stop now, so that all messages are due.
        """
        if not self._waiting:
            return []
        entries: list[Incoming] = []
        left: list[Incoming] = []
        while self._waiting:
            entry = self._waiting.popleft()
            (entries if at_end or entry.when == "step" else left).append(entry)
        self._waiting.extendleft(reversed(left))  # put the others back, in front of newer messages
        return entries
