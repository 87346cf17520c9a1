"""Journal of effects: every side effect and every decision of a user function passes through it.

Each effect has a key, unique within the run. The memory journal just awaits effects. A persistent journal
records each effect, and on resume returns the recorded result, so that nothing happens twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from pure_agent_loop.inbox import Inbox, Incoming

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import HistoryMessage

T = TypeVar("T")


class Checkpointed(Protocol):
    """State that a journal stores in a checkpoint; `QueryState` is one."""

    messages: list[HistoryMessage]

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form."""


class Journal(Protocol):
    """Executes effects, or returns their recorded results."""

    def effect(
        self, key: str, run: Callable[[], Awaitable[T]], about: Mapping[str, Any] | None = None
    ) -> Awaitable[T]:
        """Execute an effect, or return its recorded result.

        Args:
            key: Key of the effect, such as ``step:model``, ``step:tool:call_id`` or ``step:permit:call_id``.
            run: Executes the effect; called at most once.
            about: For a tool: ``tool``, ``args``, and whether it is ``idempotent``. A tool may change things
                outside the run, so a persistent journal records the intent before the call.
        """

    def recorded(self, key: str) -> bool:
        """Return True if this effect has been recorded, so that `effect` would return the recorded result."""

    def intent_of(self, key: str) -> Mapping[str, Any] | None:
        """Return the recorded intent of a tool call begun in an earlier process, or None."""

    def take(self, inbox: Inbox, *, at_end: bool = False) -> list[Incoming]:
        """Take due messages from the inbox, or return the recorded ones."""

    def note_part(self, part: Mapping[str, Any]) -> None:
        """Record a changed part of an answer, given in plain form; only `change_of(part)` is kept."""

    def checkpoint(self, state: Checkpointed) -> None:
        """Store the state of the run. Called when a step has been prepared, and at the end of the run."""

    def close(self) -> None:
        """Close the journal at the end of the run. May be called twice."""


class DailyCosts(Protocol):
    """Journal whose store records the costs of all runs."""

    async def spent_on_day(self, now: float, groups: Mapping[str, str]) -> dict[str, float]:
        """Return the known cost of the day so far, by metadata key.

        Args:
            now: A time on that day, in seconds since the epoch.
            groups: Metadata values, by key, of the runs to include in a sum; an empty value selects runs
                without the key, and an empty key selects all runs.
        """


class MemoryJournal:
    """Journal without records: each effect is simply executed."""

    def effect(
        self,
        key: str,  # noqa: ARG002 - no lookup
        run: Callable[[], Awaitable[T]],
        about: Mapping[str, Any] | None = None,  # noqa: ARG002 - no record
    ) -> Awaitable[T]:
        """Execute the effect and return its result."""
        return run()

    def recorded(self, key: str) -> bool:  # noqa: ARG002 - no records
        """Return False."""
        return False

    def intent_of(self, key: str) -> Mapping[str, Any] | None:  # noqa: ARG002 - no records
        """Return None."""
        return None

    def take(self, inbox: Inbox, *, at_end: bool = False) -> list[Incoming]:
        """Take due messages."""
        return inbox.take(at_end=at_end)

    def note_part(self, part: Mapping[str, Any]) -> None:
        """Do nothing."""

    def checkpoint(self, state: Checkpointed) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


async def as_effect(value: T) -> T:
    """Return the value; serves as an effect whose result is already known and only has to be recorded."""
    return value


async def already_recorded(*_: Any) -> NoReturn:
    """Stand in for a function whose decision an earlier process has recorded; never called."""
    raise AssertionError("The decision is recorded.")
