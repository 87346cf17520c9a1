"""Taking changes back: what has to be done, what must be left, and doing it inside the workspace only."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pure_agent_loop.snapshots.scan import TEMPORARY, Folder, Look, Signature, parent, signature
from pure_agent_loop.snapshots.values import Conflict, Entry, Manifest, shown_path

CHANGED = "it was changed since"
BETWEEN = "it was changed by somebody else between the steps"
NOT_KEPT = "what it was is not kept (too large, or not readable)"
NOT_KEPT_NOW = "what it is now is not kept (too large), so it could not be brought back; remove it yourself"


@dataclass(frozen=True, slots=True)
class Action:
    """A path, what it is and what it shall be."""

    path: str
    now: Entry | None
    target: Entry | None


@dataclass(slots=True)
class Plan:
    """What is to be done, and what is left."""

    actions: list[Action] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)


def make_plan(
    changes: Sequence[tuple[Manifest, Manifest]], current: Manifest, *, force: bool = False
) -> Plan:
    """Say how to take changes back.

    Args:
        changes: Before and after of each, the oldest first.
        force: Restore also what was changed by somebody else since.
    """
    targets: dict[str, Entry | None] = {}
    left: dict[str, Entry | None] = {}
    between: set[str] = set()
    for before, after in changes:
        for path in changed_paths(before, after):
            if path in left and left[path] != before.get(path):
                between.add(path)
            targets.setdefault(path, before.get(path))
            left[path] = after.get(path)
    plan = Plan()
    for path, target in sorted(targets.items()):
        now = current.get(path)
        if now == target or _is_filled_folder(target, left[path], now):
            continue
        reason = _objection(now, target, left[path], between=path in between, force=force)
        if reason:
            plan.conflicts.append(Conflict(shown_path(path), reason))
        else:
            plan.actions.append(Action(path, now, target))
    return plan


def _is_filled_folder(target: Entry | None, left: Entry | None, now: Entry | None) -> bool:
    """An empty folder was made, and is not empty any more: whoever filled it wants it."""
    return target is None and now is None and left is not None and left.kind == "folder"


def _objection(
    now: Entry | None, target: Entry | None, left: Entry | None, *, between: bool, force: bool
) -> str:
    if target is not None and target.kind == "unkept":
        return NOT_KEPT
    if force:
        return ""
    if now != left:
        return CHANGED
    if between:
        return BETWEEN
    return NOT_KEPT_NOW if now is not None and now.kind == "unkept" else ""


def changed_paths(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> list[str]:
    """The paths that are not the same in both, sorted."""
    if before is after:
        return []
    paths = before.keys() | after.keys()
    return sorted(path for path in paths if before.get(path) != after.get(path))


class Restorer:
    """Carries out a plan, by descriptors of folders that no link led to.

    Args:
        root: The workspace.
        look: What was seen when the plan was made: what is different by now is left.
    """

    def __init__(self, root: Path, look: Look) -> None:
        self._root = root
        self._seen = look.signatures
        self.conflicts: list[Conflict] = []
        self.restored: list[str] = []
        self.removed: list[str] = []

    def clear(self, leftovers: Sequence[str]) -> None:
        """Take away what an undo that was cut off has left."""
        for path in leftovers:
            with contextlib.suppress(OSError):
                parts = path.split("/")
                with parent(self._root, parts) as folder:
                    folder.unlink(parts[-1])

    def make_room(self, plan: Plan) -> list[Action]:
        """Take away what is to be gone; return what is to be written."""
        kept = {action.path for action in plan.actions if action.target is not None}
        written = []
        for action in sorted(plan.actions, key=lambda each: each.path, reverse=True):
            if action.target is None or _is_other_kind(action):
                if not self._try(action, self._remove):
                    continue
                if action.target is None:
                    self.removed.append(shown_path(action.path))
                    self._remove_empty_parents(action.path, kept)
            if action.target is not None:
                written.append(action)
        return written[::-1]

    def write(self, action: Action, data: bytes) -> None:
        """Make one thing what it shall be.

        Args:
            data: The content of a file, or where a link leads.
        """
        if self._try(action, lambda each: self._write(each, data)):
            self.restored.append(shown_path(action.path))

    def _try(self, action: Action, act: Callable[[Action], None]) -> bool:
        try:
            act(action)
        except OSError as error:
            words = CHANGED if error.errno == errno.ESTALE else (error.strerror or str(error))
            self.conflicts.append(Conflict(shown_path(action.path), words))
            return False
        return True

    def _check(self, folder: Folder, action: Action, name: str) -> None:
        """Somebody may have changed it in this moment."""
        status: os.stat_result | None
        try:
            status = folder.status(name)
        except FileNotFoundError:
            status = None
        if action.now is None or (_is_other_kind(action) and status is None):
            fine = status is None
        elif action.now.kind == "folder":
            fine = status is not None and stat.S_ISDIR(status.st_mode)
        else:
            seen: Signature | None = self._seen.get(action.path)
            fine = status is not None and seen == signature(status)
        if not fine:
            raise OSError(errno.ESTALE, CHANGED)

    def _remove(self, action: Action) -> None:
        parts = action.path.split("/")
        with parent(self._root, parts) as folder:
            self._check(folder, action, parts[-1])
            if action.now is not None and action.now.kind == "folder":
                folder.remove_folder(parts[-1])
            else:
                folder.unlink(parts[-1])

    def _remove_empty_parents(self, path: str, kept: set[str]) -> None:
        parts = path.split("/")[:-1]
        while parts and not any(each.startswith("/".join(parts) + "/") for each in kept):
            try:
                with parent(self._root, parts) as folder:
                    folder.remove_folder(parts[-1])
            except OSError:  # something is in it
                return
            parts.pop()

    def _write(self, action: Action, data: bytes) -> None:
        assert action.target is not None
        parts = action.path.split("/")
        self._make_parents(parts)
        with parent(self._root, parts) as folder:
            name = parts[-1]
            if action.target.kind == "folder":
                _make_folder(folder, name)
                return
            self._check(folder, action, name)
            temporary = f"{TEMPORARY}{os.urandom(16).hex()}"
            try:
                if action.target.kind == "link":
                    folder.link(os.fsdecode(data), temporary)
                else:
                    _fill(folder, temporary, data, action.target.mode)
                folder.replace(temporary, name)
            except BaseException:
                with contextlib.suppress(OSError):
                    folder.unlink(temporary)
                raise

    def _make_parents(self, parts: Sequence[str]) -> None:
        for depth in range(1, len(parts)):
            with parent(self._root, parts[:depth]) as folder:
                _make_folder(folder, parts[depth - 1])


def _make_folder(folder: Folder, name: str) -> None:
    try:
        folder.make_folder(name)
    except FileExistsError:
        if not stat.S_ISDIR(folder.status(name).st_mode):
            raise


def _fill(folder: Folder, name: str, data: bytes, mode: int) -> None:
    handle = folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        if hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), mode)


def _is_other_kind(action: Action) -> bool:
    """True if a folder stands where something else shall be, or the other way round."""
    if action.now is None or action.target is None:
        return False
    return (action.now.kind == "folder") != (action.target.kind == "folder")
