"""The oldest messages go into a file of the workspace, in short form."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Protocol

from pure_agent_loop.compaction.change import take_over
from pure_agent_loop.compaction.shape import joined, units_of
from pure_agent_loop.compaction.summary import Summariser
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Compactor, Kit, KnowsKit, force
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.window import measure
from pure_agent_loop.llm.messages import Message, user_message
from pure_agent_loop.support.abilities import able
from pure_agent_loop.support.shared_file import MEMORY_FILE, append_section
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import Raised, run_in_thread

SECTION_TOKENS = 1_000
DEFAULT_WINDOW = 32_000


class HasRoot(Protocol):
    """A workspace: something with a folder."""

    root: Path


@dataclass(frozen=True, slots=True)
class MemoryOverflow:
    """Moves the oldest messages into ``MEMORY.md`` once the history has too many.

    Args:
        workspace: A `Workspace`, or a folder.
        max_history: Messages the history may have.
        keep: Messages it has afterwards; half of `max_history` if None.

    Raises:
        ConfigError: A number cannot work.
    """

    workspace: HasRoot | str | os.PathLike[str]
    max_history: int = 100
    keep: int | None = None

    def __post_init__(self) -> None:
        if self.max_history < 2 or not 0 < (self.keep or 1) < self.max_history:
            raise ConfigError("MemoryOverflow: max_history must be at least 2, and keep below it.")

    @property
    def file(self) -> Path:
        """The file it writes to."""
        root = self.workspace if isinstance(self.workspace, (str, os.PathLike)) else self.workspace.root
        return Path(root) / MEMORY_FILE

    def with_kit(self, kit: Kit) -> Compactor:
        """The policy for one run."""
        return _MemoryRun(self, kit)

    async def compact(self, state: QueryState) -> None:  # noqa: ARG002 - the protocol's shape
        """Not possible without a kit.

        Raises:
            ConfigError: Always; a run uses what `with_kit` gives.
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

        async def write() -> None:  # in a thread, because it may have to wait for another writer
            result = await run_in_thread(partial(append_section, settings.file, section))
            if isinstance(result, Raised):
                raise result.error

        try:
            await self._kit.journal.effect(f"{state.step}:memory:write", write)
        except OSError as error:  # what is not written down must not be forgotten
            message = f"{settings.file} cannot be written: {error.strerror or safe_str(error)}"
            await self._kit.emit(Event.notice(state.step, message))
            return
        await self._replace(old, left, text, state)

    async def force(self, state: QueryState) -> None:
        """The number of messages says nothing about a refused request."""

    async def _short(self, old: list[Message], state: QueryState) -> str:
        summariser = Summariser(state, self._kit, "memory")
        window = measure(state, self._kit).window or DEFAULT_WINDOW
        try:
            return await summariser.summarise(old, window, SECTION_TOKENS)
        except LLMError as error:
            message = f"No summary could be written: {safe_str(error)}"
            await self._kit.emit(Event.notice(state.step, message))
            spoken = [unit.messages[0]["content"] for unit in units_of(old) if unit.spoken]
            said = [f"- {text[:500]}" for text in spoken if isinstance(text, str)]
            return "\n".join([*said, summariser.record(old, SECTION_TOKENS)]).strip()

    async def _replace(self, old: list[Message], left: list[Message], text: str, state: QueryState) -> None:
        words = self._kit.prompts.memory_note
        note = user_message(words.format(count=len(old), file=MEMORY_FILE, text=text), synthetic=True)
        lead = 1 if left and left[0]["role"] in ("system", "developer") else 0
        await take_over("memory", [*left[:lead], note, *left[lead:]], state, self._kit)


def _oldest(messages: list[Message], keep: int) -> tuple[list[Message], list[Message]]:
    """The oldest whole rounds, and the rest: `keep` messages with the notice that will stand there."""
    units, count = units_of(messages), len(messages) + 1
    gone: set[int] = set()
    for index, unit in enumerate(units[:-1]):
        if count <= keep:
            break
        if not unit.fixed:
            gone.add(index)
            count -= len(unit.messages)
    return (
        joined(unit for index, unit in enumerate(units) if index in gone),
        joined(unit for index, unit in enumerate(units) if index not in gone),
    )


class Chain:
    """Several compactors, one after the other.

    Args:
        compactors: In order: for example ``MemoryOverflow(folder)``, ``Ladder()``.
    """

    def __init__(self, *compactors: Compactor) -> None:
        self.compactors = compactors

    def with_kit(self, kit: Kit) -> Chain:
        """The chain for one run."""
        known = [(each, able(each, KnowsKit)) for each in self.compactors]
        return Chain(*(each if knowing is None else knowing.with_kit(kit) for each, knowing in known))

    async def compact(self, state: QueryState) -> None:
        """Ask each in turn."""
        for each in self.compactors:
            await each.compact(state)

    async def force(self, state: QueryState) -> None:
        """Ask each in turn to shorten the history whatever is thought of its length."""
        for each in self.compactors:
            await force(each, state)
