"""Journal of steps and undos: lines appended to a file, and the history read from them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pure_agent_loop.snapshots.scan import (
    ScanRules,
)
from pure_agent_loop.snapshots.values import (
    SnapshotError,
    StepInfo,
)
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.locking import write_whole
from pure_agent_loop.support.parsing import parsed_object

Record = dict[str, Any]


@dataclass(slots=True)
class StepRecord:
    """Everything that the journal records about a step."""

    id: str
    session: str
    run: int
    step: int
    time: float
    before: str
    view: ScanRules | None = None
    after: str | None = None
    is_whole: bool = False
    files: int = 0
    added: int = 0
    removed: int = 0
    is_undone: bool = False

    @property
    def has_changed(self) -> bool:
        """True if the workspace changed during the step."""
        return self.after is not None and self.after != self.before

    def info(self) -> StepInfo:
        """Return the public description of the step."""
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
class UndoRecord:
    """An undo: the snapshots before and after it, and the steps it reverted."""

    id: str
    session: str
    time: float
    before: str
    after: str
    steps: list[str]
    steps_known: frozenset[str] = frozenset()
    is_redone: bool = False


Change = StepRecord | UndoRecord


@dataclass(slots=True)
class History:
    """All steps and undos of a workspace, in order."""

    steps: dict[str, StepRecord] = field(default_factory=dict)
    undos: dict[str, UndoRecord] = field(default_factory=dict)
    views: dict[str, ScanRules] = field(default_factory=dict)

    def of(self, session: str) -> list[StepRecord]:
        """Return the steps of a session, in order."""
        return [step for step in self.steps.values() if step.session == session]

    def since(self, session: str, moment: float) -> list[Change]:
        """Return the steps and undos that changed a session's files after a moment, oldest first."""
        changes: list[Change] = [step for step in self.of(session) if step.has_changed]
        changes += [undo for undo in self.undos.values() if undo.session == session and not undo.is_redone]
        return sorted((change for change in changes if change.time > moment), key=lambda change: change.time)

    def last_undo(self, session: str) -> UndoRecord | None:
        """Return the undo that can be reverted: the last one, unless a later step changed something."""
        done = [undo for undo in self.undos.values() if undo.steps or undo.before != undo.after]
        undos = [undo for undo in done if undo.session == session and not undo.is_redone]
        if not undos:
            return None
        known = undos[-1].steps_known  # compare steps by id, not by time, because clocks can be set back
        later = [step for step in self.of(session) if step.id not in known and step.has_changed]
        return None if later else undos[-1]

    def names(self) -> frozenset[str]:
        """Return the names of the snapshots in use."""
        steps = [name for entry in self.steps.values() for name in (entry.before, entry.after)]
        undos = [name for entry in self.undos.values() for name in (entry.before, entry.after)]
        return frozenset(name for name in (*steps, *undos) if name is not None)


def new_id() -> str:
    """Return a new unique id."""
    return os.urandom(8).hex()


class SnapshotJournal:
    """The journal file. A writer must hold the lock of the store."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, record: Record) -> None:
        """Append a line; if the last line is unfinished, end it first.

        Raises:
            SnapshotError: The file cannot be written.
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
            raise SnapshotError(
                notice("library.cannot_be_written", path=self._path, error=error.strerror)
            ) from error

    def records(self) -> list[Record]:
        """Return all complete lines."""
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SnapshotError(
                notice("library.cannot_be_read", path=self._path, error=error.strerror)
            ) from error
        records = map(parsed_object, lines)
        return [record for record in records if record is not None]  # a line may be incomplete

    def history(self) -> History:
        """Return the history that the lines describe."""
        history = History()
        for record in self.records():
            with contextlib.suppress(KeyError, TypeError, ValueError):  # a line written by another version
                _READERS[record["type"]](history, record)
        return history

    def forget(self, ids: Iterable[str]) -> None:
        """Remove all lines about these steps and undos."""
        gone = set(ids)
        remaining = [record for record in self.records() if record.get("id") not in gone]
        views = {record.get("view") for record in remaining}
        remaining = [
            record for record in remaining if record.get("type") != "view" or record.get("id") in views
        ]
        lines = [json.dumps(record, separators=(",", ":")) + "\n" for record in remaining]
        write_whole(self._path, "".join(lines).encode("ascii"))


def _before(history: History, record: Record) -> None:
    names = ("id", "session", "run", "step", "time", "before")
    step = StepRecord(
        **{name: record[name] for name in names}, view=history.views.get(record.get("view", ""))
    )
    history.steps[step.id] = step


def _view(history: History, record: Record) -> None:
    history.views[record["id"]] = ScanRules(**record["rules"])


def _after(history: History, record: Record) -> None:
    step = history.steps[record["id"]]
    step.after, step.is_whole = str(record["after"]), bool(record["whole"])
    step.files, step.added, step.removed = record["files"], record["added"], record["removed"]


def _failed(history: History, record: Record) -> None:
    del history.steps[record["id"]]


def _undo(history: History, record: Record) -> None:
    names = ("id", "session", "time", "before", "after", "steps")
    undo = UndoRecord(**{name: record[name] for name in names}, steps_known=frozenset(history.steps))
    history.undos[undo.id] = undo
    for step_id in undo.steps:
        if step_id in history.steps:
            history.steps[step_id].is_undone = True


def _redo(history: History, record: Record) -> None:
    undo = history.undos[record["undo"]]
    undo.is_redone = True
    for step_id in undo.steps:
        if step_id in history.steps:
            history.steps[step_id].is_undone = False


_READERS = {
    "view": _view,
    "before": _before,
    "after": _after,
    "failed": _failed,
    "undo": _undo,
    "redo": _redo,
}
