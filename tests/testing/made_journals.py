"""Journals whose contract is tested; other processes import this module."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from pure_agent_loop import MemoryJournal
from pure_agent_loop.sessions import JsonlStore, KeyJournal, PostgresStore, SqliteStore


class FolderRecords(MutableMapping[str, str]):
    """Records as lines of a file, the newest line of a key counting."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        self._values = {}
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                self._values.update([json.loads(line)])

    def __setitem__(self, key: str, value: str) -> None:
        os.write(self._file, f"{json.dumps([key, value])}\n".encode())
        self._values[key] = value

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __delitem__(self, key: str) -> None:
        raise NotImplementedError

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Forgetful(KeyJournal):
    """A journal that makes a cut call again: it forgets the intents."""

    def intent_of(self, key):
        return None

    def _intent(self, key):
        return None


class Lossy(KeyJournal):
    """A journal that loses what an effect gave."""

    def _record(self, key, value):
        return value


def in_keys(folder: Path) -> KeyJournal:
    return KeyJournal(FolderRecords(folder / "records"))


def forgetful(folder: Path) -> KeyJournal:
    return Forgetful(FolderRecords(folder / "records"))


def lossy(folder: Path) -> KeyJournal:
    return Lossy(FolderRecords(folder / "records"))


def in_memory(folder: Path) -> MemoryJournal:
    return MemoryJournal()


def in_files(folder: Path) -> JsonlStore:
    return JsonlStore(folder / "sessions")


def in_sqlite(folder: Path) -> SqliteStore:
    return SqliteStore(folder / "sessions.sqlite")


def in_postgres(folder: Path) -> PostgresStore:
    return PostgresStore(os.environ["PAL_TEST_POSTGRES"], connections=2)
