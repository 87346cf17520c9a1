"""What snapshots are made of, and what they answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pure_agent_loop.errors import PureAgentLoopError

EntryKind = Literal["file", "link", "folder", "unkept"]


class SnapshotError(PureAgentLoopError):
    """A snapshot cannot be taken, read or restored. The message says why and what to do."""


class ObjectsMissingError(SnapshotError):
    """Something a snapshot is made of is no longer in the store: it was pruned meanwhile."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a workspace.

    Args:
        kind: ``file``, ``link`` (not followed), ``folder`` (only an empty one is an entry), or ``unkept``:
            a file whose content is not kept, because it is too large.
        mode: The permission bits.
        content: The id of the content; for ``unkept`` what tells that it changed.
    """

    kind: EntryKind
    mode: int
    content: str = ""


Manifest = dict[str, Entry]  # by the path below the workspace, with slashes, as os.fsdecode gives it


def manifest_name(manifest: Mapping[str, Entry]) -> str:
    """The id of a snapshot: the same for the same workspace."""
    rows = [[path, entry.kind, entry.mode, entry.content] for path, entry in sorted(manifest.items())]
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode("ascii")).hexdigest()


def shown_path(path: str) -> str:
    """A path as text that can be encoded: bytes that are no UTF-8 appear as escapes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class StepInfo:
    """A step that changed something.

    Args:
        session_id: Its session.
        run: Which run of the session, from 1: steps begin at 1 again in each run.
        step: The step.
        time: When it began, in seconds since 1970.
        files: How many files it changed.
        added: Lines added.
        removed: Lines removed.
        is_undone: True if it was taken back.
        is_whole: False if it was cut off, so that its end was seen only when the next one began.
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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Conflict:
    """A file that was left as it is.

    Args:
        path: The file.
        reason: Why.
    """

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class UndoReport:
    """What an undo did.

    Args:
        session_id: The session.
        steps: The steps taken back, the last one first.
        restored: Files that were written again.
        removed: Files that were taken away.
        conflicts: Files that were left, because they are not what the step had made of them, or cannot
            be restored.
        is_dry: True if nothing was done, only looked at.
    """

    session_id: str
    steps: tuple[int, ...] = ()
    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    is_dry: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self)
