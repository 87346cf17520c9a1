"""Memory that outlives a conversation: dated entries in ``MEMORY.md``, which a person can read and change."""

from __future__ import annotations

import errno
import math
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pure_agent_loop.assistant.words import AssistantWords, described_tool, words_for
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.support.language import in_language
from pure_agent_loop.support.shared_file import MEMORY_FILE, change_file, with_section
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.workspace import Workspace

MAX_ENTRY_CHARS = 4_000
MAX_FILE_BYTES = 1_000_000
MAX_SHOWN_CHARS = 12_000
_DATED = re.compile(r"^## (\d{4}-\d\d-\d\d \d\d:\d\d UTC)[ \t]*$", re.M)
_HEADING = re.compile(r"^(?=#{1,6} )", re.M)
_CJK = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TERMS = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_FIRST_LINE = "# Memory"


class MemoryStoreError(PureAgentLoopError):
    """Something cannot be written to memory. The message is for the model."""


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One thing that is remembered.

    Args:
        when: ``2026-01-31 14:25 UTC``; empty for what a person wrote into the file without a date.
        text: What it says.
    """

    when: str
    text: str

    def __str__(self) -> str:
        return f"[{self.when}] {self.text}" if self.when else self.text


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


class MemoryStore:
    """The memory in a folder.

        memory = MemoryStore("workspace")
        memory.write("The user's cat is called Miso.")
        print(memory.search("cat"))

    Several programs may write at once. What `MemoryOverflow` writes to the same file is found here too.

    Args:
        workspace: A `Workspace`, or a folder that exists; the file is ``MEMORY.md`` in it.
        max_entry_chars: Longer entries are refused.
        max_file_bytes: Nothing is written once the file would be larger; of a larger file the end is read.
        language: Of the tools; ``en``, ``zh``, or None for that of the agent that has them.
        words: Words of your own instead.
        now: Gives the time of entries.

    Raises:
        ConfigError: It is no folder.
    """

    def __init__(
        self,
        workspace: Workspace | str | os.PathLike[str],
        *,
        max_entry_chars: int = MAX_ENTRY_CHARS,
        max_file_bytes: int = MAX_FILE_BYTES,
        language: str | None = None,
        words: AssistantWords | None = None,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        if max_entry_chars < 1 or max_file_bytes < 1:
            raise ConfigError("MemoryStore: max_entry_chars and max_file_bytes must be positive.")
        self.workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace)
        self.file: Path = self.workspace.root / MEMORY_FILE
        self._max_entry_chars = max_entry_chars
        self._max_file_bytes = max_file_bytes
        self._given_words = words or (words_for(language) if language else None)
        self._now = now

    @property
    def _words(self) -> AssistantWords:
        return self._given_words or words_for()

    def write(self, text: str) -> bool:
        """Add an entry, dated now.

        Returns:
            False if the same text is there already; then nothing is written.

        Raises:
            MemoryStoreError: It is empty or too long, memory is full, or the file cannot be written.
        """
        entry = _HEADING.sub("\\\\", clean_text(text).replace("\r", "\n").strip())  # it may not look like two
        if not entry:
            raise MemoryStoreError(self._words.entry_empty)
        if len(entry) > self._max_entry_chars:
            raise MemoryStoreError(
                self._words.entry_too_long.format(limit=self._max_entry_chars, size=len(entry))
            )
        written = False

        def change(old: bytes) -> bytes | None:
            nonlocal written
            if any(each.text == entry for each in _parse(old.decode("utf-8", "replace"))):
                return None
            when = self._now().astimezone(timezone.utc)
            new = with_section(old, f"## {when:%Y-%m-%d %H:%M} UTC\n\n{entry}\n")
            if len(new) > self._max_file_bytes:
                raise MemoryStoreError(
                    self._words.memory_full.format(
                        size=len(old), limit=self._max_file_bytes, file=MEMORY_FILE
                    )
                )
            written = True
            return new

        try:
            change_file(self.file, change)
        except OSError as error:
            about = {"en": error.strerror or str(error), "zh": errno.errorcode.get(error.errno or 0, "?")}
            words = self._words.not_written.format(file=MEMORY_FILE, error=in_language(about))
            raise MemoryStoreError(words) from error
        return written

    def entries(self) -> list[MemoryEntry]:
        """Everything that is remembered, oldest first; empty if the file is missing or cannot be read."""
        try:
            with self.workspace.open_for_reading(MEMORY_FILE) as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - self._max_file_bytes))
                text = file.read(self._max_file_bytes).decode("utf-8", "replace")
        except (WorkspaceError, OSError):
            return []
        return _parse(text)

    def search(self, query: str, limit: int = 5) -> list[MemoryEntry]:
        """The entries that fit a query best, best first; of equals the newest.

        Args:
            query: Words, in any script. Rare words count more than frequent ones.
            limit: Greatest number of entries.
        """
        entries, wanted = self.entries(), set(_terms(query))
        counted = [Counter(_terms(each.text, single=True)) for each in entries]
        spread = Counter(term for terms in counted for term in terms if term in wanted)
        scored = []
        for number, terms in enumerate(counted):
            score = sum(
                math.log(1 + len(entries) / spread[term]) * (1 + math.log(terms[term]))
                for term in wanted & terms.keys()
            )
            if score:
                scored.append((score / math.sqrt(10 + terms.total() ** 0.5), number))
        best = sorted(scored, reverse=True)[: max(0, limit)]
        return [entries[number] for _, number in best]

    def read(self, limit: int = 20) -> list[MemoryEntry]:
        """The newest entries, oldest of them first.

        Args:
            limit: Greatest number of entries.
        """
        return self.entries()[-limit:] if limit > 0 else []

    def digest(self, max_chars: int) -> str:
        """The newest entries as far as they fit into so many characters, oldest of them first."""
        lines: list[str] = []
        for entry in reversed(self.entries()):
            line = f"- {entry}"
            max_chars -= len(line) + 1
            if max_chars < 0:
                break
            lines.append(line)
        return "\n".join(reversed(lines))

    def tools(self) -> list[Tool]:
        """``memory_write``, ``memory_search`` and ``memory_read``, for ``Agent(tools=...)``."""

        def memory_write(text: str) -> str:
            return self._words.written if self.write(text) else self._words.known

        def memory_search(query: str, limit: int = 5) -> str:
            found = self.search(query, min(limit, 50))
            return _shown(found) if found else self._words.nothing_found

        def memory_read(limit: int = 20) -> str:
            found = self.read(min(limit, 200))
            return _shown(found) if found else self._words.nothing_yet

        looking: dict[str, Any] = {"read_only": True, "idempotent": True}
        return [
            self._tool(memory_write, idempotent=True),  # the same twice is once
            self._tool(memory_search, **looking),
            self._tool(memory_read, **looking),
        ]

    def _tool(self, function: Callable[..., str], **options: Any) -> Tool:
        return described_tool(function, self._given_words, **options)


def _shown(entries: list[MemoryEntry]) -> str:
    text = "\n\n".join(map(str, entries))
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}\n[...]"


def _parse(text: str) -> list[MemoryEntry]:
    """Entries of the file: those with a date, and before them what a person wrote, by its headings."""
    pieces = _DATED.split(text.replace("\r\n", "\n"))
    free = [piece.strip() for piece in _HEADING.split(pieces[0])]
    dated = zip(pieces[1::2], pieces[2::2], strict=True)
    found = [MemoryEntry("", piece) for piece in free if piece and piece != _FIRST_LINE]
    return found + [MemoryEntry(when, piece.strip()) for when, piece in dated if piece.strip()]


def _terms(text: str, *, single: bool = False) -> list[str]:
    """Words in lower case; of scripts without spaces each pair of characters; if `single`, also each one."""
    found: list[str] = []
    for run in _TERMS.findall(unicodedata.normalize("NFKC", text).lower()):
        if re.match(rf"[{_CJK}]", run):
            found += [run[at : at + 2] for at in range(len(run) - 1)] or [run]
            found += list(run) if single or len(run) < 3 else []
        else:
            found.append(_stem(run))
    return found


def _stem(word: str) -> str:
    """Plural and singular of English words are one."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
