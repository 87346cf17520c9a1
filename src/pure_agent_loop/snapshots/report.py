"""Telling what is different between two snapshots, as changes of files with their diffs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from pure_agent_loop.kernel.tools.observers import ChangeKind, FileChange
from pure_agent_loop.snapshots.differ import text_of, unified
from pure_agent_loop.snapshots.restore import changed_paths
from pure_agent_loop.snapshots.scan import is_secret
from pure_agent_loop.snapshots.store import Store, in_thread
from pure_agent_loop.snapshots.values import Entry, Manifest, shown_path

MAX_CHANGES = 200


async def describe(
    store: Store, before: Manifest, after: Manifest, limit: int | None = None
) -> list[FileChange]:
    """What is different, file by file.

    Args:
        limit: Tell of so many files at the most.

    Raises:
        SnapshotError: A content cannot be read.
    """
    paths = [
        path for path in changed_paths(before, after) if not _only_folders(before.get(path), after.get(path))
    ]
    pairs = [(path, before.get(path), after.get(path)) for path in paths[:limit]]
    changes = []
    async with store.contents(_needed(pairs)) as contents:
        for path, old, new in pairs:
            data = [await anext(contents) if _is_kept(each) else None for each in (old, new)]
            changes.append(await in_thread(partial(_change, path, old, new, data)))
    return changes


def changed_files(before: Manifest, after: Manifest) -> list[str]:
    """The files and links that are not the same in both."""
    kinds = ("file", "link", "unkept")
    return [
        path
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
        and any(each is not None and each.kind in kinds for each in (before.get(path), after.get(path)))
    ]


def unkept(before: Manifest, after: Manifest) -> list[str]:
    """The changed files that cannot be brought back."""
    paths = changed_paths(before, after)
    return [path for path in paths if "unkept" in {e.kind for e in (before.get(path), after.get(path)) if e}]


def _only_folders(old: Entry | None, new: Entry | None) -> bool:
    return all(each is None or each.kind == "folder" for each in (old, new))


def _is_kept(entry: Entry | None) -> bool:
    return entry is not None and entry.kind in ("file", "link")


def _needed(pairs: Sequence[tuple[str, Entry | None, Entry | None]]) -> Iterator[str]:
    for _, old, new in pairs:
        yield from (each.content for each in (old, new) if each is not None and _is_kept(each))


def _change(path: str, old: Entry | None, new: Entry | None, data: Sequence[bytes | None]) -> FileChange:
    shown = shown_path(path)
    kind = _kind(old, new)
    texts = [text_of(each) for each in data]
    unreadable = any(each is not None and each.kind == "unkept" for each in (old, new))
    if unreadable or texts[0] is None or texts[1] is None:
        return FileChange(shown, kind, is_binary=True)
    diff, added, removed = unified(shown, texts[0], texts[1])
    if is_secret(path):
        return FileChange(shown, kind, "", added, removed)
    return FileChange(shown, kind, _modes(old, new) + diff, added, removed)


def _kind(old: Entry | None, new: Entry | None) -> ChangeKind:
    if old is None or old.kind == "folder":
        return "created"
    return "deleted" if new is None or new.kind == "folder" else "modified"


def _modes(old: Entry | None, new: Entry | None) -> str:
    if old is None or new is None or (old.kind, old.mode) == (new.kind, new.mode) or old.kind == "folder":
        return ""
    return f"old mode {_mode(old)}\nnew mode {_mode(new)}\n"


def _mode(entry: Entry) -> str:
    return "120000" if entry.kind == "link" else f"100{entry.mode:03o}"
