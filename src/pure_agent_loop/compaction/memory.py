"""Memory overflow: move the oldest messages, summarised, into a file of the workspace."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pure_agent_loop.compaction.replacing import take_over
from pure_agent_loop.compaction.shape import joined, units_of
from pure_agent_loop.compaction.summary import Summariser
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Compactor, Kit
from pure_agent_loop.kernel.request import measure
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.messages import user_message
from pure_agent_loop.support.locking import MEMORY_FILE, append_section
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import in_thread

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import HistoryMessage

SECTION_TOKENS = 1_000
DEFAULT_WINDOW = 32_000


class HasRoot(Protocol):
    """A workspace: an object with a root folder."""

    root: Path


@dataclass(frozen=True, slots=True)
class MemoryOverflow:
    """Move the oldest messages into ``MEMORY.md`` when the history has too many messages.

    Args:
        workspace: A `Workspace`, or a folder.
        max_history: Maximum number of messages.
        keep: Number of messages that remain; None for half of `max_history`.

    Raises:
        ConfigError: A number is invalid.
    """

    workspace: HasRoot | str | os.PathLike[str]
    max_history: int = 100
    keep: int | None = None

    def __post_init__(self) -> None:
        if self.max_history < 2 or not 0 < (self.keep or 1) < self.max_history:
            raise ConfigError("MemoryOverflow: max_history must be at least 2, and keep below it.")

    @property
    def file(self) -> Path:
        """The file for moved messages."""
        root = self.workspace if isinstance(self.workspace, (str, os.PathLike)) else self.workspace.root
        return Path(root) / MEMORY_FILE

    def with_kit(self, kit: Kit) -> Compactor:
        """Return the compactor for one run."""
        return _MemoryRun(self, kit)

    async def compact(self, state: QueryState) -> None:  # noqa: ARG002 - the protocol's shape
        """Raise ConfigError, because a kit is required.

        Raises:
            ConfigError: Always; a run uses the compactor that `with_kit` returns.
        """
        raise ConfigError("MemoryOverflow needs the kit of a run: MemoryOverflow(...).with_kit(kit).")


class _MemoryRun:
    def __init__(self, settings: MemoryOverflow, kit: Kit) -> None:
        self._settings = settings
        self._kit = kit

    async def compact(self, state: QueryState) -> None:
        settings = self._settings
        if len(state.messages) <= settings.max_history:
            return
        old, left = _oldest(state.messages, settings.keep or settings.max_history // 2)
        if not old:
            return
        text = await self._short(old, state)
        when = datetime.fromtimestamp(self._kit.clock.now(), timezone.utc)
        section = f"## {when:%Y-%m-%d %H:%M} UTC\n\n{text}\n"

        async def write() -> None:  # runs in a thread, because it may wait for another writer
            await in_thread(partial(append_section, settings.file, section))

        try:
            await self._kit.journal.effect(f"{state.step}:memory:write", write)
        except OSError as error:  # the messages stay in the history
            message = f"{settings.file} cannot be written: {error.strerror or safe_str(error)}"
            await self._kit.emit(Event.notice(state.step, message))
            return
        await self._replace(old, left, text, state)

    async def force(self, state: QueryState) -> None:
        """Do nothing: requests are rejected for their tokens, but this compactor counts messages."""

    async def _short(self, old: list[HistoryMessage], state: QueryState) -> str:
        summariser = Summariser(state, self._kit, "memory")
        window = measure(state, self._kit).window or DEFAULT_WINDOW
        try:
            return await summariser.summarise(old, window, SECTION_TOKENS)
        except LLMError as error:
            message = f"No summary could be written: {safe_str(error)}"
            await self._kit.emit(Event.notice(state.step, message))
            spoken = [unit.messages[0].get("content") for unit in units_of(old) if unit.spoken]
            lines = [f"- {text[:500]}" for text in spoken if isinstance(text, str)]
            return "\n".join([*lines, summariser.record(old, SECTION_TOKENS)]).strip()

    async def _replace(
        self, old: list[HistoryMessage], left: list[HistoryMessage], text: str, state: QueryState
    ) -> None:
        words = self._kit.prompts.memory_note
        note = user_message(words.format(count=len(old), file=MEMORY_FILE, text=text), synthetic=True)
        system_count = 1 if left and left[0]["role"] in ("system", "developer") else 0
        await take_over("memory", [*left[:system_count], note, *left[system_count:]], state, self._kit)


def _oldest(messages: list[HistoryMessage], keep: int) -> tuple[list[HistoryMessage], list[HistoryMessage]]:
    """Split off the oldest complete rounds; `keep` messages remain, including the new notice."""
    units, count = units_of(messages), len(messages) + 1
    removed: set[int] = set()
    for index, unit in enumerate(units[:-1]):
        if count <= keep:
            break
        if not unit.fixed:
            removed.add(index)
            count -= len(unit.messages)
    return (
        joined(unit for index, unit in enumerate(units) if index in removed),
        joined(unit for index, unit in enumerate(units) if index not in removed),
    )
