"""Describe the differences between two snapshots as file changes with diffs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from functools import partial

from pure_agent_loop.kernel.observers import ChangeKind, FileChange
from pure_agent_loop.snapshots.restore import changed_paths
from pure_agent_loop.snapshots.scan import is_secret
from pure_agent_loop.snapshots.store import Store
from pure_agent_loop.snapshots.values import EntryKind, Manifest, PathEntry
from pure_agent_loop.support.quoted_paths import quoted_path
from pure_agent_loop.support.threads import in_thread
from pure_agent_loop.toolbox.files.differences import common_ends

# -- unified diffs in bounded time and length ------------------------------------------------------------

MAX_DIFF_CHARS = 20_000
MAX_COMPARED_LINES = 1_000  # difflib takes quadratic time
MAX_COMPARED_BYTES = 2_000_000
CONTEXT = 3
MAX_CHANGES = 200


def text_of(data: bytes | None) -> str | None:
    """Decode file content; return "" if there is none, and None if it is not text."""
    if data is None:
        return ""
    if b"\0" in data[:8_000]:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def unified(path: str, before: str, after: str, most: int | None = MAX_DIFF_CHARS) -> tuple[str, int, int]:
    """Return a unified diff, shortened if long, and the numbers of added and removed lines.

    Common lines at the start and the end are not compared. If the rest is very long, all of it counts as
    replaced.

    Args:
        most: Maximum length in characters; None for no limit.
    """
    old, new = _lines(before), _lines(after)
    head, tail = common_ends(old, new)
    start = max(0, head - CONTEXT)
    keep = max(0, tail - CONTEXT)
    a, b = old[start : len(old) - keep], new[start : len(new) - keep]
    hunks = _hunks(a, b, start)
    added = sum(line.startswith("+") for line in hunks)
    removed = sum(line.startswith("-") for line in hunks)
    if not hunks:
        return "", 0, 0
    lines = [f"--- a/{path}\n", f"+++ b/{path}\n", *hunks]
    return _shorten("".join(_with_newline(line) for line in lines), most), added, removed


def _lines(text: str) -> list[str]:
    """Split a string into lines and keep the line ends. Only a newline ends a line, not a form feed."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _hunks(a: list[str], b: list[str], offset: int) -> list[str]:
    if max(len(a), len(b)) > MAX_COMPARED_LINES or sum(map(len, a)) + sum(map(len, b)) > MAX_COMPARED_BYTES:
        groups = [[("replace", 0, len(a), 0, len(b))]]
    else:
        groups = list(difflib.SequenceMatcher(None, a, b).get_grouped_opcodes(CONTEXT))
    lines: list[str] = []
    for group in groups:
        first, last = group[0], group[-1]
        lines.append(f"@@ -{_range(first[1], last[2], offset)} +{_range(first[3], last[4], offset)} @@\n")
        for tag, a0, a1, b0, b1 in group:
            if tag == "equal":
                lines += [" " + line for line in a[a0:a1]]
                continue
            lines += ["-" + line for line in a[a0:a1]]
            lines += ["+" + line for line in b[b0:b1]]
    return lines


def _range(start: int, stop: int, offset: int) -> str:
    length = stop - start
    first = start + offset + (1 if length else 0)
    return str(first) if length == 1 else f"{first},{length}"


def _with_newline(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _shorten(text: str, max_chars: int | None) -> str:
    if max_chars is None or len(text) <= max_chars:
        return text
    head = text[:max_chars].rpartition("\n")[0]
    missing = text.count("\n") - head.count("\n") - 1
    return f"{head}\n[... {missing} lines of the diff left out ...]\n"


async def describe(
    store: Store, before: Manifest, after: Manifest, limit: int | None = None
) -> list[FileChange]:
    """Return the changes between two snapshots, file by file.

    Args:
        limit: Maximum number of files.

    Raises:
        SnapshotError: Stored content cannot be read.
    """
    pairs = [(path, before.get(path), after.get(path)) for path in changed_files(before, after)[:limit]]
    changes = []
    async with store.contents(_needed(pairs)) as contents:
        for path, old, new in pairs:
            data = [await anext(contents) if _is_kept(entry) else None for entry in (old, new)]
            changes.append(await in_thread(partial(_change, path, old, new, data)))
    return changes


def changed_files(before: Manifest, after: Manifest) -> list[str]:
    """Return the changed paths, sorted, except folders."""
    return [path for path in changed_paths(before, after) if _kinds(path, before, after) != {"folder"}]


def of_kind(kind: EntryKind, before: Manifest, after: Manifest) -> list[str]:
    """Return the changed paths whose entry had this kind before or after the change."""
    return [path for path in changed_paths(before, after) if kind in _kinds(path, before, after)]


def _kinds(path: str, before: Manifest, after: Manifest) -> set[EntryKind]:
    return {entry.kind for entry in (before.get(path), after.get(path)) if entry is not None}


def _is_kept(entry: PathEntry | None) -> bool:
    return entry is not None and entry.kind in ("file", "link")


def _needed(pairs: Sequence[tuple[str, PathEntry | None, PathEntry | None]]) -> Iterator[str]:
    for _, old, new in pairs:
        yield from (entry.content for entry in (old, new) if entry is not None and _is_kept(entry))


def _change(
    path: str, old: PathEntry | None, new: PathEntry | None, data: Sequence[bytes | None]
) -> FileChange:
    shown = quoted_path(path)
    kind = _kind(old, new)
    texts = [text_of(content) for content in data]
    unreadable = any(entry is not None and entry.kind in ("unkept", "moved") for entry in (old, new))
    if unreadable or texts[0] is None or texts[1] is None:
        return FileChange(shown, kind, is_binary=True)
    diff, added, removed = unified(shown, texts[0], texts[1])
    if is_secret(path):
        return FileChange(shown, kind, "", added, removed)
    return FileChange(shown, kind, _modes(old, new) + diff, added, removed)


def _kind(old: PathEntry | None, new: PathEntry | None) -> ChangeKind:
    if old is None or old.kind == "folder":
        return "created"
    return "deleted" if new is None or new.kind == "folder" else "modified"


def _modes(old: PathEntry | None, new: PathEntry | None) -> str:
    if old is None or new is None or (old.kind, old.mode) == (new.kind, new.mode) or old.kind == "folder":
        return ""
    return f"old mode {_mode(old)}\nnew mode {_mode(new)}\n"


def _mode(entry: PathEntry) -> str:
    return "120000" if entry.kind == "link" else f"100{entry.mode:03o}"
