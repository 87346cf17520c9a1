"""Value types of snapshots."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.support.text import PlainForm

EntryKind = Literal["file", "link", "folder", "unkept", "moved"]


class SnapshotError(PureAgentLoopError):
    """A snapshot cannot be taken, read or restored. The message says why, and what to do."""


class TooManyFilesError(SnapshotError):
    """The workspace has too many files for a scan."""


class ObjectsMissingError(SnapshotError):
    """A snapshot's object is missing from the store because it was pruned."""


@dataclass(frozen=True, slots=True)
class PathEntry:
    """Entry of a workspace.

    Args:
        kind: ``file``, ``link`` (not followed), ``folder`` (only an empty one is an entry), ``unkept`` (a
            file whose content is not stored because it is too large), or ``moved`` (an older file that a step
            moved here from an unscanned place; neither shown nor removed).
        content: Id of the content; for ``unkept`` a value that changes with the file.
    """

    kind: EntryKind
    mode: int
    content: str = ""


Manifest = dict[str, PathEntry]  # keys: paths below the workspace, with slashes, as os.fsdecode returns them


def manifest_name(manifest: Mapping[str, PathEntry]) -> str:
    """Return a snapshot's id, which is the same for equal content."""
    rows = [[path, entry.kind, entry.mode, entry.content] for path, entry in sorted(manifest.items())]
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class StepInfo(PlainForm):
    """Description of a step that changed something.

    Args:
        session_id: Session id.
        run: Number of the run in the session, from 1; steps restart at 1 in each run.
        step: Number of the step.
        time: Time when the step began, in seconds since 1970.
        files: Number of changed files.
        added: Number of added lines.
        removed: Number of removed lines.
        is_undone: True if the step was undone.
        is_whole: False if the step was interrupted, so that its end was only recorded when the next step
            began.
    """

    session_id: str
    run: int
    step: int
    time: float
    files: int
    added: int
    removed: int
    is_undone: bool = False
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Conflict:
    """File that an undo did not change.

    Args:
        path: Path of the file.
        reason: Reason.
    """

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class UndoReport(PlainForm):
    """Result of an undo.

    Args:
        session_id: Session id.
        steps: Numbers of the reverted steps, last one first.
        restored: Files that were restored.
        removed: Files that were removed.
        conflicts: Files that were left unchanged, because they have changed since the step or cannot be
            restored.
        is_dry: True for a dry run: nothing was changed.
    """

    session_id: str
    steps: tuple[int, ...] = ()
    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    is_dry: bool = False
