"""The one seam for effects: what touches the world, and what users' functions decide, passes through here.

Each effect has a key that names it within the run. In memory the journal just awaits them. One that writes
records each, and on resume returns what it recorded, so that nothing happens twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from pure_agent_loop.inbox import Inbox, Incoming

T = TypeVar("T")


class Checkpointed(Protocol):
    """What a journal looks at when it writes down where a run stands; `QueryState` is one."""

    messages: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        ...


class Journal(Protocol):
    """Where effects happen."""

    def effect(
        self, key: str, run: Callable[[], Awaitable[T]], about: Mapping[str, Any] | None = None
    ) -> Awaitable[T]:
        """Make an effect happen, or return what it gave when it already happened.

        Args:
            key: Names the effect: ``step:model``, ``step:tool:call_id``, ``step:permit:call_id`` and others.
            run: Makes it happen; called at most once.
            about: For a tool: ``tool``, ``args``, and whether it is ``idempotent``. It changes the world, so
                the intention is written down first.
        """
        ...

    def recorded(self, key: str) -> bool:
        """True if this effect has happened: then `effect` returns what is recorded, and asks nobody."""
        ...

    def begun(self, key: str) -> Mapping[str, Any] | None:
        """What was said about a tool's call when it began in an earlier process; None if it has not begun."""
        ...

    def take(self, inbox: Inbox, *, at_end: bool = False) -> list[Incoming]:
        """Take what is due out of the inbox, or return what was taken when it already happened."""
        ...

    def note_part(self, part: Mapping[str, Any]) -> None:
        """A part of an answer has changed; `part` is its plain form, of which `change_of` is to be kept."""
        ...

    def checkpoint(self, state: Checkpointed) -> None:
        """Write down where the run stands. Called when a step is prepared, and at the end."""
        ...

    def close(self) -> None:
        """The run is over. May be called twice."""
        ...


class MemoryJournal:
    """Keeps nothing: each effect simply happens."""

    def effect(
        self,
        key: str,  # noqa: ARG002 - nothing is looked up here
        run: Callable[[], Awaitable[T]],
        about: Mapping[str, Any] | None = None,  # noqa: ARG002 - and nothing is written down
    ) -> Awaitable[T]:
        """What `run` gives, with nothing around it."""
        return run()

    def recorded(self, key: str) -> bool:  # noqa: ARG002 - nothing is
        """Nothing is."""
        return False

    def begun(self, key: str) -> None:
        """No call has."""

    def take(self, inbox: Inbox, *, at_end: bool = False) -> list[Incoming]:
        """Take what is due."""
        return inbox.take(at_end=at_end)

    def note_part(self, part: Mapping[str, Any]) -> None:
        """Do nothing."""

    def checkpoint(self, state: Checkpointed) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
