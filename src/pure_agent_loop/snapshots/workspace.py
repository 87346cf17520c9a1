"""Snapshots of a workspace: what each step changed in it, and taking it back."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.tools.observers import FileChange, StepChanges
from pure_agent_loop.snapshots.camera import Camera, Picture
from pure_agent_loop.snapshots.journal import History, Journal, Record, Step, new_id
from pure_agent_loop.snapshots.report import MAX_CHANGES, changed_files, describe, unkept
from pure_agent_loop.snapshots.restore import Plan, Restorer, make_plan
from pure_agent_loop.snapshots.scan import Scanner
from pure_agent_loop.snapshots.store import Store, in_thread, locked
from pure_agent_loop.snapshots.values import (
    Manifest,
    ObjectsMissingError,
    SnapshotError,
    StepInfo,
    UndoReport,
    shown_path,
)
from pure_agent_loop.support.paths import data_folder, private_folder

MAX_FILE_BYTES = 10_000_000
MAX_FILES = 20_000
KEEP_DAYS = 30.0
KEEP_STEPS = 1_000
NAMED = 5
_DAY = 86_400.0
_TRIES = 3


class WorkspaceSnapshots:
    """Keeps what a workspace was before and after each step that may change it.

    Hand it to an agent: ``Agent(..., snapshots=WorkspaceSnapshots("."))``. Each change of a file is then an
    event, and `undo` takes steps back.

    Args:
        root: The workspace, an existing folder.
        store: Where everything is kept; a folder of its own in the data folder if None.
        max_file_bytes: Larger files are watched, but their contents not kept.
        max_files: In a workspace with more files no snapshots are taken.
        exclude: Patterns to leave out, as in a ``.gitignore`` at the root.
        keep_days: Older steps are forgotten.
        keep_steps: Of more steps, the oldest are forgotten.

    Raises:
        ConfigError: The workspace is no folder, this machine has no git, or a number cannot be one.
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
        given = Path(root).expanduser()
        if not given.is_dir():
            raise ConfigError(f"root={str(root)!r} is not an existing folder. Create it first.")
        for name, number in {
            "max_file_bytes": max_file_bytes,
            "max_files": max_files,
            "keep_days": keep_days,
            "keep_steps": keep_steps,
        }.items():
            if not number > 0:
                raise ConfigError(f"{name}={number!r} must be greater than 0.")
        self.root = given.resolve()
        self.folder = _folder_of(self.root, store)
        base = self.folder / "git"
        self._store = Store(base)
        apart = (data_folder(), self.folder.resolve())
        scanner = Scanner(
            self.root, max_file_bytes=max_file_bytes, max_files=max_files, exclude=exclude, apart=apart
        )
        self._camera = Camera(scanner, self._store, base / "known.json")
        self._base = base
        # Held while a snapshot is named, and while what nobody names is pruned.
        self._naming = base / "naming"
        self._naming.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._journal = Journal(base / "steps.jsonl")
        self._keep_days, self._keep_steps = keep_days, keep_steps
        self._own_session = f"run-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"
        self._open: dict[tuple[str, int], str] = {}
        self._told: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"WorkspaceSnapshots({str(self.root)!r})"

    # -- what the loop calls -------------------------------------------------------------------------

    async def before(self, session_id: str, step: int) -> None:
        """Keep what the workspace is before a step. For a step that was cut off, the first time counts.

        Raises:
            SnapshotError: It cannot be kept.
        """
        session = session_id or self._own_session
        self._open.pop((session, step), None)
        await self._prune_at_times()
        picture = await self._camera.take()
        history = await self._history()
        last = next(reversed(history.of(session)), None)
        if last is not None and last.after is None:
            if last.step == step and await self._camera.has(last.before):
                self._open[session, step] = last.id
                return
            await self._finish(last, picture, is_whole=False)
        run = 1 if last is None else last.run + (step <= last.step)
        record: Record = {"type": "before", "id": new_id(), "session": session, "run": run, "step": step}
        await self._write({**record, "time": time.time()}, "before", picture)
        self._open[session, step] = record["id"]

    async def after(self, session_id: str, step: int) -> StepChanges:
        """Find out what a step changed. Nothing, if its beginning was not kept: that was said already.

        Raises:
            SnapshotError: It cannot be found out.
        """
        step_id = self._open.pop((session_id or self._own_session, step), None)
        if step_id is None:
            return StepChanges()
        picture = await self._camera.take()
        known = (await self._history()).steps.get(step_id)
        if known is None:  # pruned meanwhile
            return StepChanges()
        changes, words = await self._finish(known, picture, is_whole=True)
        return StepChanges(changes, " ".join([*words, *self._left_out(picture)]))

    async def _finish(
        self, step: Step, picture: Picture, *, is_whole: bool
    ) -> tuple[list[FileChange], list[str]]:
        """Write down how a step ended. Returns what it changed, and what people should know about that."""
        record: Record = {"type": "after", "id": step.id, "whole": is_whole}
        record |= {"files": 0, "added": 0, "removed": 0}
        # Before it is read: what is named is not pruned.
        picture = await self._write(record, "after", picture)
        if picture.name == step.before or not await self._camera.has(step.before):
            return [], []
        try:
            return await self._compared(step, picture, record)
        except ObjectsMissingError:  # another process has pruned this step just now
            return [], []

    async def _compared(
        self, step: Step, picture: Picture, record: Record
    ) -> tuple[list[FileChange], list[str]]:
        before = await self._camera.manifest(step.before)
        total = len(changed_files(before, picture.manifest))
        changes = await describe(self._store, before, picture.manifest, MAX_CHANGES)
        record["added"] = sum(change.added for change in changes)
        record["removed"] = sum(change.removed for change in changes)
        await self._write({**record, "files": total}, "after", picture)
        words = [f"{total - MAX_CHANGES} more files were changed."] if total > MAX_CHANGES else []
        lost = unkept(before, picture.manifest) if total else []
        if lost:
            words.append(f"Too large or not readable, so it cannot be undone: {_named(lost)}.")
        return changes, words

    def _left_out(self, picture: Picture) -> list[str]:
        left_out = frozenset(picture.look.left_out)
        new = left_out - self._told  # once is enough
        self._told |= left_out
        return [f"Not looked at for snapshots: {_named(sorted(new))}."] if new else []

    async def _history(self) -> History:
        return await in_thread(self._journal.history)

    async def _write(self, record: Record, key: str, picture: Picture) -> Picture:
        """Write a line that names a snapshot, and see to it that the snapshot is there."""
        for _ in range(_TRIES):
            line = {**record, key: picture.name}
            async with locked(self._naming):  # so nothing is pruned between the line and the look
                async with locked(self._base):
                    await in_thread(partial(self._journal.append, line))
                if await self._camera.has(picture.name):
                    return picture
            self._camera.forget()  # pruned before the line was written; from now on it is needed
            picture = await self._camera.take()
        raise SnapshotError("The snapshot is pruned by another process as soon as it is taken.")

    # -- what people call ----------------------------------------------------------------------------

    async def sessions(self) -> list[str]:
        """The sessions that changed something, the newest last."""
        changed = [step for step in (await self._history()).steps.values() if step.has_changed]
        return list(dict.fromkeys(step.session for step in reversed(changed)))[::-1]

    async def steps(self, session_id: str = "") -> list[StepInfo]:
        """The steps of a session that changed something, in order.

        Args:
            session_id: The session; empty for the runs of this object that had none.
        """
        steps = (await self._history()).of(session_id or self._own_session)
        return [step.info() for step in steps if step.has_changed]

    async def diff(self, session_id: str, step: int, *, run: int | None = None) -> list[FileChange]:
        """What a step changed.

        Args:
            session_id: As for `steps`.
            step: The step.
            run: Which run of the session; the last one that has such a step if None.

        Raises:
            SnapshotError: There is no such step, or it is no longer kept.
        """
        steps = (await self._history()).of(session_id or self._own_session)
        found = [each for each in steps if each.has_changed and each.step == step and run in (None, each.run)]
        if not found:
            raise SnapshotError(f"Step {step} changed nothing in this workspace, or is no longer kept.")
        before, after = await self._both(found[-1].before, found[-1].after)
        return await describe(self._store, before, after)

    async def undo(
        self,
        session_id: str = "",
        *,
        to_step: int | None = None,
        run: int | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> UndoReport:
        """Make the workspace what it was before a step.

        Files that are not as the step left them stay as they are and are reported as conflicts. What is
        there before the undo is kept, so that `redo` can bring it back.

        Args:
            session_id: As for `steps`.
            to_step: The first step to take back, with all after it; only the last that changed something
                if None.
            run: The run that `to_step` belongs to; the last one if None.
            force: Restore also what was changed by somebody else since.
            dry_run: Only say what would be done.

        Raises:
            SnapshotError: A snapshot is no longer kept, or cannot be taken.
        """
        session = session_id or self._own_session
        await self._close_cut_off(session)
        steps = [
            each for each in (await self._history()).of(session) if each.has_changed and not each.is_undone
        ]
        chosen = _chosen(steps, to_step, run)
        if not chosen:
            return UndoReport(session, is_dry=dry_run)
        pairs = [(each.before, each.after) for each in chosen]
        plan, picture = await self._plan(pairs, force=force)
        numbers = tuple(each.step for each in reversed(chosen))
        if dry_run:
            return _dry(session, numbers, plan)
        record: Record = {
            "type": "undo",
            "id": new_id(),
            "session": session,
            "time": time.time(),
            "steps": [],
        }
        picture = await self._write({**record, "after": picture.name}, "before", picture)
        report, after = await self._restore(session, numbers, plan, picture)
        done = [] if report.conflicts else [each.id for each in chosen]
        await self._write({**record, "steps": done, "before": picture.name}, "after", after)
        return report

    async def redo(self, session_id: str = "", *, force: bool = False, dry_run: bool = False) -> UndoReport:
        """Take the last undo back, as long as no later step changed something.

        Args:
            session_id: As for `steps`.
            force: As for `undo`.
            dry_run: As for `undo`.

        Raises:
            SnapshotError: A snapshot is no longer kept, or cannot be taken.
        """
        session = session_id or self._own_session
        history = await self._history()
        last = history.last_undo(session)
        if last is None:
            return UndoReport(session, is_dry=dry_run)
        plan, picture = await self._plan([(last.before, last.after)], force=force)
        numbers = tuple(history.steps[each].step for each in last.steps if each in history.steps)
        if dry_run:
            return _dry(session, numbers, plan)
        report, after = await self._restore(session, numbers, plan, picture)
        if not report.conflicts:
            await self._write({"type": "redo", "id": last.id, "undo": last.id}, "now", after)
        return report

    async def prune(self, *, keep_days: float | None = None, keep_steps: int | None = None) -> int:
        """Forget old steps and what only they need.

        Args:
            keep_days: Forget what is older; as the object was told if None.
            keep_steps: Forget the oldest of more than so many; the same.

        Returns:
            How many steps were forgotten.
        """
        days = self._keep_days if keep_days is None else keep_days
        most = self._keep_steps if keep_steps is None else keep_steps
        async with locked(self._naming):
            async with locked(self._base):
                gone = await in_thread(lambda: self._forget(days, most))
            await self._store.prune((await self._history()).names())
        self._camera.forget()
        return gone

    # -- how -----------------------------------------------------------------------------------------

    def _forget(self, days: float, most: int) -> int:
        history = self._journal.history()
        steps, oldest = list(history.steps.values()), time.time() - days * _DAY
        gone = {
            step.id
            for number, step in enumerate(steps, 1)
            if step.time < oldest or number <= len(steps) - most
        }
        old = {undo.id for undo in history.undos.values() if undo.time < oldest or set(undo.steps) & gone}
        if gone or old:
            self._journal.forget(gone | old)
        return len(gone)

    async def _prune_at_times(self) -> None:
        """Once a day, if there is something to forget."""
        marker = self._base / "pruned"
        try:
            if abs(time.time() - marker.stat().st_mtime) < _DAY:  # clocks are set back, too
                return
        except FileNotFoundError:
            pass
        marker.touch(mode=0o600)
        steps = list((await self._history()).steps.values())
        if len(steps) > self._keep_steps or any(time.time() - s.time > self._keep_days * _DAY for s in steps):
            await self.prune()

    async def _close_cut_off(self, session: str) -> None:
        """End a step that was cut off, so that it can be undone; not one that is at work in this object."""
        last = next(reversed((await self._history()).of(session)), None)
        if last is not None and last.after is None and last.id not in self._open.values():
            await self._finish(last, await self._camera.take(), is_whole=False)

    async def _both(self, before: str, after: str | None) -> tuple[Manifest, Manifest]:
        assert after is not None
        return await self._camera.manifest(before), await self._camera.manifest(after)

    async def _plan(self, pairs: Sequence[tuple[str, str | None]], *, force: bool) -> tuple[Plan, Picture]:
        changes = [await self._both(*pair) for pair in pairs]
        picture = await self._camera.take()
        return make_plan(changes, picture.manifest, force=force), picture

    async def _restore(
        self, session: str, numbers: tuple[int, ...], plan: Plan, picture: Picture
    ) -> tuple[UndoReport, Picture]:
        restorer = Restorer(self.root, picture.look)
        await in_thread(lambda: restorer.clear(picture.look.leftovers))
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
        return report, await self._camera.take()


def _folder_of(root: Path, store: str | os.PathLike[str] | None) -> Path:
    """Where the snapshots of a workspace are kept; made if missing."""
    base = data_folder() / "snapshots" if store is None else Path(store).expanduser()
    try:
        base = base if store is not None else private_folder(base)
        return private_folder(base.resolve() / hashlib.sha256(os.fsencode(root)).hexdigest()[:24])
    except OSError as error:
        raise SnapshotError(f"{base} cannot be written ({error.strerror}).") from error


def _chosen(steps: Sequence[Step], to_step: int | None, run: int | None) -> Sequence[Step]:
    """The steps to take back, the oldest first."""
    if not steps or to_step is None:
        return steps[-1:]
    wanted = steps[-1].run if run is None else run
    first = [
        n
        for n, each in enumerate(steps)
        if each.run > wanted or (each.run == wanted and each.step >= to_step)
    ]
    return steps[first[0] :] if first else ()


def _dry(session: str, numbers: tuple[int, ...], plan: Plan) -> UndoReport:
    restored = tuple(shown_path(each.path) for each in plan.actions if each.target is not None)
    removed = tuple(shown_path(each.path) for each in plan.actions if each.target is None)
    return UndoReport(session, numbers, restored, removed, tuple(plan.conflicts), is_dry=True)


def _named(paths: Sequence[str]) -> str:
    shown = ", ".join(shown_path(path) for path in paths[:NAMED])
    return shown if len(paths) <= NAMED else f"{shown} and {len(paths) - NAMED} more"
