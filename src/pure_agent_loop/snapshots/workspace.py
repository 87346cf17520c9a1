"""Snapshots of a workspace: what each step changed, and how to undo it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.observers import FileChange, StepChanges
from pure_agent_loop.snapshots.journal import Change, History, Record, SnapshotJournal, StepRecord, new_id
from pure_agent_loop.snapshots.report import MAX_CHANGES, changed_files, describe, of_kind
from pure_agent_loop.snapshots.restore import RestorePlan, Restorer, changed_paths, make_plan
from pure_agent_loop.snapshots.scan import Scanner, ScanRules, coarse_time
from pure_agent_loop.snapshots.store import Store, locked
from pure_agent_loop.snapshots.taking import ScanScope, Snapshot, SnapshotTaker
from pure_agent_loop.snapshots.values import (
    EntryKind,
    Manifest,
    ObjectsMissingError,
    SnapshotError,
    StepInfo,
    TooManyFilesError,
    UndoReport,
)
from pure_agent_loop.support.checks import require_value
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.quoted_paths import quoted_path
from pure_agent_loop.support.threads import in_thread

MAX_FILE_BYTES = 10_000_000
MAX_FILES = 20_000
KEEP_DAYS = 30.0
KEEP_STEPS = 1_000
NAMED = 5
_NOT_UNDONE: dict[EntryKind, str] = {
    "unkept": "Too large or not readable, so it cannot be undone",
    "moved": "Moved here from a place outside the snapshots, so undo leaves it",
}
_DAY = 86_400.0
_TICKS = 50
_TRIES = 3


class WorkspaceSnapshots:
    """Records the content of a workspace before and after each step that may change it.

    Pass this object to an agent: ``Agent(..., snapshots=WorkspaceSnapshots("."))``. Each change of a file
        then emits an event, and `undo` reverts steps.

    Args:
        root: The workspace, an existing folder.
        store: Folder for the snapshots; None for a separate folder in the data folder.
        max_file_bytes: Size up to which contents are stored; a larger file is only recorded as changed.
        max_files: Maximum number of files; no snapshots are taken of a larger workspace.
        exclude: Patterns to ignore, as in a ``.gitignore`` at the root.
        keep_days: Days after which a step is removed.
        keep_steps: Maximum number of steps; the oldest are removed.

    Raises:
        ConfigError: The workspace is not a folder, git is not installed, or a number is not positive.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = ".",
        *,
        store: str | os.PathLike[str] | None = None,
        max_file_bytes: int = MAX_FILE_BYTES,
        max_files: int = MAX_FILES,
        exclude: Sequence[str] = (),
        keep_days: float = KEEP_DAYS,
        keep_steps: int = KEEP_STEPS,
    ) -> None:
        root_path = Path(root).expanduser()
        if not root_path.is_dir():
            raise ConfigError(notice("library.root_missing", root=str(root)))
        for name, number in {
            "max_file_bytes": max_file_bytes,
            "max_files": max_files,
            "keep_days": keep_days,
            "keep_steps": keep_steps,
        }.items():
            require_value(number > 0, name, number, "greater than 0")
        self.root = root_path.resolve()
        self.folder = _workspace_folder(self.root, store)
        base = self.folder / "git"
        self._store = Store(base)
        excluded = (data_folder(), self.folder.resolve())
        scanner = Scanner(
            self.root, max_file_bytes=max_file_bytes, max_files=max_files, exclude=exclude, apart=excluded
        )
        self._taker = SnapshotTaker(scanner, self._store, base / "known.json")
        self._base = base
        # Lock held while a snapshot is recorded in the journal, and while unused snapshots are pruned.
        self._naming = base / "naming"
        self._naming.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._journal = SnapshotJournal(base / "steps.jsonl")
        self._keep_days, self._keep_steps = keep_days, keep_steps
        self._max_file_bytes = max_file_bytes
        self._own_session = f"run-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"
        self._open: dict[tuple[str, int], str] = {}
        self._reported: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"WorkspaceSnapshots({str(self.root)!r})"

    # -- called by the loop --------------------------------------------------------------------------

    async def before(self, session_id: str, step: int) -> None:
        """Record the workspace before a step. If an interrupted step starts again, its first record is kept.

        Raises:
            SnapshotError: The snapshot cannot be taken.
        """
        session = session_id or self._own_session
        self._open.pop((session, step), None)
        await self._prune_daily()
        began = time.time()
        snapshot = await self._taker.take()
        history = await self._history()
        last = next(reversed(history.of(session)), None)
        if last is not None and last.after is None:
            if last.step == step and self._store.has(last.before):
                self._open[session, step] = last.id
                return
            await self._finish(last, is_whole=False)
        run = 1 if last is None else last.run + (step <= last.step)
        record: Record = {"type": "before", "id": new_id(), "session": session, "run": run, "step": step}
        record |= {"time": began, "view": await self._name_view(snapshot.scan.view, history)}
        await self._write(record, "before", snapshot)
        self._open[session, step] = record["id"]
        # Wait for the file system's clock to advance, so that files of the step are newer than existing ones.
        for _ in range(_TICKS):
            if coarse_time() > began:
                break
            await asyncio.sleep(0.001)

    async def _name_view(self, view: ScanRules, history: History) -> str:
        """Record the rules of a scan, unless they are recorded already."""
        rules = asdict(view)
        name = hashlib.sha256(json.dumps(rules, sort_keys=True).encode("ascii")).hexdigest()
        if name not in history.views:
            async with locked(self._base):
                await in_thread(partial(self._journal.append, {"type": "view", "id": name, "rules": rules}))
        return name

    async def after(self, session_id: str, step: int) -> StepChanges:
        """Return what a step changed; empty if the step's start was not recorded, or was pruned.

        Raises:
            SnapshotError: The changes cannot be determined.
        """
        step_id = self._open.pop((session_id or self._own_session, step), None)
        if step_id is None:
            return StepChanges()
        step_info = (await self._history()).steps.get(step_id)
        if step_info is None:  # the step was pruned in the meantime
            return StepChanges()
        changes, notices = await self._finish(step_info, is_whole=True)
        return StepChanges(changes, " ".join(notices))

    async def _scan_after(self, step: StepRecord) -> Snapshot:
        """Take a snapshot after a step, with the rules that applied before it."""
        if step.view is None or not self._store.has(step.before):
            return await self._taker.take()
        before = await self._taker.manifest(step.before)
        scope = ScanScope(step.view, None, before, step.time)
        try:
            return await self._taker.take(scope)
        except TooManyFilesError:
            return await self._taker.take(replace(scope, only=before))

    async def _finish(self, step: StepRecord, *, is_whole: bool) -> tuple[list[FileChange], list[str]]:
        """Record how a step ended. Return what the step changed, and notices about it."""
        snapshot = await self._scan_after(step)
        notices = self._scan_notices(snapshot)
        if snapshot.scope.only is not None:
            notices.append("Too many new files: they are not in the snapshot, and undo leaves them.")
        record: Record = {"type": "after", "id": step.id, "whole": is_whole}
        record |= {"files": 0, "added": 0, "removed": 0}
        # Record the snapshot before reading from it, because recorded snapshots are not pruned.
        snapshot = await self._write(record, "after", snapshot)
        if snapshot.name == step.before or not self._store.has(step.before):
            return [], notices
        try:
            changes, change_notices = await self._describe_changes(step, snapshot, record)
        except ObjectsMissingError:  # another process has just pruned this step
            return [], notices
        return changes, [*change_notices, *notices]

    async def _describe_changes(
        self, step: StepRecord, snapshot: Snapshot, record: Record
    ) -> tuple[list[FileChange], list[str]]:
        before = await self._taker.manifest(step.before)
        total = len(changed_files(before, snapshot.manifest))
        changes = await describe(self._store, before, snapshot.manifest, MAX_CHANGES)
        record["added"] = sum(change.added for change in changes)
        record["removed"] = sum(change.removed for change in changes)
        await self._write({**record, "files": total}, "after", snapshot)
        notices = [f"{total - MAX_CHANGES} more files were changed."] if total > MAX_CHANGES else []
        for kind, reason in _NOT_UNDONE.items():
            if lost := of_kind(kind, before, snapshot.manifest):
                notices.append(f"{reason}: {_list_paths(lost)}.")
        return changes, notices

    def _scan_notices(self, snapshot: Snapshot) -> list[str]:
        left_out = frozenset(snapshot.scan.left_out)
        new = left_out - self._reported  # only new paths, so that each path is reported once
        self._reported |= left_out
        return [f"Not in the snapshots: {_list_paths(sorted(new))}."] if new else []

    async def _history(self) -> History:
        return await in_thread(self._journal.history)

    async def _write(self, record: Record, key: str, snapshot: Snapshot) -> Snapshot:
        """Write a line that names a snapshot, and ensure that the snapshot exists."""
        for _ in range(_TRIES):
            line = {**record, key: snapshot.name}
            # Keep this object from pruning between the append and the check.
            async with locked(self._naming):
                async with locked(self._base):
                    await in_thread(partial(self._journal.append, line))
                if self._store.has(snapshot.name):
                    return snapshot
            self._taker.forget()  # pruned before the line was written; the line now protects it
            snapshot = await self._taker.take(snapshot.scope)
        raise SnapshotError("Another process prunes each snapshot as soon as it is taken.")

    # -- called by users -----------------------------------------------------------------------------

    async def sessions(self) -> list[str]:
        """Return the sessions that changed something, the newest last."""
        changed = [step for step in (await self._history()).steps.values() if step.has_changed]
        return list(dict.fromkeys(step.session for step in reversed(changed)))[::-1]

    async def steps(self, session_id: str = "") -> list[StepInfo]:
        """Return the steps of a session that changed something, in order.

        Args:
            session_id: Session id; empty for runs of this object without a session.
        """
        steps = (await self._history()).of(session_id or self._own_session)
        return [step.info() for step in steps if step.has_changed]

    async def diff(self, session_id: str, step: int, *, run: int | None = None) -> list[FileChange]:
        """Return what a step changed.

        Args:
            session_id: As for `steps`.
            step: Number of the step.
            run: Number of the run in the session; None for the last run with such a step.

        Raises:
            SnapshotError: The session has no such step, or the step is no longer stored.
        """
        steps = (await self._history()).of(session_id or self._own_session)
        matches = [
            candidate
            for candidate in steps
            if candidate.has_changed and candidate.step == step and run in (None, candidate.run)
        ]
        if not matches:
            raise SnapshotError(notice("library.step_changed_nothing", step=step))
        before, after = await self._manifests(matches[-1].before, matches[-1].after)
        return await describe(self._store, before, after)

    async def changes_since(self, session_id: str = "", *, moment: float) -> list[FileChange]:
        """Return how files differ now from their state at a moment of a session. Nothing is changed.

        Only files that the session changed after that moment are compared.

        Args:
            session_id: As for `steps`.
            moment: Time in seconds since 1970.

        Raises:
            SnapshotError: A snapshot is no longer stored, or cannot be taken.
        """
        later = (await self._history()).since(session_id or self._own_session, moment)
        if not later:
            return []
        plan, _ = await self._plan(later, None, force=True)
        then = {action.path: action.target for action in plan.actions if action.target is not None}
        now = {action.path: action.now for action in plan.actions if action.now is not None}
        return await describe(self._store, then, now)

    async def undo(
        self,
        session_id: str = "",
        *,
        to_step: int | None = None,
        run: int | None = None,
        since: float | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> UndoReport:
        """Restore the workspace as it was before a step.

        Files that have changed since the step are left unchanged and reported as conflicts. The content
        before the undo is stored, so that `redo` can restore it.

        Args:
            session_id: As for `steps`.
            to_step: First step to revert, with all later ones; None for only the last step that changed
                something.
            run: Number of the run of `to_step`; None for the last one.
            since: Moment, in seconds since 1970, instead of `to_step`: everything that began later is
                reverted, including later undos.
            force: True to restore even files that were changed later, outside the steps.
            dry_run: True to only report what would be done.

        Raises:
            SnapshotError: A snapshot is no longer stored, or cannot be taken.
        """
        session = session_id or self._own_session
        await self._finish_interrupted(session)
        history = await self._history()
        steps = [step for step in history.of(session) if step.has_changed and not step.is_undone]
        changes: Sequence[Change]
        if since is None:
            changes = selected = _select_steps(steps, to_step, run)
        else:
            changes, selected = history.since(session, since), [step for step in steps if step.time > since]
        if not changes:
            return UndoReport(session, is_dry=dry_run)
        plan, snapshot = await self._plan(changes, selected[0].view if selected else None, force=force)
        numbers = tuple(step.step for step in reversed(selected))
        if dry_run:
            return _dry_report(session, numbers, plan)
        record: Record = {
            "type": "undo",
            "id": new_id(),
            "session": session,
            "time": time.time(),
            "steps": [],
        }
        snapshot = await self._write({**record, "after": snapshot.name}, "before", snapshot)
        report, after = await self._restore(session, numbers, plan, snapshot)
        done = [] if report.conflicts else [step.id for step in selected]
        await self._write({**record, "steps": done, "before": snapshot.name}, "after", after)
        return report

    async def redo(self, session_id: str = "", *, force: bool = False, dry_run: bool = False) -> UndoReport:
        """Revert the last undo, unless a later step changed something.

        Args:
            session_id: As for `steps`.
            force: As for `undo`.
            dry_run: As for `undo`.

        Raises:
            SnapshotError: A snapshot is no longer stored, or cannot be taken.
        """
        session = session_id or self._own_session
        history = await self._history()
        last = history.last_undo(session)
        if last is None:
            return UndoReport(session, is_dry=dry_run)
        undone = [history.steps[name] for name in last.steps if name in history.steps]
        plan, snapshot = await self._plan([last], undone[0].view if undone else None, force=force)
        numbers = tuple(step.step for step in undone)
        if dry_run:
            return _dry_report(session, numbers, plan)
        report, after = await self._restore(session, numbers, plan, snapshot)
        if not report.conflicts:
            await self._write({"type": "redo", "id": last.id, "undo": last.id}, "now", after)
        return report

    async def prune(self, *, keep_days: float | None = None, keep_steps: int | None = None) -> int:
        """Remove old steps, and snapshots that only they use.

        Args:
            keep_days: Maximum age in days; None for the object's own setting.
            keep_steps: Maximum number of steps; None for the object's own setting.

        Returns:
            The number of removed steps.
        """
        days = self._keep_days if keep_days is None else keep_days
        max_steps = self._keep_steps if keep_steps is None else keep_steps
        async with locked(self._naming):
            async with locked(self._base):
                forgotten = await in_thread(lambda: self._forget(days, max_steps))
            await self._store.prune((await self._history()).names())
        self._taker.forget()
        return forgotten

    # -- internals -----------------------------------------------------------------------------------

    def _forget(self, days: float, max_steps: int) -> int:
        history = self._journal.history()
        steps, oldest = list(history.steps.values()), time.time() - days * _DAY
        forgotten = {
            step.id
            for number, step in enumerate(steps, 1)
            if step.time < oldest or number <= len(steps) - max_steps
        }
        old_undos = {
            undo.id for undo in history.undos.values() if undo.time < oldest or set(undo.steps) & forgotten
        }
        if forgotten or old_undos:
            self._journal.forget(forgotten | old_undos)
        return len(forgotten)

    async def _prune_daily(self) -> None:
        """Prune at most once a day, if there is something to remove."""
        marker = self._base / "pruned"
        try:
            if abs(time.time() - marker.stat().st_mtime) < _DAY:  # the clock may have been set back
                return
        except FileNotFoundError:
            pass
        marker.touch(mode=0o600)
        steps = list((await self._history()).steps.values())
        if len(steps) > self._keep_steps or any(
            time.time() - step.time > self._keep_days * _DAY for step in steps
        ):
            await self.prune()

    async def _finish_interrupted(self, session: str) -> None:
        """Finish an interrupted step so that it can be undone, unless this object is still running it."""
        last = next(reversed((await self._history()).of(session)), None)
        if last is not None and last.after is None and last.id not in self._open.values():
            await self._finish(last, is_whole=False)

    async def _manifests(self, before: str, after: str | None) -> tuple[Manifest, Manifest]:
        assert after is not None
        return await self._taker.manifest(before), await self._taker.manifest(after)

    async def _plan(
        self, pairs: Sequence[Change], view: ScanRules | None, *, force: bool
    ) -> tuple[RestorePlan, Snapshot]:
        """Scan the paths of some steps, whatever the current rules are, and plan how to revert them."""
        changes = [await self._manifests(pair.before, pair.after) for pair in pairs]
        links = {} if view is None else view.links
        paths = {path for before, after in changes for path in changed_paths(before, after)}
        same = {links[path] for path in paths if path in links}
        paths |= {path for path, inode in links.items() if inode in same}
        sizes = [step.view.max_file_bytes for step in pairs if isinstance(step, StepRecord) and step.view]
        rules = ScanRules((), max([self._max_file_bytes, *sizes]))
        snapshot = await self._taker.take(ScanScope(rules, paths))
        return make_plan(changes, snapshot.manifest, force=force, links=links), snapshot

    async def _restore(
        self, session: str, numbers: tuple[int, ...], plan: RestorePlan, snapshot: Snapshot
    ) -> tuple[UndoReport, Snapshot]:
        restorer = Restorer(self.root, snapshot.scan, plan)
        await in_thread(lambda: restorer.clear(snapshot.scan.leftovers))
        written = await in_thread(lambda: restorer.make_room(plan))
        targets = [(action, action.target) for action in written if action.target is not None]
        ids = [target.content for _, target in targets if target.kind != "folder"]
        async with self._store.contents(ids) as contents:
            for action, target in targets:
                data = b"" if target.kind == "folder" else await anext(contents)
                await in_thread(partial(restorer.write, action, data))
        report = UndoReport(
            session,
            numbers,
            tuple(restorer.restored),
            tuple(restorer.removed),
            (*plan.conflicts, *restorer.conflicts),
        )
        return report, await self._taker.take(snapshot.scope)


def _workspace_folder(root: Path, store: str | os.PathLike[str] | None) -> Path:
    """Return the folder for snapshots of a workspace; create it if missing."""
    base = data_folder() / "snapshots" if store is None else Path(store).expanduser()
    try:
        base = base if store is not None else private_folder(base)
        return private_folder(base.resolve() / hashlib.sha256(os.fsencode(root)).hexdigest()[:24])
    except OSError as error:
        raise SnapshotError(notice("library.cannot_be_written", path=base, error=error.strerror)) from error


def _select_steps(steps: Sequence[StepRecord], to_step: int | None, run: int | None) -> Sequence[StepRecord]:
    """Return the steps to revert, oldest first."""
    if not steps or to_step is None:
        return steps[-1:]
    start = (steps[-1].run if run is None else run, to_step)
    return [step for step in steps if (step.run, step.step) >= start]


def _dry_report(session: str, numbers: tuple[int, ...], plan: RestorePlan) -> UndoReport:
    restored = tuple(quoted_path(action.path) for action in plan.actions if action.target is not None)
    removed = tuple(quoted_path(action.path) for action in plan.actions if action.target is None)
    return UndoReport(session, numbers, restored, removed, tuple(plan.conflicts), is_dry=True)


def _list_paths(paths: Sequence[str]) -> str:
    shown = ", ".join(quoted_path(path) for path in paths[:NAMED])
    return shown if len(paths) <= NAMED else f"{shown} and {len(paths) - NAMED} more"
