"""Revert changes: plan the actions and conflicts, and carry them out inside the workspace only."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pure_agent_loop.snapshots.scan import TEMPORARY, ScanResult, Signature, parent, signature
from pure_agent_loop.snapshots.values import Conflict, Manifest, PathEntry
from pure_agent_loop.support.quoted_paths import quoted_path
from pure_agent_loop.toolbox.files.folder import FolderHandle

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
CHANGED = "changed since"
BETWEEN = "changed outside the steps, between them"
MOVED = "moved here from a place outside the snapshots; move it back yourself"
NOT_KEPT = "its earlier content was not stored (too large, or not readable)"
NOT_KEPT_NOW = (
    "its current content is not stored (too large), so it could not be recovered; remove it yourself"
)


@dataclass(frozen=True, slots=True)
class Action:
    """A path with its current and its wanted entry."""

    path: str
    now: PathEntry | None
    target: PathEntry | None


@dataclass(slots=True)
class RestorePlan:
    """Actions to carry out, and conflicts."""

    actions: list[Action] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    links: Mapping[str, int] = field(default_factory=dict)


def make_plan(
    changes: Sequence[tuple[Manifest, Manifest]],
    current: Manifest,
    *,
    force: bool = False,
    links: Mapping[str, int] | None = None,
) -> RestorePlan:
    """Plan how to revert changes.

    Args:
        changes: Pairs of manifests, before and after each change, oldest first.
        force: True to restore even files that were changed later, outside the steps.
        links: Inode of each file with several names, before the first change.
    """
    targets: dict[str, PathEntry | None] = {}
    left_by_step: dict[str, PathEntry | None] = {}
    changed_between: set[str] = set()
    moved: set[str] = set()
    for before, after in changes:
        for path in changed_paths(before, after):
            if path in left_by_step and left_by_step[path] != before.get(path):
                changed_between.add(path)
            targets.setdefault(path, before.get(path))
            left_by_step[path] = entry = after.get(path)
            if entry is not None and entry.kind == "moved":
                moved.add(path)
    plan = RestorePlan(links=links or {})
    for path, target in sorted(targets.items()):
        now = current.get(path)
        if now == target or _is_filled_folder(target, left_by_step[path], now):
            continue
        reason = MOVED if now and path in moved else ""
        reason = reason or _conflict_reason(
            now, target, left_by_step[path], changed_between=path in changed_between, force=force
        )
        if reason:
            plan.conflicts.append(Conflict(quoted_path(path), reason))
        else:
            plan.actions.append(Action(path, now, target))
    return plan


def _is_filled_folder(
    target: PathEntry | None, left_by_step: PathEntry | None, now: PathEntry | None
) -> bool:
    """Return True for a folder that a step created empty and that is no longer empty, so it is kept."""
    return target is None and now is None and left_by_step is not None and left_by_step.kind == "folder"


def _conflict_reason(
    now: PathEntry | None,
    target: PathEntry | None,
    left_by_step: PathEntry | None,
    *,
    changed_between: bool,
    force: bool,
) -> str:
    if target is not None and target.kind == "unkept":
        return NOT_KEPT
    if force:
        return ""
    if now != left_by_step:
        return CHANGED
    if changed_between:
        return BETWEEN
    return NOT_KEPT_NOW if now is not None and now.kind == "unkept" else ""


def changed_paths(before: Mapping[str, PathEntry], after: Mapping[str, PathEntry]) -> list[str]:
    """Return the changed paths, sorted."""
    if before is after:
        return []
    paths = before.keys() | after.keys()
    return sorted(path for path in paths if before.get(path) != after.get(path))


class Restorer:
    """Carries out a plan through folder descriptors that were opened without following links.

    Args:
        scan: Scan on which the plan is based; paths that have changed since are not touched.
    """

    def __init__(self, root: Path, scan: ScanResult, plan: RestorePlan) -> None:
        self._root = root
        self._seen = scan.signatures
        self._links = plan.links
        self._names: dict[int, list[str]] = {}  # inode -> names of the file before the step
        for path, inode in plan.links.items():
            self._names.setdefault(inode, []).append(path)
        self._in_place = _shared_files(plan, scan)
        planned = {action.path for action in plan.actions}
        self._contents = {
            path: scan.manifest.get(path) for path in plan.links if path not in planned and self._is_old(path)
        }
        self._touched_inodes: set[int] = set()  # inodes whose link count or content this undo has changed
        self.conflicts: list[Conflict] = []
        self.restored: list[str] = []
        self.removed: list[str] = []

    def clear(self, leftovers: Sequence[str]) -> None:
        """Remove files left by an interrupted undo."""
        for path in leftovers:
            with contextlib.suppress(OSError):
                parts = path.split("/")
                with parent(self._root, parts) as folder:
                    folder.remove(parts[-1])

    def make_room(self, plan: RestorePlan) -> list[Action]:
        """Remove the entries to be removed or replaced; return the actions that write."""
        kept = {action.path for action in plan.actions if action.target is not None}
        written = []
        for action in sorted(plan.actions, key=lambda action: action.path, reverse=True):
            if action.target is None or _swaps_folder(action):
                if not self._attempt(action, self._remove):
                    continue
                if action.target is None:
                    self.removed.append(quoted_path(action.path))
                    self._remove_empty_parents(action.path, kept)
            if action.target is not None:
                written.append(action)
        # Files that keep their inode come first, so that other names can be linked to them.
        return sorted(written, key=lambda action: (action.path not in self._in_place, action.path))

    def _is_old(self, path: str) -> bool:
        return path in self._seen and self._seen[path][3] == self._links.get(path)

    def write(self, action: Action, data: bytes) -> None:
        """Write one entry.

        Args:
            data: Content of a file, or target of a link.
        """
        if self._attempt(action, lambda action: self._write(action, data)):
            self.restored.append(quoted_path(action.path))
            self._contents[action.path] = action.target

    def _attempt(self, action: Action, act: Callable[[Action], None]) -> bool:
        try:
            act(action)
        except OSError as error:
            reason = CHANGED if error.errno == errno.ESTALE else (error.strerror or str(error))
            self.conflicts.append(Conflict(quoted_path(action.path), reason))
            return False
        return True

    def _check(self, folder: FolderHandle, action: Action, name: str) -> None:
        """Fail if the path has changed since the scan."""
        status = folder.status(name)
        if action.now is None or (_swaps_folder(action) and status is None):
            is_unchanged = status is None
        elif action.now.kind == "folder":
            is_unchanged = status is not None and stat.S_ISDIR(status.st_mode)
        else:
            seen: Signature | None = self._seen.get(action.path)
            is_unchanged = status is not None and seen is not None and self._is_same(seen, signature(status))
        if not is_unchanged:
            raise OSError(errno.ESTALE, CHANGED)

    def _is_same(self, seen: Signature, now: Signature) -> bool:
        # Ignore the ctime, which removing another name of the file changes.
        if seen[3] in self._touched_inodes:
            return seen[:2] + seen[3:] == now[:2] + now[3:]
        return seen == now

    def _mark_touched(self, path: str) -> None:
        if path in self._seen:
            self._touched_inodes.add(self._seen[path][3])

    def _remove(self, action: Action) -> None:
        parts = action.path.split("/")
        with parent(self._root, parts) as folder:
            self._check(folder, action, parts[-1])
            if action.now is not None and action.now.kind == "folder":
                folder.remove_folder(parts[-1])
            else:
                folder.remove(parts[-1])
                self._mark_touched(action.path)

    def _remove_empty_parents(self, path: str, kept: set[str]) -> None:
        parts = path.split("/")[:-1]
        while parts and not any(path.startswith("/".join(parts) + "/") for path in kept):
            try:
                with parent(self._root, parts) as folder:
                    folder.remove_folder(parts[-1])
            except OSError:  # not empty
                return
            parts.pop()

    def _write(self, action: Action, data: bytes) -> None:
        assert action.target is not None
        parts = action.path.split("/")
        with parent(self._root, parts, make=True) as folder:
            name = parts[-1]
            if action.target.kind == "folder":
                folder.make(name)
                folder.enter(name).close()  # fails if the name is not a folder
                return
            if action.path in self._in_place:
                self._overwrite(folder, action, data)
                return
            self._check(folder, action, name)
            temporary = f"{TEMPORARY}{os.urandom(16).hex()}"
            try:
                if action.target.kind == "link":
                    folder.link(os.fsdecode(data), temporary)
                elif not self._link_to_other_name(folder, action, temporary):
                    _write_file(folder, temporary, data, action.target.mode)
                folder.rename(temporary, name)
                self._mark_touched(action.path)
            except BaseException:
                with contextlib.suppress(OSError):
                    folder.remove(temporary)
                raise

    def _overwrite(self, folder: FolderHandle, action: Action, data: bytes) -> None:
        """Restore a file in place, so that all its names change, even those outside the scan."""
        names = self._names[self._links[action.path]]
        if any(self._contents.get(name) == action.target for name in names if name in self._in_place):
            return
        assert action.target is not None
        self._check(folder, action, action.path.rpartition("/")[2])
        _write_file(folder, action.path.rpartition("/")[2], data, action.target.mode, os.O_WRONLY)

    def _link_to_other_name(self, folder: FolderHandle, action: Action, temporary: str) -> bool:
        """Link a name to the file that it belonged to, if that file has the earlier content again."""
        for path in self._names.get(self._links.get(action.path, 0), ()):
            if path != action.path and self._contents.get(path) == action.target:
                parts = path.split("/")
                with contextlib.suppress(OSError), parent(self._root, parts) as other:
                    folder.add_name(other, parts[-1], temporary)
                    self._mark_touched(path)
                    return True
        return False


def _shared_files(plan: RestorePlan, scan: ScanResult) -> set[str]:
    """Return the hard-linked paths that changed in place and whose names all get the same content back."""
    targets: dict[int, set[PathEntry | None]] = {}
    for action in plan.actions:
        targets.setdefault(scan.links.get(action.path, 0), set()).add(action.target)
    return {
        action.path
        for action in plan.actions
        if action.target is not None
        and action.target.kind == "file"
        and action.path in plan.links
        and plan.links[action.path] == scan.links.get(action.path)
        and len(targets[plan.links[action.path]]) == 1
    }


def _write_file(folder: FolderHandle, name: str, data: bytes, mode: int, flags: int = NEW_FILE) -> None:
    try:
        handle = folder.open(name, flags, 0o600)
    except PermissionError:
        if flags == NEW_FILE:
            raise
        folder.make_writable(name)
        handle = folder.open(name, flags)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.truncate()
        if hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), mode)


def _swaps_folder(action: Action) -> bool:
    """Return True if a folder replaces a file or link, or the other way round."""
    if action.now is None or action.target is None:
        return False
    return (action.now.kind == "folder") != (action.target.kind == "folder")
