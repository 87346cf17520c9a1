"""Memory across conversations: dated entries in ``MEMORY.md``, which a person can read and edit."""

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
from pure_agent_loop.support.abilities import checked_function
from pure_agent_loop.support.language import in_language
from pure_agent_loop.support.locking import MEMORY_FILE, change_file, with_section
from pure_agent_loop.support.text import clean_text, excerpt_around
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
    """An entry cannot be written to memory. The error message is written for the model."""


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One memory entry.

    Args:
        when: ``2026-01-31 14:25 UTC``; empty for text that a person wrote without a date.
        text: The content.
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

    Several processes may write the file at the same time. Entries that `MemoryOverflow` writes to the file
    are included.

    Args:
        workspace: A `Workspace`, or an existing folder; the file is ``MEMORY.md`` in it.
        max_entry_chars: Maximum length of an entry; longer ones are rejected.
        max_file_bytes: Maximum size of the file; larger writes are rejected, and only the end of a larger
            file is read.
        language: ``en`` or ``zh`` for the tools; None for the language of the agent.
        words: Custom texts to use instead of those of the language.
        now: Function that returns the time of an entry.

    Raises:
        ConfigError: The workspace is not a folder.
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
        self._custom_words = words or (words_for(language) if language else None)
        self._now = checked_function("now", now)

    @property
    def _words(self) -> AssistantWords:
        return self._custom_words or words_for()

    def write(self, text: str) -> bool:
        """Add an entry, dated now.

        Returns:
            False if the text is already in memory; then nothing is written.

        Raises:
            MemoryStoreError: The entry is empty or too long, memory is full, or the file cannot be written.
        """
        entry = _HEADING.sub(
            "\\\\", clean_text(text).replace("\r", "\n").strip()
        )  # escape headings, which separate entries
        if not entry:
            raise MemoryStoreError(self._words.entry_empty)
        if len(entry) > self._max_entry_chars:
            raise MemoryStoreError(
                self._words.entry_too_long.format(limit=self._max_entry_chars, size=len(entry))
            )
        written = False

        def change(old: bytes) -> bytes | None:
            nonlocal written
            if any(known.text == entry for known in _parse(old.decode("utf-8", "replace"))):
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
            reasons = {"en": error.strerror or str(error), "zh": errno.errorcode.get(error.errno or 0, "?")}
            words = self._words.not_written.format(file=MEMORY_FILE, error=in_language(reasons))
            raise MemoryStoreError(words) from error
        return written

    def entries(self) -> list[MemoryEntry]:
        """Return all entries, oldest first; empty if the file is missing or cannot be read."""
        try:
            with self.workspace.open_for_reading(MEMORY_FILE) as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - self._max_file_bytes))
                text = file.read(self._max_file_bytes).decode("utf-8", "replace")
        except (WorkspaceError, OSError):
            return []
        return _parse(text)

    def search(self, query: str, limit: int = 5) -> list[MemoryEntry]:
        """Return the entries that match a query best, best first; of equal matches, the newer first.

        Args:
            query: Words in any script; rare words have more weight.
            limit: Maximum number of entries.
        """
        entries, query_terms = self.entries(), set(_terms(query))
        counts = [Counter(_terms(entry.text, single=True)) for entry in entries]
        frequency = Counter(term for terms in counts for term in terms if term in query_terms)
        scored = []
        for number, terms in enumerate(counts):
            score = sum(
                math.log(1 + len(entries) / frequency[term]) * (1 + math.log(terms[term]))
                for term in query_terms & terms.keys()
            )
            if score:
                scored.append((score / math.sqrt(10 + terms.total() ** 0.5), number))
        best = sorted(scored, reverse=True)[: max(0, limit)]
        return [entries[number] for _, number in best]

    def read(self, limit: int = 20) -> list[MemoryEntry]:
        """Return the newest entries, oldest first.

        Args:
            limit: Maximum number of entries.
        """
        return self.entries()[-limit:] if limit > 0 else []

    def digest(self, max_chars: int) -> str:
        """Return the newest entries that fit into `max_chars` characters, oldest first."""
        lines: list[str] = []
        for entry in reversed(self.entries()):
            line = f"- {entry}"
            max_chars -= len(line) + 1
            if max_chars < 0:
                break
            lines.append(line)
        return "\n".join(reversed(lines))

    def tools(self) -> list[Tool]:
        """Return ``memory_write``, ``memory_search`` and ``memory_read``, for ``Agent(tools=...)``."""

        def memory_write(text: str) -> str:
            return self._words.written if self.write(text) else self._words.known

        def memory_search(query: str, limit: int = 5) -> str:
            entries = self.search(query, min(limit, 50))
            return _format_entries(entries, query) if entries else self._words.nothing_found

        def memory_read(limit: int = 20) -> str:
            entries = self.read(min(limit, 200))
            return _format_entries(entries) if entries else self._words.nothing_yet

        read_options: dict[str, Any] = {"read_only": True, "idempotent": True}
        return [
            self._tool(memory_write, idempotent=True),  # duplicates are not written
            self._tool(memory_search, **read_options),
            self._tool(memory_read, **read_options),
        ]

    def _tool(self, function: Callable[..., str], **options: Any) -> Tool:
        return described_tool(function, self._custom_words, **options)


def _format_entries(entries: list[MemoryEntry], query: str = "") -> str:
    """Return entries as text; if it is too long, return excerpts around the words of the query."""
    text = "\n\n".join(str(entry) for entry in entries)
    if query and len(text) > MAX_SHOWN_CHARS:
        size, words = max(200, MAX_SHOWN_CHARS // len(entries)), sorted(_terms(query), key=len, reverse=True)
        texts = [str(entry) for entry in entries]
        places = [[at for word in words if (at := text.lower().find(word)) >= 0] for text in texts]
        matches = zip(texts, places, strict=True)
        text = "\n\n".join(excerpt_around(text, at[0] if at else 0, size) for text, at in matches)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}\n[...]"


def _parse(text: str) -> list[MemoryEntry]:
    """Parse the file: first undated text, split at headings, then the dated entries."""
    pieces = _DATED.split(text.replace("\r\n", "\n"))
    free = [piece.strip() for piece in _HEADING.split(pieces[0])]
    dated = zip(pieces[1::2], pieces[2::2], strict=True)
    entries = [MemoryEntry("", piece) for piece in free if piece and piece != _FIRST_LINE]
    return entries + [MemoryEntry(when, piece.strip()) for when, piece in dated if piece.strip()]


def _terms(text: str, *, single: bool = False) -> list[str]:
    """Return lower-case words; for CJK scripts character pairs and, with `single`, single characters."""
    terms: list[str] = []
    for run in _TERMS.findall(unicodedata.normalize("NFKC", text).lower()):
        if re.match(rf"[{_CJK}]", run):
            terms += [run[at : at + 2] for at in range(len(run) - 1)] or [run]
            terms += list(run) if single or len(run) < 3 else []
        else:
            terms.append(_stem(run))
    return terms


def _stem(word: str) -> str:
    """Strip the plural "s" of an English word."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
