"""Which steps there were: lines appended to a file, and what they come to."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pure_agent_loop.snapshots.store import write_whole
from pure_agent_loop.snapshots.values import SnapshotError, StepInfo

Record = dict[str, Any]


@dataclass(slots=True)
class Step:
    """A step, as far as it is known."""

    id: str
    session: str
    run: int
    step: int
    time: float
    before: str
    after: str | None = None
    is_whole: bool = False
    files: int = 0
    added: int = 0
    removed: int = 0
    is_undone: bool = False

    @property
    def has_changed(self) -> bool:
        """True if it left something different."""
        return self.after is not None and self.after != self.before

    def info(self) -> StepInfo:
        """For people."""
        return StepInfo(
            session_id=self.session,
            run=self.run,
            step=self.step,
            time=self.time,
            files=self.files,
            added=self.added,
            removed=self.removed,
            is_undone=self.is_undone,
            is_whole=self.is_whole,
        )


@dataclass(slots=True)
class Undo:
    """An undo: what it found and left, and the steps it took back."""

    id: str
    session: str
    time: float
    before: str
    after: str
    steps: list[str]
    steps_known: frozenset[str] = frozenset()
    is_redone: bool = False


@dataclass(slots=True)
class History:
    """All steps and undos of a workspace, in order."""

    steps: dict[str, Step] = field(default_factory=dict)
    undos: dict[str, Undo] = field(default_factory=dict)

    def of(self, session: str) -> list[Step]:
        """The steps of a session, in order."""
        return [step for step in self.steps.values() if step.session == session]

    def last_undo(self, session: str) -> Undo | None:
        """The undo that can be taken back: the last, if no step that changed something came after it."""
        done = [undo for undo in self.undos.values() if undo.steps or undo.before != undo.after]
        undos = [undo for undo in done if undo.session == session and not undo.is_redone]
        if not undos:
            return None
        known = undos[-1].steps_known  # not by time: clocks are set back
        later = [step for step in self.of(session) if step.id not in known and step.has_changed]
        return None if later else undos[-1]

    def names(self) -> frozenset[str]:
        """The snapshots that are needed."""
        steps = [name for each in self.steps.values() for name in (each.before, each.after)]
        undos = [name for each in self.undos.values() for name in (each.before, each.after)]
        return frozenset(name for name in (*steps, *undos) if name is not None)


def new_id() -> str:
    """An id that nothing else has."""
    return os.urandom(8).hex()


class Journal:
    """The file. Whoever writes holds the lock of the store."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, record: Record) -> None:
        """Add a line; an unfinished one before it is ended.

        Raises:
            SnapshotError: It cannot be written.
        """
        line = json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            handle = os.open(
                self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600
            )
            with os.fdopen(handle, "r+b", buffering=0) as file:
                if file.seek(0, os.SEEK_END) and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                    line = b"\n" + line
                file.write(line)
        except OSError as error:
            raise SnapshotError(f"{self._path} cannot be written: {error.strerror}.") from error

    def records(self) -> list[Record]:
        """All lines that are whole."""
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SnapshotError(f"{self._path} cannot be read: {error.strerror}.") from error
        found: list[Record] = []
        for line in lines:
            with contextlib.suppress(ValueError):  # cut off while it was written
                record = json.loads(line)
                if isinstance(record, dict):
                    found.append(record)
        return found

    def history(self) -> History:
        """What they come to."""
        return _history(self.records())

    def forget(self, ids: Iterable[str]) -> None:
        """Take away all lines about these steps and undos."""
        gone = set(ids)
        kept = [record for record in self.records() if record.get("id") not in gone]
        lines = [json.dumps(record, separators=(",", ":")) + "\n" for record in kept]
        write_whole(self._path, "".join(lines).encode("ascii"))


def _history(records: list[Record]) -> History:
    history = History()
    for record in records:
        with contextlib.suppress(KeyError, TypeError, ValueError):  # written by another version
            _READERS[record["type"]](history, record)
    return history


def _before(history: History, record: Record) -> None:
    names = ("id", "session", "run", "step", "time", "before")
    step = Step(**{name: record[name] for name in names})
    history.steps[step.id] = step


def _after(history: History, record: Record) -> None:
    step = history.steps[record["id"]]
    step.after, step.is_whole = str(record["after"]), bool(record["whole"])
    step.files, step.added, step.removed = record["files"], record["added"], record["removed"]


def _failed(history: History, record: Record) -> None:
    del history.steps[record["id"]]


def _undo(history: History, record: Record) -> None:
    names = ("id", "session", "time", "before", "after", "steps")
    undo = Undo(**{name: record[name] for name in names}, steps_known=frozenset(history.steps))
    history.undos[undo.id] = undo
    for each in undo.steps:
        if each in history.steps:
            history.steps[each].is_undone = True


def _redo(history: History, record: Record) -> None:
    undo = history.undos[record["undo"]]
    undo.is_redone = True
    for each in undo.steps:
        if each in history.steps:
            history.steps[each].is_undone = False


_READERS = {"before": _before, "after": _after, "failed": _failed, "undo": _undo, "redo": _redo}
